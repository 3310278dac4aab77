"""Whether two stretches of bytes, or two records, are the same, a share at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.cores import Cores
from archive.container.record import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.reader.records import ReadableRecord

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


def same_bytes(old: ReadableRecord, new: ReadableRecord) -> bool:
    """Whether two records have the same bytes."""
    if old.size != new.size:
        return False
    if isinstance(old, Record) and isinstance(new, Record) and old.compression == new.compression:
        return equal(old.raw(), new.raw()) or (not old.borrowed and equal(old.view(), new.view()))
    return equal(old.view(), new.view())


def shares(old: memoryview, new: memoryview, size: int) -> Iterator[Pair]:
    """Two stretches of one length in shares of some bytes."""
    for at in range(0, len(old), size):
        yield old[at : at + size], new[at : at + size]


def _are_equal(pair: Pair) -> bool:
    words, rest = len(pair[0]) // WORD, len(pair[0]) // WORD * WORD
    was, now = (np.frombuffer(each, np.uint64, words) for each in pair)
    return np.array_equal(was, now) and pair[0][rest:] == pair[1][rest:]
