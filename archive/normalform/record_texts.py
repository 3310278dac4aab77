"""The texts of records: in lines for records with a string table, else each in one piece.

Sources of one text share it: a traced model has a source for each operation, whose texts are a few call
stacks. A record with a string table has texts of its own; all others share theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts, largest_window, numbered, spread, windows
from archive.base.errors import ArchiveError
from archive.base.strings import StringTable
from archive.normalform.columns import VALUE_BYTES
from archive.normalform.texts import line_bounds, roots, sum_over_texts, unpack_texts

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.normalform.columns import Columns

LINE_BYTES = 64
"""Bytes of memory that a line of a text costs while the text is laid out, of those laid out at once."""
TEXT_COPIES = 2
"""Copies of a text in memory while it is put together of its lines."""
LINES = 1 << 12
"""Lines that are copied at once."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """The pieces of t texts.

    Attributes:
        strings: the form's strings, and behind them the texts that are one piece.
        first: the first piece of each text (t + 1).
        piece: strings; a text in lines ends with "" behind a last line that has a line feed.
    """

    strings: StringTable
    first: Ints
    piece: Ints


class RecordTexts:
    """The t texts of s sources, each source's in the layout of its record.

    Args:
        columns: by name.
        record: of each source (s).
        source: the form's source that each one is (s).
        in_lines: whether its record has a string table (s).

    Attributes:
        of: the text of each source (s).
        at: the first source of each text (t).
        in_lines: whether the text is one of a record with a string table (t).
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
        """Where each text's lines begin, one text behind the other (t + 1)."""
        return line_bounds(self._node, self._parent)

    def pieces(self, strings: StringTable, allowance: Allowance) -> Pieces:
        """The pieces of all texts.

        Raises:
            LimitError: texts are repeated so often that they would take more memory than allowed.
        """
        whole = np.append(sum_over_texts(self._parent, strings.length[self._line]), 0)
        size = int(whole[self._node[~self.in_lines]].sum())
        allowance.take(size, "texts", place="source.text")
        extra = self.in_lines & ~self._null & ~self._open_ended(strings)
        first = firsts(np.where(self.in_lines, np.diff(self._first) + extra, 1))
        allowance.take(VALUE_BYTES * int(first[-1]), "lines", place="source.text")
        copies = (TEXT_COPIES - 1) * size
        with allowance.lent(LINE_BYTES * largest_window(self._first) + copies, "lines", place="source.text"):
            return self._pieces(strings, first)

    def _pieces(self, strings: StringTable, first: Ints) -> Pieces:
        """The pieces, whose places are known; a window of texts is put together at once."""
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
            texts += [_joined(strings, lines[start:end]) for start, end in bounds]
        return Pieces(table_with(strings, texts), first, piece)

    def _open_ended(self, strings: StringTable) -> np.ndarray:
        """Whether each text has a last line without line feed (t)."""
        there = self._node >= 0
        last, number = np.unique(self._line[roots(self._parent)[self._node[there]]], return_inverse=True)
        ended = np.array([bytes(strings.data(line)[-1:]) == b"\n" for line in last.tolist()], np.bool_)
        open_ended = np.zeros(len(there), np.bool_)
        open_ended[there] = ~ended[number]
        return open_ended


def _joined(strings: StringTable, lines: Ints) -> bytes:
    """A text, put together of its lines."""
    parts = [strings.copies(lines[low : low + LINES]) for low in range(0, len(lines), LINES)]
    return b"".join([line for part in parts for line in part])


def nothing(strings: StringTable) -> int:
    """The number of the string "".

    Raises:
        ArchiveError: a companion has strings, and none is empty.
    """
    empty = np.flatnonzero(strings.length == 0)
    if not len(empty):
        raise ArchiveError(place="strings", expected='one that is ""', found="none")
    return int(empty[0])


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
