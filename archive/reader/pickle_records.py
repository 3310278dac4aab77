"""Pickle records parsed into columns and inert values, each when it is first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from archive.base import memory
from archive.base.columns import column_bytes
from archive.base.errors import ArchiveError, in_file
from archive.debuginfo.model import Generation
from archive.debuginfo.symbolicate import HandleLookup, TableLookup
from archive.debuginfo.unique_handles import PLAIN, HandleForm, common_prefix
from archive.formats import callstack_map, method_handles
from archive.formats.bytecode import Bytecode, parse_bytecode
from archive.formats.inert_values import class_names, inert_value
from archive.formats.record_kinds import (
    BYTECODE,
    CALLSTACK_MAP,
    DATA,
    METHOD_HANDLES,
    MODULE_PATHS,
    holds_ranges,
)
from archive.formats.source_ranges import read_source_ranges
from archive.pickles.scan import Pickle
from archive.pickles.tree import Tree, read_trees
from archive.pickles.values import Global, Inert

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.debuginfo.model import SourceRange
    from archive.debuginfo.tables import RangeSummary, RangeTable
    from archive.reader.records import Records


T = TypeVar("T")

KEPT = 1 << 20
"""Bytes of memory for values that are kept: most are asked for twice, and most are small."""


@memory.kept
class PickleRecords:
    """The debug tables and the module tree of an archive, parsed from its pickle records.

    Every property and method raises :class:`~archive.ArchiveError`, naming file, record and place, where a
    record is broken.
    """

    def __init__(self, source: Records) -> None:
        self._source = source
        self.allowance = source.allowance
        self._values: dict[str, object] = {}
        self._left = KEPT

    # Any pickle

    def tree(self, names: Sequence[str]) -> Tree:
        """The values of some pickle records, as columns, all in one tree."""
        return self._tree(names)

    def _tree(self, names: Sequence[str]) -> Tree:
        """The same, charged to an allowance; the records themselves stay in memory either way."""
        pickles, borrowed = self._pickles(names)
        with in_file(self._source.file, names[0] if len(names) == 1 else None):
            return read_trees(pickles, borrowed)

    def _pickles(self, names: Sequence[str]) -> tuple[list[Pickle], list[bool]]:
        """The bytes of some records, and for each whether the mapped file has them."""
        missing = [name for name in names if name not in self._source.records]
        if missing:
            raise ArchiveError("no such record", file=self._source.file, record=missing[0])
        self._source.fetch(names)
        records = [self._source.records[name] for name in names]
        with in_file(self._source.file, names[0] if len(names) == 1 else None):
            pickles = [Pickle(record.name, record.view()) for record in records]
        return pickles, [record.borrowed for record in records]

    def value(self, name: str) -> object:
        """A pickle record as new inert values (:mod:`archive.formats.inert_values`)."""
        with memory.part():
            return self._read(name, _value)

    def shared_value(self, name: str) -> object:
        """The same, shared among readers within the library, none of which changes it."""
        if name == DATA and "data" in vars(self):  # it stays in memory
            return self.data
        if name in self._values:
            return self._values[name]
        with memory.part() as part:
            value, cost = self._read(name, _value), part.taken
        if cost <= self._left:
            memory.take(cost, "values")
            self._left -= cost
            self._values[name] = value
        return value

    def _read(self, name: str, read: Callable[[Tree], T]) -> T:
        """Read something from a record's tree; only the result stays charged to the allowance."""
        whole = memory.current()
        with in_file(self._source.file), memory.part():
            tree = self._tree([name])
            with memory.charged(whole):
                return read(tree)

    def _read_once(self, name: str, read: Callable[[Tree], T]) -> T:
        """The same for a value that stays in memory."""
        with memory.part() as part:
            value, cost = self._read(name, read), part.taken
        memory.take(cost, "values")
        return value

    # Debug tables

    def _table(self, names: Sequence[str], parse: Callable[[Tree], T]) -> T:
        """The columns of some records. They stay in memory; the tree that they are parsed from does not."""
        return self._columns(lambda: parse(self._tree(names)))

    def _columns(self, read: Callable[[], T]) -> T:
        """Columns that stay in memory; what they are read from does not."""
        with in_file(self._source.file):
            with memory.part():
                table = read()
            memory.take(column_bytes(table), "columns")
            return table

    @cached_property
    def range_records(self) -> tuple[str, ...]:
        """The records that hold source ranges."""
        return tuple(name for name in self._source.records if holds_ranges(name))

    @cached_property
    def range_table(self) -> RangeTable:
        return self._columns(lambda: read_source_ranges(*self._pickles(self.range_records)))

    @property
    def range_summary(self) -> RangeSummary:
        return self.range_table.summary

    @property
    def range_names(self) -> Collection[str]:
        return self.range_table.numbers

    def locate(self, name: str, position: int) -> SourceRange | None:
        return self.range_table.locate(name, position)

    @cached_property
    def handle_table(self) -> HandleTable | None:
        if CALLSTACK_MAP not in self._source.records:
            return None
        return self._table(
            [CALLSTACK_MAP],
            lambda tree: callstack_map.parse_callstack_map(tree, 0),
        )

    @cached_property
    def method_table(self) -> MethodTable | None:
        return self._methods(METHOD_HANDLES, Generation.METHOD_HANDLES)

    @cached_property
    def path_table(self) -> MethodTable | None:
        return self._methods(MODULE_PATHS, Generation.MODULE_PATHS)

    def _methods(self, name: str, generation: Generation) -> MethodTable | None:
        if name not in self._source.records:
            return None
        return self._table(
            [name],
            lambda tree: method_handles.parse_methods(tree, 0, generation),
        )

    @cached_property
    def handle_form(self) -> HandleForm:
        """The form of the handles in the call-stack map; where it was split off, in the instructions."""
        if self.handle_table is not None:
            return HandleForm(common_prefix(self.handle_table.handle), tabled=True)
        if self.method_table is not None:
            return HandleForm(common_prefix(self.method_table.value), tabled=True)
        return PLAIN

    @cached_property
    def known(self) -> HandleLookup:
        return TableLookup(self.handle_table, self.range_table, self.handle_form)

    # Module tree

    @cached_property
    def data(self) -> object:
        """``data.pkl``, the module tree, as inert values; None where there is none (PyTorch 1.0 to 1.2)."""
        if DATA not in self._source.records:
            return None
        return self._values[DATA] if DATA in self._values else self._read_once(DATA, _value)

    @cached_property
    def bytecode(self) -> Bytecode | None:
        """The version and the methods of ``bytecode.pkl``; None where there is none."""
        if BYTECODE not in self._source.records:
            return None
        return self._read_once(BYTECODE, lambda tree: parse_bytecode(tree, 0))

    @cached_property
    def top(self) -> str:
        return "" if self._top is None else self._top.name

    @cached_property
    def qualified_top(self) -> str:
        return "" if self._top is None else str(self._top)

    @property
    def _top(self) -> Global | None:
        return self.data.what if isinstance(self.data, Inert) and isinstance(self.data.what, Global) else None

    @cached_property
    def classes(self) -> Collection[str]:
        return class_names(self.data)


def _value(tree: Tree) -> object:
    """The value of the only pickle of a tree."""
    return inert_value(tree, int(tree.roots[0]))
