"""The strings of a whole archive, each once, numbered by first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import numbered
from archive.base.strings import StringTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.base.columns import Ints


class Pool:
    """Distinct strings, each with a number; string 0 is ""."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {b"": 0}

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, data: bytes) -> int:
        """The number of a string, which is added if it is new."""
        return self._numbers.setdefault(data, len(self._numbers))

    def numbers(self, strings: Iterable[bytes]) -> Ints:
        """The numbers of some strings (n); new ones are added."""
        known = self._numbers
        return np.array([known.setdefault(data, len(known)) for data in strings], np.int64)

    def add(self, table: StringTable, index: Ints) -> Ints:
        """The numbers of strings of another table, given by their numbers there; -1 stays -1 (n)."""
        number, at = numbered(index)
        distinct = index[at]
        found = np.full(len(distinct), -1)
        there = np.flatnonzero(distinct >= 0)
        found[there] = self.numbers(table.copies(distinct[there]))
        return found[number]

    def strings(self) -> list[bytes]:
        """All strings, in the order of their numbers."""
        return list(self._numbers)

    def table(self) -> StringTable:
        """All strings as a table over one buffer."""
        return table_of(self._numbers)


def table_of(strings: Iterable[bytes]) -> StringTable:
    """A table of some strings, over one buffer."""
    listed = list(strings)
    length = np.array([len(data) for data in listed], np.int64)
    return table_over(memoryview(b"".join(listed)), length, borrowed=False)


def table_over(buffer: memoryview, length: Ints, *, borrowed: bool) -> StringTable:
    """A table of strings that stand one behind the other in a buffer.

    Args:
        buffer: the strings.
        length: bytes of each one (n).
        borrowed: whether the buffer is part of a mapped file.
    """
    return StringTable(
        [buffer], [borrowed], np.zeros(len(length), np.int64), np.cumsum(length) - length, length
    )
