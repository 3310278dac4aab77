"""The tags of source ranges, in layouts that have them.

- Each row has one.
- Equal tags stand for equal ranges, over all records; sources count by what they say.
- Within a record a stretch of one source has one tag. PyTorch numbers ranges by their source *object*, so
  sources that are merely equal, in a record or in several, give several tags. Where equal sources have been
  made one, as ``shrink`` does, a range has several tags; each still leads to it, so that is only noted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import counted, shown
from archive.debuginfo.model import Layout
from archive.verbs.verify.texts import Contents

if TYPE_CHECKING:
    from archive.base.limits import Limits
    from archive.verbs.verify.diagnostic import Ints
    from archive.verbs.verify.rows import RangeRows

TAGGED = (Layout.TAG_FIRST, Layout.INLINE, Layout.STRING_TABLE)


def check_tags(rows: RangeRows, limits: Limits) -> None:
    """Check the tags of all rows."""
    tag = rows.table.tag
    tagged = rows.of_records([layout in TAGGED for layout in rows.table.layouts]).astype(np.bool_)
    missing = tagged & (tag < 0)
    rows.add("warning", missing, "rows without a tag", "tag", lambda row: f"expected a tag, found {tag[row]}")
    considered = np.flatnonzero(tagged & ~missing)
    _check_ranges_of_tags(rows, considered, limits)
    _check_tags_of_ranges(rows, considered)


def _check_ranges_of_tags(rows: RangeRows, considered: Ints, limits: Limits) -> None:
    """Compare each row with the first row of its tag: they are about the same range."""
    table = rows.table
    head = np.arange(len(table))
    head[considered] = _heads(considered, table.tag[considered])
    wrong = (table.start != table.start[head]) | (table.end != table.end[head])
    others = np.flatnonzero(~wrong & (head != np.arange(len(table))))
    contents = Contents(table.sources, limits)
    wrong[others] = ~contents.equal(table.source[others], table.source[head[others]])

    def describe(row: int) -> str:
        other = int(head[row])
        where = f"{rows.place(other)} of {shown(table.names[int(rows.record[other])])}"
        return f"tag {table.tag[row]} stands for another range in {where}"

    rows.add("error", wrong, "tags of several ranges", "tag", describe)
    if contents.skipped:
        texts = counted(contents.skipped, "text")
        rows.report.add("note", "", "", f"{texts} too long to be compared, tag by tag")


def _check_tags_of_ranges(rows: RangeRows, considered: Ints) -> None:
    """Compare each row with the first row of the same stretch of the same source: they have the same tag."""
    table = rows.table
    tag = table.tag
    head = np.arange(len(table))
    stretch = (table.source[considered], table.start[considered], table.end[considered])
    head[considered] = _heads(considered, *stretch)

    def describe(row: int) -> str:
        other = int(head[row])
        return f"tag {tag[row]} stands for the same range as tag {tag[other]} in {rows.place(other)}"

    rows.add("note", tag != tag[head], "ranges of several tags", "tag", describe)


def _heads(rows: Ints, *keys: Ints) -> Ints:
    """For each row the first one with equal keys."""
    order = np.lexsort(keys[::-1])
    new = np.ones(len(rows), np.bool_)
    new[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
    begin = np.maximum.accumulate(np.where(new, np.arange(len(rows)), 0))
    head = np.empty_like(rows)
    head[order] = rows[order[begin]]
    return head
