"""Compares a migrated archive with its original: the same model, and the same facts where both have them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError
from archive.debuginfo.mending import completed, mended
from archive.debuginfo.model import NO_TAG, Layout
from archive.formats.archive_id import counts
from archive.formats.record_kinds import range_records_of
from archive.formats.source_ranges import DELEGATED
from archive.formats.stale_methods import after_cuts, before_cuts, without
from archive.normalform.column import NO_ROW
from archive.rewrite.compact.check import compare_ranges, compare_rows
from archive.rewrite.compact.check_handles import compare_handles
from archive.rewrite.migrate.aside import is_format
from archive.rewrite.migrate.blobs import handles_in_blobs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.base.columns import Ints
    from archive.debuginfo.handle_tables import HandleTable
    from archive.debuginfo.tables import RangeTable
    from archive.formats.stale_methods import Cut
    from archive.reader.archive import Archive


def check_migrated(before: Archive, after: Archive, cuts: Mapping[str, Sequence[Cut]]) -> None:
    """Refuse a migrated archive that is another model, or whose debug records have other facts.

    Records that are not rewritten must be the same bytes. Source ranges must be the same, row by row, and
    their tags, too, if both layouts have tags; each byte that rescued code has left must have the source that
    it had. If both have a call-stack map, handles, tags and call stacks must be the same; names of operators
    and functions, too, unless only one of the maps has them.

    Args:
        before: the original.
        after: the migrated archive.
        cuts: the bytes that were taken out of code records.

    Raises:
        ArchiveError: naming the record and place of a difference.
    """
    try:
        _same_model(before, after, cuts)
        old, new = before.range_table, after.range_table
        rescued = [name for code in cuts for name in range_records_of(code) if name in new.numbers]
        _refuse(old, new)
        names = [name for name in new.names if name in old.numbers and name not in rescued]
        compare_ranges(before, after, names, tags=_has_tags(old) and _has_tags(new), unnamed=False)
        for code, cut in cuts.items():
            _same_rescued(before, after, code, cut)
        _same_handles(before, after)
    except ArchiveError as error:
        raise error.within(file=after.file) from error.__cause__


def _has_tags(table: RangeTable) -> bool:
    return Layout.PAIR not in table.layouts and not (table.tag == NO_TAG).all()


def _refuse(old: RangeTable, new: RangeTable) -> None:
    """Refuse records of source ranges that only one of the archives has, but for that of lowered modules."""
    for name in {*old.names, *new.names} - {DELEGATED}:
        if (name in old.numbers) != (name in new.numbers):
            raise ArchiveError(record=name, expected="a record before and after", found="one of them")


def _same_model(before: Archive, after: Archive, cuts: Mapping[str, Sequence[Cut]]) -> None:
    for name, record in before.records.items():
        if not counts(name) or is_format(name):
            continue
        data = without(record.view(), cuts[name]) if name in cuts else record.view()
        if name not in after.records or after.records[name].view() != data:
            raise ArchiveError(record=name, expected="the record as it was", found="another one, or none")


def _same_rescued(before: Archive, after: Archive, code: str, cuts: Sequence[Cut]) -> None:
    names = [name for name in range_records_of(code) if name in after.range_table.numbers]
    if not names:
        return
    old, new = (_steps(archive.range_table, names[0]) for archive in (before, after))
    begins = np.array([begin for begin, _ in cuts], np.int64)
    at = np.concatenate(([0], after_cuts(begins, cuts), after_cuts(old[0], cuts), new[0]))
    at = np.unique(at[(at >= 0) & (at < after.records[code].size)])  # between these, nothing changes
    was = _rows_at(old, before_cuts(at, cuts))
    now = _rows_at(new, at)
    lost = np.flatnonzero((was < 0) != (now < 0))
    if len(lost):
        place = f"byte {int(at[lost[0]])}"
        raise ArchiveError(record=code, place=place, expected="a source range before and after, or none")
    known = was >= 0
    compare_rows(before, after, (was[known], now[known]), ("start", "end"), unnamed=False)


def _steps(table: RangeTable, name: str) -> tuple[Ints, int]:
    """The offsets of a record's rows, and the number of the first one."""
    rows = table.rows(table.numbers[name])
    return table.offset[rows.start : rows.stop], rows.start


def _rows_at(steps: tuple[Ints, int], positions: Ints) -> Ints:
    """The rows that cover some positions in the code; -1 where none does."""
    offset, first = steps
    at = np.searchsorted(offset, positions, "right") - 1
    return np.where((at >= 0) & (offset[at] >= 0), first + at, -1) if len(offset) else np.full(len(at), -1)


def _same_handles(before: Archive, after: Archive) -> None:
    old, new = mended(before.handle_table, before.range_table)[0], after.handle_table
    old = completed(old, before.range_table, handles_in_blobs(before))[0]
    if old is None or new is None:
        return
    named = [bool((table.op >= 0).any()) for table in (old, new)]
    if named[0] != named[1]:
        old, new = _nameless(old), _nameless(new)
    compare_handles(old, new, before.allowance)


def _nameless(table: HandleTable) -> HandleTable:
    """The map without the names of operators and functions, which not every layout has."""
    return replace(table, op=np.full(len(table.op), NO_ROW), function=np.full(len(table.function), NO_ROW))
