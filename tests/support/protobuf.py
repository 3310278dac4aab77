"""Messages of protobuf put together by hand."""

from __future__ import annotations


def varint(value: int) -> bytes:
    """An integer in variable form; a negative one as 64 bits."""
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def field(number: int, value: int | bytes | str) -> bytes:
    """A field: an integer, or bytes with their length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def onnx_tensor(name: str, kind: int, shape: tuple[int, ...], *data: bytes) -> bytes:
    """A TensorProto."""
    dims = b"".join(field(1, size) for size in shape)
    return dims + field(2, kind) + field(8, name) + b"".join(data)


def onnx_entry(key: str, value: str) -> bytes:
    """A StringStringEntryProto."""
    return field(1, key) + field(2, value)


def onnx_outside(file: str, **more: str) -> bytes:
    """The fields of a tensor whose elements are in another file."""
    entries = {"location": file, **more}.items()
    return field(14, 1) + b"".join(field(13, onnx_entry(key, value)) for key, value in entries)


def onnx_model(*initializers: bytes, before: bytes = b"") -> bytes:
    """A ModelProto whose graph has some initializers, behind other fields."""
    graph = before + b"".join(field(5, tensor) for tensor in initializers)
    return field(1, 9) + field(7, graph)
