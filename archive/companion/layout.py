"""Header and directory of a companion, declared with construct.

The header, 34 bytes:

======  =====  ==========  ===================================================================
offset  bytes  field       meaning
======  =====  ==========  ===================================================================
0       10     magic       ``MAGIC``
10      2      version     1 to ``VERSION``
12      1      profile     :class:`CompanionProfile`
13      1      sections    number of lines in the directory
14      16     archive_id  id of the archive whose debug information this is
30      4      checksum    crc32 of the header, with 0 in the place of this field, and of the directory
======  =====  ==========  ===================================================================

A line of the directory, :class:`Section`, takes 40 bytes in mapped companions. In packed ones all fields but
the checksum are variable-length integers: seven bits a byte, lowest first, the eighth set in all bytes but
the last one; ``start``, which may be negative, is zigzag coded before:

======  =====  ==========
offset  bytes  mapped
======  =====  ==========
0       1      number
1       1      coding
2       2      codec
4       8      rows
12      8      start
20      8      inflated
28      8      stored
36      4      checksum
======  =====  ==========

Sections follow the directory in its order, each at the next multiple of the profile's alignment, with
zeros between; the file ends with the last one.
"""

from __future__ import annotations

import io
import zlib
from enum import IntEnum
from itertools import starmap
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import construct

from archive.base.errors import ArchiveError
from archive.companion.magic import MAGIC, is_companion
from archive.formats.archive_id import ID_BYTES
from archive.normalform.columns import VALUE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.base.limits import Allowance

VERSION = 2
"""The format's last version. A companion says the first one that has all its columns.

- 1: the first.
- 2: columns of exported programs, and shared objects.
"""


class CompanionProfile(IntEnum):
    """Which of two ways a companion's columns are stored in."""

    MAPPED = 1
    """Arrays that are read where they lie."""
    PACKED = 2
    """Modelled, encoded and compressed."""


ALIGNMENT = {CompanionProfile.MAPPED: 64, CompanionProfile.PACKED: 1}
"""Bytes that the begin of each section is a multiple of."""

HEADER = construct.Struct(
    "magic" / construct.Bytes(len(MAGIC)),
    "version" / construct.Int16ul,
    "profile" / construct.Int8ul,
    "sections" / construct.Int8ul,
    "archive_id" / construct.Bytes(ID_BYTES),
    "checksum" / construct.Int32ul,
)

PACKED_SECTION = construct.Struct(
    "number" / construct.VarInt,
    "coding" / construct.VarInt,
    "codec" / construct.VarInt,
    "rows" / construct.VarInt,
    "start" / construct.ZigZag,
    "inflated" / construct.VarInt,
    "stored" / construct.VarInt,
    "checksum" / construct.Int32ul,
)
MAPPED_SECTION = construct.Struct(
    "number" / construct.Int8ul,
    "coding" / construct.Int8ul,
    "codec" / construct.Int16ul,
    "rows" / construct.Int64ul,
    "start" / construct.Int64sl,
    "inflated" / construct.Int64ul,
    "stored" / construct.Int64ul,
    "checksum" / construct.Int32ul,
)


def _struct(declared: construct.Struct) -> Struct:
    """The same structure for the standard library, which is 50 times faster than construct."""
    parts = [getattr(field.subcon, "fmtstr", f"<{field.sizeof()}s")[1:] for field in declared.subcons]
    return Struct("<" + "".join(parts))


HEADER_LINE, MAPPED_LINE = _struct(HEADER), _struct(MAPPED_SECTION)

CHECKSUM_BYTES = 4
SECTION_LINE_BYTES = 80
"""Most bytes of a line in a packed directory: seven integers of up to 10 bytes, and a checksum."""


class Section(NamedTuple):
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
        checksum: crc32 of the bytes in the file; of a column in blocks, crc32 of the index of blocks alone,
            which has the blocks' own checksums.
    """

    number: int
    coding: int
    codec: int
    rows: int
    start: int
    inflated: int
    stored: int
    checksum: int


class Directory(NamedTuple):
    """Header and directory, parsed.

    Attributes:
        profile: how columns are stored.
        archive_id: of the archive whose debug information this is.
        sections: by their numbers.
        places: where each one's bytes begin and end, by their numbers.
        version: of the format.
    """

    profile: CompanionProfile
    archive_id: bytes
    sections: dict[int, Section]
    places: dict[int, tuple[int, int]]
    version: int


def check_crc(found: int, stated: int, place: str | None = None) -> None:
    """Refuse bytes whose crc32 is not the one that the file states.

    Raises:
        ArchiveError: they were changed.
    """
    if found != stated:
        raise ArchiveError(place=place, expected=f"checksum {stated:#010x}", found=f"{found:#010x}")


def written(
    profile: CompanionProfile, archive_id: bytes, sections: Iterable[tuple[Section, bytes]], version: int
) -> bytes:
    """A companion file of some sections, each one's line and its bytes."""
    listed = list(sections)
    directory = b"".join([_line(profile, section) for section, _ in listed])
    fields = (MAGIC, version, profile, len(listed), archive_id)
    checksum = zlib.crc32(HEADER_LINE.pack(*fields, 0) + directory)
    out = bytearray(HEADER_LINE.pack(*fields, checksum) + directory)
    for _, data in listed:
        out += bytes(-len(out) % ALIGNMENT[profile])
        out += data
    return bytes(out)


def _line(profile: CompanionProfile, section: Section) -> bytes:
    if profile is CompanionProfile.MAPPED:
        return MAPPED_LINE.pack(*section)
    line: bytes = PACKED_SECTION.build(section._asdict())
    return line


def read_directory(data: memoryview, allowance: Allowance) -> Directory:
    """Header and directory of a file, checked against its size.

    Raises:
        ArchiveError: this is no companion, one of an unknown version, cut short, or changed.
        LimitError: its sections would inflate to more than allowed.
    """
    size = HEADER_LINE.size
    if len(data) < size or not is_companion(data):
        raise ArchiveError(place="byte 0", expected="a companion's header", found="other bytes")
    _, version, kind, sections, archive_id, checksum = HEADER_LINE.unpack_from(data)
    if not 1 <= version <= VERSION:
        raise ArchiveError(
            place=f"byte {len(MAGIC)}",
            expected=f"a companion of version 1 to {VERSION}",
            found=f"version {version}; a newer debug-archive may read it",
        )
    if kind not in ALIGNMENT:
        raise ArchiveError(place=f"byte {len(MAGIC) + 2}", expected="a known profile", found=str(kind))
    profile = CompanionProfile(kind)
    lines, end = _lines(data, size, sections, profile)
    found = zlib.crc32(
        data[size:end], zlib.crc32(bytes(data[: size - CHECKSUM_BYTES]) + bytes(CHECKSUM_BYTES))
    )
    check_crc(found, checksum, "header")
    wanted = sum([line.inflated + VALUE_BYTES * line.rows for line in lines])
    with allowance.lent(wanted, "columns", place="directory"):
        pass
    return Directory(profile, archive_id, *_placed(len(data), lines, end, ALIGNMENT[profile]), version)


def _lines(data: memoryview, at: int, count: int, profile: CompanionProfile) -> tuple[list[Section], int]:
    """The lines of the directory, and the position behind the last one."""
    if profile is CompanionProfile.MAPPED:
        end = at + count * MAPPED_LINE.size
        if end > len(data):
            raise ArchiveError(place=f"byte {at}", expected=f"{count} sections", found="the end of the file")
        return list(starmap(Section, MAPPED_LINE.iter_unpack(data[at:end]))), end
    source = io.BytesIO(bytes(data[at : at + count * SECTION_LINE_BYTES]))
    try:
        parsed = [PACKED_SECTION.parse_stream(source) for _ in range(count)]
    except construct.ConstructError as cause:
        raise ArchiveError(place=f"byte {at}", expected=f"{count} sections", found="others") from cause
    return [Section(*(line[name] for name in Section._fields)) for line in parsed], at + source.tell()


def _placed(
    size: int, lines: list[Section], at: int, alignment: int
) -> tuple[dict[int, Section], dict[int, tuple[int, int]]]:
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
