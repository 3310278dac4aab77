"""Source ranges and debug handles of two archives, compared and counted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.errors import ArchiveError, counted
from archive.compare.changes import added, changed, gone
from archive.compare.sameness import Level
from archive.formats.method_handles import METHOD_RECORDS
from archive.formats.record_kinds import CALLSTACK_MAP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.compare.changes import Change
    from archive.compare.pairing import Pairing
    from archive.debuginfo.handle_tables import HandleTable, MethodTable
    from archive.debuginfo.tables import RangeTable
    from archive.reader.archive import Archive

STEPS = 1 << 22
"""Frames of call stacks that are followed; beyond them, handles are not compared."""
EXAMPLES = 3


def range_changes(old: Archive, new: Archive, names: Pairing) -> Iterator[Change]:
    """How many source ranges of each record of code differ; of records that differ."""
    was, now = old.range_table, new.range_table
    texts = SourceTexts(old), SourceTexts(new)
    current = {_in_old_terms(name, names): number for name, number in now.numbers.items()}
    for name, number in was.numbers.items():
        if name not in current:
            yield gone(Level.DEBUG, "source ranges", name, counted(len(was.rows(number)), "row"))
            continue
        rows, others = was.rows(number), now.rows(current[name])
        differing = _differing(was, now, rows, others, texts)
        if differing or len(rows) != len(others):
            yield changed(
                Level.DEBUG,
                "source ranges",
                name,
                counted(len(rows), "row"),
                f"{counted(len(others), 'row')}; {differing:,} differ in their place",
            )
        elif not np.array_equal(was.tag[rows.start : rows.stop], now.tag[others.start : others.stop]):
            yield changed(Level.IDS, "tags", name)
    for name, number in current.items():
        if name not in was.numbers:
            yield added(Level.DEBUG, "source ranges", name, counted(len(now.rows(number)), "row"))


def _in_old_terms(record: str, names: Pairing) -> str:
    """The name of a record of source ranges, by the class's name in the old archive."""
    head, slash, tail = record.partition("__torch__")
    module, dot, ending = (slash + tail).partition(".")
    return head + names.old_module(module.replace("/", ".")).replace(".", "/") + dot + ending


class SourceTexts:
    """File, first line and text of each source, by its number in the table of source ranges."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._left = archive.limits.compared_bytes
        self._known: dict[int, tuple[str, int, bytes]] = {}

    def __getitem__(self, number: int) -> tuple[str, int, bytes]:
        """A source; the null source has no file and no text."""
        if number not in self._known:
            sources = self._archive.range_table.sources
            self._left -= int(sources.lengths[number])
            if self._left < 0:
                why = "its sources are longer than compared_bytes in all"
                raise ArchiveError(why, file=self._archive.file)
            source = sources[number]
            self._known[number] = (str(source.filename or ""), source.starting_line, bytes(source.text))
        return self._known[number]


def _differing(
    was: RangeTable, now: RangeTable, rows: range, others: range, texts: tuple[SourceTexts, SourceTexts]
) -> int:
    """How many rows, paired in order, have another place in code or source."""
    count = min(len(rows), len(others))
    left, right = slice(rows.start, rows.start + count), slice(others.start, others.start + count)
    differs = np.zeros(count, bool)
    for column in ("offset", "start", "end"):
        differs |= getattr(was, column)[left] != getattr(now, column)[right]
    pairs = np.stack([was.source[left], now.source[right]], 1)
    distinct, which = np.unique(pairs, axis=0, return_inverse=True)
    unlike = [texts[0][a] != texts[1][b] for a, b in distinct.tolist()]
    differs |= np.array(unlike, bool)[which.reshape(-1)] if unlike else False
    return int(np.count_nonzero(differs))


def handle_changes(old: Archive, new: Archive, names: Pairing) -> Iterator[Change]:
    """How the debug handles differ: as operations with call stack and source, whatever their numbers."""
    was, now = old.handle_table, new.handle_table
    if was is None or now is None:
        if was is not None:
            yield gone(Level.DEBUG, "handles", CALLSTACK_MAP, counted(len(was), "handle"))
        if now is not None:
            yield added(Level.DEBUG, "handles", CALLSTACK_MAP, counted(len(now), "handle"))
        return
    before, after = _operations(old, was, None), _operations(new, now, names)
    left, right = Counter(before.values()), Counter(after.values())
    left, right = left - right, right - left
    if left or right:
        some = ", ".join(sorted({operation[0] for operation in (*left, *right)})[:EXAMPLES])
        yield changed(
            Level.DEBUG,
            "handles",
            CALLSTACK_MAP,
            f"{len(was):,}, {left.total():,} of which are gone",
            f"{len(now):,}, {right.total():,} of which are new ({some})",
        )
    elif before != after:
        yield changed(Level.IDS, "handles", CALLSTACK_MAP, _span(was), _span(now))


def _span(table: HandleTable) -> str:
    return f"{int(table.handle.min())} to {int(table.handle.max())}" if len(table) else "none"


Operation = tuple[str, tuple[object, ...]]
"""An operator, and the places of its range and calls."""


def _operations(archive: Archive, table: HandleTable, names: Pairing | None) -> dict[int, Operation]:
    """Each handle's operator, and its calls and range as file and line, with the old archive's names."""
    memory.take(2 * memory.ROW * len(table), "handles")
    places = _TagPlaces(archive)
    steps = STEPS
    operations: dict[int, Operation] = {}
    for row in range(len(table)):
        entry = table.entry(row)
        steps -= 1 + len(entry.stack)
        if steps < 0:
            raise ArchiveError(f"its call stacks have more than {STEPS:,} calls in all", file=archive.file)
        calls = tuple(
            (
                _text(call.module and call.module.type_name, names),
                _text(call.module and call.module.instance),
                places[int(call.tag)],
                _text(call.function),
            )
            for call in entry.stack
        )
        operations[int(entry.handle)] = (_text(entry.op), (places[int(entry.tag)], *calls))
    return operations


def _text(value: object, names: Pairing | None = None) -> str:
    text = "" if value is None else str(value)
    return names.in_old_terms(text) if names else text


class _TagPlaces:
    """File, first line, start and end of a tag's range."""

    def __init__(self, archive: Archive) -> None:
        self._table = archive.range_table
        self._known: dict[int, tuple[object, ...] | None] = {}

    def __getitem__(self, tag: int) -> tuple[object, ...] | None:
        if tag not in self._known:
            self._known[tag] = None
            row = self._table.with_tag(tag) if tag >= 0 else None
            if row is not None:
                span = self._table.source_range(row)
                file, first = str(span.source.filename or ""), span.source.starting_line
                self._known[tag] = file, first, span.start, span.end
        return self._known[tag]


def method_changes(old: Archive, new: Archive) -> Iterator[Change]:
    """Whether the methods' lists of handles, or of module paths, are there and as long."""
    was, now = old.method_records, new.method_records
    for layout, name in METHOD_RECORDS.items():
        lengths, others = _lengths(was.get(name)), _lengths(now.get(name))
        if lengths != others:
            yield changed(Level.DEBUG, layout, name, _sums(lengths), _sums(others))


def _lengths(table: MethodTable | None) -> dict[str, int]:
    return {} if table is None else dict(zip(table.names, np.diff(table.first).tolist(), strict=True))


def _sums(lengths: dict[str, int]) -> str:
    return f"{sum(lengths.values()):,} of {counted(len(lengths), 'method')}"
