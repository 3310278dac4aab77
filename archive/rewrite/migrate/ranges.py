"""Source ranges in another layout, as columns of the normal form.

- *tags*: pair rows have none. Their ranges are numbered by first appearance, as PyTorch does it, from the
  number after the highest one that is in use.
- *filenames*: a string table has no "none"; its index 0 stands for it, and reads back as "". In the other
  direction, "" becomes "none", but for the null source, whose filename PyTorch writes as "".
- *texts that PyTorch prints* differ then: above a frame whose filename is "" it prints ``File "", line 5``,
  and above one without a filename nothing. ``renamed`` counts the rows.
- *the null source* is empty in every layout: ``("", "", 0)``, ``([], 0, 0)``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import firsts, numbered
from archive.base.errors import ArchiveError
from archive.debuginfo.model import NO_TAG, RangeLayout
from archive.formats.record_kinds import DELEGATED
from archive.normalform.columns import RANGE_LAYOUTS

if TYPE_CHECKING:
    from archive.debuginfo.tables import RangeTable
    from archive.normalform.builder import FormBuilder
    from archive.normalform.columns import Columns

HIGHEST = 1 << 62
"""The highest tag after which others can be numbered."""


def relaid(columns: Columns, layout: RangeLayout) -> Columns:
    """All records of source ranges in one layout."""
    rows = columns["record.rows"]
    empty = RANGE_LAYOUTS.index(layout if layout is RangeLayout.STRING_TABLE else RangeLayout.EMPTY)
    filename, null = columns["source.filename"], columns["source.null"] > 0
    if layout is RangeLayout.STRING_TABLE:
        filename = np.where(filename < 0, 0, filename)
    else:
        filename = np.where((filename == 0) & ~null, -1, filename)
    tag = columns["range.tag"]
    if layout is RangeLayout.PAIR:
        tag = np.full(len(tag), NO_TAG)
    elif (columns["record.layout"] == RANGE_LAYOUTS.index(RangeLayout.PAIR)).any():
        untagged = tag == NO_TAG
        highest = int(tag.max(initial=NO_TAG))
        if highest > HIGHEST:
            raise ArchiveError(place="tags", expected=f"up to {HIGHEST}", found=str(highest))
        _, at = numbered(columns["row.range"])
        used = columns["row.range"][at]
        tag = tag.copy()
        tag[used[untagged[used]]] = highest + 1 + np.arange(int(untagged[used].sum()))
    return columns | {
        "record.layout": np.where(rows == 0, empty, RANGE_LAYOUTS.index(layout)),
        "source.filename": filename,
        "range.tag": tag,
    }


def renamed(table: RangeTable, layout: RangeLayout) -> tuple[int, int]:
    """The numbers of rows that gain, and that lose, a line ``File ""`` in what PyTorch prints, in a layout.

    Ranges that cover their whole text, or begin after it, are not among them: PyTorch prints no line for
    these.
    """
    sources = table.sources
    length = sources.lengths[table.source]
    prints = (table.end - table.start != length) & (table.start <= length)
    filename = sources.filename
    is_empty = (filename >= 0) & (sources.strings.length[filename] == 0) & ~sources.is_null
    gained = prints & (filename < 0)[table.source] & (layout is RangeLayout.STRING_TABLE)
    lost = prints & is_empty[table.source] & (layout is not RangeLayout.STRING_TABLE)
    return int(gained.sum()), int(lost.sum())


def without_record(columns: Columns, number: int) -> Columns:
    """The columns without a record and its rows; ranges that only this record refers to stay."""
    first = firsts(columns["record.rows"])
    stays = np.ones(len(columns["row.range"]), np.bool_)
    stays[first[number] : first[number + 1]] = False
    rows: tuple[str, ...] = ("row.offset", "row.range", "row.line", "row.column")
    records: tuple[str, ...] = ("record.name", "record.layout", "record.rows")
    return (
        columns
        | {name: columns[name][stays] for name in rows if name in columns}
        | {name: np.delete(columns[name], number) for name in records}
    )


def add_delegated(form: FormBuilder) -> None:
    """Add an empty record of delegated source ranges, which 1.10 and later write, unless there is one."""
    columns, name = form.columns, form.pool.number(DELEGATED.encode())
    if name in columns["record.name"].tolist():
        return
    form.columns = columns | {
        "record.name": np.append(columns["record.name"], name),
        "record.layout": np.append(columns["record.layout"], RANGE_LAYOUTS.index(RangeLayout.EMPTY)),
        "record.rows": np.append(columns["record.rows"], 0),
    }


def null_tag(columns: Columns) -> int | None:
    """The tag of the null range; None if no range is, or it has no tag."""
    of_null = (columns["source.null"] > 0)[columns["range.source"]]
    tags = columns["range.tag"][of_null]
    return int(tags[0]) if len(tags) and tags[0] >= 0 else None


def cut_out(columns: Columns, number: int, begin: int, end: int) -> Columns:
    """The columns after a record's code has lost some bytes.

    Rows that begin in these bytes go, but the last one stays if it covers the byte after them. Later rows
    move.

    Args:
        columns: the ranges.
        number: of the record.
        begin: the first byte of the code that is lost.
        end: the byte after the last one.
    """
    first = firsts(columns["record.rows"])
    own = np.arange(first[number], first[number + 1])
    offset, span = columns["row.offset"].copy(), columns["row.range"]
    inside = own[(offset[own] >= begin) & (offset[own] < end)]
    gone = inside
    if len(inside) and not (offset[own] == end).any():
        last, before = inside[-1], inside[0] - 1
        if before < first[number] or span[before] != span[last]:
            offset[last] = begin
            gone = inside[:-1]
    later = own[offset[own] >= end]
    offset[later] -= end - begin
    stays = np.ones(len(offset), np.bool_)
    stays[gone] = False
    counts = columns["record.rows"].copy()
    counts[number] -= len(gone)
    return columns | {
        "record.rows": counts,
        "row.offset": offset[stays],
        "row.range": span[stays],
    }
