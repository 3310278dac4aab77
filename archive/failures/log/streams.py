r"""The lines of a log that one process wrote, without what a logger put around each of them.

Docker, Kubernetes, journald, syslog and logcat write each line that a process prints as a separate record:

    2026-03-01T10:00:00.123456789Z stderr F   File "code/__torch__/net.py", line 8, in forward
    {"log":"  File \"code/__torch__/net.py\", line 8, in forward\n","stream":"stderr","time":"2026-03-01T…"}

A failure then takes several records, and those of other processes may stand between them. A *stream* is one
process's part of the log: lines whose prefix, or JSON around the text, is the first line's, but for times and
levels. Streams are nested: JSON may follow a prefix, and a prefix may stand in a JSON string.

Some loggers number lines, so no two have the same prefix. Then consecutive lines that differ in numbers
belong together.
"""

from __future__ import annotations

from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from archive.failures.log.forms import Recoded
from archive.failures.log.log_line import MOST_BETWEEN, LogLine, ending, without_end

if TYPE_CHECKING:
    from archive.failures.log.forms import Form, LinePart
    from archive.failures.log.lines import Lines


class LogStream(Protocol):
    """The lines of a stream, from the first line of a failure on."""

    @property
    def loosened(self) -> LogStream:
        """The consecutive lines that differ in numbers around the text."""

    def line(self, at: int) -> LogLine:
        """A line of the log whose text was asked for; 0 is the first one."""

    def text(self, at: int, *, is_patient: bool = True) -> bytes | None:
        """A line's text without line end; None where the stream ends.

        Args:
            at: its number in the stream; 0 is the first line.
            is_patient: whether to wait for it, however long the log pauses.
        """

    def first_with(self, mark: bytes, at: int, stop: int) -> int:
        """The first of some lines that may have a mark, or was not read yet; none is read for it.

        Args:
            mark: bytes of a line's text.
            at: the number of the first of these lines; the texts of those above were asked for.
            stop: the number after the last one, which is returned where all lack the mark.
        """

    def is_last(self, at: int) -> bool:
        """Whether no line of the log follows a line whose text was asked for, or none has arrived yet."""

    def text_of(self, line: bytes) -> bytes | None:
        """The text of any line of the log; None if it isn't in the stream."""

    def written(self, at: int, text: bytes, *, is_open: bool = False) -> bytes:
        """A line with another text in its place.

        Args:
            text: one line or several, without the last line's end; each becomes a line like this one.
            is_open: whether the last line has no end, where the form of lines allows that.
        """

    def cost(self, at: int) -> int:
        """The bytes that stand around each line of :meth:`written`."""


class PlainStream:
    """All lines of a log, from one on."""

    def __init__(self, first: LogLine, lines: Lines) -> None:
        self._lines = [first]
        self._ahead = lines
        self._end = ending(first.data)
        self._seen = 0

    @property
    def loosened(self) -> LogStream:
        """The same: nothing stands around its text."""
        return self

    def line(self, at: int) -> LogLine:
        return self._lines[at]

    def text(self, at: int, *, is_patient: bool = True) -> bytes | None:
        """A line's text; lines that belong to a failure above are skipped."""
        while len(self._lines) <= at:
            line = self._ahead.peek(self._seen, is_patient=is_patient)
            if line is None:
                return None
            self._seen += 1
            if line.output is None:
                self._lines.append(line)
        return without_end(self._lines[at].data)

    def first_with(self, mark: bytes, at: int, stop: int) -> int:
        """The first of some lines that has a mark, or was not read yet."""
        for number, line in enumerate(islice(self._lines, at, stop), at):
            if mark in line.data:
                return number
        for line in self._ahead.ahead(self._seen, max(0, stop - len(self._lines))):
            if line.output is None:
                if mark in line.data:
                    break
                self._lines.append(line)
            self._seen += 1
        return min(stop, len(self._lines))

    def is_last(self, at: int) -> bool:
        return self.text(at + 1, is_patient=False) is None

    def text_of(self, line: bytes) -> bytes | None:
        return without_end(line)

    def written(self, at: int, text: bytes, *, is_open: bool = False) -> bytes:
        data = self._lines[at].data
        end = b"" if is_open else data[len(without_end(data)) :]
        return text.replace(b"\n", self._end) + end

    def cost(self, at: int) -> int:  # noqa: ARG002 (it is the same for all)
        return len(self._end)


class InnerStream:
    """A stream within another.

    Args:
        is_numbered: whether its lines differ in numbers, so that only consecutive ones belong to it.
    """

    def __init__(self, parent: LogStream, form: Form, *, is_numbered: bool = False) -> None:
        self.parent = parent
        self.form = form
        self._most_between = 0 if is_numbered else MOST_BETWEEN
        self._ends = form.ends if isinstance(form, Recoded) else None
        self._is_over = False
        self._parts: list[LinePart] = []
        self._sought = 0

    @cached_property
    def loosened(self) -> LogStream:
        return InnerStream(self.parent.loosened, self.form.loosened, is_numbered=True)

    def line(self, at: int) -> LogLine:
        return self.parent.line(self._parts[at].at)

    def text(self, at: int, *, is_patient: bool = True) -> bytes | None:
        while len(self._parts) <= at:
            if self._is_over:
                return None
            last = self._parts[-1].at if self._parts else -1
            between = self._sought - last - 1
            if between > self._most_between:
                return None
            if between and self.form.mark:  # spares the rest for nearly all lines of others
                stop = last + self._most_between + 2
                self._sought = self.parent.first_with(self.form.mark, self._sought, stop)
                if self._sought == stop:
                    return None
            # After lines of others a pause ends the stream: they are not held back for long.
            text = self.parent.text(self._sought, is_patient=is_patient and not between)
            if text is None:
                return None
            self._is_over = self._ends is not None and self._ends(text)
            part = self.form.part(self._sought, text)
            if part is not None:
                self._parts.append(part)
            self._sought += 1
        return self._parts[at].text

    def first_with(self, mark: bytes, at: int, stop: int) -> int:  # noqa: ARG002 (none is known to lack it)
        """The first of the lines: a text may have what its line doesn't."""
        return at

    def is_last(self, at: int) -> bool:
        return self.parent.is_last(self._parts[at].at)

    def text_of(self, line: bytes) -> bytes | None:
        outer = self.parent.text_of(line)
        part = None if outer is None else self.form.part(0, outer)
        return None if part is None else part.text

    def written(self, at: int, text: bytes, *, is_open: bool = False) -> bytes:  # noqa: ARG002 (records end)
        part = self._parts[at]
        outer = self.parent.text(part.at) or b""
        before, after = outer[: part.start], outer[part.stop :]
        lines = (
            before + self.form.written(line + part.end, outer, part) + after for line in text.split(b"\n")
        )
        return self.parent.written(part.at, b"\n".join(lines))

    def cost(self, at: int) -> int:
        part = self._parts[at]
        outer = self.parent.text(part.at) or b""
        empty = self.form.written(part.end, outer, part)
        return self.parent.cost(part.at) + len(outer) - (part.stop - part.start) + len(empty)
