"""Debug handles as columns, each with the frames of its call stack, and where these are in the shown code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.base import memory
from archive.base.strings import decoded
from archive.debuginfo.sites import SELF
from archive.debuginfo.symbolicate import TOP_FUNCTION, UNKNOWN_FUNCTION
from archive.page.units import plain

if TYPE_CHECKING:
    from archive.debuginfo.handle_tables import HandleTable
    from archive.page.sources import ArchiveSources
    from archive.reader.archive import Archive

MOST_FRAMES = 1_000_000
"""Frames of all handles together; handles beyond are left out. Frames that stacks share count for each."""

Frame = list[Any]


class HandleFacts:
    """The handles of an archive.

    Args:
        sources: the places of its source ranges.
        linked: whether frames lead to code that is shown.

    Attributes:
        left_out: handles that the page has no room for.
    """

    def __init__(self, opened: Archive, sources: ArchiveSources, *, linked: bool) -> None:
        self._opened = opened
        self._sources, self._linked = sources, linked
        self._frames: dict[tuple[int, str], Frame] = {}
        self._strings: dict[int, str] = {}
        self.left_out = 0

    def facts(self) -> dict[str, Any] | None:
        """The columns; None where there are no handles."""
        table = self._opened.handle_table
        if table is None or not len(table):
            return None
        rows = self._sources.rows_with(table.tag)
        columns: dict[str, list[Any]] = {
            name: [] for name in ("handle", "operator", "path", "file", "line", "frames")
        }
        count = 0
        self._calls = self._sources.rows_with(table.call_tag)
        for row, (handle, own) in enumerate(zip(table.handle.tolist(), rows.tolist(), strict=True)):
            path, frames = self._stack(table, row, own)
            count += len(frames)
            if count > MOST_FRAMES:
                self.left_out = len(table) - row
                break
            memory.take(memory.ROW + 2 * memory.NUMBER * len(frames) + len(path), "handles")
            file, line = self._sources.file_and_line(own)
            values = handle, self._string(table, int(table.op[row])), path, file, line, frames
            for column, value in zip(columns.values(), values, strict=True):
                column.append(value)
        return columns

    def _stack(self, table: HandleTable, row: int, own: int) -> tuple[str, list[Frame]]:
        """The path of the module in which a handle's operation is, and the frames, outermost first."""
        steps: list[str] = []
        frames: list[Frame] = []
        function = decoded(TOP_FUNCTION)
        for frame in table.frames(row):
            frames.append(self._frame(int(self._calls[frame]), function))
            name = int(table.function[frame])
            function = decoded(UNKNOWN_FUNCTION) if name < 0 else self._string(table, name)
            module = int(table.module[frame])
            if module >= 0:
                instance = self._string(table, int(table.module_instance[module]))
                steps += [] if instance == SELF else [instance]
        frames.append(self._frame(own, function))
        return ".".join(steps), frames

    def _frame(self, row: int, function: str) -> Frame:
        """A range of the source in a function: its record, where its code begins, and its line in words."""
        if (row, function) not in self._frames:
            file, line = self._sources.file_and_line(row)
            memory.take(memory.ROW + len(file) + len(function), "frames")
            place = f'File "{file}", line {line}, in {function}' if line else f"in {function}"
            record = int(self._sources.record[row]) if row >= 0 and self._linked else -1
            position = int(self._sources.at[row]) if record >= 0 else -1
            self._frames[row, function] = [record, position, place]
        return self._frames[row, function]

    def _string(self, table: HandleTable, number: int) -> str:
        if number < 0:
            return ""
        if number not in self._strings:
            data = table.strings.data(number)
            memory.take(2 * len(data) + memory.ROW, "names")
            self._strings[number] = plain(decoded(data))
        return self._strings[number]
