"""Refuses columns that contradict one another, and texts that are far too long, before they are followed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.columns import distinct_values, firsts
from archive.base.errors import ArchiveError, LimitError
from archive.debuginfo.model import NO_TAG, Generation, RangeLayout
from archive.normalform.columns import (
    ALWAYS,
    BY_NAME,
    CALLSTACK_LAYOUTS,
    COLUMNS,
    NO_ROW,
    RANGE_LAYOUTS,
    RECORD_FACT,
    TOGETHER,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from archive.base.columns import Ints
    from archive.normalform.columns import Column, Columns


CHECKED_BYTES = 56
"""Bytes of memory that each row of the longest column takes while columns are checked."""
FEWER_ROWS = {"row.column", "handle.place"}
"""The columns that have fewer rows than their tables while they are modelled."""

PARTS: dict[str, str] = {
    "record.rows": "row.range",
    "code.lines": "digest.line",
    "method.instructions": "instruction.handle",
    "pathed.steps": "step.path",
    "program.sites": "site.scope",
    "program.scopes": "scope.parent",
    "keyset.count": "key.name",
}
"""Columns that count how many rows of another column belong to each of their own rows."""
STRING_TABLES = {"string", "template", "number"}
"""Tables of the strings themselves; each layout of companions has its own."""
BEFORE: tuple[str, ...] = ("scope.parent", "call.outer", "inside.outer", "made.outer")
BEFORE += ("origin.inner", "origin.next")
"""Columns of exported programs whose values are rows before their own."""


def check(columns: Columns, strings: int) -> None:
    """Refuse columns that contradict one another: afterwards each reference leads to a row."""
    check_stored(columns, strings, ())
    check_restored(columns, strings, ())


def check_stored(columns: Columns, strings: int, unread: Collection[str]) -> None:
    """The part of :func:`check` that needs no values of some columns, which are still modelled."""
    _check_tables(columns)
    sizes = _sizes({name: columns[name] for name in columns if name not in FEWER_ROWS or name not in unread})
    sizes["string"] = strings
    for name in columns.keys() - set(unread):
        _check_values(BY_NAME[name], columns[name], sizes)
    for part, whole in PARTS.items():
        if part in columns:
            total, rows = int(firsts(columns[part])[-1]), len(columns[whole]) if whole in columns else 0
            if total != rows or columns[part].max(initial=0) > rows:
                raise ArchiveError(place=part, expected=f"{rows} rows together", found=str(total))
    _check_before("node.parent", columns)
    if "frame.next" in columns:
        _check_stacks("frame.next", columns)
    if "program.name" in columns:
        _check_programs(columns)


def check_restored(columns: Columns, strings: int, modelled: Collection[str]) -> None:
    """The rest of :func:`check`, once the columns that were modelled are as they were."""
    sizes = _sizes(columns)
    sizes["string"] = strings
    for name in columns.keys() & set(modelled):
        _check_values(BY_NAME[name], columns[name], sizes)
    _check_order(columns)
    _check_rows(columns)
    _check_names(columns)
    if "handle.place" in columns and len(distinct_values(columns["handle.place"])) != sizes["handle"]:
        raise ArchiveError(place="handle.place", expected="each row once", found="some twice")


def _check_order(columns: Columns) -> None:
    """Refuse handles, and tags declared as ordered, that are not sorted: look-ups bisect them."""
    tags: str = "range.tag"
    ordered = columns["file.ordered"][0] if "file.ordered" in columns else 0
    for name in (*(("handle.handle",) if "handle.handle" in columns else ()), *((tags,) if ordered else ())):
        values = columns[name]
        falls = np.flatnonzero(values[1:] < values[:-1])  # not a difference, which may need 65 bits
        if len(falls):
            raise ArchiveError(
                place=f"{name}, row {falls[0] + 1}", expected="values in order", found="a lower one"
            )


def _check_rows(columns: Columns) -> None:
    """Refuse rows and tags where a record has none, unused ranges, and null sources with content."""
    layout = columns["record.layout"]
    filled = np.flatnonzero((layout == RANGE_LAYOUTS.index(RangeLayout.EMPTY)) & (columns["record.rows"] > 0))
    if len(filled):
        rows = str(columns["record.rows"][filled[0]])
        raise ArchiveError(place=f"record.rows, row {filled[0]}", expected="no rows", found=rows)
    untagged = np.repeat(layout == RANGE_LAYOUTS.index(RangeLayout.PAIR), columns["record.rows"])
    tagged = np.flatnonzero(untagged & (columns["range.tag"][columns["row.range"]] != NO_TAG))
    if len(tagged):
        raise ArchiveError(place=f"row.range, row {tagged[0]}", expected="no tag", found="one")
    used = np.zeros(len(columns["range.tag"]), np.bool_)
    used[columns["row.range"]] = True
    if not used.all():
        place = f"range.tag, row {np.flatnonzero(~used)[0]}"
        raise ArchiveError(place=place, expected="a range of a row", found="one of none")
    # A null source has no text and no line, and the string 0, "", for a filename.
    filled = (columns["source.text"] >= 0) | (columns["source.line"] != 0) | (columns["source.filename"] != 0)
    wrong = np.flatnonzero((columns["source.null"] > 0) & filled)
    if len(wrong):
        raise ArchiveError(
            place=f"source.null, row {wrong[0]}", expected="a source without text", found="one"
        )


def _check_names(columns: Columns) -> None:
    """Refuse names of operators and functions if the rows of the call-stack map have no place for them."""
    if "file.callstacks" not in columns or columns["file.callstacks"][0] != CALLSTACK_LAYOUTS.index(
        Generation.CALLSTACK_3
    ):
        return
    names: tuple[str, ...] = ("handle.op", "frame.function")
    for name in names:
        rows = np.flatnonzero(columns.get(name, np.zeros(0, np.int64)) != NO_ROW)
        if len(rows):
            raise ArchiveError(place=f"{name}, row {rows[0]}", expected="no name", found="one")


def _check_tables(columns: Columns) -> None:
    """Refuse tables that lack columns, or other tables that they need."""
    there = {name.partition(".")[0] for name in columns}
    needed = there | set(ALWAYS) | {other for table in there for other in TOGETHER.get(table, ())}
    for column in COLUMNS:
        if column.table in needed and column.table not in STRING_TABLES and not column.optional:
            _expect(columns, column.name)
    for table, name in RECORD_FACT.items():
        if table in there:
            _expect(columns, name)
    for name in columns:
        if name.startswith("file.") and len(columns[name]) != 1:
            raise ArchiveError(place=name, expected="1 row", found=str(len(columns[name])))


def _expect(columns: Columns, name: str) -> None:
    if name not in columns:
        raise ArchiveError(place=name, expected="a column", found="none")


def _sizes(columns: Columns) -> dict[str, int]:
    """The number of rows of each table; refuse tables whose columns differ in it."""
    sizes = {BY_NAME[name].table: len(values) for name, values in columns.items()}
    if any(sizes[BY_NAME[name].table] != len(values) for name, values in columns.items()):
        firsts_of: dict[str, int] = {}
        for column in COLUMNS:
            rows = len(columns.get(column.name, ()))
            if column.name in columns and firsts_of.setdefault(column.table, rows) != rows:
                expected = f"{firsts_of[column.table]} rows"
                raise ArchiveError(place=column.name, expected=expected, found=str(rows))
    return sizes


def _check_values(column: Column, values: Ints, sizes: dict[str, int]) -> None:
    low = column.low
    high = column.high if column.refers is None else sizes.get(column.refers, 0)
    if not len(values) or ((low is None or values.min() >= low) and (high is None or values.max() < high)):
        return
    wrong = np.zeros(len(values), np.bool_)
    expected = "a number"
    if low is not None:
        wrong |= values < low
        expected += f" from {low} on"
    if high is not None:
        wrong |= values >= high
        expected += f" to {high - 1}"
    if column.refers is not None:
        expected = f"one of {high} rows of {column.refers}"
    row = int(np.flatnonzero(wrong)[0])
    raise ArchiveError(place=f"{column.name}, row {row}", expected=expected, found=str(int(values[row])))


def _check_before(name: str, columns: Columns) -> None:
    """Refuse references that do not lead to an earlier row: so there are no cycles."""
    later = np.flatnonzero(columns[name] >= np.arange(len(columns[name])))
    if len(later):
        raise ArchiveError(place=f"{name}, row {later[0]}", expected="a row before", found="a later one")


def _check_stacks(name: str, columns: Columns) -> None:
    """Refuse call stacks that are too long or cyclic: each round looks twice as far."""
    following = columns[name]
    ahead, length = following.copy(), np.ones(len(following), np.int64)
    rounds = 0
    while (going := ahead >= 0).any() and rounds <= len(following).bit_length():
        length[going] += length[ahead[going]]
        ahead[going] = ahead[ahead[going]]
        rounds += 1
    longest = int(length.max(initial=0))
    if going.any() or longest > memory.limits().frames:
        found = max(longest, memory.limits().frames + 1)
        raise LimitError("frames", memory.limits().frames, found, place=name)


def _check_programs(columns: Columns) -> None:
    """Refuse exported programs that aren't trees or are too deep, and graphs whose holder is in another."""
    for name in BEFORE:
        _check_before(name, columns)
        if name != "origin.next":
            _check_stacks(name, columns)
    holder, parent = columns["scope.holder"], columns["scope.parent"]
    wrong = np.flatnonzero(columns["site.scope"][holder] != parent)
    if len(wrong):
        place = f"scope.holder, row {wrong[0]}"
        raise ArchiveError(place=place, expected="a node of the graph around", found="one of another")
