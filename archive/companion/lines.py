"""The *lines* at the begin of the solid section: how many rows each column has, and how it is encoded.

In version 1 they are::

    u8           number of columns
    COLUMN_LINE  for each column

A line's ``count`` is 0 where the column has as many rows as the one before, else the number of rows + 1.

In version 2 the same fields stand together, so that they are much alike in all companions. Columns are in the
order of their numbers, and ``start`` is left out where the transform has none::

    VarInt  number of each column, less that of the one before; 0 behind the last one
    u8      coding of each column
    VarInt  count of each column
    ZigZag  start of each column that is not FLAT
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, NamedTuple

import construct

from archive.base.errors import ArchiveError
from archive.companion.encodings import Encoded, Transform
from archive.normalform.columns import BY_NAME, BY_NUMBER, COLUMNS, SOLID, VALUE_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.normalform.column_names import ColumnName

COLUMN_LINE_BYTES = 24
"""Most bytes of a column's line."""

CODING = construct.BitStruct(
    "transform" / construct.BitsInteger(3), "zigzag" / construct.Flag, "width" / construct.BitsInteger(4)
)
COLUMN_LINE = construct.Struct(
    "number" / construct.Int8ul,
    "coding" / CODING,
    "count" / construct.VarInt,
    "start" / construct.ZigZag,
)


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
    def coding(self) -> dict[str, int]:
        """Transform, sign and width as the file has them."""
        one = self.encoded
        return {"transform": one.transform, "zigzag": one.zigzag, "width": one.width}

    @property
    def start(self) -> int:
        """The value that the transform starts from."""
        return 0 if self.encoded.transform is Transform.FLAT else self.encoded.start


def build_lines(lines: Sequence[Line], version: int) -> bytes:
    """The lines of some columns, as a version of the format has them.

    Args:
        lines: in the order of their bytes; in version 2, that of their numbers.
        version: of the companion.
    """
    rows = [line.rows for line in lines]
    counts = [0 if now == before else now + 1 for before, now in zip([-1, *rows], rows, strict=False)]
    numbers = [BY_NAME[line.name].number for line in lines]
    if version == 1:
        parts = [
            COLUMN_LINE.build({"number": number, "coding": line.coding, "count": count, "start": line.start})
            for number, count, line in zip(numbers, counts, lines, strict=True)
        ]
        return bytes([len(lines)]) + b"".join(parts)
    steps = [now - before for before, now in zip([0, *numbers], numbers, strict=False)]
    starts = [line.start for line in lines if line.encoded.transform is not Transform.FLAT]
    return b"".join(
        (
            *map(construct.VarInt.build, [*steps, 0]),
            *(CODING.build(line.coding) for line in lines),
            *map(construct.VarInt.build, counts),
            *map(construct.ZigZag.build, starts),
        )
    )


def parse_lines(body: memoryview, version: int) -> tuple[list[Line], int]:
    """The lines of a solid section, and where they end.

    Raises:
        ArchiveError: they are cut short, or say what no column can have.
    """
    count = body[0] if version == 1 and len(body) else len(COLUMNS)
    stream = io.BytesIO(body[: 1 + count * COLUMN_LINE_BYTES])
    try:
        parsed = _lines_1(stream) if version == 1 else _lines_2(stream)
    except construct.ConstructError as cause:
        raise ArchiveError(place=f"section {SOLID}", expected="lines of columns", found="others") from cause
    lines: list[Line] = []
    rows = 0
    for number, coding, count, start in parsed:
        rows = count - 1 if count else rows
        lines.append(_line(number, coding, rows, start))
    return lines, stream.tell()


def _line(number: int, coding: construct.Container, rows: int, start: int) -> Line:
    if number not in BY_NUMBER or coding.transform > max(Transform) or coding.width > VALUE_BYTES:
        found = f"number {number}, coding {coding.transform}, {coding.width}"
        raise ArchiveError(place=f"section {SOLID}", expected="known columns, each once", found=found)
    name = BY_NUMBER[number].name
    if not -(1 << 63) <= start < 1 << 63:
        raise ArchiveError(place=name, expected="a start of 64 bits", found=str(start))
    return Line(name, rows, Encoded(Transform(coding.transform), coding.zigzag, coding.width, start, b""))


Parsed = list[tuple[int, construct.Container, int, int]]
"""Number, coding, count and start of each column."""


def _lines_1(stream: io.BytesIO) -> Parsed:
    parsed = [COLUMN_LINE.parse_stream(stream) for _ in range(construct.Int8ul.parse_stream(stream))]
    return [(line.number, line.coding, line.count, line.start) for line in parsed]


def _lines_2(stream: io.BytesIO) -> Parsed:
    numbers = [0]
    while step := construct.VarInt.parse_stream(stream):
        numbers.append(numbers[-1] + step)
    codings = [CODING.parse_stream(stream) for _ in numbers[1:]]
    counts = [construct.VarInt.parse_stream(stream) for _ in codings]
    starts = [
        0 if coding.transform == Transform.FLAT else construct.ZigZag.parse_stream(stream)
        for coding in codings
    ]
    return list(zip(numbers[1:], codings, counts, starts, strict=True))
