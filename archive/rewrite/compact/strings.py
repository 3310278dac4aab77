"""Numbers for strings: equal strings have the same number."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.base.strings import StringTable


STRING_BYTES = 100
"""Bytes of memory that a string costs besides its length."""


def own_strings(strings: StringTable, index: Ints, allowance: Allowance) -> tuple[list[bytes], Ints]:
    """The distinct strings among some of a table, and the number of each index in them; -1 stays (n)."""
    known: dict[bytes, int] = {}
    number = string_numbers(strings, index, known, allowance)
    return list(known), number


def string_numbers(strings: StringTable, index: Ints, known: dict[bytes, int], allowance: Allowance) -> Ints:
    """Number strings, equal ones alike; -1 stays (n).

    Args:
        strings: the strings.
        index: indices into them, or -1 (n).
        known: the number of each string so far. New strings are added.
        allowance: the memory that the strings may cost.

    Raises:
        LimitError: they would cost more.
    """
    there = index[index >= 0]
    low = int(there.min(initial=len(strings)))
    is_used = np.zeros(max(int(there.max(initial=0)) + 1 - low, 1), np.bool_)
    is_used[there - low] = True
    used = np.flatnonzero(is_used)
    allowance.take(STRING_BYTES * len(used) + int(strings.length[used + low].sum()), "strings")
    places = (column[used + low].tolist() for column in (strings.buffer, strings.start, strings.length))
    number = np.full(len(is_used), -1, np.int64)
    number[used] = [
        known.setdefault(bytes(strings.buffers[buffer][start : start + length]), len(known))
        for buffer, start, length in zip(*places, strict=True)
    ]
    return np.where(index < 0, -1, number[np.maximum(index - low, 0)])
