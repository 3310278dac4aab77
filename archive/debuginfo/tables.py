"""Sources and source ranges of a whole archive as columns, and their facts.

The rows of all records of a kind are concatenated in the same arrays; ``first`` cuts them by record. Columns
are ``int64``; strings are indices into a :class:`~archive.base.strings.StringTable`, -1: None. A fact
(:mod:`archive.debuginfo.model`) is made when its row is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, overload

import numpy as np

from archive.base.bounded import bounded_members
from archive.base.columns import firsts, spread, windows
from archive.base.errors import counted
from archive.base.quick_dataclass import dataclass
from archive.base.strings import MANY, StringView, Text
from archive.debuginfo.model import (
    RangeLayout,
    RangeRow,
    Source,
    SourceRange,
    Tag,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.base.columns import Ints
    from archive.base.strings import StringTable

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, eq=False)
class SourceTable:
    """s sources. Several rows refer to one source, and two equal sources stay two.

    Attributes:
        strings: the texts' pieces and the filenames.
        first: the first piece of each source (s + 1).
        piece: strings; a text is its concatenated pieces. Texts of inline layouts have one piece.
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
        pieces = self.piece[int(self.first[index]) : int(self.first[index + 1])]
        filename = int(self.filename[index])
        return Source(
            Text(self.strings, pieces.tolist() if len(pieces) <= MANY else pieces),
            None if filename < 0 else StringView(self.strings, filename),
            int(self.line[index]),
            bool(self.is_null[index]),
        )

    @cached_property
    def lengths(self) -> Ints:
        """Bytes of each source's text (s)."""
        lengths = np.empty(len(self), np.int64)
        for low, high in windows(self.first):
            first = self.first[low : high + 1]
            ends = firsts(self.strings.length[self.piece[int(first[0]) : int(first[-1])]])
            lengths[low:high] = np.diff(ends[first - first[0]])
        return lengths


@dataclass(frozen=True, eq=False)
class RangeSummary:
    """How much the records of source ranges hold.

    Attributes:
        names: the records (r).
        layouts: the layout of each record (r).
        rows: how many rows each has (r).
        sources: how many sources all records have together; each counts those that it shares with others.
    """

    names: tuple[str, ...]
    layouts: tuple[RangeLayout, ...]
    rows: Ints
    sources: int


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
        end: the byte after the last one (n).
        tag: the range's number, or -1 (n).
        sources: the sources of all records.
        table_first: for records with a string table, where it begins in ``table`` (r + 1).
        table: the string tables' strings, in their order.
    """

    names: tuple[str, ...]
    layouts: tuple[RangeLayout, ...]
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

    @property
    def summary(self) -> RangeSummary:
        """How much the records hold."""
        return RangeSummary(self.names, self.layouts, np.diff(self.first), len(self.sources))

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

    def locate(self, name: str, position: int) -> SourceRange | None:
        """The source of a position in a record's generated code: that of the last row not after it.

        None before the first row, and for lowered modules: their rows have offset -1.
        """
        record = self.numbers[name]
        rows = self.rows(record)
        row = rows.start + int(np.searchsorted(self.offset[rows.start : rows.stop], position, "right")) - 1
        return self.source_range(row) if row >= rows.start and self.offset[row] >= 0 else None

    @cached_property
    def _tags(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.tag, kind="stable")
        return self.tag[order], order

    def with_tag(self, tag: int) -> int | None:
        """The first row that has a tag."""
        tags, order = self._tags
        at = int(np.searchsorted(tags, tag))
        return int(order[at]) if at < len(tags) and tags[at] == tag and tag >= 0 else None

    def rows_with(self, wanted: Ints) -> Ints:
        """The first row that has each of some tags; -1 if none has it (n)."""
        tags, order = self._tags
        if not len(tags):
            return np.full(len(wanted), -1, np.int64)
        at = np.minimum(np.searchsorted(tags, wanted), len(tags) - 1)
        return np.where((tags[at] == wanted) & (wanted >= 0), order[at], -1)


def concatenated(parts: list[RangeTable]) -> RangeTable:
    """Tables of records that share their strings, as one."""

    def bounds(tables: list[Any], field: str) -> Ints:
        return firsts(np.concatenate([np.diff(getattr(table, field)) for table in tables]))

    def column(tables: list[Any], field: str) -> Ints:
        return np.concatenate([getattr(table, field) for table in tables])

    sources = [part.sources for part in parts]
    before = np.cumsum([0] + [len(table) for table in sources])
    return RangeTable(
        tuple(name for part in parts for name in part.names),
        tuple(layout for part in parts for layout in part.layouts),
        bounds(parts, "first"),
        column(parts, "offset"),
        np.concatenate([part.source + start for part, start in zip(parts, before, strict=False)]),
        column(parts, "start"),
        column(parts, "end"),
        column(parts, "tag"),
        SourceTable(
            sources[0].strings,
            bounds(sources, "first"),
            *(column(sources, field) for field in ("piece", "filename", "line", "is_null")),
        ),
        bounds(parts, "table_first"),
        column(parts, "table"),
    )


def in_order(table: RangeTable, order: dict[str, int]) -> RangeTable:
    """The same records in another order; sources stay where they are."""
    records = np.argsort([order[name] for name in table.names])
    counts, sizes = np.diff(table.first)[records], np.diff(table.table_first)[records]
    rows = spread(table.first[records], counts)
    return replace(
        table,
        names=tuple(table.names[record] for record in records.tolist()),
        layouts=tuple(table.layouts[record] for record in records.tolist()),
        first=firsts(counts),
        table_first=firsts(sizes),
        table=table.table[spread(table.table_first[records], sizes)],
        **{name: getattr(table, name)[rows] for name in ("offset", "source", "start", "end", "tag")},
    )


@bounded_members
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


@bounded_members
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
