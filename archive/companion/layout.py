"""The outermost bytes of a companion: header and directory, declared with construct.

Sections follow the directory in its order, each at the next multiple of the profile's alignment, with
zeros between; the file ends with the last one. So positions need not be written, and cannot overlap.
"""

from __future__ import annotations

import io
import zlib
from enum import IntEnum
from itertools import starmap
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import construct

from archive.base.errors import ArchiveError, LimitError
from archive.companion.magic import MAGIC, is_companion

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.base.limits import Limits

VERSION = 1
ID_BYTES = 16


class CompanionProfile(IntEnum):
    """What a companion is made for."""

    MAPPED = 1
    PACKED = 2


ALIGNMENT = {CompanionProfile.MAPPED: 64, CompanionProfile.PACKED: 1}

HEADER = construct.Struct(
    "magic" / construct.Bytes(len(MAGIC)),
    "version" / construct.Int16ul,
    "profile" / construct.Int8ul,
    "sections" / construct.Int8ul,
    "archive_id" / construct.Bytes(ID_BYTES),
    "checksum" / construct.Int32ul,
)
"""``checksum`` is the crc32 of the header, with 0 in its place, and of the directory."""

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
    """A declaration for the standard library, which reads 50 times faster than construct."""
    parts = [getattr(field.subcon, "fmtstr", f"<{field.sizeof()}s")[1:] for field in declared.subcons]
    return Struct("<" + "".join(parts))


HEADER_LINE, MAPPED_LINE = _struct(HEADER), _struct(MAPPED_SECTION)

WORD, CHECKSUM = 8, 4
LONGEST = 80
"""Bytes that a line of a packed companion's directory has at most, if its numbers are of 64 bits."""


class Section(NamedTuple):
    """One line of the directory.

    Attributes:
        number: which section: see :mod:`archive.normalform.columns`.
        coding: width of an element in bytes; + 16 where signed (mapped) or zigzag coded (packed); + 32 times
            the transform.
        codec: what the bytes are compressed with.
        rows: values.
        start: the value that the transform starts from.
        inflated: bytes without compression.
        stored: bytes in the file.
        checksum: crc32 of the bytes in the file; of a column in blocks that of its index, which has theirs.
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
    """What header and directory say.

    Attributes:
        profile: what the file is made for.
        archive_id: of the archive whose debug information this is.
        sections: by their numbers.
        places: where each one's bytes begin and end, by their numbers.
    """

    profile: CompanionProfile
    archive_id: bytes
    sections: dict[int, Section]
    places: dict[int, tuple[int, int]]


def allowed(limits: Limits, size: int) -> int:
    """Bytes that the columns, strings and texts of a companion file of some size may each have."""
    return min(limits.record_bytes, limits.companion_from + limits.companion_inflation * size)


def written(profile: CompanionProfile, archive_id: bytes, sections: Iterable[tuple[Section, bytes]]) -> bytes:
    """A whole file."""
    listed = list(sections)
    line = PACKED_SECTION if profile is CompanionProfile.PACKED else MAPPED_SECTION
    directory = b"".join(line.build(section._asdict()) for section, _ in listed)
    fields = {
        "magic": MAGIC,
        "version": VERSION,
        "profile": profile,
        "sections": len(listed),
        "archive_id": archive_id,
        "checksum": 0,
    }
    fields["checksum"] = zlib.crc32(HEADER.build(fields) + directory)
    out = bytearray(HEADER.build(fields) + directory)
    for _, data in listed:
        out += bytes(-len(out) % ALIGNMENT[profile])
        out += data
    return bytes(out)


def read_directory(data: memoryview, limits: Limits) -> Directory:
    """Header and directory of a file, checked against its size.

    Raises:
        ArchiveError: this is no companion, one of an unknown version, cut short, or changed.
        LimitError: its sections would inflate to more than allowed.
    """
    size = HEADER_LINE.size
    if len(data) < size or not is_companion(data):
        raise ArchiveError(place="byte 0", expected="a companion's header", found="other bytes")
    _, version, kind, sections, archive_id, checksum = HEADER_LINE.unpack_from(data)
    if version != VERSION:
        raise ArchiveError(
            place=f"byte {len(MAGIC)}",
            expected=f"a companion of version {VERSION}",
            found=f"version {version}; a newer debug-archive may read it",
        )
    if kind not in ALIGNMENT:
        raise ArchiveError(place=f"byte {len(MAGIC) + 2}", expected="a known profile", found=str(kind))
    profile = CompanionProfile(kind)
    lines, end = _lines(data, size, sections, profile)
    found = zlib.crc32(data[size:end], zlib.crc32(bytes(data[: size - CHECKSUM]) + bytes(CHECKSUM)))
    if found != checksum:
        raise ArchiveError(place="header", expected=f"checksum {checksum:#010x}", found=f"{found:#010x}")
    wanted = sum([line.inflated + WORD * line.rows for line in lines])
    if wanted > limits.record_bytes:
        raise LimitError("record_bytes", limits.record_bytes, wanted, place="directory")
    budget = limits.companion_from + limits.companion_inflation * len(data)
    if wanted > budget:
        raise LimitError("companion_inflation", budget, wanted, place="directory")
    return Directory(profile, archive_id, *_placed(len(data), lines, end, ALIGNMENT[profile]))


def _lines(data: memoryview, at: int, count: int, profile: CompanionProfile) -> tuple[list[Section], int]:
    """The lines of the directory, and where it ends."""
    if profile is CompanionProfile.MAPPED:
        end = at + count * MAPPED_LINE.size
        if end > len(data):
            raise ArchiveError(place=f"byte {at}", expected=f"{count} sections", found="the end of the file")
        return list(starmap(Section, MAPPED_LINE.iter_unpack(data[at:end]))), end
    source = io.BytesIO(bytes(data[at : at + count * LONGEST]))
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
