"""Whether two stretches of bytes are the same, a share at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.cores import Cores

if TYPE_CHECKING:
    from collections.abc import Iterator

    Pair = tuple[memoryview, memoryview]

SHARE = 1 << 20
"""Bytes that are searched for a difference at a time."""
WORD = 8


def equal(old: memoryview, new: memoryview) -> bool:
    """Whether two stretches of bytes are the same."""
    return len(old) == len(new) and all(map(_are_equal, shares(old, new, SHARE)))


def equal_on_cores(old: memoryview, new: memoryview) -> bool:
    """The same for long stretches, by all cores."""
    return len(old) == len(new) and all(Cores().map(_are_equal, shares(old, new, SHARE)))


def shares(old: memoryview, new: memoryview, size: int) -> Iterator[Pair]:
    """Two stretches of one length in shares of some bytes."""
    for at in range(0, len(old), size):
        yield old[at : at + size], new[at : at + size]


def _are_equal(pair: Pair) -> bool:
    words, rest = len(pair[0]) // WORD, len(pair[0]) // WORD * WORD
    was, now = (np.frombuffer(each, np.uint64, words) for each in pair)
    return np.array_equal(was, now) and pair[0][rest:] == pair[1][rest:]
