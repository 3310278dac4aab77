r"""Layouts with integers of variable length: a declaration, compiled once to functions and tuples.

    >>> from archive.formats.schema.words import Int16ul, Struct, VarInt, ZigZag
    >>> STEP = VariableLayout("step" / Struct("rows" / VarInt, "start" / ZigZag, "sum" / Int16ul))
    >>> STEP.build(rows=300, start=-2, sum=7)
    b'\xac\x02\x03\x07\x00'
    >>> STEP.read_all(b"\xac\x02\x03\x07\x00", 0, 1)
    ([step(rows=300, start=-2, sum=7)], 5)

``VarInt`` has seven bits a byte, lowest first, and the eighth set in all bytes but the last. ``ZigZag`` is
the ``VarInt`` of a signed number: 0, -1, 1, -2 become 0, 1, 2, 3. construct reads them without a bound; here
a number has at most ten bytes, enough for 64 bits.
"""

from __future__ import annotations

from collections import namedtuple
from functools import cached_property
from struct import Struct as Packer
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import ArchiveError
from archive.formats.schema.words import LITTLE, VARINT, ZIGZAG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from archive.formats.schema.fixed import Row
    from archive.formats.schema.words import Field, Struct

    Read = Callable[[memoryview | bytes, int], tuple[Any, int]]
    Build = Callable[[Any], bytes]

MORE, SEVEN = 0x80, 0x7F
MOST_BYTES = 10
"""Bytes of the longest number."""
MOST_BITS = 7 * MOST_BYTES


def build_varint(value: int) -> bytes:
    """The bytes of a number.

    Raises:
        ValueError: it is negative, or has more than ``MOST_BITS``.
    """
    if value >> MOST_BITS:
        raise ValueError(value)
    out = bytearray()
    while value >= MORE:
        out.append(value & SEVEN | MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def build_signed(value: int) -> bytes:
    """The bytes of a signed number."""
    return build_varint(~value << 1 | 1 if value < 0 else value << 1)


def read_varint(data: memoryview | bytes, at: int = 0) -> tuple[int, int]:
    """The number at byte ``at``, and the byte after it."""
    begin, value, shift = at, 0, 0
    try:
        while (byte := data[at]) >= MORE:
            value |= (byte & SEVEN) << shift
            shift += 7
            at += 1
            if shift == MOST_BITS:
                raise ArchiveError(
                    place=f"byte {begin}", expected=f"at most {MOST_BYTES} bytes", found="more"
                )
    except IndexError:
        raise ArchiveError(place=f"byte {at}", expected="a number", found="the end") from None
    return value | byte << shift, at + 1


def read_signed(data: memoryview | bytes, at: int = 0) -> tuple[int, int]:
    """The signed number at byte ``at``, and the byte after it."""
    value, end = read_varint(data, at)
    return (~(value >> 1) if value & 1 else value >> 1), end


class VariableField(NamedTuple):
    """A field of a layout.

    Attributes:
        read: returns the value at a byte, and the byte after it.
        build: returns the bytes of a value.
    """

    name: str
    docs: str
    read: Read
    build: Build


class VariableLayout:
    """A header of ``VarInt``, ``ZigZag``, and fields of fixed size; without constants.

    Args:
        declared: its fields, under the header's name: ``"line" / Struct(...)``.
    """

    def __init__(self, declared: Struct) -> None:
        self.declared = declared
        self.what = declared.name

    @cached_property
    def fields(self) -> dict[str, VariableField]:
        """All fields by name, in order."""
        return {
            part.name: VariableField(part.name, part.docs, *_compiled(part)) for part in self.declared.fields
        }

    @cached_property
    def row(self) -> type[Row]:
        """The named tuple of its values."""
        return namedtuple(self.what.replace(" ", "_"), [*self.fields])  # noqa: PYI024 (the declaration has the types)

    def read_all(self, data: memoryview | bytes, at: int, count: int) -> tuple[list[Row], int]:
        """The values of consecutive headers from byte ``at`` on, and the byte after them."""
        rows, readers, make = [], [field.read for field in self.fields.values()], self.row._make
        values: list[object] = []
        try:
            for _ in range(count):
                values = []
                for read in readers:
                    value, at = read(data, at)
                    values.append(value)
                rows.append(make(values))
        except ArchiveError as error:
            raise _in_field(error, [*self.fields][len(values)]) from None
        return rows, at

    def read_field(self, name: str, data: memoryview | bytes, at: int, count: int) -> tuple[list[Any], int]:
        """One field of some headers that are stored field by field, and the byte after it."""
        values, read = [], self.fields[name].read
        try:
            for _ in range(count):
                value, at = read(data, at)
                values.append(value)
        except ArchiveError as error:
            raise _in_field(error, name) from None
        return values, at

    def read_until(
        self, last: object, name: str, data: memoryview | bytes, at: int, most: int
    ) -> tuple[list[Any], int]:
        """The same of one field up to a value, which is left out, or of ``most`` headers."""
        values, read = list[Any](), self.fields[name].read
        try:
            while len(values) < most:
                value, at = read(data, at)
                if value == last:
                    break
                values.append(value)
        except ArchiveError as error:
            raise _in_field(error, name) from None
        return values, at

    def build(self, **values: object) -> bytes:
        """The bytes of a header with these values, all of them."""
        return self.pack(self.row(**values))

    def pack(self, row: Row) -> bytes:
        """The bytes of a row."""
        return b"".join([field.build(value) for field, value in zip(self.fields.values(), row, strict=True)])

    def build_field(self, name: str, values: Iterable[object]) -> bytes:
        """The bytes of one field of some headers that are stored field by field."""
        return b"".join(map(self.fields[name].build, values))


def _in_field(error: ArchiveError, name: str) -> ArchiveError:
    error.place = f"{error.place}, field {name}"
    return error


def _compiled(field: Field) -> tuple[Read, Build]:
    """What reads and builds a field.

    Raises:
        TypeError: it is a constant.
    """
    if field.form == VARINT:
        return read_varint, build_varint
    if field.form == ZIGZAG:
        return read_signed, build_signed
    if field.constant is not None:
        raise TypeError(f"field {field.name}: a constant")
    packer = Packer((field.order or LITTLE) + field.form)
    size = packer.size

    def read(data: memoryview | bytes, at: int) -> tuple[object, int]:
        stored = data[at : at + size]
        if len(stored) < size:
            raise ArchiveError(
                place=f"byte {at}", expected=f"{size} bytes" if size > 1 else "a byte", found="the end"
            )
        return packer.unpack(stored)[0], at + size

    return read, packer.pack
