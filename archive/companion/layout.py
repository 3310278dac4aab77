r"""Header and directory of a companion.

The header is :class:`Header`, behind the bytes ``MAGIC``. Its checksum is the crc32 of the header, with 0 in
the place of that field, and of the directory.

A line of the directory is a :class:`SectionLine`. In mapped companions its fields are as wide as they say. In
packed ones all but the checksum are integers of variable length, ``start`` a signed one.

Sections follow the directory in its order, each at the next multiple of the layout's alignment, with
zeros between; the file ends with the last one.

*Integers of variable length* have seven bits a byte, lowest first, and the eighth set in all bytes but the
last. Signed ones are zigzag coded before: 0, -1, 1, -2 become 0, 1, 2, 3.

    >>> build_varint(300), build_signed(-2)
    (b'\xac\x02', b'\x03')
    >>> numbers = Varints(memoryview(b"\xac\x02\x03"))
    >>> numbers.number(), numbers.signed(), numbers.at
    (300, -2, 3)
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError
from archive.base.layout import S64, U8, U16, U32, U64, BinaryLayout, Bytes16
from archive.companion.magic import MAGIC, is_companion
from archive.normalform.columns import BY_NAME, BY_NUMBER, VALUE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.base.limits import Allowance
    from archive.normalform.column_names import ColumnName

MORE, SEVEN = 0x80, 0x7F
MOST_BYTES = 10
"""Bytes of the largest number: those of 64 bits."""
OLDEST, VERSION = 2, 3
"""The versions that are read. 1 was never released. 3: ``handle.place`` may be a rule
(:mod:`~archive.companion.hash_order`); what has none is written as version 2, which older readers know."""


class CompanionLayout(IntEnum):
    """How a companion's columns are stored."""

    MAPPED = 1
    """Arrays that are read where they lie."""
    PACKED = 2
    """Modelled, encoded and compressed."""

    @classmethod
    def named(cls, name: CompanionLayout | str) -> CompanionLayout:
        """A layout by its name: ``packed`` or ``mapped``.

        Raises:
            ArchiveError: there is no layout of that name.
        """
        if isinstance(name, CompanionLayout):
            return name
        names = [layout.name.lower() for layout in cls]
        if name not in names:
            raise ArchiveError(expected=f"a layout: {' or '.join(names)}", found=name)
        return cls[name.upper()]


ALIGNMENT = {CompanionLayout.MAPPED: 64, CompanionLayout.PACKED: 1}
"""Bytes that the begin of each section is a multiple of."""


class Header(NamedTuple):
    """The first bytes of a companion, behind the magic ones.

    Attributes:
        version: of the format.
        layout: a :class:`CompanionLayout`.
        sections: number of lines in the directory.
        archive_id: id of the archive whose debug information this is.
        checksum: of the header and the directory.
    """

    version: U16
    layout: U8
    sections: U8
    archive_id: Bytes16
    checksum: U32


class SectionLine(NamedTuple):
    """One line of the directory.

    Attributes:
        number: of the section: see :mod:`archive.normalform.columns`.
        coding: bytes of a value (1 to 8); + 16 if values are signed (mapped) or zigzag coded (packed); + 32
            times the number of the transform (packed).
        codec: number of the compression: see :mod:`archive.companion.codecs`.
        rows: number of values.
        start: the value that the transform starts from.
        inflated: bytes before compression.
        stored: bytes in the file.
        checksum: crc32 of the bytes in the file; of a column in blocks, only of the index of blocks, which
            has the blocks' own checksums.
    """

    number: U8
    coding: U8
    codec: U16
    rows: U64
    start: S64
    inflated: U64
    stored: U64
    checksum: U32


HEADER = BinaryLayout("companion's header", Header, magic=MAGIC)
MAPPED_LINE = BinaryLayout("line of a mapped directory", SectionLine)
CHECKSUM_BYTES = 4
LINE_BYTES = 7 * MOST_BYTES + CHECKSUM_BYTES
"""Most bytes of a line in a packed directory."""


class Directory(NamedTuple):
    """Header and directory, parsed.

    Attributes:
        layout: how columns are stored.
        archive_id: of the archive whose debug information this is.
        version: of the format.
        sections: by their numbers.
        places: where each one's bytes begin and end, by their numbers.
    """

    layout: CompanionLayout
    archive_id: bytes
    version: int
    sections: dict[int, SectionLine]
    places: dict[int, tuple[int, int]]

    def columns(self) -> Iterator[ColumnName]:
        """The names of the columns that have a section of their own, in order."""
        yield from (BY_NUMBER[number].name for number in self.sections if number in BY_NUMBER)

    def has(self, name: object) -> bool:
        """Whether a column of this name has a section of its own."""
        return isinstance(name, str) and name in BY_NAME and BY_NAME[name].number in self.sections


def check_crc(found: int, stated: int, place: str | None = None) -> None:
    """Refuse bytes whose crc32 is not the one that the file states.

    Raises:
        ArchiveError: they were changed.
    """
    if found != stated:
        raise ArchiveError(place=place, expected=f"checksum {stated:#010x}", found=f"{found:#010x}")


def written(
    layout: CompanionLayout,
    archive_id: bytes,
    sections: Iterable[tuple[SectionLine, bytes]],
    version: int = OLDEST,
) -> bytes:
    """A companion file of some sections, each one's line and its bytes."""
    lines = list(sections)
    directory = b"".join([_line(layout, section) for section, _ in lines])
    header = Header(version, layout, len(lines), archive_id, 0)
    checksum = zlib.crc32(HEADER.pack(header) + directory)
    out = bytearray(HEADER.pack(header._replace(checksum=checksum)) + directory)
    for _, data in lines:
        out += bytes(-len(out) % ALIGNMENT[layout])
        out += data
    return bytes(out)


def _line(layout: CompanionLayout, section: SectionLine) -> bytes:
    if layout is CompanionLayout.MAPPED:
        return MAPPED_LINE.pack(section)
    return b"".join(
        (
            *map(build_varint, (section.number, section.coding, section.codec, section.rows)),
            build_signed(section.start),
            *map(build_varint, (section.inflated, section.stored)),
            section.checksum.to_bytes(CHECKSUM_BYTES, "little"),
        )
    )


def read_directory(data: memoryview, allowance: Allowance) -> Directory:
    """Header and directory of a file, checked against its size.

    Raises:
        ArchiveError: this is no companion, one of another version, cut short, or changed.
        LimitError: its sections would inflate to more than allowed.
    """
    if len(data) < HEADER.size or not is_companion(data):
        raise ArchiveError(place="byte 0", expected="a companion's header", found="other bytes")
    header = HEADER.read(data)
    if not OLDEST <= header.version <= VERSION:
        newer = "; a newer debug-archive may read it" if header.version > VERSION else ""
        raise ArchiveError(
            place=f"byte {HEADER.offset('version')}",
            expected=f"a companion of version {OLDEST} or {VERSION}",
            found=f"version {header.version}{newer}",
        )
    if header.layout not in ALIGNMENT:
        place = f"byte {HEADER.offset('layout')}"
        raise ArchiveError(place=place, expected="a known layout", found=str(header.layout))
    layout = CompanionLayout(header.layout)
    lines, end = _lines(data, header.sections, layout)
    unchecked = HEADER.pack(header._replace(checksum=0))
    check_crc(zlib.crc32(data[HEADER.size : end], zlib.crc32(unchecked)), header.checksum, "header")
    wanted = sum([line.inflated + VALUE_BYTES * line.rows for line in lines])
    with allowance.lent(wanted, "columns", place="directory"):
        pass
    places = _placed(len(data), lines, end, ALIGNMENT[layout])
    return Directory(layout, header.archive_id, header.version, *places)


def _lines(data: memoryview, count: int, layout: CompanionLayout) -> tuple[list[SectionLine], int]:
    """The lines of the directory, and the position behind the last one."""
    at = HEADER.size
    if layout is CompanionLayout.MAPPED:
        end = at + count * MAPPED_LINE.size
        if end > len(data):
            raise ArchiveError(place=f"byte {at}", expected=f"{count} sections", found="the end of the file")
        return list(MAPPED_LINE.read_all(data[at:end])), end
    numbers = Varints(data[: at + count * LINE_BYTES], at)
    try:
        return [_packed_line(numbers) for _ in range(count)], numbers.at
    except ArchiveError as cause:
        raise ArchiveError(place=f"byte {at}", expected=f"{count} sections", found="others") from cause


def _packed_line(numbers: Varints) -> SectionLine:
    number, coding, codec, rows = (numbers.number() for _ in range(4))
    start, inflated, stored = numbers.signed(), numbers.number(), numbers.number()
    checksum = int.from_bytes(bytes(numbers.byte() for _ in range(CHECKSUM_BYTES)), "little")
    return SectionLine(number, coding, codec, rows, start, inflated, stored, checksum)


def _placed(
    size: int, lines: list[SectionLine], at: int, alignment: int
) -> tuple[dict[int, SectionLine], dict[int, tuple[int, int]]]:
    sections = {line.number: line for line in lines}
    places: dict[int, tuple[int, int]] = {}
    for number, line in sections.items():
        start = at + -at % alignment
        at = start + line.stored
        places[number] = (start, at)
    if len(sections) < len(lines):
        raise ArchiveError(place="directory", expected="each section once", found="one twice")
    if at != size:
        raise ArchiveError(place="directory", expected=f"a file of {at} bytes", found=f"one of {size}")
    return sections, places


# --- integers of variable length


def build_varint(value: int) -> bytes:
    """The bytes of a number."""
    out = bytearray()
    while value >= MORE:
        out.append(value & SEVEN | MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def build_signed(value: int) -> bytes:
    """The bytes of a signed number."""
    return build_varint(~value << 1 | 1 if value < 0 else value << 1)


class Varints:
    """Reads numbers one behind the other.

    Attributes:
        at: the next byte.
    """

    def __init__(self, data: memoryview, at: int = 0) -> None:
        self._data, self.at = data, at

    def byte(self) -> int:
        """The next byte.

        Raises:
            ArchiveError: there is none.
        """
        if self.at >= len(self._data):
            raise ArchiveError(place=f"byte {self.at}", expected="a number", found="the end")
        self.at += 1
        return self._data[self.at - 1]

    def number(self) -> int:
        """The next number.

        Raises:
            ArchiveError: the bytes end, or it has more than ``MOST_BYTES``.
        """
        begin, value = self.at, 0
        for shift in range(0, 7 * MOST_BYTES, 7):
            byte = self.byte()
            value |= (byte & SEVEN) << shift
            if byte < MORE:
                return value
        raise ArchiveError(place=f"byte {begin}", expected=f"at most {MOST_BYTES} bytes", found="more")

    def signed(self) -> int:
        """The next number, which is signed.

        Raises:
            ArchiveError: the bytes end, or it has more than ``MOST_BYTES``.
        """
        value = self.number()
        return ~(value >> 1) if value & 1 else value >> 1
