"""Source ranges as PyTorch lays them out: texts whole or in lines, string tables in its order.

PyTorch's string table begins with "". Then follow, source by source in the order of the rows, the lines of
the text ("" behind a last line that has a line feed) and the filename. Each string is there once, where it is
first needed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts, numbered, spread
from archive.base.errors import ArchiveError
from archive.base.strings import StringTable
from archive.debuginfo.model import Layout
from archive.debuginfo.tables import SourceTable

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.debuginfo.tables import RangeTable


def laid_out(table: RangeTable) -> RangeTable:
    """The same rows, ready for ``build_source_ranges`` in each record's layout.

    Args:
        table: rows whose texts are in lines, the records' sources one behind the other, each record's in the
            order of its rows; a string "" among its strings.
    """
    sources = table.sources
    # Strings that a record with a string table needs: for each use the record, the string, and its turn.
    owner = np.zeros(len(sources), np.int64)
    owner[table.source] = np.repeat(np.arange(len(table.names)), np.diff(table.first))
    pieced = np.array([layout is Layout.STRING_TABLE for layout in table.layouts], np.bool_)
    in_lines = pieced[owner] if len(owner) else np.zeros(0, np.bool_)
    strings, first, piece = _pieces(sources, in_lines)
    sources = SourceTable(strings, first, piece, sources.filename, sources.line, sources.is_null)
    nothing = _nothing(strings)
    counts = np.diff(first)
    chosen = np.flatnonzero(in_lines)
    use = np.concatenate(
        (
            np.flatnonzero(pieced),
            np.repeat(owner[chosen], counts[chosen]),
            owner[chosen],
        )
    )
    string = np.concatenate(
        (
            np.full(int(pieced.sum()), nothing),
            piece[spread(first[:-1][chosen], counts[chosen])],
            sources.filename[chosen],
        )
    )
    turn = np.concatenate(
        (np.full(int(pieced.sum()), -1), 2 * np.repeat(chosen, counts[chosen]), 2 * chosen + 1)
    )
    order = np.lexsort((turn, use))
    use, string = use[order], string[order]
    _, at = numbered(use, string)
    return replace(
        table,
        sources=sources,
        table_first=firsts(np.bincount(use[at], minlength=len(table.names))),
        table=string[at],
    )


def _nothing(strings: StringTable) -> int:
    """The number of the string "".

    Raises:
        ArchiveError: a companion has strings, and none is empty.
    """
    empty = np.flatnonzero(strings.length == 0)
    if not len(empty):
        raise ArchiveError(place="strings", expected='one that is ""', found="none")
    return int(empty[0])


def _pieces(sources: SourceTable, in_lines: np.ndarray) -> tuple[StringTable, Ints, Ints]:
    """Strings, and the pieces of each source's text: its lines where ``in_lines``, else the whole text."""
    strings = sources.strings
    counts = np.diff(sources.first)
    alone = np.flatnonzero(~in_lines)
    texts, which = _joined(sources, alone)
    more = table_with(strings, texts)
    last = sources.piece[np.maximum(sources.first[1:] - 1, 0)] if len(sources.piece) else counts
    ends = np.array([_is_ended(strings, string) for string in np.unique(last).tolist()], np.bool_)
    open_end = counts > 0
    if len(sources.piece):
        open_end &= ~ends[np.searchsorted(np.unique(last), last)]
    extra = in_lines & ~open_end & ~sources.is_null
    length = np.where(in_lines, counts + extra, 1)
    first = firsts(length)
    piece = np.full(int(first[-1]), _nothing(strings), np.int64)
    chosen = np.flatnonzero(in_lines)
    piece[spread(first[:-1][chosen], counts[chosen])] = sources.piece[
        spread(sources.first[:-1][chosen], counts[chosen])
    ]
    piece[first[:-1][alone]] = len(strings) + which
    return more, first, piece


def _is_ended(strings: StringTable, string: int) -> bool:
    data = strings.data(string)
    return len(data) > 0 and data[-1] == ord("\n")


def _joined(sources: SourceTable, which: Ints) -> tuple[list[bytes], Ints]:
    """The distinct texts of some sources, and the number of each source's text.

    Sources of the same pieces have the same text: it is put together once.
    """
    known: dict[bytes, int] = {}
    number_of: dict[bytes, int] = {}
    numbers = []
    for source in which.tolist():
        pieces = sources.piece[sources.first[source] : sources.first[source + 1]].tobytes()
        number = number_of.get(pieces)
        if number is None:
            number = number_of[pieces] = known.setdefault(bytes(sources[source].text), len(known))
        numbers.append(number)
    return list(known), np.array(numbers, np.int64)


def table_with(strings: StringTable, more: list[bytes]) -> StringTable:
    """A table with further strings behind its own; they get a buffer of their own."""
    length = np.array([len(data) for data in more], np.int64)
    return StringTable(
        [*strings.buffers, memoryview(b"".join(more))],
        [*strings.borrowed, False],
        np.append(strings.buffer, np.full(len(more), len(strings.buffers))),
        np.append(strings.start, np.cumsum(length) - length),
        np.append(strings.length, length),
    )
