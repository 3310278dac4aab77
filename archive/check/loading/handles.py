"""Checks of the call-stack map: its rows, their handles and their tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.columns import numbered
from archive.check.loading.facts import Fault, whole
from archive.debuginfo.mending import calls_without_range, mended, rows_without_range
from archive.debuginfo.model import Generation
from archive.formats import callstack_map
from archive.formats.callstack_map import CALLSTACK_MAP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.check.loading.facts import ParsedRecords
    from archive.debuginfo.handle_tables import HandleTable


def elements(facts: ParsedRecords) -> Iterator[Fault]:
    """Rows of three elements; PyTorch 1.10 and later write four."""
    if facts.handles is not None and callstack_map.generation(facts.handles) is Generation.CALLSTACK_3:
        yield whole(CALLSTACK_MAP, "rows of three elements, as PyTorch 1.9 wrote them")


def row_tags(facts: ParsedRecords) -> Iterator[Fault]:
    """Rows whose tag is no source range's."""
    if facts.handles is None or facts.tags is None:
        return
    tag = facts.handles.tag
    if not len(facts.tags) and len(tag):
        yield whole(CALLSTACK_MAP, "no source range has a tag, so nothing tells where the handles lead")
        return
    rows = rows_without_range(facts.handles, facts.tags)
    yield Fault(
        CALLSTACK_MAP,
        "tags of no source range",
        rows,
        lambda row: (f"row {row}, field tag", f"expected the tag of a source range, found {tag[row]}"),
    )


def call_tags(facts: ParsedRecords) -> Iterator[Fault]:
    """Frames of call stacks whose tag is no source range's; -1 is allowed."""
    if facts.handles is None or facts.tags is None or not len(facts.tags):
        return
    tag, frames = facts.handles.call_tag, _FramePlaces(facts.handles)
    yield Fault(
        CALLSTACK_MAP,
        "tags of no source range in call stacks",
        calls_without_range(facts.handles, facts.tags),
        lambda frame: (
            f"{frames.place(frame)}, field tag",
            f"expected the tag of a source range or -1, found {tag[frame]}",
        ),
    )


def can_be_mended(facts: ParsedRecords) -> bool:
    """Whether a migration can replace the tags of no source range."""
    return mended(facts.handles, facts.archive.range_table)[1] > 0


def unique(facts: ParsedRecords) -> Iterator[Fault]:
    """Rows with a handle that an earlier row has."""
    if facts.handles is None:
        return
    handle = facts.handles.handle
    again = np.ones(len(handle), np.bool_)
    again[numbered(handle)[1]] = False
    yield Fault(
        CALLSTACK_MAP,
        "handles that are not unique",
        np.flatnonzero(again),
        lambda row: (f"row {row}, field handle", f"expected a new handle, found {handle[row]} again"),
    )


class _FramePlaces:
    """The place of each frame; of a frame that several stacks share, the place in one of them."""

    def __init__(self, table: HandleTable) -> None:
        self.row = np.full(len(table.next), -1, np.int64)
        rows = np.flatnonzero(table.stack >= 0)[::-1]
        self.row[table.stack[rows]] = rows  # rows descend, so the first row of a shared stack wins
        self.outer = np.full(len(table.next), -1, np.int64)
        frames = np.flatnonzero(table.next >= 0)
        self.outer[table.next[frames]] = frames

    def place(self, frame: int) -> str:
        """The row, and the number of frames outside of this one."""
        depth = 0
        while self.row[frame] < 0 and self.outer[frame] >= 0:
            frame, depth = int(self.outer[frame]), depth + 1
        return f"row {self.row[frame]}, frame {depth}"
