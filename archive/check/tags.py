"""Rules for the tags of source ranges, in layouts that have tags.

- Each row has a tag.
- Equal tags stand for equal ranges, over all records. Sources are equal if their contents are.
- Within a record, a range has one tag. PyTorch numbers ranges by their source *object*, so sources that are
  merely equal, in one record or in several, give several tags. Where equal sources have been merged, as
  ``shrink`` does, a range has several tags. Each still leads to the range, so this is only noted. Tags of
  lowered modules tell their operations of a line apart; nothing is noted there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import counted, shown
from archive.check.texts import SourceContents
from archive.debuginfo.model import Layout
from archive.formats.source_ranges import DELEGATED

if TYPE_CHECKING:
    from archive.base.columns import Ints
    from archive.base.limits import Allowance
    from archive.check.rows import RangeChecks

TAGGED = (Layout.TAG_FIRST, Layout.INLINE, Layout.STRING_TABLE)


def check_tags(rows: RangeChecks, allowance: Allowance) -> None:
    """Check the tags of all rows."""
    tag = rows.table.tag
    tagged = rows.of_records([layout in TAGGED for layout in rows.table.layouts]).astype(np.bool_)
    missing = tagged & (tag < 0)
    rows.add("warning", missing, "rows without a tag", "tag", lambda row: f"expected a tag, found {tag[row]}")
    considered = np.flatnonzero(tagged & ~missing)
    _check_ranges_of_tags(rows, considered, allowance)
    _check_tags_of_ranges(rows, considered)


def _check_ranges_of_tags(rows: RangeChecks, considered: Ints, allowance: Allowance) -> None:
    """Check that each row has the same range as the first row with its tag."""
    table = rows.table
    head = np.arange(len(table))
    head[considered] = _heads(considered, table.tag[considered])
    wrong = (table.start != table.start[head]) | (table.end != table.end[head])
    others = np.flatnonzero(~wrong & (head != np.arange(len(table))))
    contents = SourceContents(table.sources, allowance.limits)
    wrong[others] = ~contents.equal(table.source[others], table.source[head[others]])

    def describe(row: int) -> str:
        other = int(head[row])
        where = f"{rows.place(other)} of {shown(table.names[int(rows.record[other])])}"
        return f"tag {table.tag[row]} stands for another range in {where}"

    rows.add("error", wrong, "tags of several ranges", "tag", describe)
    if contents.skipped:
        texts = counted(contents.skipped, "text")
        rows.report.add("note", "", "", f"{texts} too long to be compared, tag by tag")


def _check_tags_of_ranges(rows: RangeChecks, considered: Ints) -> None:
    """Check that each row has the same tag as the first row with its range, in the same source object."""
    table = rows.table
    number = table.numbers.get(DELEGATED)
    delegated = [] if number is None else table.rows(number)
    considered = considered[~np.isin(table.tag[considered], table.tag[delegated])]
    tag = table.tag
    head = np.arange(len(table))
    stretch = (table.source[considered], table.start[considered], table.end[considered])
    head[considered] = _heads(considered, *stretch)

    def describe(row: int) -> str:
        other = int(head[row])
        return f"tag {tag[row]} stands for the same range as tag {tag[other]} in {rows.place(other)}"

    rows.add("note", tag != tag[head], "ranges of several tags", "tag", describe)


def _heads(rows: Ints, *keys: Ints) -> Ints:
    """Row → the first row with equal keys (n).

    Rows are sorted by their keys, which keeps equal ones in order; each then takes the begin of its run.
    """
    order = np.lexsort(keys[::-1])
    new = np.ones(len(rows), np.bool_)
    new[1:] = np.any([key[order[1:]] != key[order[:-1]] for key in keys], axis=0)
    begin = np.maximum.accumulate(np.where(new, np.arange(len(rows)), 0))
    head = np.empty_like(rows)
    head[order] = rows[order[begin]]
    return head
