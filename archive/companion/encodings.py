"""Columns of integers as bytes, in packed companions.

A *transform* turns values into residuals, which are mostly small, and compress well:

=========  ==================================================================  ======================
transform  residual                                                            of 4, 5, 4, 6, 6, 5
=========  ==================================================================  ======================
FLAT       the value                                                           4, 5, 4, 6, 6, 5
DELTA      difference to the value before                                      0, 1, -1, 2, 0, -1
INDEX      difference to ``start`` + the row's number                          0, 0, -2, -1, -2, -4
PEAK       how far the value is below 1 + the largest one before               0, 0, 2, 0, 1, 2
BACK       0 for a new value, else how many rows before it last stood          0, 0, 2, 0, 1, 4
SAME       none: all values are ``start``                                      (not all are the same)
=========  ==================================================================  ======================

``start`` is 0 for FLAT, else the first value. PEAK and BACK are for references that are numbered by first
use: the next new one has residual 0. BACK can hold no other columns: each new value must be one more than the
largest before.

Residuals are zigzag coded if any of them is negative (0, -1, 1, -2 … become 0, 1, 2, 3 …), and laid out in
byte planes, as many as the largest one needs: the lowest bytes of all rows, then the second ones …::

    0x0102, 0x0304, 0x0005   →   02 04 05  01 03 00

So the high bytes, nearly all 0, are adjacent.

**The lines** at the start of the solid section say how many rows each column has, and how it is encoded. The
same fields of all columns are adjacent, so that they are much alike in all companions: first ``step`` of each
column, then ``coding`` of each, and so on. Columns are in the order of their numbers.
"""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.errors import ArchiveError, LimitError
from archive.formats.schema.varints import VariableLayout
from archive.formats.schema.words import Int8ul, Struct, VarInt, ZigZag
from archive.normalform.columns import BY_NAME, BY_NUMBER, COLUMNS, SOLID, VALUE_WIDTH
from archive.normalform.texts import roots

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.base.columns import Ints

TRANSFORM, ZIGZAG = 32, 16
"""Factors of the transform's number and of the zigzag flag in a ``coding``."""
NARROW = 1 << 61
"""Values smaller than this keep PEAK's residuals within 64 bits."""


class Transform(IntEnum):
    """The transforms, by their numbers in files."""

    FLAT = 0
    DELTA = 1
    INDEX = 2
    PEAK = 3
    BACK = 4
    SAME = 5


TRANSFORMS = {*Transform}
"""All transforms."""
BLOCKWISE = (Transform.FLAT, Transform.DELTA, Transform.INDEX, Transform.PEAK)
"""The transforms whose blocks of values can be read separately."""
CHOICES = (*BLOCKWISE, Transform.BACK)
"""The transforms that a column of distinct values may get."""


class EncodedColumn(NamedTuple):
    """A column as bytes.

    Attributes:
        zigzag: whether residuals are zigzag coded.
        width: bytes of a residual; 0 with SAME.
        start: the value that the transform starts from.
    """

    transform: Transform
    zigzag: bool
    width: int
    start: int
    data: bytes

    @property
    def coding(self) -> int:
        """Transform, sign and width as the file has them."""
        return self.transform * TRANSFORM + self.zigzag * ZIGZAG + self.width


EMPTY = EncodedColumn(Transform.SAME, zigzag=False, width=0, start=0, data=b"")
"""A column of no rows."""


@lru_cache(maxsize=256)
def parse_coding(coding: int) -> tuple[int, bool, int]:
    """The number of the transform, whether residuals are zigzag coded, and their width."""
    transform, rest = divmod(coding, TRANSFORM)
    zigzag, width = divmod(rest, ZIGZAG)
    return transform, bool(zigzag), width


def encodings(values: Ints, *, whole: bool = True) -> Iterator[EncodedColumn]:
    """A column in every transform that can hold it; if all values are equal, only in SAME.

    Unless ``whole``, without BACK, whose values can only be read from the first row on.
    """
    if not is_varied(values):
        yield encoded_by(Transform.SAME, values)
        return
    for transform in CHOICES if whole else BLOCKWISE:
        residuals = residuals_by(transform, values)
        if residuals is not None:
            yield encoded_by(transform, values, residuals)


def is_varied(values: Ints) -> bool:
    """Whether a column has two different values."""
    return bool(len(values) and (values != values[0]).any())


def residuals_by(transform: Transform, values: Ints) -> Ints | None:
    """The residuals of a column by a transform other than SAME; None if it cannot represent the column."""
    if transform is Transform.FLAT:
        return values
    residuals = np.zeros(len(values), np.int64)
    if transform is Transform.DELTA:
        residuals[1:] = values[1:] - values[:-1]
    elif transform is Transform.INDEX:
        residuals = values - values[0] - np.arange(len(values))
    elif transform is Transform.PEAK:
        if values.min() <= -NARROW or values.max() >= NARROW:
            return None
        residuals[1:] = 1 + np.maximum.accumulate(values)[:-1] - values[1:]
    else:
        order = values.argsort(kind="stable")
        ordered = values[order]
        again = (ordered[1:] == ordered[:-1]).nonzero()[0]
        residuals[order[again + 1]] = order[again + 1] - order[again]
        new = values[residuals == 0]
        if (new != new[0] + np.arange(len(new))).any():  # a new value is not the next one
            return None
    return residuals


def encoded_by(transform: Transform, values: Ints, residuals: Ints | None = None) -> EncodedColumn:
    """A column in a transform that can hold it; its residuals are computed unless given."""
    start = int(values[0]) if len(values) and transform is not Transform.FLAT else 0
    if transform is Transform.SAME:
        return EncodedColumn(transform, zigzag=False, width=0, start=start, data=b"")
    if residuals is None:
        residuals = residuals_by(transform, values)
    assert residuals is not None, transform.name  # noqa: S101 (callers ask for what can hold the column)
    zigzag = bool(residuals.min() < 0)
    signed = residuals
    if zigzag:
        signed = residuals << 1
        signed ^= residuals >> 63
    coded = signed.view(np.uint64)
    width = max(1, -(-int(coded.max()).bit_length() // 8))
    planes = coded.astype("<u8", copy=False).view(np.uint8).reshape(-1, VALUE_WIDTH)[:, :width].T
    return EncodedColumn(transform, zigzag, width, start, planes.tobytes())


def decoded(encoded: EncodedColumn, count: int) -> Ints:
    """The values of a column (count)."""
    transform, zigzag, width, start, data = encoded
    if not (width <= VALUE_WIDTH and len(data) == width * count):
        raise ArchiveError(expected=f"{count} values of {width} bytes", found=f"{len(data)} bytes")
    if start.bit_length() >= VALUE_WIDTH * 8 and start != -1 << VALUE_WIDTH * 8 - 1:
        raise ArchiveError(expected="a start of 64 bits", found=hex(start)[:20])
    if transform is Transform.SAME:
        return np.full(count, start, np.int64)
    planes = np.frombuffer(data, np.uint8)
    if width == 1:
        coded = planes.astype(np.uint64)
    else:
        words = np.zeros((count, VALUE_WIDTH), np.uint8)
        words[:, :width] = planes.reshape(width, count).T
        coded = words.view("<u8").ravel()
    if zigzag:
        negative = np.flatnonzero(coded & 1)
        coded >>= 1
        coded[negative] = ~coded[negative]
    return _values(transform, coded.astype(np.uint64, copy=False).view(np.int64), start)


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
    """The values of BACK. Each row leads to the one where its value stood first."""
    rows = np.arange(len(back))
    if ((back < 0) | (back > rows)).any():
        raise ArchiveError(expected="references to rows before", found="others")
    values: Ints = start + (np.cumsum(back == 0)[roots(rows - back)] - 1)
    return values


# --- lines


LINE = VariableLayout(
    "line of a column"
    / Struct(
        "step" / VarInt * "the column's number, minus the previous one's; 0 follows the last one",
        "coding" / Int8ul * "transform * 32 + zigzag * 16 + width",
        "count" / VarInt * "rows + 1; 0 if the column has as many rows as the previous one",
        "start" / ZigZag * "the value that the transform starts from; left out if the transform is FLAT",
    )
)


class ColumnLine(NamedTuple):
    """A column's name and rows, and how it is encoded; when lines are parsed, without the bytes."""

    name: str
    rows: int
    encoded: EncodedColumn


def build_lines(lines: Sequence[ColumnLine]) -> bytes:
    """The lines of some columns, in the order of their numbers."""
    rows = [line.rows for line in lines]
    counts = [0 if now == before else now + 1 for before, now in zip([-1, *rows], rows, strict=False)]
    numbers = [BY_NAME[line.name].number for line in lines]
    steps = [now - before for before, now in zip([0, *numbers], numbers, strict=False)]
    starts = [line.encoded.start for line in lines if line.encoded.transform is not Transform.FLAT]
    fields = {
        "step": [*steps, 0],
        "coding": [line.encoded.coding for line in lines],
        "count": counts,
        "start": starts,
    }
    return b"".join([LINE.build_field(name, values) for name, values in fields.items()])


def parse_lines(body: memoryview) -> tuple[list[ColumnLine], int]:
    """The lines of a solid section, and where they end."""
    try:
        numbers, at = _numbers(body)
        codings, at = LINE.read_field("coding", body, at, len(numbers))
        counts, at = LINE.read_field("count", body, at, len(numbers))
        flat = [parse_coding(coding)[0] == Transform.FLAT for coding in codings]
        given, at = LINE.read_field("start", body, at, flat.count(False))
    except LimitError:
        raise
    except ArchiveError as cause:
        place = f"section {SOLID}, {cause.place}"
        raise ArchiveError(place=place, expected="lines of columns", found="others") from cause
    left = iter(given)
    starts = [0 if is_flat else next(left) for is_flat in flat]
    lines: list[ColumnLine] = []
    rows = 0
    for number, coding, count, start in zip(numbers, codings, counts, starts, strict=True):
        rows = count - 1 if count else rows
        lines.append(_line(number, coding, rows, start))
    return lines, at


def _numbers(body: memoryview) -> tuple[list[int], int]:
    """The numbers of the columns, at most one more than exist, and where they end."""
    steps, at = LINE.read_until(0, "step", body, 0, len(COLUMNS) + 1)
    return list(accumulate(steps)), at


def _line(number: int, coding: int, rows: int, start: int) -> ColumnLine:
    transform, zigzag, width = parse_coding(coding)
    if number not in BY_NUMBER or transform not in TRANSFORMS or width > VALUE_WIDTH:
        found = f"number {number}, coding {transform}, {width}"
        raise ArchiveError(place=f"section {SOLID}", expected="known columns, each once", found=found)
    name = BY_NUMBER[number].name
    if not -(1 << 63) <= start < 1 << 63:
        raise ArchiveError(place=name, expected="a start of 64 bits", found=str(start))
    return ColumnLine(name, rows, EncodedColumn(Transform(transform), zigzag, width, start, b""))
