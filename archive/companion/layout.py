"""Header and directory of a companion.

The header is followed by the directory, which has a line for each section. Lines have the same fields in both
layouts: in mapped companions integers of fixed width, in packed ones (except for the checksum) integers of
variable length (:mod:`archive.formats.schema.varints`).

Sections follow the directory in its order, each at the next multiple of the layout's alignment, with zeros
between them; the file ends with the last one.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from archive.base import memory
from archive.base.errors import DAMAGED, ArchiveError, LimitError
from archive.companion.magic import MAGIC, is_companion
from archive.formats.schema.fixed import Layout, Row
from archive.formats.schema.varints import VariableLayout
from archive.formats.schema.words import (
    Bytes,
    Const,
    Int8ul,
    Int16ul,
    Int32ul,
    Int64sl,
    Int64ul,
    Struct,
    VarInt,
    ZigZag,
)
from archive.normalform.columns import BY_NAME, BY_NUMBER, VALUE_WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.formats.schema.words import Field


OLDEST, ORDERED, VERSION = 2, 3, 4
"""The versions that are read. 1 was never released. 3: ``handle.place`` may be a rule
(:mod:`~archive.companion.hash_order`). 4: a codec has the source text of ``torch.nn`` as its dictionary. A
file has the oldest version that knows all that is in it, so that older readers know most files."""


class CompanionLayout(IntEnum):
    """How a companion's columns are stored."""

    MAPPED = 1
    """Arrays that are read in place."""
    PACKED = 2
    """Modelled, encoded and compressed."""

    @classmethod
    def named(cls, name: CompanionLayout | str) -> CompanionLayout:
        """A layout by its name: ``packed`` or ``mapped``."""
        if isinstance(name, CompanionLayout):
            return name
        names = [layout.name.lower() for layout in cls]
        if name not in names:
            raise ArchiveError(expected=f"a layout: {' or '.join(names)}", found=name)
        return cls[name.upper()]


ALIGNMENT = {CompanionLayout.MAPPED: 64, CompanionLayout.PACKED: 1}
"""The alignment of sections, in bytes."""


HEADER = Layout(
    "companion header"
    / Struct(
        "magic" / Const(MAGIC),
        "version" / Int16ul * "of the format",
        "layout" / Int8ul * "1 mapped, 2 packed",
        "sections" / Int8ul * "lines of the directory, which follows",
        "archive_id" / Bytes(16) * "of the archive whose debug information this is",
        "checksum" / Int32ul * "crc32 of the header, with 0 here, and of the directory",
    )
)


def _line(layout: str, u8: Field, u16: Field, u64: Field, s64: Field) -> Struct:
    """A line of the directory, with these types of numbers."""
    return f"line of a {layout} directory" / Struct(
        "number" / u8 * "of the section: a column's, or one of those that hold several",
        "coding"
        / u8
        * "bytes of a value (1 to 8); + 16 if values are signed (mapped) or zigzag coded (packed); "
        "+ 32 times the number of the transform (packed)",
        "codec" / u16 * "0 stored, 1 zstd, 2 LZMA, 4 to 6 zstd with the dictionary of texts, of columns, "
        "or of sources",
        "rows" / u64 * "number of values",
        "start" / s64 * "the value that the transform starts from",
        "inflated" / u64 * "bytes before compression",
        "stored" / u64 * "bytes in the file",
        "checksum" / Int32ul * "crc32 of the bytes in the file; for a column in blocks, only of the index of "
        "blocks, which has the blocks' own checksums",
    )


MAPPED_LINE = Layout(_line("mapped", Int8ul, Int16ul, Int64ul, Int64sl))
PACKED_LINE = VariableLayout(_line("packed", VarInt, VarInt, VarInt, ZigZag))
SectionLine: TypeAlias = Row
"""The values of a line, in either layout."""


class Directory(NamedTuple):
    """Header and directory, parsed; sections, and where their bytes begin and end, by their numbers."""

    layout: CompanionLayout
    archive_id: bytes
    version: int
    sections: dict[int, SectionLine]
    places: dict[int, tuple[int, int]]

    def columns(self) -> Iterator[str]:
        """The names of the columns that have a section of their own, in order."""
        yield from (BY_NUMBER[number].name for number in self.sections if number in BY_NUMBER)

    def has(self, name: object) -> bool:
        """Whether a column of this name has a section of its own."""
        return isinstance(name, str) and name in BY_NAME and BY_NAME[name].number in self.sections


def check_crc(found: int, stated: int, place: str | None = None) -> None:
    """Refuse bytes whose crc32 differs from what the file states."""
    if found != stated:
        raise ArchiveError(DAMAGED, place=place, expected=f"checksum {stated:#010x}", found=f"{found:#010x}")


def written(
    layout: CompanionLayout,
    archive_id: bytes,
    sections: Iterable[tuple[SectionLine, bytes]],
    version: int = OLDEST,
) -> bytes:
    """A companion file of some sections, each one's line and its bytes."""
    lines = list(sections)
    form = MAPPED_LINE if layout is CompanionLayout.MAPPED else PACKED_LINE
    directory = b"".join([form.pack(section) for section, _ in lines])
    header = HEADER.row(version, layout, len(lines), archive_id, checksum=0)
    checksum = zlib.crc32(HEADER.pack(header) + directory)
    out = bytearray(HEADER.pack(header._replace(checksum=checksum)) + directory)
    for _, data in lines:
        out += bytes(-len(out) % ALIGNMENT[layout])
        out += data
    return bytes(out)


def read_directory(data: memoryview) -> Directory:
    """Header and directory of a file, checked against its size."""
    if not is_companion(data):
        raise ArchiveError(place="byte 0", expected="a companion's header", found="other bytes")
    header = HEADER.read(data)
    if not OLDEST <= header.version <= VERSION:
        newer = "; a newer debug-archive may read it" if header.version > VERSION else ""
        raise ArchiveError(
            place=f"byte {HEADER.offset('version')}",
            expected=f"a companion of version {OLDEST} to {VERSION}",
            found=f"version {header.version}{newer}",
        )
    if header.layout not in ALIGNMENT:
        place = f"byte {HEADER.offset('layout')}"
        raise ArchiveError(place=place, expected="a known layout", found=str(header.layout))
    layout = CompanionLayout(header.layout)
    lines, end = _lines(data, header.sections, layout)
    unchecked = HEADER.pack(header._replace(checksum=0))
    check_crc(zlib.crc32(data[HEADER.size : end], zlib.crc32(unchecked)), header.checksum, "header")
    wanted = sum([line.inflated + VALUE_WIDTH * line.rows for line in lines])
    with memory.lent(wanted, "columns", place="directory"):
        pass
    places = _placed(len(data), lines, end, ALIGNMENT[layout])
    return Directory(layout, header.archive_id, header.version, *places)


def _lines(data: memoryview, count: int, layout: CompanionLayout) -> tuple[list[SectionLine], int]:
    """The lines of the directory, and the position after the last one."""
    at = HEADER.size
    try:
        if layout is CompanionLayout.PACKED:
            return PACKED_LINE.read_all(data, at, count)
        end = at + count * MAPPED_LINE.size
        if end > len(data):
            MAPPED_LINE.read(data, len(data) - (len(data) - at) % MAPPED_LINE.size)  # raises: it is cut
        return list(MAPPED_LINE.read_all(data[at:end])), end
    except LimitError:
        raise
    except ArchiveError as cause:
        raise ArchiveError(place=cause.place, expected=f"{count} sections", found="others") from cause


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
        problem = "cut short: copy or download the file again" if size < at else ""
        raise ArchiveError(
            problem, place="directory", expected=f"a file of {at} bytes", found=f"one of {size}"
        )
    return sections, places
