"""The outermost bytes of a companion: header and directory, declared with construct.

Sections follow the directory in its order, each at the next multiple of the profile's alignment, with
zeros between; the file ends with the last one. So positions need not be written, and cannot overlap.
"""

from __future__ import annotations

import io
import zlib
from dataclasses import asdict, dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import construct
import numpy as np

from archive.errors import ArchiveError, LimitError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.limits import Limits

MAGIC = b"\x89PTDBG\r\n\x1a\n"
VERSION = 1
ID_BYTES = 16


class Profile(IntEnum):
    """What a companion is made for."""

    MAPPED = 1
    PACKED = 2


ALIGNMENT = {Profile.MAPPED: 64, Profile.PACKED: 1}

HEADER = construct.Struct(
    "magic" / construct.Bytes(len(MAGIC)),
    "version" / construct.Int16ul,
    "profile" / construct.Int8ul,
    "sections" / construct.Int8ul,
    "archive_id" / construct.Bytes(ID_BYTES),
    "checksum" / construct.Int32ul,
)
"""``checksum`` is the crc32 of the header, with 0 in its place, and of the directory."""

FIELDS = ("number", "coding", "codec", "count", "start", "inflated", "stored", "checksum")
PACKED_SECTION = construct.Struct(
    *(name / (construct.ZigZag if name == "start" else construct.VarInt) for name in FIELDS[:-1]),
    "checksum" / construct.Int32ul,
)
MAPPED_SECTION = construct.Struct(
    "number" / construct.Int8ul,
    "coding" / construct.Int8ul,
    "codec" / construct.Int16ul,
    "checksum" / construct.Int32ul,
    "count" / construct.Int64ul,
    "start" / construct.Int64sl,
    "inflated" / construct.Int64ul,
    "stored" / construct.Int64ul,
)
MAPPED_DTYPE = np.dtype(
    [
        (field.name, f"<{'i' if field.name == 'start' else 'u'}{field.sizeof()}")
        for field in MAPPED_SECTION.subcons
    ]
)
"""The same, for numpy to read all lines at once: construct takes 20 µs a line."""


LONGEST = 80
"""Bytes that a line of a packed companion's directory has at most, if its numbers are of 64 bits."""


@dataclass(frozen=True, slots=True)
class Section:
    """One line of the directory.

    Attributes:
        number: which section: see :mod:`archive.formats.companion.sections`.
        coding: width of an element in bytes; + 16 where signed (mapped) or zigzag coded (packed); + 32 times
            the transform.
        codec: what the bytes are compressed with.
        count: rows.
        start: the value that the transform starts from.
        inflated: bytes without compression.
        stored: bytes in the file.
        checksum: crc32 of the bytes in the file.
    """

    number: int
    coding: int
    codec: int
    count: int
    start: int
    inflated: int
    stored: int
    checksum: int


@dataclass(frozen=True, slots=True)
class Directory:
    """What header and directory say.

    Attributes:
        profile: what the file is made for.
        archive_id: of the archive whose debug information this is.
        sections: by their numbers.
        places: where each one's bytes begin and end, by their numbers.
    """

    profile: Profile
    archive_id: bytes
    sections: dict[int, Section]
    places: dict[int, tuple[int, int]]


def written(profile: Profile, archive_id: bytes, sections: Iterable[tuple[Section, bytes]]) -> bytes:
    """A whole file."""
    listed = list(sections)
    line = PACKED_SECTION if profile is Profile.PACKED else MAPPED_SECTION
    directory = b"".join(line.build(asdict(section)) for section, _ in listed)
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


def is_companion(data: memoryview) -> bool:
    """Whether these are the first bytes of a companion, of whatever version."""
    return bytes(data[: len(MAGIC)]) == MAGIC


def read_directory(data: memoryview, limits: Limits) -> Directory:
    """Header and directory of a file, checked against its size.

    Raises:
        ArchiveError: this is no companion, one of an unknown version, cut short, or changed.
        LimitError: its sections would inflate to more than allowed.
    """
    size = HEADER.sizeof()
    if len(data) < size or not is_companion(data):
        raise ArchiveError(place="byte 0", expected="a companion's header", found="other bytes")
    header = HEADER.parse(data[:size])
    if header.version != VERSION:
        raise ArchiveError(
            place=f"byte {len(MAGIC)}",
            expected=f"a companion of version {VERSION}",
            found=f"version {header.version}; a newer debug-archive may read it",
        )
    if header.profile not in list(Profile):
        raise ArchiveError(
            place=f"byte {len(MAGIC) + 2}", expected="a known profile", found=str(header.profile)
        )
    profile = Profile(header.profile)
    lines, end = _lines(data, size, header.sections, profile)
    checked = zlib.crc32(data[size:end], zlib.crc32(bytes(data[: size - 4]) + bytes(4)))
    if checked != header.checksum:
        raise ArchiveError(
            place="header", expected=f"checksum {header.checksum:#010x}", found=f"{checked:#010x}"
        )
    sections, places = _placed(data, lines, end, ALIGNMENT[profile])
    most = limits.record_bytes
    wanted = sum(max(line.inflated, 8 * line.count) for line in lines)
    if wanted > most:
        raise LimitError("record_bytes", most, wanted, place="directory")
    return Directory(profile, header.archive_id, sections, places)


def _lines(data: memoryview, at: int, count: int, profile: Profile) -> tuple[list[Section], int]:
    """The lines of the directory, and where it ends."""
    if profile is Profile.MAPPED:
        end = at + count * MAPPED_DTYPE.itemsize
        if end > len(data):
            raise ArchiveError(place=f"byte {at}", expected=f"{count} sections", found="the end of the file")
        table = np.frombuffer(data[at:end], MAPPED_DTYPE)[list(FIELDS)]
        return [Section(*line) for line in table.tolist()], end
    source = io.BytesIO(bytes(data[at : at + count * LONGEST]))
    try:
        parsed = [PACKED_SECTION.parse_stream(source) for _ in range(count)]
    except construct.ConstructError as cause:
        raise ArchiveError(place=f"byte {at}", expected=f"{count} sections", found="others") from cause
    return [Section(*(line[name] for name in FIELDS)) for line in parsed], at + source.tell()


def _placed(
    data: memoryview, lines: list[Section], at: int, alignment: int
) -> tuple[dict[int, Section], dict[int, tuple[int, int]]]:
    places: dict[int, tuple[int, int]] = {}
    for line in lines:
        start = at + -at % alignment
        if line.number in places or any(data[at:start]):
            raise ArchiveError(
                place=f"section {line.number}", expected="each once, zeros between", found="others"
            )
        at = start + line.stored
        places[line.number] = (start, at)
    if at != len(data):
        raise ArchiveError(place="directory", expected=f"a file of {at} bytes", found=f"one of {len(data)}")
    return {line.number: line for line in lines}, places
