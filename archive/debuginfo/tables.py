"""The facts as columns, for a whole archive.

Rows of all records of a kind stand one after the other in the same arrays; ``first`` cuts them by
record. Columns of ``int64``; strings are indices into a :class:`~archive.base.strings.StringTable`, -1 for
None. A fact (:mod:`archive.debuginfo.model`) is made when a row is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

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
    from collections.abc import Mapping, Sequence

    from archive.base.strings import StringTable

    Ints = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class SourceTable:
    """s sources; a source is what several rows refer to, so identity is kept.

    Attributes:
        strings: the texts' pieces and the filenames.
        first: the first piece of each source (s + 1).
        piece: strings; a text is its pieces one behind the other. One piece where texts are inline.
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
        layouts: the layout each was written in (r).
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

        Rows of lowered modules have offset -1: they are no place in any code.
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
        module = int(self.module[frame])
        instance = None
        if module >= 0:
            instance = ModuleInstance(
                StringView(self.strings, int(self.module_type[module])),
                StringView(self.strings, int(self.module_instance[module])),
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
        """The row of each handle; of equal handles, which PyTorch refuses, the last."""
        return {handle: row for row, handle in enumerate(self.handle.tolist())}


@dataclass(frozen=True, eq=False)
class MethodTable:
    """What a record says of each instruction of each method: g methods, i instructions.

    Attributes:
        strings: names, and module paths.
        version: the bytecode version that the record names.
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
        distinct = {index: str(self.strings[index]) for index in set(self.name.tolist())}
        return [distinct[index] for index in self.name.tolist()]

    def values(self, method: int) -> list[int]:
        """What stands in one method's list."""
        values: list[int] = self.value[int(self.first[method]) : int(self.first[method + 1])].tolist()
        return values

    def texts(self, method: int) -> list[str]:
        """What stands in one method's list of module paths."""
        values = self.values(method)
        distinct = {index: str(self.strings[index]) for index in set(values)}
        return [distinct[index] for index in values]
