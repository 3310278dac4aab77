r"""The lines of a log that one process wrote, without what a logger put around each of them.

Docker, Kubernetes, journald, syslog and logcat write each line that a process prints as a record of its own:

    2026-03-01T10:00:00.123456789Z stderr F   File "code/__torch__/net.py", line 8, in forward
    {"log":"  File \"code/__torch__/net.py\", line 8, in forward\n","stream":"stderr","time":"2026-03-01T…"}

A failure then takes several records, and those of other processes may stand between them. A *stream* is one
process's part of the log: lines whose prefix, or whose JSON around the text, is that of the first line, but
for times and levels. Streams are nested: JSON may stand behind a prefix, and a prefix in a string of JSON.

Some loggers number lines, so that no two have the same prefix. Then lines belong together that directly
follow one another, and differ in numbers.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from archive.verbs.logs.lines import STRING, Line, ending, without_end
from archive.verbs.logs.shapes import NUMBERS, TIMES, shape_of

if TYPE_CHECKING:
    import re

    from archive.verbs.logs.lines import Lines

MAX_BETWEEN = 200
"""Lines of others that may stand between two lines of a stream."""


class Stream(Protocol):
    """The lines of a stream, from the first line of a failure on."""

    @property
    def loosened(self) -> Stream:
        """The lines that directly follow one another, and differ in numbers around the text."""

    def line(self, at: int) -> Line:
        """A line of the log, of those whose text was asked for; 0 is the first one."""

    def text(self, at: int, *, is_patient: bool = True) -> bytes | None:
        """A line's text without line end; None where the stream ends.

        Args:
            at: its number in the stream; 0 is the first line.
            is_patient: whether to wait for it, however long the log pauses.
        """

    def text_of(self, line: bytes) -> bytes | None:
        """The text of any line of the log; None if it is none of the stream."""

    def written(self, at: int, text: bytes, *, is_open: bool = False) -> bytes:
        """A line with another text in its place.

        Args:
            at: its number.
            text: one line or several, without the last line's end; each becomes a line like this one.
            is_open: whether the last line shall have no end, as far as the form of lines allows it.
        """

    def cost(self, at: int) -> int:
        """The bytes that stand around each line of :meth:`written`."""


class Plain:
    """All lines of a log, from one on.

    Args:
        first: the line.
        lines: those behind it.
    """

    def __init__(self, first: Line, lines: Lines) -> None:
        self._lines = [first]
        self._ahead = lines
        self._end = ending(first.data)
        self._seen = 0

    @property
    def loosened(self) -> Stream:
        """The same: nothing stands around its text."""
        return self

    def line(self, at: int) -> Line:
        """A line of the log."""
        return self._lines[at]

    def text(self, at: int, *, is_patient: bool = True) -> bytes | None:
        """A line's text; lines that belong to a failure above are left out."""
        while len(self._lines) <= at:
            line = self._ahead.peek(self._seen, is_patient=is_patient)
            if line is None:
                return None
            self._seen += 1
            if line.output is None:
                self._lines.append(line)
        return without_end(self._lines[at].data)

    def text_of(self, line: bytes) -> bytes | None:
        """The text of any line."""
        return without_end(line)

    def written(self, at: int, text: bytes, *, is_open: bool = False) -> bytes:
        """A line with another text in its place."""
        data = self._lines[at].data
        end = b"" if is_open else data[len(without_end(data)) :]
        return text.replace(b"\n", self._end) + end

    def cost(self, at: int) -> int:  # noqa: ARG002 (it is the same for all)
        """The bytes of a line end."""
        return len(self._end)


@dataclass(frozen=True, slots=True)
class Part:
    """A line of a stream, as its parent has it.

    Attributes:
        at: its number in the parent.
        start: the byte at which its text, or the string with the text, begins.
        stop: the byte behind it.
        text: the text.
        end: the line end within the string; b"" where there is none.
    """

    at: int
    start: int
    stop: int
    text: bytes
    end: bytes = b""


class Inner:
    """A stream within another one.

    Args:
        parent: the other one.
        form: takes its lines apart.
        is_numbered: whether its lines differ in numbers, so that they are known only if they directly follow
            one another.
    """

    def __init__(self, parent: Stream, form: Form, *, is_numbered: bool = False) -> None:
        self.parent = parent
        self.form = form
        self._most_between = 0 if is_numbered else MAX_BETWEEN
        self._parts: list[Part] = []
        self._sought = 0

    @cached_property
    def loosened(self) -> Stream:
        """The lines that directly follow one another, and differ in numbers around the text."""
        return Inner(self.parent.loosened, self.form.loosened, is_numbered=True)

    def line(self, at: int) -> Line:
        """A line of the log."""
        return self.parent.line(self._parts[at].at)

    def text(self, at: int, *, is_patient: bool = True) -> bytes | None:
        """A line's text without line end; None where the stream ends."""
        while len(self._parts) <= at:
            last = self._parts[-1].at if self._parts else -1
            between = self._sought - last - 1
            if between > self._most_between:
                return None
            # Behind lines of others a pause ends the stream: they are not held back for long.
            text = self.parent.text(self._sought, is_patient=is_patient and not between)
            if text is None:
                return None
            part = self.form.part(self._sought, text)
            if part is not None:
                self._parts.append(part)
            self._sought += 1
        return self._parts[at].text

    def text_of(self, line: bytes) -> bytes | None:
        """The text of any line of the log; None if it is none of the stream."""
        outer = self.parent.text_of(line)
        part = None if outer is None else self.form.part(0, outer)
        return None if part is None else part.text

    def written(self, at: int, text: bytes, *, is_open: bool = False) -> bytes:  # noqa: ARG002 (records end)
        """A line with another text in its place."""
        part = self._parts[at]
        outer = self.parent.text(part.at) or b""
        before, behind = outer[: part.start], outer[part.stop :]
        lines = (
            before + self.form.written(one + part.end, outer, part) + behind for one in text.split(b"\n")
        )
        return self.parent.written(part.at, b"\n".join(lines))

    def cost(self, at: int) -> int:
        """The bytes that stand around each line."""
        part = self._parts[at]
        outer = self.parent.text(part.at) or b""
        return self.parent.cost(part.at) + len(outer) - (part.stop - part.start) + 2


class Form(Protocol):
    """The form of a stream's lines."""

    @property
    def loosened(self) -> Form:
        """The form of lines that differ in numbers, too."""

    def part(self, at: int, line: bytes) -> Part | None:
        """The text in a line; None if the line has another form."""

    def written(self, text: bytes, line: bytes, part: Part) -> bytes:
        """A text as it stands in a line in the place of another one."""


class Prefixed:
    """A prefix in front of the text.

    Args:
        prefix: the first line's.
        varying: what may differ in it.
    """

    def __init__(self, prefix: bytes, varying: re.Pattern[bytes] = TIMES) -> None:
        self._prefix = prefix
        self._shape = shape_of(prefix, varying)
        self._alone = shape_of(prefix.rstrip(b" "), varying)

    @property
    def loosened(self) -> Form:
        """The form of lines that differ in numbers, too."""
        return Prefixed(self._prefix, NUMBERS)

    def part(self, at: int, line: bytes) -> Part | None:
        """The text in a line. In front of an empty one the prefix may lack blanks at its end."""
        start = self._shape.end(line)
        if start < 0 and self._alone.end(line) == len(line):
            start = len(line)
        return None if start < 0 else Part(at, start, len(line), line[start:])

    def written(self, text: bytes, line: bytes, part: Part) -> bytes:  # noqa: ARG002 (as it is)
        """The text."""
        return text


class Quoted:
    """A quoted string with escapes, as in JSON, whose text is one line.

    Args:
        head: what stands before the string in the first line.
        tail: what stands behind it.
        varying: what may differ in both.
    """

    def __init__(self, head: bytes, tail: bytes, varying: re.Pattern[bytes] = TIMES) -> None:
        self._around = head, tail
        self._head = shape_of(head, varying)
        self._tail = shape_of(tail, varying)

    @property
    def loosened(self) -> Form:
        """The form of lines that differ in numbers, too."""
        return Quoted(*self._around, NUMBERS)

    def part(self, at: int, line: bytes) -> Part | None:
        """The text in a line."""
        if not line.endswith(self._tail.literals[-1]):  # spares most lines the rest
            return None
        start = self._head.end(line)
        found = STRING.match(line, start) if start >= 0 else None
        if found is None or self._tail.end(line, found.end()) != len(line):
            return None
        text = unquoted(found[0])
        whole = None if text is None else without_end(text)
        if text is None or whole is None or b"\n" in whole:
            return None
        return Part(at, start, found.end(), whole, text[len(whole) :])

    def written(self, text: bytes, line: bytes, part: Part) -> bytes:
        """The text as a string, in ASCII if the string in its place was."""
        return quoted(text, is_ascii=line[part.start : part.stop].isascii())


def unquoted(literal: bytes) -> bytes | None:
    """The text of a quoted string; None if it is none of JSON."""
    try:
        text = json.loads(literal.decode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    return str(text).encode("utf-8", "surrogatepass")


def quoted(text: bytes, *, is_ascii: bool) -> bytes:
    r"""A text as a quoted string.

    Args:
        text: the text; lines of it that are no UTF-8, as a model's source may be, are replaced.
        is_ascii: whether other characters become ``\u`` escapes.
    """
    # Half of a surrogate pair has no form in UTF-8: it stays an escape.
    dumped = json.dumps(_decoded(text), ensure_ascii=is_ascii)
    return dumped.encode("utf-8", "backslashreplace")


def _decoded(data: bytes) -> str:
    lines = []
    for line in data.split(b"\n"):
        try:
            lines.append(line.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            lines.append(line.decode("utf-8", "replace"))
    return "\n".join(lines)
