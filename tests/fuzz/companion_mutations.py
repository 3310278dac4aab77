"""Changes of companions: columns, lines and directories, with every checksum put right."""

from __future__ import annotations

import struct
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS
from archive.companion.codecs import Codec, inflated
from archive.companion.layout import CompanionProfile, read_directory
from archive.companion.magic import is_companion
from archive.normalform.columns import SOLID
from tests.fuzz.mutations import changed_bytes, number, unsigned
from tests.support.hostile_companions import HEADER_BYTES, replaced, rewritten, sections

if TYPE_CHECKING:
    from random import Random

    from archive.companion.layout import SectionLine

CHECKSUM = slice(HEADER_BYTES - 4, HEADER_BYTES)
FIELDS = ("number", "coding", "codec", "rows", "inflated")


def changed_companion(chance: Random, data: bytes) -> bytes:
    """A companion of which a section, a line of the directory, or the header says something else."""
    try:
        listed = _sections(data)
    except (ArchiveError, ValueError):
        return changed_bytes(chance, data)
    kind = chance.randrange(8)
    if kind == 0 or not listed:
        return _resigned(chance, data)
    at = chance.randrange(len(listed))
    line, part = listed[at]
    if kind == 1:
        field = chance.choice(FIELDS)
        value = number(chance, getattr(line, field)) & (0xFF if field in ("number", "coding") else 0xFFFF)
        return rewritten(data, replaced(list(listed), at, **{field: value}))
    if line.number == SOLID:
        try:
            line, part = _changed_body(chance, line, part)
        except ArchiveError:  # of a section that was changed before
            return changed_bytes(chance, data)
    else:
        part = _changed_values(chance, part, line.coding % 16)
    return rewritten(data, [*listed[:at], (line, part), *listed[at + 1 :]])


@lru_cache(maxsize=256)
def _sections(data: bytes) -> tuple[tuple[SectionLine, bytes], ...]:
    if not is_companion(memoryview(data)):
        raise ValueError
    directory = read_directory(memoryview(data), DEFAULT_LIMITS.allowance(len(data)))
    if directory.profile is CompanionProfile.MAPPED and len(data) > 1 << 14:
        raise ValueError
    return tuple(sections(data))


def _changed_body(chance: Random, line: SectionLine, part: bytes) -> tuple[SectionLine, bytes]:
    """The solid section of a packed companion with other bytes, kept uncompressed."""
    body = changed_bytes(chance, bytes(_inflated(line.codec, part, line.inflated)))
    return line._replace(codec=Codec.NONE, inflated=len(body), rows=len(body)), body


@lru_cache(maxsize=256)
def _inflated(codec: int, part: bytes, size: int) -> bytes:
    return bytes(inflated(codec, memoryview(part), size))


def _changed_values(chance: Random, part: bytes, width: int) -> bytes:
    """A mapped column with other numbers in some rows."""
    rows = len(part) // width if width else 0
    if not rows or not chance.randrange(6):
        return changed_bytes(chance, part)
    out = bytearray(part)
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(rows) * width
        out[at : at + width] = unsigned(chance, int.from_bytes(part[at : at + width], "little"), width)
    return bytes(out)


def _resigned(chance: Random, data: bytes) -> bytes:
    """Header and directory with other bytes in them, and the checksum of those."""
    directory = read_directory(memoryview(data), DEFAULT_LIMITS.allowance(len(data)))
    end = min((start for start, _ in directory.places.values()), default=len(data))
    head = bytearray(changed_bytes(chance, data[:end]).ljust(HEADER_BYTES, b"\0"))
    head[CHECKSUM] = bytes(4)
    head[CHECKSUM] = struct.pack("<I", zlib.crc32(head))
    return bytes(head) + data[end:]
