"""Files of the model's source as stack traces show them: of each, the lines that a frame names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.formats.exported.traces import OWN_FILES
from archive.page.units import plain

if TYPE_CHECKING:
    from archive.base.limits import Allowance
    from archive.formats.exported.traces import Trace, TraceFrame
    from archive.page.shown import Shown

LINE_BYTES = 300
"""Bytes of memory that a line costs besides its text."""

Link = list[int]


class TracedSources:
    """The lines that stack traces name, taken trace by trace.

    Args:
        shown: how files are shown.
        allowance: the memory that they may cost.
    """

    def __init__(self, shown: Shown, allowance: Allowance) -> None:
        self._shown, self._allowance = shown, allowance
        self._lines: dict[str, dict[int, str]] = {}
        self._numbers: dict[str, int] = {}
        self._places: list[dict[int, int]] = []

    def take(self, trace: Trace | None) -> TraceFrame | None:
        """Take the lines of a trace; its innermost frame that is not PyTorch's, or the innermost one."""
        if trace is None:
            return None
        for frame in trace.frames:
            lines = self._lines.setdefault(self._shown.file(frame.file), {})
            if frame.code is not None and frame.line not in lines:
                self._allowance.take(LINE_BYTES + 4 * len(frame.code), "lines of traces")
                lines[frame.line] = frame.code.replace("\n", " ")
        own = (frame for frame in reversed(trace.frames) if not OWN_FILES.match(frame.file))
        return next(own, trace.frames[-1])

    def file(self, frame: TraceFrame | None) -> str:
        """The file of a frame, as it is shown."""
        return "" if frame is None else plain(self._shown.file(frame.file))

    def facts(self) -> dict[str, Any]:
        """The files, with the lines that are known; there are no records of generated code."""
        files = []
        for name in sorted(name for name, lines in self._lines.items() if lines):
            text, starts, places, at, following = [], [], {}, 0, -1
            for line, code in sorted(self._lines[name].items()):
                if line != following:
                    starts.append([at, line])
                shown = f"{plain(code)}\n"
                places[line], following = at, line + 1
                text.append(shown)
                at += len(shown) if shown.isascii() else len(shown.encode("utf-16-le")) // 2
            files.append({"name": plain(name), "text": "".join(text), "lines": starts})
            self._numbers[name] = len(self._places)
            self._places.append(places)
        return {"files": files, "records": []}

    def link(self, frame: TraceFrame | None) -> Link | None:
        """Where a frame's line is in the files of :meth:`facts`; None where it is not shown."""
        if frame is None:
            return None
        number = self._numbers.get(self._shown.file(frame.file), -1)
        if number < 0 or frame.line not in self._places[number]:
            return None
        return [number, self._places[number][frame.line]]
