"""A long text in pieces, read where it lies: searched and cut without being put together."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from archive.base.strings import StringTable, StringView, Text

if TYPE_CHECKING:
    Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

CHUNK = 1 << 16
"""Bytes that are copied at once."""


class LongText:
    """A text with some methods of ``bytes``, for newlines alone.

    Args:
        text: the text.
    """

    def __init__(self, text: Text | StringView) -> None:
        self._table = text.table
        self._pieces = np.asarray(text.indices if isinstance(text, Text) else [text.index], np.int64)

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    @cached_property
    def _ends(self) -> Ints:
        """Where each piece ends in the text."""
        if isinstance(self._table, StringTable):
            return np.cumsum(self._table.length[self._pieces])
        return np.cumsum([len(self._table.data(piece)) for piece in self._pieces.tolist()])

    def part(self, start: int, stop: int) -> bytes:
        """The bytes from ``start`` to ``stop``, copied."""
        parts = []
        at = int(np.searchsorted(self._ends, start, "right"))
        while start < stop and at < len(self._ends):
            data, end = self._table.data(int(self._pieces[at])), int(self._ends[at])
            begin = end - len(data)
            parts.append(data[start - begin : stop - begin])
            start, at = end, at + 1
        return b"".join(parts)

    def find(self, newline: bytes, start: int) -> int:
        """The first newline from ``start`` on; -1 if there is none."""
        size = len(self)
        while start < size:
            found = self.part(start, min(start + CHUNK, size)).find(newline)
            if found >= 0:
                return start + found
            start += CHUNK
        return -1

    def rfind(self, newline: bytes, start: int, stop: int) -> int:
        """The last newline between ``start`` and ``stop``; -1 if there is none."""
        while stop > start:
            low = max(start, stop - CHUNK)
            found = self.part(low, stop).rfind(newline)
            if found >= 0:
                return low + found
            stop = low
        return -1

    def count(self, newline: bytes, start: int, stop: int) -> int:
        """The newlines between ``start`` and ``stop``."""
        return sum(self.part(low, min(low + CHUNK, stop)).count(newline) for low in range(start, stop, CHUNK))
