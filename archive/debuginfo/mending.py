"""Call-stack maps that PyTorch wrote but refuses to load, made such that it loads them.

PyTorch 2.13 gives an operation the tag -1 where it knows no place of it (``s.split(" ")[0].split(":")`` in
scripted code has some), and then refuses the map, for no source range has that tag. Such an operation is led
to the null range, which prints nothing: its call stack stays, and no source is shown that is not its own. In
call stacks -1 is allowed, so a tag there that no range has becomes -1.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from archive.debuginfo.model import NO_TAG, Layout

if TYPE_CHECKING:
    from archive.debuginfo.tables import HandleTable, RangeTable

    Ints = np.ndarray[tuple[int], np.dtype[np.int64]]

UNTAGGED = (Layout.PAIR, Layout.EMPTY)
"""Layouts of source ranges without tags."""


def tags_of(ranges: RangeTable) -> Ints:
    """The tags that a call-stack map can lead to, sorted: those of all rows of layouts that have tags."""
    tagged = np.array([layout not in UNTAGGED for layout in ranges.layouts], np.bool_)
    rows = np.repeat(tagged, np.diff(ranges.first))
    tags: Ints = np.unique(ranges.tag[rows])
    return tags


def rows_without_range(handles: HandleTable, tags: Ints) -> Ints:
    """The rows whose tag no source range has."""
    return np.flatnonzero(~np.isin(handles.tag, tags))


def calls_without_range(handles: HandleTable, tags: Ints) -> Ints:
    """The frames of call stacks whose tag no source range has, and that is not -1."""
    return np.flatnonzero(~np.isin(handles.call_tag, tags) & (handles.call_tag != NO_TAG))


def mended(handles: HandleTable | None, ranges: RangeTable) -> tuple[HandleTable | None, int]:
    """The map with tags of source ranges, and how many of its tags had to be replaced.

    Returns:
        The same map and 0 where there is none, nothing to mend, or no null range to lead to.
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
    """The tag of the null range; None where there is none."""
    nothing = ranges.sources.is_null[ranges.source] & (ranges.start == ranges.end) & (ranges.tag >= 0)
    found = np.flatnonzero(nothing)
    return int(ranges.tag[found[0]]) if len(found) else None
