"""Columns of integers: equal rows numbered by first appearance, and sequences one behind the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

KEY_LIMIT = 1 << 62


def keyed(*columns: Ints) -> Ints:
    """One integer per row, equal where the rows are (n)."""
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
    """Distinct rows numbered by first appearance: the number of each row (n), and where each first stands."""
    _, first, inverse = np.unique(keyed(*columns), return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return rank[inverse], first[order]


def ordinals(*columns: Ints) -> Ints:
    """For each row, how many equal ones stand before it (n)."""
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
    """Where each of some sequences begins, one behind the other, and where the last one ends (n + 1)."""
    first = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(counts, out=first[1:])
    return first


def spread(first: Ints, counts: Ints) -> Ints:
    """The positions of sequences: ``counts[i]`` of them from ``first[i]`` on, for each i."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    positions: Ints = np.arange(total) + np.repeat(first - (ends - counts), counts)
    return positions
