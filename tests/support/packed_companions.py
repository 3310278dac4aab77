"""The body of a packed companion, written column by column: any name, any number of rows."""

from __future__ import annotations

from archive.companion.encodings import Transform
from archive.companion.lines import COLUMN_LINE
from archive.normalform.columns import BY_NAME


def line(
    name: str, rows: int, start: int = 0, transform: Transform = Transform.SAME, width: int = 0
) -> bytes:
    """The head of one column."""
    coding = {"transform": transform, "zigzag": False, "width": width}
    made: bytes = COLUMN_LINE.build(
        {"number": BY_NAME[name].number, "coding": coding, "count": rows + 1, "start": start}
    )
    return made


def body(*lines: bytes, rest: bytes = b"") -> bytes:
    """The heads of all columns, and what stands behind them."""
    return bytes([len(lines)]) + b"".join(lines) + rest
