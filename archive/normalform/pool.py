"""The strings of a whole archive, without duplicates, numbered by first use; and names of records."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.columns import numbered, table_of
from archive.container.names import as_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.base.columns import Ints
    from archive.base.strings import Strings, StringTable


NAME_COPIES = 5
"""Bytes of memory for each byte of a name: itself, and as text up to four."""
MANY = 1 << 10
"""Strings that are copied at once."""


class Pool:
    """Distinct strings, each with a number; string 0 is ""."""

    def __init__(self) -> None:
        self._numbers: dict[bytes, int] = {b"": 0}

    def number(self, data: bytes) -> int:
        """The number of a string, which is added if it is new."""
        number = self._numbers.get(data)
        if number is not None:
            return number
        memory.take(memory.TEXT + 3 * len(data), "strings")
        return self._numbers.setdefault(data, len(self._numbers))

    def numbers(self, strings: Iterable[bytes]) -> Ints:
        """The numbers of some strings (n); new ones are added."""
        return np.array(list(map(self.number, strings)), np.int64)

    def add(self, table: StringTable, index: Ints) -> Ints:
        """The numbers of strings of another table, given by their numbers there; -1 stays -1 (n)."""
        number, at = numbered(index)
        distinct = index[at]
        numbers = np.full(len(distinct), -1)
        there = np.flatnonzero(distinct >= 0)
        for some in np.array_split(there, len(there) // MANY + 1):
            numbers[some] = self.numbers(table.copies(distinct[some]))
        return numbers[number]

    def strings(self) -> list[bytes]:
        """All strings, in the order of their numbers."""
        return list(self._numbers)

    def table(self) -> StringTable:
        """All strings as a table over one buffer."""
        return table_of(self._numbers)


def record_names(strings: Strings, numbers: Iterable[int]) -> tuple[str, ...]:
    """The names of records.

    Args:
        strings: a companion's.
        numbers: those of the names; one may occur several times.
    """
    names = []
    for number in numbers:
        data = strings.data(number)
        memory.take(memory.ROW + NAME_COPIES * len(data), "names of records")
        names.append(as_text(bytes(data)))
    return tuple(names)
