"""The debug tables of an archive with its handles in another form."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from archive.debuginfo.symbolicate import InTables
from archive.debuginfo.unique_handles import HandleForm, unique

if TYPE_CHECKING:
    from collections.abc import Collection

    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.debuginfo.model import SourceRange
    from archive.debuginfo.symbolicate import Known
    from archive.debuginfo.tables import RangeSummary, RangeTable
    from archive.reader.records import DebugTables


class UniqueTables:
    """The debug tables of an archive, with unique handles.

    Args:
        tables: the archive's own, whose handles have at most eight digits.
        prefix: of the unique handles.
    """

    def __init__(self, tables: DebugTables, prefix: int) -> None:
        self._tables = tables
        self.handle_form = HandleForm(prefix, tabled=True)

    @property
    def range_table(self) -> RangeTable:
        """The source ranges of all records."""
        return self._tables.range_table

    @property
    def range_summary(self) -> RangeSummary:
        """How much these records hold."""
        return self._tables.range_summary

    @property
    def range_names(self) -> Collection[str]:
        """The records of source ranges."""
        return self._tables.range_names

    def locate(self, name: str, position: int) -> SourceRange | None:
        """The source of a position in the code of a record of source ranges; None where none is known."""
        return self._tables.locate(name, position)

    @cached_property
    def handle_table(self) -> HandleTable | None:
        """The call-stack debug map; None where there is none."""
        table = self._tables.handle_table
        return None if table is None else replace(table, handle=unique(table.handle, self.handle_form.prefix))

    @cached_property
    def method_table(self) -> MethodTable | None:
        """The handles of each method's instructions; None where there are none."""
        table = self._tables.method_table
        return None if table is None else replace(table, value=unique(table.value, self.handle_form.prefix))

    @property
    def path_table(self) -> MethodTable | None:
        """The module paths of PyTorch 1.7 and 1.8; None where there are none."""
        return self._tables.path_table

    @cached_property
    def known(self) -> Known:
        """Where single handles and tags are looked up."""
        return InTables(self.handle_table, self.range_table, self.handle_form)
