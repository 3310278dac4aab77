"""The *lines* at the begin of the solid section: how many rows each column has, and how it is encoded.

The same fields of all columns stand together, so that they are much alike in all companions. Columns are in
the order of their numbers, and ``start`` is left out where the transform has none::

    varint  number of each column, less that of the one before; 0 behind the last one
    u8      coding of each column
    varint  count of each column
    signed  start of each column that is not FLAT

A ``coding`` is ``transform * 32 + zigzag * 16 + width``. A ``count`` is 0 where the column has as many rows
as the one before, else the number of rows + 1. For varints and signed ones see
:mod:`archive.companion.varints`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError
from archive.companion.encodings import Encoded, Transform
from archive.companion.varints import Varints, build_signed, build_varint
from archive.normalform.columns import BY_NAME, BY_NUMBER, COLUMNS, SOLID, VALUE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.normalform.column_names import ColumnName

TRANSFORM, ZIGZAG, WIDTH = 32, 16, 0xF


class Line(NamedTuple):
    """What is said of a column.

    Attributes:
        name: of the column.
        rows: number of values.
        encoded: how they are encoded; when lines are parsed, without the bytes.
    """

    name: ColumnName
    rows: int
    encoded: Encoded

    @property
    def coding(self) -> int:
        """Transform, sign and width as the file has them."""
        return self.encoded.transform * TRANSFORM + self.encoded.zigzag * ZIGZAG + self.encoded.width


def build_lines(lines: Sequence[Line]) -> bytes:
    """The lines of some columns, in the order of their numbers."""
    rows = [line.rows for line in lines]
    counts = [0 if now == before else now + 1 for before, now in zip([-1, *rows], rows, strict=False)]
    numbers = [BY_NAME[line.name].number for line in lines]
    steps = [now - before for before, now in zip([0, *numbers], numbers, strict=False)]
    starts = [line.encoded.start for line in lines if line.encoded.transform is not Transform.FLAT]
    codings = bytes(line.coding for line in lines)
    return b"".join(
        (*map(build_varint, [*steps, 0]), codings, *map(build_varint, counts), *map(build_signed, starts))
    )


def parse_lines(body: memoryview) -> tuple[list[Line], int]:
    """The lines of a solid section, and where they end.

    Raises:
        ArchiveError: they are cut short, or say what no column can have.
    """
    read = Varints(body)
    try:
        numbers = [0]
        while (step := read.number()) and len(numbers) <= len(COLUMNS):
            numbers.append(numbers[-1] + step)
        codings = [read.byte() for _ in numbers[1:]]
        counts = [read.number() for _ in codings]
        flat = [coding // TRANSFORM == Transform.FLAT for coding in codings]
        starts = [0 if one else read.signed() for one in flat]
    except ArchiveError as cause:
        raise ArchiveError(place=f"section {SOLID}", expected="lines of columns", found="others") from cause
    lines: list[Line] = []
    rows = 0
    for number, coding, count, start in zip(numbers[1:], codings, counts, starts, strict=True):
        rows = count - 1 if count else rows
        lines.append(_line(number, coding, rows, start))
    return lines, read.at


def _line(number: int, coding: int, rows: int, start: int) -> Line:
    transform, width = coding // TRANSFORM, coding & WIDTH
    if number not in BY_NUMBER or transform > max(Transform) or width > VALUE_BYTES:
        found = f"number {number}, coding {transform}, {width}"
        raise ArchiveError(place=f"section {SOLID}", expected="known columns, each once", found=found)
    name = BY_NUMBER[number].name
    if not -(1 << 63) <= start < 1 << 63:
        raise ArchiveError(place=name, expected="a start of 64 bits", found=str(start))
    return Line(name, rows, Encoded(Transform(transform), bool(coding & ZIGZAG), width, start, b""))
