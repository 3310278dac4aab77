"""Source ranges as PyTorch lays them out: texts whole or in lines, string tables in its order.

PyTorch's string table begins with "". Then follow, source by source in the order of the rows, the lines of
the text ("" behind a last line that has a line feed) and the filename. Each string is there once, where it is
first needed. A record writes each of its sources once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts, largest_window, numbered, windows
from archive.debuginfo.model import Layout
from archive.normalform.columns import RANGE_LAYOUTS, VALUE_BYTES
from archive.normalform.record_texts import Pieces, RecordTexts, nothing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.base.strings import StringTable
    from archive.normalform.columns import Columns

ROW_BYTES, SOURCE_BYTES, NODE_BYTES, STRING_BYTES, PIECE_BYTES = 48, 128, 40, 40, 64
"""Bytes of memory that a row, a source, a line of the tree, a string and a piece of a text cost meanwhile; of
pieces, those that are looked at at once."""
NEVER, FIRST = 1 << 62, -1
"""The turn of a string that a record does not need, and that of the first one, which is ""."""
STRING_TABLE = RANGE_LAYOUTS.index(Layout.STRING_TABLE)
KEPT_ROW_BYTES, KEPT_SOURCE_BYTES = 4, 32
"""Bytes of memory that a row and a source cost from then on."""


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
        name: the place of the filename in ``table``; where there is no string table, string or -1 (s).
        in_lines: whether the record of a text has a string table (t).
        table_first: where each record's string table begins in ``table`` (r + 1).
        table: the string tables' strings, in their order.
    """

    row_first: Ints
    own: np.ndarray
    own_first: Ints
    source: Ints
    text: np.ndarray
    pieces: Pieces
    name: Ints
    in_lines: np.ndarray
    table_first: Ints
    table: Ints


def laid_out(columns: Columns, strings: StringTable, allowance: Allowance) -> LaidOut:
    """The sources of all records of some columns, ready to be written.

    Args:
        columns: by name.
        strings: what columns of names refer to; "" among them.
        allowance: the memory that this may cost.

    Raises:
        LimitError: the columns ask for more memory than allowed.
    """
    span = columns["row.range"]
    allowance.take(KEPT_ROW_BYTES * len(span), "source ranges")
    with allowance.lent(ROW_BYTES * len(span), "source ranges"):
        row_first = firsts(columns["record.rows"])
        record = np.repeat(np.arange(len(row_first) - 1), columns["record.rows"])
        number, own_at = numbered(record, columns["range.source"][span])
        own, record, source = number.astype(np.int32), record[own_at], columns["range.source"][span[own_at]]
    allowance.take(KEPT_SOURCE_BYTES * len(source), "sources")
    with allowance.lent(SOURCE_BYTES * len(source) + NODE_BYTES * len(columns["node.line"]), "sources"):
        in_lines = (columns["record.layout"] == STRING_TABLE)[record]
        texts = RecordTexts(columns, record, source, in_lines)
        pieces = texts.pieces(strings, allowance)
        own_first = np.searchsorted(record, np.arange(len(row_first)))
        meanwhile = STRING_BYTES * len(pieces.strings) + PIECE_BYTES * largest_window(pieces.first)
        with allowance.lent(meanwhile, "lines", place="source.text"):
            name, table_first, table = _string_tables(columns, own_first, source, texts, pieces)
        allowance.take(VALUE_BYTES * len(table), "strings", place="source.text")
    text = texts.of.astype(np.int32)
    return LaidOut(row_first, own, own_first, source, text, pieces, name, texts.in_lines, table_first, table)


def _string_tables(
    columns: Columns, own_first: Ints, source: Ints, texts: RecordTexts, pieces: Pieces
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

    A string has a *turn* at which it is needed first. Turns are ascending: of each source come the pieces of
    its text, if it is the first with that text, and then its filename. No two are the same.

    Args:
        texts: of all records.
        pieces: of these; they become places in the tables.
    """

    def __init__(self, texts: RecordTexts, pieces: Pieces) -> None:
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
        """The pieces of some texts, and the turns at which they are needed, a window at a time."""
        first = self._first[some.start : some.stop + 1]
        for low, high in windows(first - first[0]):
            at = slice(int(first[low]), int(first[high]))
            source = self._texts.at[some.start + low : some.start + high]
            yield at, np.arange(at.start, at.stop) + np.repeat(source, np.diff(first[low : high + 1]))
