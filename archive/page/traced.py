"""Files of the model's source as stack traces show them: those lines of each that a frame names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base import memory
from archive.page.units import count_of, plain

if TYPE_CHECKING:
    from archive.formats.exported.traces import Trace, TraceFrame
    from archive.page.shown import Shown


Link = list[int]


class Span(NamedTuple):
    """A line that is shown: the number of its file, its first unit there, and how many it has."""

    file: int
    start: int
    length: int


class TracedSources:
    """The lines that stack traces name, taken trace by trace."""

    def __init__(self, shown: Shown) -> None:
        self._shown = shown
        self._lines: dict[str, dict[int, str]] = {}
        self._numbers: dict[str, int] = {}
        self._spans: list[dict[int, Span]] = []

    def take(self, trace: Trace | None) -> TraceFrame | None:
        """Take the lines of a trace; its innermost frame that is not PyTorch's, or the innermost one."""
        if trace is None:
            return None
        for frame in trace.frames:
            lines = self._lines.setdefault(self._shown.file(frame.file), {})
            if frame.code is not None and frame.line not in lines:
                memory.take(memory.ROW + 4 * len(frame.code), "lines of traces")
                lines[frame.line] = frame.code.replace("\n", " ")
        return trace.of_model

    def file(self, frame: TraceFrame | None) -> str:
        """The file of a frame, as it is shown."""
        return "" if frame is None else plain(self._shown.file(frame.file))

    def facts(self) -> dict[str, Any]:
        """The files, with the known lines; there are no records of generated code."""
        files: list[dict[str, Any]] = []
        for name in sorted(name for name, lines in self._lines.items() if lines):
            number = len(files)
            text, starts, spans, at, following = [], [], {}, 0, -1
            for line, code in sorted(self._lines[name].items()):
                if line != following:
                    starts.append([at, line])
                shown = f"{plain(code)}\n"
                size = count_of(shown)
                spans[line], following = Span(number, at, size - 1), line + 1
                text.append(shown)
                at += size
            files.append({"name": plain(name), "text": "".join(text), "lines": starts})
            self._numbers[name] = number
            self._spans.append(spans)
        return {"files": files, "records": []}

    def span(self, frame: TraceFrame | None) -> Span | None:
        """Where a frame's line is in the files of :meth:`facts`; None where it is not shown."""
        if frame is None:
            return None
        number = self._numbers.get(self._shown.file(frame.file), -1)
        return self._spans[number].get(frame.line) if number >= 0 else None

    def link(self, frame: TraceFrame | None) -> Link | None:
        """Where it begins there, for a row of a table."""
        span = self.span(frame)
        return None if span is None else [span.file, span.start]
