"""FlatBuffers made of parts, which may share others: written without the library's code.

A part that several others refer to is written once, after all of them, since references lead forward.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

REFERENCE = "I"


class Number(NamedTuple):
    """A number, in the form that :mod:`struct` has for it."""

    form: str
    value: int


class Part:
    """Bytes, in which some numbers are references to other parts.

    Args:
        content: with zeros where references are.
        references: what is referred to, by the place of the reference.
        start: where references to this part lead, in its bytes.
    """

    def __init__(self, content: bytes, references: dict[int, Part] | None = None, start: int = 0) -> None:
        self.content, self.references, self.start = content, references or {}, start


def table(*fields: Part | Number | None) -> Part:
    """A table, with its vtable before it; None is a field that it doesn't have."""
    at, places, numbers, references = 4, list[int](), b"", dict[int, Part]()
    for field in fields:
        form = field.form if isinstance(field, Number) else REFERENCE
        size = struct.calcsize(f"<{form}")
        padding = -at % size if field is not None else 0
        at += padding
        places.append(at if field is not None else 0)
        if field is not None:
            numbers += bytes(padding) + struct.pack(
                f"<{form}", field.value if isinstance(field, Number) else 0
            )
            if isinstance(field, Part):
                references[at] = field
            at += size
    head = struct.pack(f"<{2 + len(places)}H", 4 + 2 * len(places), at, *places)
    head = bytes(-len(head) % 8) + head
    shifted = {len(head) + place: part for place, part in references.items()}
    distance = 4 + 2 * len(places)
    return Part(head + struct.pack("<i", distance) + numbers, shifted, len(head))


def vector(items: Sequence[Part]) -> Part:
    """A vector of tables."""
    content = struct.pack("<I", len(items)) + bytes(4 * len(items))
    return Part(content, {4 + 4 * number: part for number, part in enumerate(items)})


def numbers(form: str, values: Sequence[int]) -> Part:
    """A vector of numbers."""
    return Part(struct.pack(f"<I{len(values)}{form}", len(values), *values))


def text(content: bytes) -> Part:
    """A string."""
    return Part(struct.pack("<I", len(content)) + content + b"\0")


def flatbuffer(root: Part, identifier: bytes) -> bytes:
    """The file of a root table."""
    places, end = dict[int, int](), 8
    order = _ordered(root)
    for part in order:
        end += -end % 8
        places[id(part)] = end
        end += len(part.content)
    data = bytearray(end)
    struct.pack_into("<I4s", data, 0, places[id(root)] + root.start, identifier)
    for part in order:
        first = places[id(part)]
        data[first : first + len(part.content)] = part.content
        for at, other in part.references.items():
            struct.pack_into("<I", data, first + at, places[id(other)] + other.start - first - at)
    return bytes(data)


def _ordered(root: Part) -> list[Part]:
    """All parts, each after those that refer to it."""
    done, order = set[int](), list[Part]()

    def add(part: Part) -> None:
        if id(part) not in done:
            done.add(id(part))
            for other in {id(one): one for one in part.references.values()}.values():
                add(other)
            order.append(part)

    add(root)
    return order[::-1]
