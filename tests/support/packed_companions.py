"""The body of a packed companion, written column by column: any name, any number of rows."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from archive.companion.encodings import TRANSFORM, Transform
from archive.companion.layout import build_signed, build_varint
from archive.normalform.columns import BY_NAME


class Head(NamedTuple):
    """The head of one column."""

    number: int
    coding: int
    rows: int
    start: int


def line(name: str, rows: int, start: int = 0, transform: Transform = Transform.SAME, width: int = 0) -> Head:
    """The head of a column that is not FLAT."""
    return Head(BY_NAME[name].number, transform * TRANSFORM + width, rows + 1, start)


def body(*heads: Head, rest: bytes = b"") -> bytes:
    """The heads of all columns, and what stands behind them."""
    heads = tuple(sorted(heads))
    numbers = [0, *(head.number for head in heads)]
    steps = [now - before for before, now in pairwise(numbers)]
    return b"".join(
        (
            *map(build_varint, [*steps, 0]),
            bytes(head.coding for head in heads),
            *(build_varint(head.rows) for head in heads),
            *(build_signed(head.start) for head in heads),
            rest,
        )
    )
