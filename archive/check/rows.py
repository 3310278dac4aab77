"""Checks of source ranges column by column: a truth value a row → diagnostics by record and row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.check.diagnostic import Diagnostics, Severity
    from archive.debuginfo.tables import RangeTable


class RangeChecks:
    """Checks the rows of all source ranges, column by column.

    Attributes:
        table: the ranges (n rows).
        report: takes the diagnostics.
        record: row → number of its record (n).
    """

    __slots__ = ("record", "report", "table")

    def __init__(self, table: RangeTable, report: Diagnostics) -> None:
        self.table = table
        self.report = report
        self.record = np.repeat(np.arange(len(table.names)), np.diff(table.first))

    def of_records(self, values: Sequence[int] | Sequence[bool]) -> np.ndarray:
        """A value a record → the same a row (n)."""
        return np.asarray(values)[self.record]

    def place(self, row: int) -> str:
        """A row's place: its number in its record."""
        return f"row {row - int(self.table.first[self.record[row]])}"

    def add(
        self, severity: Severity, wrong: np.ndarray, what: str, field: str, describe: Callable[[int], str]
    ) -> None:
        """Report the rows for which ``wrong`` is true.

        Args:
            severity: the severity of each.
            wrong: one truth value a row (n).
            what: the name of the kind, in the plural.
            field: the field that is wrong.
            describe: row → message.
        """
        found = np.flatnonzero(wrong)
        cuts = np.flatnonzero(np.diff(self.record[found])) + 1
        for part in np.split(found, cuts) if len(found) else []:
            name = self.table.names[int(self.record[part[0]])]
            self.report.add_each(
                severity, name, what, part, lambda row: (f"{self.place(row)}, field {field}", describe(row))
            )
