"""Looks up the source of single places in generated code, without making the records of source ranges.

Rows of a record are in the order of their places, so bisection finds the last one that does not begin behind
a place; see :meth:`~archive.debuginfo.tables.RangeTable.locate`.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import pairwise, starmap
from typing import TYPE_CHECKING, TypeVar

from archive.base.columns import firsts
from archive.normalform.names import record_names

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from archive.base.limits import Allowance
    from archive.companion.lookup import CompanionLookup
    from archive.debuginfo.model import SourceRange

K = TypeVar("K", int, tuple[int, int])


class CodePlaces:
    """The places of a companion's source ranges in generated code.

    Args:
        lookup: of the companion; its columns are not modelled.
        allowance: the memory that the file may cost.
    """

    def __init__(self, lookup: CompanionLookup, allowance: Allowance) -> None:
        self._lookup = lookup
        self._allowance = allowance

    @cached_property
    def records(self) -> Mapping[str, range]:
        """The rows of each record of source ranges, by its name.

        Raises:
            ArchiveError: the file was changed there, or contradicts itself.
            LimitError: there are too many.
        """
        numbers, rows = self._lookup.all("record.name").tolist(), self._lookup.all("record.rows")
        names = record_names(self._lookup.strings, numbers, self._allowance)
        return dict(zip(names, starmap(range, pairwise(firsts(rows).tolist())), strict=True))

    def of_byte(self, name: str, position: int) -> SourceRange | None:
        """The source of a byte of the generated code that a record is for; None where none is known."""
        return self._of(name, position, lambda row: self._lookup.at("row.offset", row))

    def of_line(self, name: str, line: int, column: int) -> SourceRange | None:
        """The source of a place in the generated code that a record is for; None where none is known.

        Args:
            name: of the record of source ranges; None is known if there is no such record.
            line: from 1.
            column: in bytes, from 0.
        """
        at = self._lookup.at
        return self._of(name, (line - 1, column), lambda row: (at("row.line", row), at("row.column", row)))

    def _of(self, name: str, place: K, place_of: Callable[[int], K]) -> SourceRange | None:
        """The source of the last row that does not begin behind a place."""
        rows = self.records.get(name, range(0))
        row = rows.start + bisect_right(rows, place, key=place_of) - 1
        unknown = row < rows.start or self._lookup.at("row.offset", row) < 0
        return None if unknown else self._lookup.range_at(self._lookup.at("row.range", row))
