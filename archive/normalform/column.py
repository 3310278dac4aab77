"""The declaration of a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archive.normalform.column_names import ColumnName

NO_ROW = -1
"""The value of a reference that refers to nothing."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column's declaration.

    Attributes:
        number: its number in a companion file.
        name: ``table.field``.
        meaning: of a value.
        refers: the table whose rows the values are; None where they are plain numbers.
        low: the least value; None where every 64-bit integer is possible.
        high: the bound that values stay below, where the column refers to no table but has one.
        optional: whether the column may be missing where its table is present.
    """

    number: int
    name: ColumnName
    meaning: str
    refers: str | None = None
    low: int | None = 0
    high: int | None = None
    optional: bool = False

    @property
    def table(self) -> str:
        """The table that the column belongs to."""
        return self.name.partition(".")[0]
