"""What a companion holds, whatever its profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from archive.errors import ArchiveError, LimitError
from archive.formats.companion.sections import BY_NAME, COLUMNS
from archive.numbering import firsts

if TYPE_CHECKING:
    from collections.abc import Collection

    from archive.formats.companion.sections import Column
    from archive.limits import Limits
    from archive.numbering import Ints
    from archive.strings import StringTable

    Columns = dict[str, Ints]


@dataclass(frozen=True, eq=False)
class Facts:
    """The debug information of one archive.

    Attributes:
        archive_id: of the archive.
        columns: by name; a column is there if its table is: see :mod:`archive.formats.companion.sections`.
        strings: what columns refer to.
        raw: the records that are kept as they are, one behind the other.
    """

    archive_id: bytes
    columns: Columns
    strings: StringTable
    raw: bytes | memoryview


def check(columns: Columns, strings: int, limits: Limits, unread: Collection[str] = ()) -> None:
    """Refuse columns that contradict one another, so that whoever follows a reference finds its row.

    Args:
        columns: by name.
        strings: how many strings there are.
        limits: what the columns may ask for.
        unread: columns whose values don't count yet.

    Raises:
        ArchiveError: naming the column and row.
        LimitError: a call stack or text would be longer than allowed.
    """
    sizes = _sizes(columns) | {"string": strings}
    for name in columns.keys() - set(unread):
        _check_values(BY_NAME[name], columns[name], sizes)
    for part, whole in PARTS.items():
        if part in columns:
            total, rows = int(firsts(columns[part])[-1]), len(columns.get(whole, ()))
            if total != rows or columns[part].max(initial=0) > rows:
                raise ArchiveError(place=part, expected=f"{rows} rows together", found=str(total))
    if "node.parent" in columns:
        later = np.flatnonzero(columns["node.parent"] >= np.arange(len(columns["node.parent"])))
        if len(later):
            place = f"node.parent, row {later[0]}"
            raise ArchiveError(place=place, expected="a row before", found="one behind")
    if "frame.next" in columns:
        _check_stacks(columns["frame.next"], limits)
    if "handle.place" in columns and len(np.unique(columns["handle.place"])) != sizes["handle"]:
        raise ArchiveError(place="handle.place", expected="each row once", found="some twice")


PARTS = {"record.rows": "row.range", "method.instructions": "instruction.handle", "pathed.steps": "step.path"}
"""Columns that cut another one into parts, one behind the other."""


def _sizes(columns: Columns) -> dict[str, int]:
    """How many rows each table has."""
    sizes: dict[str, int] = {}
    for column in COLUMNS:
        values = columns.get(column.name)
        if values is not None and column.name != "row.column":
            count = sizes.setdefault(column.table, len(values))
            if count != len(values):
                raise ArchiveError(place=column.name, expected=f"{count} rows", found=str(len(values)))
    return sizes


def _check_values(column: Column, values: Ints, sizes: dict[str, int]) -> None:
    wrong = np.zeros(len(values), np.bool_)
    expected = "a number"
    if column.low is not None:
        wrong |= values < column.low
        expected += f" from {column.low} on"
    if column.refers is not None:
        high = sizes.get(column.refers, 0)
        wrong |= values >= high
        expected = f"one of {high} rows of {column.refers}"
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        raise ArchiveError(place=f"{column.name}, row {row}", expected=expected, found=str(int(values[row])))


def _check_stacks(following: Ints, limits: Limits) -> None:
    """Refuse call stacks that are too long or come back to themselves: each round looks twice as far."""
    ahead, reach = following.copy(), 1
    while (going := ahead >= 0).any():
        if reach > limits.stack_frames:
            raise LimitError("stack_frames", limits.stack_frames, reach, place="frame.next")
        ahead[going] = ahead[ahead[going]]
        reach *= 2
