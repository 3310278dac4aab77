"""The call-stack debug map: what debug handles stand for.

- It can be read, and has the bytes that PyTorch would write for its rows. Texts are UTF-8.
- Handles are unique.
- The tag of each row is that of a source range. So is each tag inside of call stacks, but for -1.
- Operators have names. A map of PyTorch 1.9.0, converted to four elements, has none at all: that is one note.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.formats import callstack_map
from archive.formats.kinds import MIGRATED
from archive.model import NO_TAG
from archive.verify.records import check_bytes
from archive.verify.texts import check_texts

if TYPE_CHECKING:
    from archive.reader import Archive
    from archive.tables import HandleTable
    from archive.verify.finding import Ints, Report

MAP = callstack_map.NAME


def check_handles(archive: Archive, readable: set[str], tags: Ints | None, report: Report) -> Ints | None:
    """Check the map.

    Args:
        archive: the archive.
        readable: the records that can be read.
        tags: those of all source ranges, sorted; None where they are not all known.
        report: where findings go.

    Returns:
        The handles that the map knows, sorted; None where there is no map, or none that can be read.
    """
    table = report.attempt(MAP, lambda: archive.handle_table) if MAP in readable else None
    if table is None:
        return None
    check_texts(table.strings, [MAP], report)
    _check_unique(table, report)
    _check_operators(table, report, migrated=MIGRATED in archive.records)
    if tags is None:
        report.add("note", MAP, "", "tags are not looked up, as not all source ranges can be read")
    elif len(tags):
        _check_tags(table, tags, report)
    elif len(table):
        report.add("warning", MAP, "", "no source range has a tag, so nothing tells where the handles lead")
    layout = callstack_map.generation(table)
    check_bytes(archive, MAP, lambda: callstack_map.build_callstack_map(table, layout), report)
    return np.unique(table.handle)


def _check_unique(table: HandleTable, report: Report) -> None:
    again = np.ones(len(table), np.bool_)
    again[np.unique(table.handle, return_index=True)[1]] = False
    report.add_each(
        "error",
        MAP,
        "handles that are not unique",
        np.flatnonzero(again),
        lambda row: (f"row {row}, field handle", f"expected a new handle, found {table.handle[row]} again"),
    )


def _check_operators(table: HandleTable, report: Report, *, migrated: bool) -> None:
    named = np.flatnonzero(table.op >= 0)
    empty = named[table.strings.length[table.op[named]] == 0]
    if len(empty) and len(empty) == len(table):
        report.add("note", MAP, "", "no operator has a name, as after a conversion from PyTorch 1.9.0")
        return
    if len(empty) and migrated:
        what = "operators have no name: the archive is migrated, and what it was did not name them"
        report.add("note", MAP, "", f"{len(empty):,} {what}")
        return
    report.add_each(
        "warning",
        MAP,
        "operators without a name",
        empty,
        lambda row: (f"row {row}, field op", "expected the operator's name, found ''"),
    )


def _check_tags(table: HandleTable, tags: Ints, report: Report) -> None:
    own, call = table.tag, table.call_tag
    report.add_each(
        "error",
        MAP,
        "tags of no source range",
        np.flatnonzero(~np.isin(own, tags)),
        lambda row: (f"row {row}, field tag", f"expected the tag of a source range, found {own[row]}"),
    )
    unknown = np.flatnonzero(~np.isin(call, tags) & (call != NO_TAG))
    frames = _Frames(table)
    report.add_each(
        "error",
        MAP,
        "tags of no source range in call stacks",
        unknown,
        lambda frame: (
            f"{frames.place(frame)}, field tag",
            f"expected the tag of a source range or -1, found {call[frame]}",
        ),
    )


class _Frames:
    """Where frames stand; one that several stacks share, in one of them."""

    def __init__(self, table: HandleTable) -> None:
        self.row = np.full(len(table.next), -1, np.int64)
        rows = np.flatnonzero(table.stack >= 0)[
            ::-1
        ]  # of equal ones the last assignment, the first row, stays
        self.row[table.stack[rows]] = rows
        self.outer = np.full(len(table.next), -1, np.int64)
        frames = np.flatnonzero(table.next >= 0)
        self.outer[table.next[frames]] = frames

    def place(self, frame: int) -> str:
        """The row, and how many calls lie outside of the frame."""
        depth = 0
        while self.row[frame] < 0 and self.outer[frame] >= 0:
            frame, depth = int(self.outer[frame]), depth + 1
        return f"row {self.row[frame]}, frame {depth}"
