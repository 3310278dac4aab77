"""Facts as sequences and mappings over tables: each is made when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, overload

from archive.base.errors import counted
from archive.debuginfo.model import RangeRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.debuginfo.tables import RangeTable

K = TypeVar("K")
V = TypeVar("V")


class RangeRows(Sequence[RangeRow]):
    """The rows of one record, made when asked for."""

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


class FactMapping(Mapping[K, V]):
    """Facts by key: the key's row in a table, and what the table makes of it."""

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
