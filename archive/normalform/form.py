"""The debug information of a whole archive as one value."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.quick_dataclass import dataclass
from archive.normalform.handles import unpack_handles, unpack_methods, unpack_paths
from archive.normalform.range_records import RangeRecords

if TYPE_CHECKING:
    from archive.base.strings import StringTable
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.debuginfo.tables import RangeTable
    from archive.normalform.columns import Columns
    from archive.normalform.metadata import Metadata


@dataclass(frozen=True, eq=False)
class NormalForm:
    """The debug information of an archive as columns, each fact only once, whatever layouts its records have.

    It holds the same as the archive's tables, which are made from it on demand;
    :class:`~archive.normalform.records.DebugRecords` are its records, to the byte. A
    :class:`~archive.normalform.builder.FormBuilder` makes a form from tables.

    Attributes:
        strings: what columns of names refer to.
    """

    columns: Columns
    strings: StringTable

    @cached_property
    def range_records(self) -> RangeRecords:
        """The records of source ranges, each built when it is asked for."""
        return RangeRecords(self.columns, self.strings)

    @property
    def range_table(self) -> RangeTable:
        """The source ranges, laid out as in the records."""
        return self.range_records.table

    @cached_property
    def handle_table(self) -> HandleTable | None:
        """The call-stack map; None where there is none."""
        if "handle.handle" not in self.columns:
            return None
        memory.take(20 * memory.NUMBER * len(self.columns["handle.handle"]), "debug handles")
        return unpack_handles(self.columns, self.strings)

    @cached_property
    def method_table(self) -> MethodTable | None:
        """The handles of each method's instructions; None where there are none."""
        return unpack_methods(self.columns, self.strings) if "method.name" in self.columns else None

    @cached_property
    def path_table(self) -> MethodTable | None:
        """The module paths of each method's operators; None where there are none."""
        return unpack_paths(self.columns, self.strings) if "pathed.name" in self.columns else None

    @cached_property
    def metadata(self) -> Metadata:
        """The metadata of its exported programs."""
        from archive.normalform.metadata import Metadata  # noqa: PLC0415 (few archives have programs)

        return Metadata(self.columns, self.strings)

    def with_columns(self, columns: Columns) -> NormalForm:
        """Another form with the same strings."""
        return replace(self, columns=columns)
