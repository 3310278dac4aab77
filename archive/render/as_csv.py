"""Rows as CSV: what ``--format csv`` prints, whose first line names the columns.

Texts are on one line: what would end it is escaped. No foreign text becomes a formula of a spreadsheet: one
that begins like a formula, or with an apostrophe, gets an apostrophe before it.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.render.rows import FactsTable

LIKE_A_FORMULA = ("=", "+", "-", "@", "'")
"""What a text begins with that spreadsheets compute (and what marks those that they are not to)."""


class CsvRows:
    """The rows of a command as CSV."""

    tail = ""

    def __init__(self, table: FactsTable) -> None:
        self._table = table
        self.head = _line(table.columns)

    def lines(self, file: str, facts: object) -> Iterator[str]:
        """The lines of a file."""
        return map(_line, self._table.rows(file, facts))

    def unread(self, file: str, why: str) -> str:  # noqa: ARG002 (standard error says so)
        """Nothing: a file that could not be read has no rows."""
        return ""


def _line(cells: Sequence[str | int | float]) -> str:
    import csv  # noqa: PLC0415 (the columns are declared for every command, and few print them)

    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([_cell(cell) for cell in cells])
    return out.getvalue()


def _cell(cell: str | float) -> str | float:
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(LIKE_A_FORMULA) else cell
