"""Debug records are written in the fewest bytes that stock PyTorch reads as the same facts.

    tables ─ (ranges · stacks) ─ instructions, in several ways ─ bytes ─ the shortest

``texts`` makes equal strings one, and finds the pieces that texts share. ``check`` compares the facts of two
archives.
"""

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING

from archive.base import memory
from archive.container.deflate import deflated_size
from archive.debuginfo.mending import mended
from archive.debuginfo.model import RangeLayout
from archive.formats import callstack_map
from archive.formats.record_kinds import CALLSTACK_MAP, DELEGATED, HANDLE_RECORDS, is_legacy
from archive.rewrite.compact.ranges import range_ways, record_of
from archive.rewrite.compact.stacks import method_ways, stack_ways

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from archive.debuginfo.tables import RangeTable
    from archive.reader.archive import Archive
    from archive.rewrite.compact.ranges import RangeRecord


def compact_records(opened: Archive) -> dict[str, bytes]:
    """Write each debug record as the pickle of the same facts that deflates to the fewest bytes.

    A call-stack map that PyTorch refuses is mended: see :mod:`archive.debuginfo.mending`. Handles are those
    of the archive's columns, which may be other than the records' own.

    The target is PyTorch 2.13. An archive without any string table keeps its layouts, which older releases
    read. Whether those releases read the memo as it is used here could not be tried. Records of PyTorch 1.2,
    written by another pickler, are left out.

    Returns:
        Inflated pickles by record; a record's own bytes if nothing shorter was found.
    """
    compacted = {}
    for name, ways in _ways(opened):
        with memory.part():
            compacted[name] = _smallest(opened, name, ways())
        memory.take(len(compacted[name]), "pickles", record=name)
    return compacted


def _ways(opened: Archive) -> Iterator[tuple[str, Callable[[], Iterable[bytes]]]]:
    """Each debug record by name, and what writes it in several ways."""
    ranges = opened.range_table
    tables = RangeLayout.STRING_TABLE in ranges.layouts
    for number, name in enumerate(ranges.names):
        if not is_legacy(name):
            yield name, partial(_range_ways, ranges, number, tables=tables)
    handles, _ = mended(opened.handle_table, ranges)
    if handles is not None:
        yield CALLSTACK_MAP, partial(stack_ways, handles, callstack_map.generation(handles))
    for name, table in opened.method_records.items():
        yield name, partial(method_ways, table)


def _range_ways(table: RangeTable, number: int, *, tables: bool) -> Iterator[bytes]:
    """A record of source ranges, written in several ways."""
    record = record_of(table, number)
    layouts = _layouts(record, table.names[number], table.layouts[number], tables=tables)
    return range_ways(record, layouts)


def _layouts(record: RangeRecord, name: str, layout: RangeLayout, *, tables: bool) -> set[RangeLayout]:
    """The layouts that a record of source ranges may be written in.

    PyTorch fails to look up a range in the record of a code record if it has no rows, unless it has a string
    table.
    """
    if not tables or layout in (RangeLayout.PAIR, RangeLayout.TAG_FIRST):
        return {layout}
    if not len(record):
        return {RangeLayout.EMPTY if name == DELEGATED else layout}
    return {RangeLayout.INLINE} | ({RangeLayout.STRING_TABLE} if (record.filename >= 0).all() else set())


def says_other_facts(opened: Archive, name: str) -> bool:
    """Whether a record says other facts than the archive's columns: other handles, or what was mended."""
    if opened.is_renumbered and name in HANDLE_RECORDS:
        return True
    return name == CALLSTACK_MAP and bool(mended(opened.handle_table, opened.range_table)[1])


def _smallest(opened: Archive, name: str, ways: Iterable[bytes]) -> bytes:
    """The record in the way that takes the fewest bytes in an archive; its own bytes if none is shorter."""
    record = opened.records[name]
    best, least = bytes(record.view()), record.stored_size
    if says_other_facts(opened, name):
        least = sys.maxsize
    for data in ways:
        size = deflated_size(data)
        if size < least:
            best, least = data, size
    return best
