"""Changes of pickles, instruction by instruction, so that most of what follows is still read."""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import TYPE_CHECKING

from archive.pickles.ops import BY_CODE, FIXED_SIZE, Argument
from tests.fuzz.mutations import LONGEST, changed_bytes, changed_list, number, unsigned

if TYPE_CHECKING:
    from random import Random

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
POOL: tuple[bytes, ...] = (
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
    parts = changed_list(chance, instructions(data), POOL, lambda part: _changed(chance, part))
    return b"".join(parts)[:LONGEST]


def _changed(chance: Random, part: bytes) -> bytes:
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
