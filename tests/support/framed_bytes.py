"""Values in forms that have texts after their lengths, written by their specifications."""

from __future__ import annotations

from typing import TypeAlias, Union

Value: TypeAlias = Union[str, bytes, int, "list[Value]", "dict[str, Value]"]
SHORT, WIDE = 24, 256
SHORT_TEXT, SHORT_LIST = 32, 16


def in_msgpack(value: Value) -> bytes:
    """The MessagePack specification; numbers are small."""
    if isinstance(value, int):
        return bytes([value])
    if isinstance(value, dict):
        head = bytes([0x80 | len(value)]) if len(value) < SHORT_LIST else b"\xde" + len(value).to_bytes(2)
        return head + b"".join(in_msgpack(one) for pair in value.items() for one in pair)
    if isinstance(value, list):
        head = bytes([0x90 | len(value)]) if len(value) < SHORT_LIST else b"\xdc" + len(value).to_bytes(2)
        return head + b"".join(map(in_msgpack, value))
    data, is_text = (value.encode(), True) if isinstance(value, str) else (value, False)
    if is_text and len(data) < SHORT_TEXT:
        return bytes([0xA0 | len(data)]) + data
    if len(data) < WIDE:
        return bytes([0xD9 if is_text else 0xC4, len(data)]) + data
    return bytes([0xDA if is_text else 0xC5]) + len(data).to_bytes(2) + data


def in_cbor(value: Value) -> bytes:
    """RFC 8949, section 3."""

    def head(major: int, count: int) -> bytes:
        if count < SHORT:
            return bytes([major << 5 | count])
        return (
            bytes([major << 5 | 24, count]) if count < WIDE else bytes([major << 5 | 25, *count.to_bytes(2)])
        )

    if isinstance(value, dict):
        pairs = (in_cbor(one) for pair in value.items() for one in pair)
        return head(5, len(value)) + b"".join(pairs)
    if isinstance(value, list):
        return head(4, len(value)) + b"".join(map(in_cbor, value))
    if isinstance(value, bytes):
        return head(2, len(value)) + value
    return head(3, len(value.encode())) + value.encode() if isinstance(value, str) else head(0, value)


def in_protobuf(value: Value, number: int = 1) -> bytes:
    """Lists as messages with one field each, dicts as maps."""
    if isinstance(value, list):
        inner = b"".join(in_protobuf(one, number) for one in value)
    elif isinstance(value, dict):
        inner = b"".join(in_protobuf(in_protobuf(k) + in_protobuf(v, 2), 3) for k, v in value.items())
    else:
        inner = value if isinstance(value, bytes) else str(value).encode()
    size = len(inner)
    length = bytes([size]) if size < 1 << 7 else bytes([size & 127 | 128, size >> 7])
    return bytes([number << 3 | 2]) + length + inner
