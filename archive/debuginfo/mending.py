"""Mends call-stack maps that PyTorch wrote but refuses to load.

PyTorch 2.13 gives an operation the tag -1 if it knows no source range for it (``s.split(" ")[0].split(":")``
in scripted code has such), and then refuses the map, because no range has that tag. The operation gets the
tag of the null range instead, which prints nothing: its call stack stays, and no wrong source is shown. In
call stacks -1 is allowed, so an unknown tag there becomes -1.

Earlier versions of this library's ``save_lowered`` left operations without a source range out of the map,
though the lowered module refers to their handles. These get rows with the null range and no operator's name.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import distinct_values, table_with
from archive.debuginfo.model import NO_TAG, RangeLayout

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.base.columns import Ints
    from archive.debuginfo.handle_tables import HandleTable
    from archive.debuginfo.tables import RangeTable

UNTAGGED = (RangeLayout.PAIR, RangeLayout.EMPTY)
"""Layouts of source ranges without tags."""


def tags_of(ranges: RangeTable) -> Ints:
    """The tags that source ranges have, sorted; layouts without tags have none."""
    tagged = np.array([layout not in UNTAGGED for layout in ranges.layouts], np.bool_)
    rows = np.repeat(tagged, np.diff(ranges.first))
    return distinct_values(ranges.tag[rows])


def rows_without_range(handles: HandleTable, tags: Ints) -> Ints:
    """The rows of a map whose tag no source range has."""
    return np.flatnonzero(~np.isin(handles.tag, tags))


def calls_without_range(handles: HandleTable, tags: Ints) -> Ints:
    """The frames of call stacks whose tag is not -1 and belongs to no source range."""
    return np.flatnonzero(~np.isin(handles.call_tag, tags) & (handles.call_tag != NO_TAG))


def mended(handles: HandleTable | None, ranges: RangeTable) -> tuple[HandleTable | None, int]:
    """A map whose tags all belong to source ranges, and how many tags were replaced.

    Returns:
        The same map and 0 without a map or a null range, or if nothing is to be mended.
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


def completed(
    handles: HandleTable | None, ranges: RangeTable, lowered: Iterable[int]
) -> tuple[HandleTable | None, int]:
    """A map with a row for each handle that lowered modules name, and how many rows were added.

    Returns:
        The same map and 0 without a map or a null range, or if nothing is to be added.
    """
    null = _null_tag(ranges)
    if handles is None or null is None:
        return handles, 0
    own: Ints = np.setdiff1d(np.fromiter(lowered, np.int64), handles.handle)
    if not len(own):
        return handles, 0
    strings = table_with(handles.strings, [b""])
    op = len(handles.strings) if (handles.op >= 0).any() else -1  # a layout has all names or none
    rows = {"tag": null, "op": op, "stack": -1}
    added = {
        name: np.append(getattr(handles, name), np.full(len(own), value)) for name, value in rows.items()
    }
    handle = np.append(handles.handle, own)
    return replace(handles, strings=strings, handle=handle, **added), len(own)


def _null_tag(ranges: RangeTable) -> int | None:
    """The tag of the null range; None if no row has it."""
    nothing = ranges.sources.is_null[ranges.source] & (ranges.start == ranges.end) & (ranges.tag >= 0)
    rows = np.flatnonzero(nothing)
    return int(ranges.tag[rows[0]]) if len(rows) else None
