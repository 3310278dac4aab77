"""Mends call-stack maps that PyTorch wrote but refuses to load.

PyTorch 2.13 gives an operation the tag -1 if it knows no source range for it (``s.split(" ")[0].split(":")``
in scripted code has such), and then refuses the map, for no range has that tag. The operation gets the tag of
the null range instead, which prints nothing: its call stack stays, and no foreign source is shown. In call
stacks -1 is allowed, so a tag there that no range has becomes -1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from archive.debuginfo.model import NO_TAG, Layout

if TYPE_CHECKING:
    from archive.debuginfo.handle_tables import HandleTable
    from archive.debuginfo.tables import RangeTable

    Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

UNTAGGED = (Layout.PAIR, Layout.EMPTY)
"""Layouts of source ranges without tags."""


def tags_of(ranges: RangeTable) -> Ints:
    """The tags that source ranges have, sorted; layouts without tags count for nothing."""
    tagged = np.array([layout not in UNTAGGED for layout in ranges.layouts], np.bool_)
    rows = np.repeat(tagged, np.diff(ranges.first))
    tags: Ints = np.unique(ranges.tag[rows])
    return tags


def rows_without_range(handles: HandleTable, tags: Ints) -> Ints:
    """The rows of a map whose tag no source range has."""
    return np.flatnonzero(~np.isin(handles.tag, tags))


def calls_without_range(handles: HandleTable, tags: Ints) -> Ints:
    """The frames of call stacks whose tag is not -1 and belongs to no source range."""
    return np.flatnonzero(~np.isin(handles.call_tag, tags) & (handles.call_tag != NO_TAG))


def mended(handles: HandleTable | None, ranges: RangeTable) -> tuple[HandleTable | None, int]:
    """A map whose tags all belong to source ranges, and how many tags were replaced.

    Returns:
        The same map and 0 if there is no map, nothing to mend, or no null range.
    """
    if handles is None:
        return None, 0
    tags = tags_of(ranges)
    rows, calls = rows_without_range(handles, tags), calls_without_range(handles, tags)
    null = _null_tag(ranges)
    if not len(rows) + len(calls) or (null is None and len(rows)):
        return handles, 0
    tag, call_tag = handles.tag.copy(), handles.call_tag.copy()
    tag[rows] = NO_TAG if null is None else null
    call_tag[calls] = NO_TAG
    return replace(handles, tag=tag, call_tag=call_tag), len(rows) + len(calls)


def _null_tag(ranges: RangeTable) -> int | None:
    """The tag of the null range; None if no row has it."""
    nothing = ranges.sources.is_null[ranges.source] & (ranges.start == ranges.end) & (ranges.tag >= 0)
    found = np.flatnonzero(nothing)
    return int(ranges.tag[found[0]]) if len(found) else None
