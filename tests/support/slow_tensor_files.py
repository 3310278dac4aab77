"""Files of tensors read with Python objects, a value at a time; nothing is shared with the library.

Each gives name → (sizes, bytes of the elements). What it cannot read raises whatever it raises. Tensors of
nested graphs and of other files are left out.
"""

from __future__ import annotations

import json
import pickletools
import struct
from io import BytesIO
from math import prod
from typing import Any

Tensors = dict[str, tuple[tuple[int, ...], bytes]]


def slow_safetensors(data: bytes) -> Tensors:
    """safetensors."""
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    header.pop("__metadata__", None)
    return {
        name: (tuple(told["shape"]), data[start:][slice(*told["data_offsets"])])
        for name, told in header.items()
    }


GGUF_NUMBERS = "BbHhIif?__QqdA"
GGUF_BLOCKS = {
    0: (1, 4),
    1: (1, 2),
    2: (32, 18),
    8: (32, 34),
    12: (256, 144),
    24: (1, 1),
    27: (1, 8),
    28: (1, 8),
}
"""Elements and bytes of a block of some types."""


def slow_gguf(data: bytes) -> Tensors:
    """GGUF; of little-endian files, for the elements of others are turned around."""
    stream = BytesIO(data)
    assert stream.read(4) == b"GGUF"

    def number(form: str) -> Any:  # noqa: ANN401 (as the form says)
        return struct.unpack(f"<{form}", stream.read(struct.calcsize(f"<{form}")))[0]

    def text() -> bytes:
        return stream.read(number("Q"))

    def value(kind: int) -> Any:  # noqa: ANN401 (as the kind says)
        if kind == 8:
            return text()
        if kind == 9:
            inner, count = number("I"), number("Q")
            return [value(inner) for _ in range(count)]
        return number(GGUF_NUMBERS[kind])

    assert number("I") in {2, 3}
    tensors, pairs = number("Q"), number("Q")
    metadata = {text(): value(number("I")) for _ in range(pairs)}
    rows = [
        (text(), [number("Q") for _ in range(number("I"))], number("I"), number("Q")) for _ in range(tensors)
    ]
    alignment = metadata.get(b"general.alignment", 32)
    start = -(-stream.tell() // alignment) * alignment
    read: Tensors = {}
    for name, sizes, kind, offset in rows:
        elements, size = GGUF_BLOCKS[kind]
        begin = start + offset
        shape = tuple(reversed(sizes))
        read[name.decode("utf-8", "backslashreplace")] = (
            shape,
            data[begin : begin + prod(sizes) // elements * size],
        )
    return read


def fields(data: bytes) -> list[tuple[int, Any]]:
    """The fields of a message of protobuf: number and value."""
    found: list[tuple[int, Any]] = []
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        tag = varint()
        if tag & 7 == 0:
            found.append((tag >> 3, varint()))
            continue
        size = varint() if tag & 7 == 2 else {1: 8, 5: 4}[tag & 7]
        found.append((tag >> 3, data[at : at + size]))
        at += size
    return found


def varints(value: int | bytes) -> list[int]:
    """Integers, packed or alone."""
    if isinstance(value, int):
        return [value]
    return [one for _, one in fields(b"".join(b"\x08" + part for part in _parts(value)))]


def _parts(data: bytes) -> list[bytes]:
    parts, start = [], 0
    for at, byte in enumerate(data):
        if byte < 0x80:
            parts.append(data[start : at + 1])
            start = at + 1
    return parts


ONNX_WIDTHS = {4: 2, 5: 2, 6: 4, 7: 8, 10: 2, 12: 4, 13: 8, 16: 2}
"""Bytes of integers that are not 1."""


def slow_onnx(data: bytes) -> Tensors:
    """The initializers of an ONNX model's graph, whose elements are in it."""
    (graph,) = (value for number, value in fields(data) if number == 7)
    read: Tensors = {}
    for message in (value for number, value in fields(graph) if number == 5):
        told: dict[int, list[Any]] = {}
        for number, value in fields(message):
            told.setdefault(number, []).append(value)
        if told.get(14, [0])[-1] == 1 or 6 in told:
            continue
        shape = tuple(size for value in told.get(1, []) for size in varints(value))
        width = ONNX_WIDTHS.get(told[2][-1], 1)
        elements = b"".join(told.get(9, []) + told.get(4, []) + told.get(10, []))
        for value in told.get(5, []) + told.get(7, []) + told.get(11, []):
            for one in varints(value):
                elements += (one & ((1 << 8 * width) - 1)).to_bytes(width, "little")
        read[told.get(8, [b""])[-1].decode("utf-8", "backslashreplace")] = shape, elements
    return read


LEGACY_WIDTHS = {
    "Double": 8,
    "Float": 4,
    "Half": 2,
    "BFloat16": 2,
    "Long": 8,
    "Int": 4,
    "Short": 2,
    "Byte": 1,
}
LEGACY_WIDTHS |= {"Char": 1, "Bool": 1}


def slow_storages(data: bytes) -> dict[str, bytes]:
    """The storages of a file of ``torch.save`` before PyTorch 1.6, by key.

    A key is a text of digits behind the name of a class in the object's pickle.
    """
    stream = BytesIO(data)
    pickles = [list(pickletools.genops(stream)) for _ in range(5)]
    widths, kind = dict[str, int](), ""
    for op, argument, _ in pickles[3]:
        if op.name == "GLOBAL" and str(argument).endswith("Storage"):
            kind = str(argument).removeprefix("torch ").removesuffix("Storage")
        elif op.name == "BINUNICODE" and str(argument).isdigit():
            widths.setdefault(str(argument), LEGACY_WIDTHS[kind])
    read = {}
    for key in (str(argument) for op, argument, _ in pickles[4] if op.name == "BINUNICODE"):
        (count,) = struct.unpack("<q", stream.read(8))
        read[key] = stream.read(count * widths[key])
    return read
