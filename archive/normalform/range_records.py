"""Source ranges of a normal form as records, each to the byte, or as the table that parsing them gives.

They are laid out as in PyTorch: texts as a whole or in lines, string tables in its order.

PyTorch's string table begins with "". Then follow, for each source in the order of the rows, the lines of the
text ("" after a last line that has a line feed) and the filename. Each string occurs once, where it is first
needed. A record writes each of its sources once.

Texts are in lines in records with a string table, otherwise each is one piece. Sources with the same text
share it: a traced model has a source for each operation, whose texts are a few call stacks. Each record with
a string table has its own texts; all others share theirs.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from archive.base import memory
from archive.base.columns import (
    firsts,
    largest_window,
    numbered,
    sizes_of,
    spread,
    sums_along,
    table_with,
    windows,
)
from archive.base.errors import ArchiveError
from archive.base.quick_dataclass import dataclass
from archive.debuginfo.model import RangeLayout
from archive.debuginfo.tables import RangeSummary, RangeTable, SourceTable
from archive.formats.schema.pickled import Gathered, Indexed, Ragged, Repeated
from archive.formats.source_ranges import record_of
from archive.normalform.columns import RANGE_LAYOUTS, VALUE_WIDTH
from archive.normalform.pool import record_names
from archive.normalform.texts import line_bounds, roots, unpack_texts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.columns import Ints
    from archive.base.strings import StringTable
    from archive.normalform.columns import Columns


# --- record texts

LINE_BYTES = 64
"""Bytes of memory that a line of a text takes while the text is laid out, among those laid out at once."""
TEXT_COPIES = 2
"""Copies of a text in memory while it is joined from its lines."""
LINES = 1 << 12
"""Lines that are copied at once."""


@dataclass(frozen=True, eq=False)
class LaidOutTexts:
    """The pieces of t texts.

    Attributes:
        strings: the form's strings, followed by the texts that are one piece.
        first: the first piece of each text (t + 1).
        piece: strings; a text in lines ends with "" after a last line that has a line feed.
    """

    strings: StringTable
    first: Ints
    piece: Ints


class RecordTexts:
    """The t texts of s sources, each source's in the layout of its record.

    Args:
        record: of each source (s).
        source: the form's source that each one is (s).
        in_lines: whether its record has a string table (s).

    Attributes:
        of: the text of each source (s).
        at: the first source of each text (t).
        in_lines: whether the text belongs to a record with a string table (t).
    """

    def __init__(self, columns: Columns, record: Ints, source: Ints, in_lines: np.ndarray) -> None:
        node = np.append(columns["text.node"], -1)[columns["source.text"][source]]
        null = in_lines & (columns["source.null"][source] > 0)
        self.of, self.at = numbered(np.where(in_lines, record, -1), node, null.astype(np.int64))
        self.in_lines = in_lines[self.at]
        self._node, self._null = node[self.at], null[self.at]
        self._line, self._parent = columns["node.line"], columns["node.parent"]

    @cached_property
    def _first(self) -> Ints:
        """Where each text's lines begin in their concatenation (t + 1)."""
        return line_bounds(self._node, self._parent)

    def pieces(self, strings: StringTable) -> LaidOutTexts:
        """The pieces of all texts."""
        whole = np.append(sums_along(self._parent, strings.length[self._line]), 0)
        size = int(whole[self._node[~self.in_lines]].sum())
        memory.take(size, "texts", place="source.text")
        extra = self.in_lines & ~self._null & ~self._open_ended(strings)
        first = firsts(np.where(self.in_lines, np.diff(self._first) + extra, 1))
        memory.take(VALUE_WIDTH * int(first[-1]), "lines", place="source.text")
        copies = (TEXT_COPIES - 1) * size
        with memory.lent(LINE_BYTES * largest_window(self._first) + copies, "lines", place="source.text"):
            return self._pieces(strings, first)

    def _pieces(self, strings: StringTable, first: Ints) -> LaidOutTexts:
        """The pieces, whose places are known; a window of texts is joined at once."""
        piece = np.full(int(first[-1]), nothing(strings), np.int64)
        alone = np.flatnonzero(~self.in_lines)
        piece[first[alone]] = len(strings) + np.arange(len(alone))
        texts: list[bytes] = []
        for low, high in windows(self._first):
            begin = self._first[low : high + 1] - self._first[low]
            lines = unpack_texts(begin, self._node[low:high], self._parent, self._line)
            chosen, counts = np.flatnonzero(self.in_lines[low:high]), np.diff(begin)
            piece[spread(first[low:high][chosen], counts[chosen])] = lines[
                spread(begin[chosen], counts[chosen])
            ]
            others = np.flatnonzero(~self.in_lines[low:high])
            bounds = zip(begin[others].tolist(), begin[others + 1].tolist(), strict=True)
            for start, end in bounds:
                parts = [strings.copies(lines[at : min(at + LINES, end)]) for at in range(start, end, LINES)]
                texts.append(b"".join([line for part in parts for line in part]))
        return LaidOutTexts(table_with(strings, texts), first, piece)

    def _open_ended(self, strings: StringTable) -> np.ndarray:
        """Whether each text has a last line without line feed (t)."""
        there = self._node >= 0
        last, number = np.unique(self._line[roots(self._parent)[self._node[there]]], return_inverse=True)
        ended = np.array([bytes(strings.data(line)[-1:]) == b"\n" for line in last.tolist()], np.bool_)
        open_ended = np.zeros(len(there), np.bool_)
        open_ended[there] = ~ended[number]
        return open_ended


def nothing(strings: StringTable) -> int:
    """The number of the string ""."""
    empty = np.flatnonzero(strings.length == 0)
    if not len(empty):
        raise ArchiveError(place="strings", expected='one that is ""', found="none")
    return int(empty[0])


# --- relayout

ROW_BYTES, SOURCE_BYTES, NODE_BYTES, STRING_BYTES, PIECE_BYTES = 48, 128, 40, 40, 64
"""Bytes of memory that a row, a source, a line of the tree, a string and a piece of a text take meanwhile;
only pieces that are processed at once count."""
NEVER, FIRST = 1 << 62, -1
"""The turn of a string that a record does not need, and of the first one, which is ""."""
STRING_TABLE = RANGE_LAYOUTS.index(RangeLayout.STRING_TABLE)
KEPT_ROW_BYTES, KEPT_SOURCE_BYTES = 4, 32
"""Bytes of memory that a row and a source take from then on."""


@dataclass(frozen=True, eq=False)
class LaidOut:
    """The s sources of r records with n rows, each record's in the order of its rows, and their t texts.

    Attributes:
        row_first: the first row of each record (r + 1).
        own: the source of each row, int32 (n).
        own_first: the first source of each record (r + 1).
        source: the form's source that each one is (s).
        text: the text of each source, int32 (s).
        pieces: the texts' pieces; those of texts in lines are places in ``table``.
        name: the place of the filename in ``table``; without a string table, string or -1 (s).
        in_lines: whether the record of a text has a string table (t).
        table_first: where each record's string table begins in ``table`` (r + 1).
        table: the string tables' strings, in their order.
    """

    row_first: Ints
    own: np.ndarray
    own_first: Ints
    source: Ints
    text: np.ndarray
    pieces: LaidOutTexts
    name: Ints
    in_lines: np.ndarray
    table_first: Ints
    table: Ints


def laid_out(columns: Columns, strings: StringTable) -> LaidOut:
    """The sources of all records of some columns, ready to be written.

    Args:
        strings: what columns of names refer to; "" among them.
    """
    span = columns["row.range"]
    memory.take(KEPT_ROW_BYTES * len(span), "source ranges")
    with memory.lent(ROW_BYTES * len(span), "source ranges"):
        row_first = firsts(columns["record.rows"])
        record = np.repeat(np.arange(len(row_first) - 1), columns["record.rows"])
        number, own_at = numbered(record, columns["range.source"][span])
        own, record, source = number.astype(np.int32), record[own_at], columns["range.source"][span[own_at]]
    memory.take(KEPT_SOURCE_BYTES * len(source), "sources")
    with memory.lent(SOURCE_BYTES * len(source) + NODE_BYTES * len(columns["node.line"]), "sources"):
        in_lines = (columns["record.layout"] == STRING_TABLE)[record]
        texts = RecordTexts(columns, record, source, in_lines)
        pieces = texts.pieces(strings)
        own_first = np.searchsorted(record, np.arange(len(row_first)))
        meanwhile = STRING_BYTES * len(pieces.strings) + PIECE_BYTES * largest_window(pieces.first)
        with memory.lent(meanwhile, "lines", place="source.text"):
            name, table_first, table = _string_tables(columns, own_first, source, texts, pieces)
        memory.take(VALUE_WIDTH * len(table), "strings", place="source.text")
    text = texts.of.astype(np.int32)
    return LaidOut(row_first, own, own_first, source, text, pieces, name, texts.in_lines, table_first, table)


def _string_tables(
    columns: Columns, own_first: Ints, source: Ints, texts: RecordTexts, pieces: LaidOutTexts
) -> tuple[Ints, Ints, Ints]:
    """Filenames as places in string tables; where each record's table begins; the tables.

    The pieces of texts in lines become places, too.
    """
    name = columns["source.filename"][source]
    made = _StringTables(texts, pieces)
    own_text = np.searchsorted(texts.at, own_first)
    tables, table_first = [np.zeros(0, np.int64)], np.zeros(len(own_first), np.int64)
    for record, layout in enumerate(columns["record.layout"].tolist()):
        table_first[record + 1] = table_first[record]
        if layout == STRING_TABLE:
            own = np.arange(own_first[record], own_first[record + 1])
            some = range(int(own_text[record]), int(own_text[record + 1]))
            name[own], table = made.of(own, some, name[own], int(table_first[record]))
            table_first[record + 1] += len(table)
            tables.append(table)
    return name, table_first, np.concatenate(tables)


class _StringTables:
    """Makes the string tables of records, one after another.

    Strings are numbered by first use: each has a *turn*. For each source in order come the pieces of its text
    (unless an earlier source had that text), then its filename. No two turns are the same.

    Args:
        texts: of all records.
        pieces: of these; they become places in the tables.
    """

    def __init__(self, texts: RecordTexts, pieces: LaidOutTexts) -> None:
        self._texts, self._first, self._piece = texts, pieces.first, pieces.piece
        self._empty = nothing(pieces.strings)
        self._turn = np.full(len(pieces.strings), NEVER)
        self._place = np.zeros(len(pieces.strings), np.int64)

    def of(self, own: Ints, some: range, names: Ints, begin: int) -> tuple[Ints, Ints]:
        """The filenames of a record as places, and its table.

        Args:
            own: its sources.
            some: its texts.
            names: its sources' filenames; -1 for none.
            begin: the place of its first string.
        """
        turn, names = self._turn, np.where(names < 0, self._empty, names)
        turns = self._first[np.searchsorted(self._texts.at, own, "right")] + own
        np.minimum.at(turn, names, turns)
        for at, when in self._windows(some):
            np.minimum.at(turn, self._piece[at], when)
        turn[self._empty] = FIRST
        found = [np.array([self._empty]), names[turn[names] == turns]]
        found += [self._piece[at][turn[self._piece[at]] == when] for at, when in self._windows(some)]
        table = np.concatenate(found)
        table = table[np.argsort(turn[table])]
        turn[table] = NEVER
        self._place[table] = begin + np.arange(len(table))
        for at, _ in self._windows(some):
            self._piece[at] = self._place[self._piece[at]]
        return self._place[names], table

    def _windows(self, some: range) -> Iterator[tuple[slice, Ints]]:
        """The pieces of some texts, and their turns, a window at a time."""
        first = self._first[some.start : some.stop + 1]
        for low, high in windows(first - first[0]):
            at = slice(int(first[low]), int(first[high]))
            source = self._texts.at[some.start + low : some.start + high]
            yield at, np.arange(at.start, at.stop) + np.repeat(source, np.diff(first[low : high + 1]))


# --- records

SHORTEST_INTEGER = 2
"""Bytes of the shortest integer in a record."""


@dataclass(frozen=True, eq=False)
class RangeRecords:
    """The records of source ranges that some columns represent.

    Attributes:
        strings: what columns of names refer to.
    """

    columns: Columns
    strings: StringTable

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The records."""
        return record_names(self.strings, self.columns["record.name"].tolist())

    @cached_property
    def layouts(self) -> tuple[RangeLayout, ...]:
        """The layout of each record."""
        return tuple(RANGE_LAYOUTS[layout] for layout in self.columns["record.layout"].tolist())

    @cached_property
    def laid_out(self) -> LaidOut:
        """The sources of all records."""
        return laid_out(self.columns, self.strings)

    @property
    def summary(self) -> RangeSummary:
        """How much the records hold."""
        return RangeSummary(self.names, self.layouts, self.columns["record.rows"], len(self.laid_out.source))

    def build(self, record: int) -> bytes:
        """One record as PyTorch writes it."""
        columns, laid, layout = self.columns, self.laid_out, self.layouts[record]
        rows = slice(int(laid.row_first[record]), int(laid.row_first[record + 1]))
        own = slice(int(laid.own_first[record]), int(laid.own_first[record + 1]))
        span = columns["row.range"][rows]
        source = Indexed(laid.own[rows] - own.start, self._sources(record, own))
        fields = {
            "offset": columns["row.offset"][rows],
            "range": {
                "source": source,
                "start": Gathered(columns["range.start"], span),
                "end": Gathered(columns["range.end"], span),
            },
            "tag": Gathered(columns["range.tag"], span),
        }
        with memory.part():
            memory.take(VALUE_WIDTH * (len(span) + 4 * (own.stop - own.start)), "source ranges")
            # The least that the texts of the sources take in a record with a string table.
            pieces = sizes_of(laid.pieces.first, laid.text[own])
            with memory.lent(SHORTEST_INTEGER * int(pieces.sum()), "texts of a record"):
                pass
            table = None
            if layout is RangeLayout.STRING_TABLE:
                table = laid.table[int(laid.table_first[record]) : int(laid.table_first[record + 1])]
            return record_of(fields, table, laid.pieces.strings, layout)

    def _sources(self, record: int, own: slice) -> dict[str, Any]:
        """The columns of a record's sources."""
        laid, text = self.laid_out, self.laid_out.text[own]
        first, piece, base = laid.pieces.first, laid.pieces.piece, int(laid.table_first[record])
        line = self.columns["source.line"][laid.source[own]]
        if self.layouts[record] is not RangeLayout.STRING_TABLE:
            return {"text": piece[first[text]], "filename": laid.name[own], "starting_line": line}
        low, high = (int(text.min()), int(text.max()) + 1) if len(text) else (0, 0)  # the record's own texts
        lines = Ragged(first[low : high + 1] - first[low], piece[first[low] : first[high]] - base)
        return {
            "text": Repeated(text - low, lines),
            "filename": laid.name[own] - base,
            "starting_line": line,
        }

    @cached_property
    def table(self) -> RangeTable:
        """The rows of all records."""
        columns, laid = self.columns, self.laid_out
        span, source = columns["row.range"], laid.source
        counts = np.diff(laid.pieces.first)[laid.text]
        values = 4 * len(span) + 4 * len(source) + int(counts.sum())
        memory.take(VALUE_WIDTH * values, "source ranges")
        piece, name = laid.pieces.piece.copy(), laid.name.copy()
        in_lines = np.repeat(laid.in_lines, np.diff(laid.pieces.first))
        piece[in_lines] = laid.table[piece[in_lines]]
        named = laid.in_lines[laid.text]
        name[named] = laid.table[name[named]]
        sources = SourceTable(
            laid.pieces.strings,
            firsts(counts),
            _repeated(piece, laid.pieces.first[laid.text], counts),
            name,
            columns["source.line"][source],
            columns["source.null"][source] > 0,
        )
        return RangeTable(
            self.names,
            self.layouts,
            laid.row_first,
            columns["row.offset"],
            laid.own.astype(np.int64),
            columns["range.start"][span],
            columns["range.end"][span],
            columns["range.tag"][span],
            sources,
            laid.table_first,
            laid.table,
        )


def _repeated(values: Ints, first: Ints, counts: Ints) -> Ints:
    """Concatenated runs of values, in windows: ``counts[i]`` of them from ``first[i]`` on."""
    begin = firsts(counts)
    runs = np.empty(int(begin[-1]), np.int64)
    for low, high in windows(begin):
        runs[begin[low] : begin[high]] = values[spread(first[low:high], counts[low:high])]
    return runs
