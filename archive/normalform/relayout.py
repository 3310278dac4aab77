"""Source ranges as PyTorch lays them out: texts whole or in lines, string tables in its order.

PyTorch's string table begins with "". Then follow, source by source in the order of the rows, the lines of
the text ("" behind a last line that has a line feed) and the filename. Each string is there once, where it is
first needed. A record writes each of its sources once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts, numbered, spread
from archive.debuginfo.model import Layout
from archive.normalform.columns import RANGE_LAYOUTS, VALUE_BYTES
from archive.normalform.record_texts import Pieces, RecordTexts, nothing

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.base.strings import StringTable
    from archive.normalform.columns import Columns

ROW_BYTES, SOURCE_BYTES, NODE_BYTES, PIECE_BYTES = 48, 128, 40, 96
"""Bytes of memory that a row, a source, a line of the tree and a piece of a text cost meanwhile."""
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
        in_lines = (columns["record.layout"] == RANGE_LAYOUTS.index(Layout.STRING_TABLE))[record]
        texts = RecordTexts(columns, record, source, in_lines)
        pieces = texts.pieces(strings, allowance)
        allowance.take(VALUE_BYTES * 2 * len(pieces.piece), "lines", place="source.text")
        with allowance.lent(PIECE_BYTES * len(pieces.piece), "lines", place="source.text"):
            placed, name, table_first, table = _string_tables(columns, record, source, texts, pieces)
    own_first = np.searchsorted(record, np.arange(len(row_first)))
    text = texts.of.astype(np.int32)
    return LaidOut(row_first, own, own_first, source, text, placed, name, texts.in_lines, table_first, table)


def _string_tables(
    columns: Columns, record: Ints, source: Ints, texts: RecordTexts, pieces: Pieces
) -> tuple[Pieces, Ints, Ints, Ints]:
    """Pieces and filenames as places in string tables; where each record's table begins; the tables.

    A string's turn is twice the source that needs it first, and one more for a filename.
    """
    empty = nothing(pieces.strings)
    begun = np.flatnonzero(columns["record.layout"] == RANGE_LAYOUTS.index(Layout.STRING_TABLE))
    lined = np.flatnonzero(texts.in_lines)
    at, counts = texts.at[lined], np.diff(pieces.first)[lined]
    part = spread(pieces.first[lined], counts)
    name = columns["source.filename"][source]
    named = np.flatnonzero(texts.in_lines[texts.of])
    names = np.where(name[named] < 0, empty, name[named])
    number, first = numbered(record[named], names)
    use = np.concatenate((begun, np.repeat(record[at], counts), record[named][first]))
    string = np.concatenate((np.full(len(begun), empty), pieces.piece[part], names[first]))
    turn = np.concatenate((np.full(len(begun), -1), 2 * np.repeat(at, counts), 2 * named[first] + 1))
    order = np.lexsort((turn, use))
    place = np.empty(len(order), np.int64)
    place[order], new = numbered(use[order], string[order])
    new = order[new]
    piece = pieces.piece.copy()
    piece[part] = place[len(begun) :][: len(part)]
    name[named] = place[len(begun) + len(part) :][number]
    table_first = firsts(np.bincount(use[new], minlength=len(columns["record.layout"])))
    return Pieces(pieces.strings, pieces.first, piece), name, table_first, string[new]
