"""Columns of integers: rows of several columns as one key, concatenated sequences and strings."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from archive.base.strings import StringTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

KEY_LIMIT = 1 << 62
SPARSE = 2
"""If the largest key is below this many times the rows, keys are numbered by a lookup table, not sorting."""
STEP = 1 << 16
"""Rows or items that are processed at once where all at once would take more memory."""


def keyed(*columns: Ints) -> Ints:
    """One integer per row: two are equal if and only if the rows are (n).

    The columns are digits of a mixed-radix number. When it would need more than 62 bits, the key so far, or
    the column, is replaced by the numbers of its distinct values.
    """
    key, span = np.zeros(len(columns[0]), np.int64), 1
    for column in columns:
        low = int(column.min(initial=0))
        width = int(column.max(initial=0)) - low + 1
        if span * width > KEY_LIMIT:
            key = np.unique(key, return_inverse=True)[1]
            span = int(key.max(initial=0)) + 1
        if span * width > KEY_LIMIT:
            column = np.unique(column, return_inverse=True)[1]  # noqa: PLW2901 (the same, made small)
            low, width = 0, int(column.max(initial=0)) + 1
        key = key * width + (column - low)
        span *= width
    return key


def numbered(*columns: Ints) -> tuple[Ints, Ints]:
    """Rows numbered by first appearance: each row's number (n), and the first row of each number."""
    key = keyed(*columns)
    if int(key.max(initial=0)) > SPARSE * len(key):
        key = np.unique(key, return_inverse=True)[1]
    count, rows = int(key.max(initial=-1)) + 1, len(key)
    first = np.full(count, rows)
    first[key[::-1]] = np.arange(rows - 1, -1, -1)  # of equal keys, the first one is written last
    distinct = np.flatnonzero(first < rows)
    distinct = distinct[np.argsort(first[distinct])]
    rank = np.empty(count, np.int64)
    rank[distinct] = np.arange(len(distinct))
    return rank[key], first[distinct]


def ordinals(*columns: Ints) -> Ints:
    """For each row, the number of equal rows before it (n)."""
    key = keyed(*columns)
    order = np.argsort(key, kind="stable")
    ordered = key[order]
    new = np.ones(len(key), np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    at = np.arange(len(key))
    result = np.empty(len(key), np.int64)
    result[order] = at - np.maximum.accumulate(np.where(new, at, 0))
    return result


def firsts(counts: Ints) -> Ints:
    """Where each sequence begins in their concatenation, and where the last one ends (n + 1)."""
    first = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    return first


def sizes_of(first: Ints, which: Ints) -> Ints:
    """How many items some sequences have, of all those that ``firsts`` gives.

    Others are not looked at: a record that takes the differences of all makes its archive quadratic.
    """
    sizes: Ints = first[which + 1] - first[which]
    return sizes


def distinct_values(values: Ints) -> Ints:
    """The distinct ones of some numbers, ascending; ``np.unique`` would import masked arrays, 8 ms."""
    rising: Ints = np.sort(values)
    distinct: Ints = rising[np.diff(rising, prepend=rising[:1] - 1) != 0]
    return distinct


def windows(first: Ints) -> Iterator[tuple[int, int]]:
    """Windows of sequences to process together, so that the memory for it is bounded.

    Args:
        first: where each sequence begins, and where the last one ends (n + 1).

    Yields:
        The first sequence of each window, and the one after its last: STEP items, plus at most one sequence.
    """
    cuts = np.searchsorted(first, np.arange(0, int(first[-1]), STEP))
    bounds = pairwise([0, *cuts.tolist(), len(first) - 1])
    yield from ((low, high) for low, high in bounds if low < high)


def largest_window(first: Ints) -> int:
    """Items of the largest window."""
    return max((int(first[high] - first[low]) for low, high in windows(first)), default=0)


def spread(first: Ints, counts: Ints) -> Ints:
    """The positions of several concatenated runs: ``counts[i]`` of them from ``first[i]`` on."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    positions: Ints = np.arange(total) + np.repeat(first - (ends - counts), counts)
    return positions


def sums_along(following: Ints, sizes: Ints) -> Ints:
    """For each row of linked lists, the sum of some sizes over the rows from there to the list's end (n).

    Each round adds what a row points to, then points twice as far: a list of n rows takes log2(n) rounds.

    Args:
        following: the row that follows each; -1 at a list's end. No list is cyclic (n).
        sizes: of the rows (n).
    """
    total, ahead = sizes.copy(), following.copy()
    rows = np.flatnonzero(ahead >= 0)
    while len(rows):
        there = ahead[rows]
        total[rows] += total[there]
        ahead[rows] = there = ahead[there]
        rows = rows[there >= 0]
    return total


def table_of(strings: Iterable[bytes]) -> StringTable:
    """A table of some strings, over one buffer."""
    copies = list(strings)
    length = np.array([len(data) for data in copies], np.int64)
    return table_over(memoryview(b"".join(copies)), length, borrowed=False)


def table_over(buffer: memoryview, length: Ints, *, borrowed: bool) -> StringTable:
    """A table of strings that are concatenated in a buffer.

    Args:
        borrowed: whether the buffer is part of a mapped file.
    """
    return StringTable(
        [buffer], [borrowed], np.zeros(len(length), np.int64), np.cumsum(length) - length, length
    )


def table_with(strings: StringTable, more: Sequence[bytes]) -> StringTable:
    """A table with further strings after its own, in a separate buffer."""
    added = table_of(more)
    return StringTable(
        [*strings.buffers, *added.buffers],
        [*strings.borrowed, *added.borrowed],
        np.append(strings.buffer, added.buffer + len(strings.buffers)),
        np.append(strings.start, added.start),
        np.append(strings.length, added.length),
    )


def column_bytes(table: object) -> int:
    """Bytes of memory of a table's columns, and of those of the tables in it."""
    if isinstance(table, np.ndarray):
        return table.nbytes
    if not is_dataclass(table):
        return 0
    return sum(column_bytes(getattr(table, field.name)) for field in fields(table))
