"""What loggers put around the text of a line: a prefix, or a quoted string as in JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from archive.verbs.logs.lines import STRING, without_end
from archive.verbs.logs.shapes import NUMBERS, TIMES, shape_of

if TYPE_CHECKING:
    import re


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
