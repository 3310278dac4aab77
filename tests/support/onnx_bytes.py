"""Models in ONNX, written field by field: no package of it is needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np

DTYPES = {
    "float32": 1,
    "uint8": 2,
    "int8": 3,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "float64": 11,
}
"""Numbers of TensorProto.DataType."""


def varint(value: int) -> bytes:
    """An integer in variable form."""
    pieces = []
    while value > 0x7F:
        pieces.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*pieces, value])


def field(number: int, value: int | bytes | str) -> bytes:
    """A field of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def entry(key: str, value: str) -> bytes:
    """A StringStringEntryProto."""
    return field(1, key) + field(2, value)


def tensor(name: str, array: np.ndarray) -> bytes:
    """A TensorProto with raw data."""
    dims = b"".join(field(1, size) for size in array.shape)
    return dims + field(2, DTYPES[array.dtype.name]) + field(8, name) + field(9, array.tobytes())


def model(
    arrays: Mapping[str, np.ndarray], *, nodes: Iterable[bytes] = (), more: bytes = b"", graph: bytes = b""
) -> bytes:
    """A ModelProto.

    Args:
        arrays: its initializers.
        nodes: NodeProto messages.
        more: fields of the model.
        graph: fields of its graph.
    """
    inner = b"".join(field(1, node) for node in nodes) + field(2, "main") + graph
    inner += b"".join(field(5, tensor(name, array)) for name, array in arrays.items())
    return field(1, 8) + more + field(7, inner) + field(8, field(2, 17))
