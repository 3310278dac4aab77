"""Changes of zips: fields of their headers, their order, and their records, with checksums put right."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from tests.fuzz.mutations import LONGEST, changed_bytes, changed_list, unsigned
from tests.fuzz.pickle_mutations import changed_pickle

if TYPE_CHECKING:
    from random import Random

LOCAL, CENTRAL, END, WIDE_END, LOCATOR = b"PK\3\4", b"PK\1\2", b"PK\5\6", b"PK\6\6", b"PK\6\7"
FIELDS = {
    LOCAL: (2, 2, 2, 2, 2, 4, 4, 4, 2, 2),
    CENTRAL: (2, 2, 2, 2, 2, 2, 4, 4, 4, 2, 2, 2, 2, 2, 4, 4),
    END: (2, 2, 2, 2, 4, 4, 2),
    WIDE_END: (8, 2, 2, 4, 4, 8, 8, 8, 8),
    LOCATOR: (4, 8, 4),
}
"""The sizes of each header's fields, behind its magic number."""
NAMES = (
    "data.pkl",
    "../x",
    "/x",
    "a//b",
    "",
    "x\n",
    "byteorder",
    ".data/serialization_id",
    "CODE/a.py",
    "a" * 5000,
)


BROKEN = (zipfile.BadZipFile, zlib.error, EOFError)
"""What ``zipfile`` says of a zip that was changed before."""


class Stored(NamedTuple):
    """A record to be put into a zip."""

    name: str
    data: bytes
    deflated: bool


@lru_cache(maxsize=256)
def records(data: bytes) -> list[Stored]:
    """The records of a whole zip, names with root."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return [Stored(one.filename, file.read(one), one.compress_type != 0) for one in file.infolist()]


def zipped(parts: list[Stored]) -> bytes:
    """A zip of records, in PyTorch's order of headers, checksums right."""
    out, lines = bytearray(), []
    for part in parts:
        packer = zlib.compressobj(1, wbits=-15)
        stored = packer.compress(part.data) + packer.flush() if part.deflated else part.data
        name = part.name.encode("utf-8", "surrogateescape")
        method, crc = 8 * part.deflated, zlib.crc32(part.data)
        common = struct.pack("<5H3I", 0, 0, method, 0, 0, crc, len(stored), len(part.data))
        lines.append(
            CENTRAL + bytes(2) + common + struct.pack("<5H2I", len(name), 0, 0, 0, 0, 0, len(out)) + name
        )
        padding = -(len(out) + 30 + len(name) + 4) % 64
        extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
        out += LOCAL + common + struct.pack("<2H", len(name), len(extra)) + name + extra + stored
    directory = b"".join(lines)
    end = struct.pack("<4H2IH", 0, 0, len(parts), len(parts), len(directory), len(out), 0)
    return bytes(out) + directory + END + end


def changed_records(chance: Random, data: bytes) -> bytes:
    """A zip of which some records are changed, renamed, repeated or gone."""
    parts = records(data)
    pool = [Stored(f"m/{name}", b"\x80\x02K\x01.", deflated=False) for name in NAMES]
    return zipped(changed_list(chance, parts, [*pool, *parts], lambda part: _changed(chance, part)))


def _changed(chance: Random, part: Stored) -> Stored:
    if part.name.endswith("pkl"):
        return part._replace(data=changed_pickle(chance, part.data))
    return part._replace(data=changed_bytes(chance, part.data))


def changed_headers(chance: Random, data: bytes) -> bytes:
    """A zip with other numbers in some fields of its headers."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 3))):
        magic = chance.choice((LOCAL, CENTRAL, CENTRAL, END, WIDE_END, LOCATOR))
        places = _places(data, magic)
        if not places:
            continue
        fields = FIELDS[magic]
        field = chance.randrange(len(fields))
        at, size = chance.choice(places) + 4 + sum(fields[:field]), fields[field]
        out[at : at + size] = unsigned(chance, int.from_bytes(out[at : at + size], "little"), size)
    return bytes(out)


@lru_cache(maxsize=512)
def _places(data: bytes, magic: bytes) -> list[int]:
    found, at = [], data.find(magic)
    while at >= 0:
        found.append(at)
        at = data.find(magic, at + 1)
    return found


def changed_zip(chance: Random, data: bytes) -> bytes:
    """A zip changed in one of three ways: its headers, its records, or any bytes."""
    kind = chance.randrange(8)
    if kind < 5:
        return changed_headers(chance, data)
    try:
        return changed_records(chance, data) if kind < 7 else changed_bytes(chance, data)
    except (*BROKEN, OSError, RuntimeError, ValueError, ArithmeticError):
        return changed_bytes(chance, data)[: LONGEST * 4]
