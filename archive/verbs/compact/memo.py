"""The memo, used as little as PyTorch allows.

PyTorch's own pickler gives an entry to every string, source and call stack, read again or not, and uses none
twice. Its unpickler takes entries in any order, and writes over those that are there (tried with 2.13). So
here a value gets an entry only if it is read again, and the lowest that is free by then: mostly below 256,
which takes two bytes instead of five, and the same few again and again, which helps deflate.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import numbered
from archive.verbs.compact.code import GET, GLOBAL, INT, PUT, SHARED_GLOBAL, TEXT

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.verbs.compact.code import Code

PLAIN = np.array([INT, TEXT, GLOBAL], np.uint8)


def with_memo(code: Code) -> tuple[np.ndarray, Ints]:
    """Opcodes and numbers of all instructions, with entries of the memo in place of keys."""
    op, arg = _written_once(code.op, code.arg)
    is_read = np.zeros(_keys(op, arg), np.bool_)
    is_read[arg[op == GET]] = True
    needed = op != PUT
    needed[~needed] = is_read[arg[~needed]]
    op, arg = op[needed], arg[needed]
    moves = np.flatnonzero((op == PUT) | (op == GET))
    arg[moves] = _entries(op[moves] == PUT, arg[moves], len(is_read))
    return op, arg


def _keys(op: np.ndarray, arg: Ints) -> int:
    """The number of keys."""
    return int(arg[(op == PUT) | (op == GET)].max(initial=-1)) + 1


def _written_once(op: np.ndarray, arg: Ints) -> tuple[np.ndarray, Ints]:
    """Shared integers, texts and names with keys of their own: the first is written, the others are read."""
    shared = np.flatnonzero(op <= SHARED_GLOBAL)
    keys = _keys(op, arg)
    number, first = numbered(op[shared].astype(np.int64), arg[shared])
    written = shared[first]
    plain, value = PLAIN[op[written]], arg[written]
    op, arg = op.copy(), arg.copy()
    op[shared], arg[shared] = GET, keys + number
    op[written], arg[written] = plain, value
    return np.insert(op, written + 1, PUT), np.insert(arg, written + 1, keys + np.arange(len(written)))


def _entries(is_put: np.ndarray, key: Ints, keys: int) -> Ints:
    """The entry of each memo write and read.

    Args:
        is_put: whether it is a write; each key is written once, and then read (m).
        key: the value's key (m).
        keys: the number of keys.
    """
    every = np.arange(len(key))
    last = np.zeros(keys, np.int64)
    last[key] = every
    turns = np.flatnonzero(is_put | (last[key] == every))
    entry = [0] * keys
    free: list[int] = []
    used = 0
    for begins, one in zip(is_put[turns].tolist(), key[turns].tolist(), strict=True):
        if not begins:
            heappush(free, entry[one])
        elif free:
            entry[one] = heappop(free)
        else:
            entry[one] = used
            used += 1
    return np.array(entry, np.int64)[key]
