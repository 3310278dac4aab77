"""One record of source ranges as columns of its own; equal sources are one source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts, numbered, spread
from archive.rewrite.compact.strings import own_strings
from archive.rewrite.compact.texts import PIECE_BYTES, Pieces

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.debuginfo.tables import RangeTable


ROW_BYTES = 150
"""Bytes of memory that a row and its source cost while they are written in several ways."""


@dataclass(frozen=True, slots=True, eq=False)
class RangeRecord:
    """One record: n rows, and their s distinct sources, numbered by first appearance.

    Attributes:
        offset: byte offset in the generated code; -1 in the delegated record (n).
        start: first byte in the source's text (n).
        end: the byte behind the last one (n).
        tag: the range's number, or -1 (n).
        source: number of the source (n).
        texts: of the sources (s). An empty text has one empty piece; the null source's has none.
        filename: one of ``names``, or -1 (s).
        line: starting line (s).
        names: distinct filenames.
    """

    offset: Ints
    start: Ints
    end: Ints
    tag: Ints
    source: Ints
    texts: Pieces
    filename: Ints
    line: Ints
    names: list[bytes]

    def __len__(self) -> int:
        return len(self.offset)


def record_of(table: RangeTable, number: int, allowance: Allowance) -> RangeRecord:
    """Take one record out of a table.

    Raises:
        LimitError: its rows or strings would cost more memory than the allowance has.
    """
    allowance.take(ROW_BYTES * len(table.rows(number)), "rows that are written in fewer bytes")
    part = slice(int(table.first[number]), int(table.first[number + 1]))
    source, first = numbered(table.source[part])
    objects, sources = table.source[part][first], table.sources
    texts = _texts(table, objects, allowance)
    names, filename = own_strings(sources.strings, sources.filename[objects], allowance)
    line = sources.line[objects]
    facts = zip(texts.runs(), filename.tolist(), line.tolist(), strict=True)
    known: dict[tuple[bytes, int, int], int] = {}
    merged = np.array([known.setdefault(one, len(known)) for one in facts], np.int64)
    kept = numbered(merged)[1]
    return RangeRecord(
        table.offset[part],
        table.start[part],
        table.end[part],
        table.tag[part],
        merged[source],
        texts.some(kept),
        filename[kept],
        line[kept],
        names,
    )


def _texts(table: RangeTable, objects: Ints, allowance: Allowance) -> Pieces:
    """The texts of some sources, without empty pieces, unless the whole text is empty."""
    sources = table.sources
    counts = np.diff(sources.first)[objects]
    allowance.take(PIECE_BYTES * int(counts.sum()), "pieces of texts")
    index = sources.piece[spread(sources.first[objects], counts)]
    strings, piece = own_strings(sources.strings, index, allowance)
    is_empty = (sources.lengths[objects] == 0) & ~sources.is_null[objects]
    kept = np.repeat(is_empty, counts) | (sources.strings.length[index] > 0)
    return Pieces(strings, firsts(kept.astype(np.int64))[firsts(counts)], piece[kept])
