"""Instructions -> bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts
from archive.pickles.ops import CODE_OF, SIZE, lookup
from archive.pickles.write import BYTE
from archive.verbs.compact.code import GET, GLOBAL, INT, PUT, TEXT, WIDE
from archive.verbs.compact.memo import with_memo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.columns import Ints
    from archive.verbs.compact.code import Code

START, STOP = bytes([CODE_OF["PROTO"], 2]), bytes([CODE_OF["STOP"]])
BININT2, LONG1 = CODE_OF["BININT2"], CODE_OF["LONG1"]
LONG = {PUT: CODE_OF["LONG_BINPUT"], GET: CODE_OF["LONG_BINGET"]}
LONG1_BYTES = 8
"""PyTorch reads no other length."""
TEXT_BYTES = 4


def pickled(code: Code, strings: Sequence[bytes]) -> bytes:
    """The pickle of one value.

    Args:
        code: the value's instructions.
        strings: what texts and names stand for; both lines of a name end in a newline.
    """
    op, arg = with_memo(code)
    op = _with_widths(op, arg)
    texts, names, longs = (np.flatnonzero(op == one) for one in (TEXT, GLOBAL, LONG1))
    lengths = np.array([len(string) for string in strings], np.int64)
    size = lookup(SIZE, op).astype(np.int64)
    widths = {width: np.flatnonzero(size == 1 + width) for width in (1, 2, 4)}
    size[texts] = 1 + TEXT_BYTES + lengths[arg[texts]]
    size[names] = 1 + lengths[arg[names]]
    size[longs] = 2 + LONG1_BYTES
    at = firsts(size)
    out = np.empty(int(at[-1]), np.uint8)
    at = at[:-1]
    out[at] = op
    at += 1
    for width, own in widths.items():
        _write_numbers(out, at[own], arg[own], width)
    out[at[longs]] = LONG1_BYTES
    _write_numbers(out, at[longs] + 1, arg[longs], LONG1_BYTES)
    _write_numbers(out, at[texts], lengths[arg[texts]], TEXT_BYTES)
    _write_strings(out, at[texts] + TEXT_BYTES, arg[texts], strings)
    _write_strings(out, at[names], arg[names], strings)
    return START + out.tobytes() + STOP


def _with_widths(op: np.ndarray, arg: Ints) -> np.ndarray:
    """The opcodes that hold their integers and memo entries."""
    op = op.copy()
    ints = np.flatnonzero((op == INT) | (op == WIDE))
    value = arg[ints]
    is_long = (value < -(1 << 31)) | (value >= 1 << 31)
    is_wide = (op[ints] == WIDE) | (value < 0) | (value >= 1 << 16)
    op[ints] = np.select([is_long, is_wide, value >= BYTE], [LONG1, WIDE, BININT2], INT)
    for short, long in LONG.items():
        op[(op == short) & (arg >= BYTE)] = long
    return op


def _write_numbers(out: np.ndarray, at: Ints, values: Ints, width: int) -> None:
    """Integers in little endian, one byte of all of them at a time."""
    for byte in range(width):
        out[at + byte] = values >> 8 * byte & 0xFF


def _write_strings(out: np.ndarray, at: Ints, number: Ints, strings: Sequence[bytes]) -> None:
    view = out.data
    for start, string in zip(at.tolist(), map(strings.__getitem__, number.tolist()), strict=True):
        view[start : start + len(string)] = string
