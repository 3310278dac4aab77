"""A normal form while it is made of tables, or changed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from archive.base.limits import Allowance, unbounded
from archive.normalform.form import NormalForm
from archive.normalform.handles import pack_handles, pack_methods, pack_paths
from archive.normalform.pool import Pool
from archive.normalform.ranges import pack_ranges

if TYPE_CHECKING:
    from typing import Self

    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.debuginfo.tables import RangeTable
    from archive.normalform.columns import Columns


ROW_BYTES, HANDLE_BYTES, FRAME_BYTES, METHOD_BYTES, VALUE_BYTES = 60, 220, 120, 180, 60
"""Bytes of memory while a row, handle, frame, method, and handle or path of one become columns."""


@dataclass(eq=False)
class FormBuilder:
    """The columns of a normal form and the pool of its strings; both may grow.

    Attributes:
        columns: by name; whoever changes a column replaces it.
        pool: the strings that columns refer to.
        allowance: the memory that the form may cost.
    """

    columns: Columns
    pool: Pool = field(default_factory=Pool)
    allowance: Allowance = field(default_factory=unbounded)

    @classmethod
    def of(
        cls,
        ranges: RangeTable,
        handles: HandleTable | None = None,
        methods: MethodTable | None = None,
        paths: MethodTable | None = None,
        *,
        allowance: Allowance | None = None,
    ) -> Self:
        """A form of an archive's tables.

        Args:
            ranges: the source ranges of all records.
            handles: the call-stack map, if there is one.
            methods: the debug handles of each method's instructions, if they are recorded.
            paths: the module paths of each method's operators, if they are recorded.
            allowance: the memory that the form may cost; without bounds if none is given.

        Raises:
            LimitError: its rows, or the lines of its texts, would cost more memory than allowed.
        """
        allowance = allowance or unbounded()
        pool = Pool(allowance)
        cost = ROW_BYTES * len(ranges)
        if handles is not None:
            cost += HANDLE_BYTES * len(handles) + FRAME_BYTES * len(handles.next)
        cost += sum(METHOD_BYTES * len(one) + VALUE_BYTES * len(one.value) for one in (methods, paths) if one)
        with allowance.lent(cost, "rows of tables"):
            columns = pack_ranges(ranges, pool, allowance)
            if handles is not None:
                columns |= pack_handles(handles, pool)
            if methods is not None:
                columns |= pack_methods(methods, pool)
            if paths is not None:
                columns |= pack_paths(paths, pool)
        allowance.take(sum(values.nbytes for values in columns.values()), "columns")
        return cls(columns, pool, allowance)

    def drop(self, *prefixes: str) -> None:
        """Drop tables (``handle.``) or single columns (``file.callstacks``)."""
        self.columns = {
            name: values for name, values in self.columns.items() if not name.startswith(prefixes)
        }

    def form(self) -> NormalForm:
        """The form as it is now."""
        return NormalForm(self.columns, self.pool.table(), self.allowance)
