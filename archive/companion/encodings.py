"""How a column of integers becomes bytes in a packed companion.

A *transform* turns values into small residuals:

- FLAT: the values; DELTA: differences to the value before; INDEX: differences to the row's number;
- PEAK: how far below 1 + the largest value so far. References that are numbered by first use become 0 for
  a new one, 1 for the newest, and so on;
- BACK: 0 for a new value, else how many rows ago it last stood. New values have to be each one more than
  the largest so far;
- SAME: nothing; all values are the first one.

Each starts from ``start``: the value before the first row. Residuals are then zigzag coded if any is
negative (0, -1, 1, -2 … become 0, 1, 2, 3 …) and laid out in byte planes: all lowest bytes, then all
second ones …, as many as the largest needs.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.errors import ArchiveError
from archive.normalform.columns import VALUE_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.columns import Ints

NARROW = 1 << 61


class Transform(IntEnum):
    """The transforms."""

    FLAT = 0
    DELTA = 1
    INDEX = 2
    PEAK = 3
    BACK = 4
    SAME = 5


class Encoded(NamedTuple):
    """A column as bytes.

    Attributes:
        transform: which one.
        zigzag: whether residuals are zigzag coded.
        width: bytes a residual.
        start: the value before the first one.
        data: the byte planes.
    """

    transform: Transform
    zigzag: bool
    width: int
    start: int
    data: bytes


def encodings(values: Ints, *, whole: bool = True) -> Iterator[Encoded]:
    """A column in every transform that can hold it, or in SAME alone.

    Args:
        values: the column (n, at least one).
        whole: whether BACK may be used, which is read from its first row on or not at all.
    """
    first = int(values[0])
    if (values == first).all():
        yield Encoded(Transform.SAME, zigzag=False, width=0, start=first, data=b"")
        return
    yield _encoded(Transform.FLAT, values, 0)
    with np.errstate(over="ignore"):
        yield _encoded(Transform.DELTA, np.diff(values, prepend=first), first)
        yield _encoded(Transform.INDEX, values - first - np.arange(len(values)), first)
        if values.min() > -NARROW and values.max() < NARROW:
            peak = np.maximum.accumulate(values)
            yield _encoded(Transform.PEAK, 1 + np.append(first - 1, peak[:-1]) - values, first)
    back = _back(values) if whole else None
    if back is not None:
        yield _encoded(Transform.BACK, back, first)


def _back(values: Ints) -> Ints | None:
    """The residuals of BACK; None where new values do not count up."""
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    again = ordered[1:] == ordered[:-1]
    back = np.zeros(len(values), np.int64)
    back[order[1:][again]] = (order[1:] - order[:-1])[again]
    new = values[back == 0]
    return back if (new == new[0] + np.arange(len(new))).all() else None


def _encoded(transform: Transform, residuals: Ints, start: int) -> Encoded:
    zigzag = bool(residuals.min() < 0)
    coded = (residuals << 1 ^ residuals >> 63 if zigzag else residuals).astype(np.uint64)
    width = max(1, -(-int(coded.max()).bit_length() // 8))
    planes = coded.astype("<u8").view(np.uint8).reshape(-1, VALUE_BYTES)[:, :width].T
    return Encoded(transform, zigzag, width, start, planes.tobytes())


def decoded(encoded: Encoded, count: int) -> Ints:
    """The values of a column (count).

    Raises:
        ArchiveError: the bytes are not those of so many values.
    """
    transform, zigzag, width, start, data = encoded
    if not (width <= VALUE_BYTES and len(data) == width * count):
        raise ArchiveError(expected=f"{count} values of {width} bytes", found=f"{len(data)} bytes")
    if start.bit_length() >= VALUE_BYTES * 8 and start != -1 << VALUE_BYTES * 8 - 1:
        raise ArchiveError(expected="a start of 64 bits", found=hex(start)[:20])
    if transform is Transform.SAME:
        return np.full(count, start, np.int64)
    words = np.zeros((count, VALUE_BYTES), np.uint8)
    words[:, :width] = np.frombuffer(data, np.uint8).reshape(width, count).T
    coded = words.view("<u8").ravel()
    residuals = (coded >> 1 ^ -(coded & 1) if zigzag else coded).astype(np.int64)
    return _values(transform, residuals, start)


def _values(transform: Transform, residuals: Ints, start: int) -> Ints:
    if transform is Transform.FLAT:
        return residuals
    if transform is Transform.DELTA:
        return start + np.cumsum(residuals)
    if transform is Transform.INDEX:
        return residuals + start + np.arange(len(residuals))
    if transform is Transform.PEAK:
        rise = np.maximum(1 - residuals, 0)
        return start + (np.cumsum(rise) - rise - residuals)
    return _from_back(residuals, start)


def _from_back(back: Ints, start: int) -> Ints:
    """The values of BACK: each row looks ever further back, twice as far a round."""
    rows = np.arange(len(back))
    if ((back < 0) | (back > rows)).any():
        raise ArchiveError(expected="references to rows before", found="others")
    at = rows - back
    while not np.array_equal(further := at[at], at):
        at = further
    values: Ints = start + (np.cumsum(back == 0)[at] - 1)
    return values
