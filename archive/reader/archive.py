"""An archive, opened: its records, and the facts in its debug records, each read when first asked for."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.output import save
from archive.debuginfo.model import Generation, Global, HandleEntry, Inert, LoweredState, SourceRange
from archive.debuginfo.symbolicate import InTables, Known, Style, Symbolication, symbolicate
from archive.debuginfo.views import FactMapping, RangeRows
from archive.formats import callstack_map, method_handles
from archive.formats.bytecode import BYTECODE, Bytecode, parse_bytecode
from archive.formats.effects import NAME as EFFECTS
from archive.formats.inert_values import DATA, class_names, inert_value
from archive.formats.lowered import find_lowered
from archive.formats.record_kinds import holds_ranges, range_records_of
from archive.formats.source_ranges import parse_source_ranges
from archive.pickles.scan import Pickle
from archive.pickles.tree import Tree, read_trees
from archive.reader.recognition import recognise_zip

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from types import TracebackType
    from typing import Self

    from archive.base.output import Target
    from archive.container.container import Container, Record
    from archive.debuginfo.tables import HandleTable, MethodTable, RangeTable
    from archive.formats.effects.model import EffectTable
    from archive.reader.recognition import Recognised

V = TypeVar("V")


class Archive:
    """A PyTorch model archive. Use it in a ``with`` statement, or call :meth:`close`.

    Every property and method raises :class:`~archive.ArchiveError`, naming file, record and place,
    where the record it needs is broken.
    """

    def __init__(self, container: Container, limits: Limits = DEFAULT_LIMITS) -> None:
        self.container = container
        self.limits = limits

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; views in use stay valid."""
        self.container.close()

    @property
    def file(self) -> str:
        """The file's name, for messages."""
        return self.container.file

    @property
    def root(self) -> str:
        """The folder that all records are in."""
        return self.container.root

    @property
    def records(self) -> Mapping[str, Record]:
        """The records by name, without root, in the file's order."""
        return self.container.records

    @cached_property
    def recognised(self) -> Recognised:
        """Which kind of archive it is, in a sentence."""
        return recognise_zip(self.container, self.limits)

    # Columns

    def tree(self, names: Sequence[str]) -> Tree:
        """The values of some pickle records, as columns, all in one tree.

        Raises:
            ArchiveError: one of them is no pickle that PyTorch could have written.
        """
        records = [self.records[name] for name in names]
        pickles = [Pickle(record.name, record.view()) for record in records]
        try:
            return read_trees(pickles, [record.borrowed for record in records], self.limits)
        except ArchiveError as error:
            raise error.within(file=self.file) from error.__cause__

    @cached_property
    def range_records(self) -> tuple[str, ...]:
        """The records that hold source ranges."""
        return tuple(name for name in self.records if holds_ranges(name))

    @cached_property
    def range_table(self) -> RangeTable:
        """The source ranges of all records, as columns."""
        return self._located(lambda: parse_source_ranges(self.tree(self.range_records), self.limits))

    @cached_property
    def handle_table(self) -> HandleTable | None:
        """The call-stack debug map, as columns; None where there is none."""
        if callstack_map.CALLSTACK_MAP not in self.records:
            return None
        return self._located(
            lambda: callstack_map.parse_callstack_map(
                self.tree([callstack_map.CALLSTACK_MAP]), 0, self.limits
            )
        )

    def _method_table(self, name: str, generation: Generation) -> MethodTable | None:
        if name not in self.records:
            return None
        return self._located(
            lambda: method_handles.parse_methods(self.tree([name]), 0, generation, self.limits)
        )

    @cached_property
    def method_table(self) -> MethodTable | None:
        """The handles of each method's instructions, as columns; None where there are none."""
        return self._method_table(method_handles.METHOD_HANDLES, Generation.METHOD_HANDLES)

    @cached_property
    def path_table(self) -> MethodTable | None:
        """The module paths of 1.7 and 1.8, as columns; None where there are none."""
        return self._method_table(method_handles.MODULE_PATHS, Generation.MODULE_PATHS)

    def _located(self, read: Callable[[], V]) -> V:
        try:
            return read()
        except ArchiveError as error:
            raise error.within(file=self.file) from error.__cause__

    # Facts

    def ranges(self, name: str) -> RangeRows:
        """The source ranges of a code record, or of a debug record by its own name.

        Raises:
            ArchiveError: there is no such record.
        """
        return RangeRows(self.range_table, self._range_number(name))

    def locate(self, name: str, position: int) -> SourceRange | None:
        """The original source of a byte position in a generated code record; None where none is known.

        Raises:
            ArchiveError: there is no such record.
        """
        table = self.range_table
        row = table.locate(self._range_number(name), position)
        return None if row is None else table.source_range(row)

    def _range_number(self, name: str) -> int:
        table = self.range_table
        for debug in (name, *range_records_of(name)):
            if debug in table.numbers:
                return table.numbers[debug]
        known = ", ".join(table.names[:3]) or "none"
        more = ", …" if len(table.names) > 3 else ""  # noqa: PLR2004 (examples)
        raise ArchiveError(f"no source ranges for {name!r}; those there are: {known}{more}", file=self.file)

    @cached_property
    def handles(self) -> Mapping[int, HandleEntry]:
        """What each debug handle stands for; empty where there is no call-stack map."""
        table = self.handle_table
        if table is None:
            return {}
        return FactMapping(table.rows, table.entry)

    @cached_property
    def methods(self) -> Mapping[str, Sequence[int]]:
        """For each method, one debug handle per instruction; empty where none are recorded."""
        table = self.method_table
        if table is None:
            return {}
        return FactMapping({name: i for i, name in enumerate(table.names)}, table.values)

    @cached_property
    def module_paths(self) -> Mapping[str, Sequence[str]]:
        """For each method of a 1.7 or 1.8 archive, one module path per operator instruction."""
        table = self.path_table
        if table is None:
            return {}
        return FactMapping({name: i for i, name in enumerate(table.names)}, table.texts)

    def value(self, name: str) -> object:
        """A pickle record as inert values: see ``formats.values``.

        Raises:
            ArchiveError: there is no such record.
        """
        if name not in self.records:
            raise ArchiveError("no such record", file=self.file, record=name)
        tree = self.tree([name])
        return self._located(lambda: inert_value(tree, int(tree.roots[0]), self.limits))

    @cached_property
    def data(self) -> object:
        """``data.pkl``, the module tree, as inert values; None where there is none (PyTorch 1.0 to 1.2)."""
        return self.value(DATA) if DATA in self.records else None

    @cached_property
    def bytecode(self) -> Bytecode | None:
        """What ``bytecode.pkl`` says of its methods; None where there is none."""
        if BYTECODE not in self.records:
            return None
        return self._located(lambda: parse_bytecode(self.tree([BYTECODE]), 0))

    @cached_property
    def effects(self) -> EffectTable | None:
        """What its methods change besides giving results; None where the archive keeps no such table."""
        if EFFECTS not in self.records:
            return None
        from archive.formats.effects.record import parse_effects  # noqa: PLC0415 (few archives have some)

        return self._located(lambda: parse_effects(self.tree([EFFECTS]), 0, self.limits))

    @cached_property
    def lowered(self) -> Mapping[str, LoweredState]:
        """The modules that were lowered to a backend, by attribute path."""
        return self._located(lambda: find_lowered(self.data, self.limits))

    @cached_property
    def top(self) -> str:
        """Class name of the top module, as PyTorch's texts have it; "" where it isn't recorded."""
        return "" if self._top is None else self._top.name

    @cached_property
    def qualified_top(self) -> str:
        """The same with its module: ``__torch__.models.Stack``."""
        return "" if self._top is None else str(self._top)

    @property
    def _top(self) -> Global | None:
        return self.data.what if isinstance(self.data, Inert) and isinstance(self.data.what, Global) else None

    @cached_property
    def classes(self) -> Collection[str]:
        """The qualified names of all classes in the module tree."""
        return class_names(self.data)

    @cached_property
    def generations(self) -> Mapping[str, str]:
        """The layout of each debug record, and of the lowered modules' states in ``data.pkl``."""
        table = self.range_table
        layouts: dict[str, str] = dict(zip(table.names, map(str, table.layouts), strict=True))
        handles = self.handle_table
        if handles is not None:
            layouts[callstack_map.CALLSTACK_MAP] = callstack_map.generation(handles)
        if self.method_table is not None:
            layouts[method_handles.METHOD_HANDLES] = Generation.METHOD_HANDLES
        if self.path_table is not None:
            layouts[method_handles.MODULE_PATHS] = Generation.MODULE_PATHS
        found = sorted({state.generation for state in self.lowered.values()})
        if found:
            layouts[DATA] = ", ".join(found)
        return {name: layouts[name] for name in self.records if name in layouts}

    @cached_property
    def _known(self) -> Known:
        """Where handles and tags are looked up."""
        return InTables(self.handle_table, self.range_table)

    # Verbs

    def symbolicate(
        self, handles: int | Sequence[int], style: Style = Style.CURRENT, *, top: str | None = None
    ) -> Symbolication:
        """Model source behind debug handles.

        Args:
            handles: one handle, or those of one failure: inner ones first, the outermost last.
            style: whose words to use.
            top: class of the module in which the outermost call stack starts; that of the top module, if
                not given.

        Raises:
            ArchiveError: no handles are given, or a record that is needed is broken.
            LimitError: a call stack is made up to repeat long texts.
        """
        if not isinstance(handles, int) and not handles:
            raise ArchiveError("no handles to symbolicate", file=self.file)
        return self._located(
            lambda: symbolicate(
                [handles] if isinstance(handles, int) else list(handles),
                known=self._known,
                top=self.top if top is None else top,
                style=style,
                limits=self.limits,
                classes=self.classes if style is Style.V1_9 else None,
            )
        )

    def save(self, path: Target, *, force: bool = False) -> None:
        """Write the archive; unchanged content gives identical bytes.

        Args:
            path: the target; written beside it and moved there when complete.
            force: replace an existing file.

        Raises:
            ArchiveError: the target exists and ``force`` is not given.
        """
        save(self.container.data, path, force=force)
