"""The facts of a whole archive as columns.

The rows of all records of a kind stand one after the other in the same arrays; ``first`` cuts them by record.
Columns are ``int64``; strings are indices into a :class:`~archive.base.strings.StringTable`, -1: None. A fact
(:mod:`archive.debuginfo.model`) is made when its row is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar, overload

import numpy as np

from archive.base.errors import counted
from archive.base.strings import StringView, Text
from archive.debuginfo.model import (
    Handle,
    HandleEntry,
    InlinedCall,
    Layout,
    ModuleInstance,
    RangeRow,
    Source,
    SourceRange,
    Tag,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.base.strings import StringTable

    Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, eq=False)
class SourceTable:
    """s sources. Several rows refer to one source, and two equal sources stay two.

    Attributes:
        strings: the texts' pieces and the filenames.
        first: the first piece of each source (s + 1).
        piece: strings; a text is its pieces one behind the other. Texts of inline layouts have one piece.
        filename: string, or -1 (s).
        line: starting line (s).
        is_null: whether it is the null source (s).
    """

    strings: StringTable
    first: Ints
    piece: Ints
    filename: Ints
    line: Ints
    is_null: np.ndarray

    def __len__(self) -> int:
        return len(self.line)

    def __getitem__(self, index: int) -> Source:
        pieces = self.piece[int(self.first[index]) : int(self.first[index + 1])].tolist()
        filename = int(self.filename[index])
        return Source(
            Text(self.strings, pieces),
            None if filename < 0 else StringView(self.strings, filename),
            int(self.line[index]),
            bool(self.is_null[index]),
        )

    @cached_property
    def lengths(self) -> Ints:
        """Bytes of each source's text (s)."""
        ends = np.concatenate(([0], np.cumsum(self.strings.length[self.piece])))
        return ends[self.first[1:]] - ends[self.first[:-1]]


@dataclass(frozen=True, eq=False)
class RangeTable:
    """The source ranges of r records, n rows in all.

    Attributes:
        names: the records (r).
        layouts: the layout of each record (r).
        first: the first row of each record (r + 1).
        offset: byte offset in the generated code; -1 in the delegated record (n).
        source: index of the source (n).
        start: first byte in the source's text (n).
        end: the byte behind the last one (n).
        tag: the range's number, or -1 (n).
        sources: the sources of all records.
        table_first: for records with a string table, where it begins in ``table`` (r + 1).
        table: the string tables' strings, in their order.
    """

    names: tuple[str, ...]
    layouts: tuple[Layout, ...]
    first: Ints
    offset: Ints
    source: Ints
    start: Ints
    end: Ints
    tag: Ints
    sources: SourceTable
    table_first: Ints
    table: Ints

    def __len__(self) -> int:
        return len(self.offset)

    @cached_property
    def numbers(self) -> Mapping[str, int]:
        """The number of each record."""
        return {name: number for number, name in enumerate(self.names)}

    def row(self, index: int) -> RangeRow:
        """One row, by its number in the whole archive."""
        return RangeRow(int(self.offset[index]), self.source_range(index), Tag(int(self.tag[index])))

    def source_range(self, index: int) -> SourceRange:
        """One row's range."""
        source = self.sources[int(self.source[index])]
        return SourceRange(source, int(self.start[index]), int(self.end[index]))

    def rows(self, record: int) -> range:
        """The numbers of a record's rows."""
        return range(int(self.first[record]), int(self.first[record + 1]))

    def locate(self, record: int, position: int) -> int | None:
        """The row of a position in generated code: the last one whose offset is not behind it.

        None before the first row, and for lowered modules: their rows have offset -1.
        """
        rows = self.rows(record)
        found = rows.start + int(np.searchsorted(self.offset[rows.start : rows.stop], position, "right")) - 1
        return found if found >= rows.start and self.offset[found] >= 0 else None

    @cached_property
    def _tags(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.tag, kind="stable")
        return self.tag[order], order

    def with_tag(self, tag: int) -> int | None:
        """The first row that has a tag."""
        tags, order = self._tags
        at = int(np.searchsorted(tags, tag))
        return int(order[at]) if at < len(tags) and tags[at] == tag and tag >= 0 else None


@dataclass(frozen=True, eq=False)
class HandleTable:
    """A call-stack debug map: h handles, f frames, m modules; rows in the file's order.

    Attributes:
        strings: names.
        handle: debug handle (h).
        tag: tag of the operation's own range (h).
        op: operator's name, or -1 (h).
        stack: first frame of the call stack, or -1 (h).
        next: the frame one call deeper, or -1 (f).
        module: the frame's module, or -1 (f).
        call_tag: tag of the call's range in the caller, or -1 (f).
        function: name of the called function, or -1 (f).
        module_type: qualified class name (m).
        module_instance: attribute that holds the module (m).
    """

    strings: StringTable
    handle: Ints
    tag: Ints
    op: Ints
    stack: Ints
    next: Ints
    module: Ints
    call_tag: Ints
    function: Ints
    module_type: Ints
    module_instance: Ints

    def __len__(self) -> int:
        return len(self.handle)

    def _string(self, index: int) -> StringView | None:
        return None if index < 0 else StringView(self.strings, index)

    def frames(self, row: int) -> list[int]:
        """The frames of a row's call stack, outermost first."""
        frames: list[int] = []
        frame = int(self.stack[row])
        while frame >= 0:
            frames.append(frame)
            frame = int(self.next[frame])
        return frames

    def call(self, frame: int) -> InlinedCall:
        """One frame."""
        module, instance = int(self.module[frame]), None
        if module >= 0:
            type_name, attribute = int(self.module_type[module]), int(self.module_instance[module])
            instance = ModuleInstance(
                StringView(self.strings, type_name), StringView(self.strings, attribute)
            )
        return InlinedCall(instance, Tag(int(self.call_tag[frame])), self._string(int(self.function[frame])))

    def entry(self, row: int) -> HandleEntry:
        """One row."""
        return HandleEntry(
            Handle(int(self.handle[row])),
            Tag(int(self.tag[row])),
            self._string(int(self.op[row])),
            tuple(self.call(frame) for frame in self.frames(row)),
        )

    @cached_property
    def rows(self) -> Mapping[int, int]:
        """The row of each handle; the last one of equal handles, which PyTorch refuses."""
        return {handle: row for row, handle in enumerate(self.handle.tolist())}


@dataclass(frozen=True, eq=False)
class MethodTable:
    """A debug handle, or module path, for each instruction of each method: g methods, i instructions.

    Attributes:
        strings: names, and module paths.
        version: the bytecode's version in the record.
        name: the method's qualified name (g).
        first: its first instruction (g + 1).
        value: a debug handle, or the string that is a module path (i).
    """

    strings: StringTable
    version: int
    name: Ints
    first: Ints
    value: Ints

    def __len__(self) -> int:
        return len(self.name)

    @cached_property
    def names(self) -> Sequence[str]:
        """The methods' qualified names."""
        return self._texts(self.name.tolist())

    def values(self, method: int) -> list[int]:
        """The list of one method: handles, or indices of strings."""
        values: list[int] = self.value[int(self.first[method]) : int(self.first[method + 1])].tolist()
        return values

    def texts(self, method: int) -> list[str]:
        """The list of one method: module paths."""
        return self._texts(self.values(method))

    def _texts(self, indices: list[int]) -> list[str]:
        distinct = {index: str(self.strings[index]) for index in set(indices)}
        return [distinct[index] for index in indices]


class RangeRows(Sequence[RangeRow]):
    """The rows of one record as facts, each made when it is asked for."""

    def __init__(self, table: RangeTable, record: int) -> None:
        self.table = table
        self.record = record
        self._rows = table.rows(record)

    def __repr__(self) -> str:
        return f"<RangeRows of {self.table.names[self.record]!r}, {counted(len(self), 'row')}>"

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> RangeRow: ...
    @overload
    def __getitem__(self, index: slice) -> list[RangeRow]: ...
    def __getitem__(self, index: int | slice) -> RangeRow | list[RangeRow]:
        if isinstance(index, slice):
            return [self.table.row(row) for row in self._rows[index]]
        return self.table.row(self._rows[index])


class FactMapping(Mapping[K, V]):
    """Facts by key, each made from its row in a table when it is asked for."""

    def __init__(self, rows: Mapping[K, int], fact: Callable[[int], V]) -> None:
        self._rows = rows
        self._fact = fact

    def __repr__(self) -> str:
        return f"<FactMapping of {counted(len(self), 'fact')}>"

    def __getitem__(self, key: K) -> V:
        return self._fact(self._rows[key])

    def __iter__(self) -> Iterator[K]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)
