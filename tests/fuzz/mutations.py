"""Random changes of bytes, logs, pickles, zips and companions, all drawn from one seeded generator."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from archive.base.errors import ArchiveError
from archive.companion.codecs import Codec, inflated
from archive.companion.layout import CompanionLayout, read_directory
from archive.companion.magic import is_companion
from archive.normalform.columns import SOLID
from archive.pickles.ops import BY_CODE, FIXED_SIZE, Argument
from tests.support.hostile_companions import HEADER_BYTES, replaced, rewritten, sections

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    Mutation = Callable[[Random, bytes], bytes]
    from archive.companion.layout import SectionLine

T = TypeVar("T")

EDGES = sorted(
    {
        sign * (1 << bits) + step
        for bits in (0, 7, 8, 15, 16, 31, 32, 62, 63)
        for step in (-1, 0, 1)
        for sign in (1, -1)
    }
)
"""Numbers around the ends of each width."""
LONGEST = 1 << 14
"""Bytes of a mutated input, so that executions stay fast."""


def number(chance: Random, before: int) -> int:
    """Another number: an edge, a neighbour, a double, or a small one."""
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice(EDGES)
    if kind == 1:
        return before + chance.choice((-2, -1, 1, 2))
    return before * 2 if kind == 2 else chance.randrange(20)


def unsigned(chance: Random, before: int, size: int) -> bytes:
    """Another little-endian number of so many bytes."""
    return (number(chance, before) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def changed_bytes(chance: Random, data: bytes) -> bytes:
    """Bytes of which some are flipped, replaced, removed, repeated or cut off."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(out) + 1)
        upto = min(len(out), at + chance.choice((1, 2, 4, 16)))
        kind = chance.randrange(5)
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            out[at:upto] = chance.randbytes(upto - at)
        elif kind == 2:
            del out[at:upto]
        elif kind == 3:
            out[at:at] = out[at:upto]
        elif not chance.randrange(4):
            del out[at:]
    return bytes(out[:LONGEST])


def changed_list(chance: Random, items: list[T], pool: Sequence[T], change: Callable[[T], T]) -> list[T]:
    """Items of which some are removed, repeated, swapped, changed, or replaced by those of a pool."""
    out = list(items)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        if not out:
            return [chance.choice(pool)]
        at, other = chance.randrange(len(out)), chance.randrange(len(out))
        upto = at + chance.choice((1, 1, 1, 3, 9))
        kind = chance.randrange(7)
        if kind == 0:
            del out[at:upto]
        elif kind == 1:
            out[at:at] = out[at:upto]
        elif kind == 2:
            out[at], out[other] = out[other], out[at]
        elif kind == 3:
            out[at] = chance.choice(pool)
        elif kind == 4:
            out.insert(at, chance.choice(pool))
        else:
            out[at] = change(out[at])
    return out


# --- Changes of logs: lines, digits, marks, and the words around them


DIGITS = re.compile(rb"\d+")
LOG_POOL: tuple[bytes, ...] = (
    b"\n",
    b"\r\n",
    b"  Debug info for handle(s): debug_handles:{1494}, was not found.\n",
    b"  Debug info for handle(s): debug_handles:{14941445}, was not found.\n",
    b"  Debug info for handle, 1494, not found.\n",
    b"  Debug info for handle(s): debug_handles:{" + b"1" * 30 + b"}, was not found.\n",
    b"Traceback of TorchScript (most recent call last):\n",
    b"Traceback of TorchScript, serialized code (most recent call last):\n",
    b'  File "code/__torch__/models.py", line 3, in forward\n',
    b"    ~~~~~~~~~~~ <--- HERE\n",
    b"                ~~\n",
    b"RuntimeError: expected\n",
    b"W/app: ",
    b"\xff\xfe\x1b[31m\n",
)


def changed_log(chance: Random, data: bytes) -> bytes:
    """A log of which some lines are others."""
    lines: list[bytes] = data.splitlines(keepends=True)
    lines = changed_list(chance, lines, LOG_POOL, lambda line: _changed_line(chance, line))
    return b"".join(lines)[: 1 << 13]


def _changed_line(chance: Random, line: bytes) -> bytes:
    """A line with another number, or other bytes."""
    found = list(DIGITS.finditer(line))
    if not found or not chance.randrange(4):
        return changed_bytes(chance, line)
    one = chance.choice(found)
    kind = chance.randrange(3)
    digits = b"%d" % abs(number(chance, int(one[0][:18])))
    if kind == 1:
        digits = one[0] + digits
    elif kind == 2:
        digits = one[0] * chance.randrange(1, 5)
    return line[: one.start()] + digits + line[one.end() :]


# --- Changes of pickles, instruction by instruction, so that most of what follows is still read


OTHERS = b"0123IlLFSUViopgRRtdx\x82\x83\x84\x8c\x8e\x8f\x90\x91\x92\x93\x94\x95\x96"
"""Codes of Python's other opcodes, which PyTorch never writes."""
SIZES = {Argument.U8: 1, Argument.U16: 2, Argument.I32: 4, Argument.U32: 4, Argument.F64: 8}
TEXTS = (
    b"",
    b"FORMAT_WITH_STRING_TABLE",
    b"instructions",
    b"operators",
    b"function_debug_handles",
    b"storage",
)
PICKLE_POOL: tuple[bytes, ...] = (
    *(bytes([code]) for code, op in BY_CODE.items() if op.argument is Argument.NONE),
    *(bytes([code]) for code in OTHERS),
    *(b"X" + struct.pack("<I", len(text)) + text for text in TEXTS),
    *(bytes([code, at]) for code in b"qhK" for at in range(4)),
    *(bytes([code]) + struct.pack("<I", at) for code in b"rj" for at in (0, 1, 300, 1 << 31)),
    b"\x8a\x08" + bytes(7) + b"\x80",
    b"\x8a\x00",
    b"M\xff\xff",
    b"J\xff\xff\xff\xff",
    b"ctorch.jit._pickle\nbuild_intlist\n",
    b"ccollections\nOrderedDict\n",
    b"ctorch._utils\n_rebuild_tensor_v2\n",
    b"cposix\nsystem\n",
    b"](K\x00e",
    b"(K\x00K\x01t",
)
"""Instructions, and some values, to be put anywhere."""


@lru_cache(maxsize=1024)
def instructions(data: bytes) -> list[bytes]:
    """The instructions of a pickle; what cannot be cut into instructions is the last one."""
    found, at = [], 0
    while at < len(data):
        size = min(_size(data, at), len(data) - at)
        found.append(data[at : at + size])
        at += size
    return found


def _size(data: bytes, at: int) -> int:
    op = BY_CODE.get(data[at])
    if op is None:
        return len(data) - at
    if op.argument in FIXED_SIZE:
        return FIXED_SIZE[op.argument]
    if op.argument is Argument.LINES:
        first = data.find(b"\n", at)
        second = data.find(b"\n", first + 1)
        return len(data) - at if min(first, second) < 0 else second + 1 - at
    width = {Argument.LONG1: 1, Argument.TEXT32: 4}.get(op.argument, 8)
    return 1 + width + int.from_bytes(data[at + 1 : at + 1 + width], "little")


def changed_pickle(chance: Random, data: bytes) -> bytes:
    """A pickle of which some instructions are others; now and then, of which some bytes are."""
    if not chance.randrange(8):
        return changed_bytes(chance, data)
    parts = changed_list(
        chance, instructions(data), PICKLE_POOL, lambda part: _changed_instruction(chance, part)
    )
    return b"".join(parts)[:LONGEST]


def _changed_instruction(chance: Random, part: bytes) -> bytes:
    """An instruction with another argument."""
    op = BY_CODE.get(part[0])
    if op is None or len(part) == 1:
        return part
    head, argument = part[:1], part[1:]
    if op.argument in SIZES:
        return head + unsigned(chance, int.from_bytes(argument, "little"), SIZES[op.argument])
    if op.argument is Argument.LONG1:
        value = number(chance, int.from_bytes(argument[1:], "little", signed=True))
        return b"\x8a\x08" + (value & ((1 << 64) - 1)).to_bytes(8, "little")
    if op.argument is Argument.TEXT32:
        return head + _changed_text(chance, argument)
    return head + changed_bytes(chance, argument)


def _changed_text(chance: Random, argument: bytes) -> bytes:
    """A text with other bytes, mostly with its new length before it."""
    text = changed_bytes(chance, argument[4:])
    length = number(chance, len(text)) & 0xFFFFFFFF if not chance.randrange(5) else len(text)
    return struct.pack("<I", length) + text


# --- Changes of zips: fields of their headers, their order, and their records, with checksums put right


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
    return zipped(changed_list(chance, parts, [*pool, *parts], lambda part: _changed_record(chance, part)))


def _changed_record(chance: Random, part: Stored) -> Stored:
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


# --- Changes of companions: columns, lines and directories, with every checksum put right


CHECKSUM = slice(HEADER_BYTES - 4, HEADER_BYTES)
COMPANION_FIELDS = ("number", "coding", "codec", "rows", "inflated")


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
        field = chance.choice(COMPANION_FIELDS)
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
    directory = read_directory(memoryview(data))
    if directory.layout is CompanionLayout.MAPPED and len(data) > 1 << 14:
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
    directory = read_directory(memoryview(data))
    end = min((start for start, _ in directory.places.values()), default=len(data))
    head = bytearray(changed_bytes(chance, data[:end]).ljust(HEADER_BYTES, b"\0"))
    head[CHECKSUM] = bytes(4)
    head[CHECKSUM] = struct.pack("<I", zlib.crc32(head))
    return bytes(head) + data[end:]
