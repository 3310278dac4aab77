"""What loggers put around the text of a line: a prefix, or a quoted string as in JSON."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from archive.failures.encodings import NUMBERS as LISTED
from archive.failures.encodings import Entities, of_numbers
from archive.failures.lines import STRING, without_end
from archive.failures.shapes import NUMBERS, TIMES, shape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LITERAL = re.compile(STRING.pattern + b"|" + LISTED.pattern, re.DOTALL)
"""A string, or its bytes as numbers: journald writes those so that JSON has no form for."""
SLASHED = re.compile(rb"\\(.)", re.DOTALL)
NEEDS_QUOTES = re.compile(rb'[",\r\n;\t]')
"""A character for which a cell of CSV needs quotes."""


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


class Ended:
    """A prefix in front of the text, and an end behind it: colours that are reset, the border of a panel.

    Args:
        prefix: the first line's.
        tail: what stands behind the first line's text, with blanks that fill the line up.
        varying: what may differ in the prefix.
    """

    def __init__(self, prefix: bytes, tail: bytes, varying: re.Pattern[bytes] = TIMES) -> None:
        self._around = prefix, tail
        self._prefix = Prefixed(prefix, varying)
        self._end = tail.lstrip(b" ")
        blanks = len(tail) - len(self._end)
        self._is_filled = blanks > 1
        self._tail = b" " * (not self._is_filled and blanks) + self._end

    @property
    def loosened(self) -> Form:
        """The form of lines that differ in numbers, too."""
        return Ended(*self._around, NUMBERS)

    def part(self, at: int, line: bytes) -> Part | None:
        """The text in a line, without blanks that fill it up."""
        if not line.endswith(self._end):
            return None
        found = self._prefix.part(at, line.removesuffix(self._end))
        if found is None:
            return None
        text = found.text.rstrip(b" ") if self._is_filled else line.removesuffix(self._tail)[found.start :]
        return Part(at, found.start, len(line), text)

    def written(self, text: bytes, line: bytes, part: Part) -> bytes:
        """The text, filled up to the width of a line."""
        width = _width(line[part.start : len(line) - len(self._end)]) if self._is_filled else 0
        return text + b" " * (width - _width(text)) + (self._end if self._is_filled else self._tail)


def _width(text: bytes) -> int:
    return len(text.decode("utf-8", "replace"))


class Recoded:
    """A text in which some characters are written as others.

    Args:
        read: gives the text; None where it is written in another way.
        write: writes a text.
    """

    def __init__(self, read: Callable[[bytes], bytes | None], write: Callable[[bytes], bytes]) -> None:
        self._read, self._write = read, write

    @property
    def loosened(self) -> Form:
        """The same: nothing stands around its text."""
        return self

    def part(self, at: int, line: bytes) -> Part | None:
        """The text in a line."""
        text = self._read(line)
        return None if text is None else Part(at, 0, len(line), text)

    def written(self, text: bytes, line: bytes, part: Part) -> bytes:  # noqa: ARG002 (one way for all lines)
        """The text as it is written."""
        return self._write(text)


def recodings() -> Iterator[Form]:
    """The ways in which lines may be written: as entities, with quotes doubled, or behind backslashes."""
    entities = Entities()
    yield Recoded(entities.read, entities.write)
    yield Recoded(_undoubled, lambda text: text.replace(b'"', b'""'))
    yield Recoded(_unslashed, lambda text: text.replace(b"\\", b"\\\\").replace(b'"', b'\\"'))


class Cells(Recoded):
    """Cells of a table in CSV: in quotes all of them, or those that need some."""

    def __init__(self) -> None:
        super().__init__(self._of_cell, self._as_cell)
        self._has_bare = False

    def _of_cell(self, line: bytes) -> bytes | None:
        if line.startswith(b'"'):
            is_whole = len(line) > 1 and line.endswith(b'"')
            return _undoubled(line[1:-1]) if is_whole else None
        self._has_bare = True
        return None if b'"' in line else line

    def _as_cell(self, text: bytes) -> bytes:
        is_bare = self._has_bare and not NEEDS_QUOTES.search(text)
        return text if is_bare else b'"%b"' % text.replace(b'"', b'""')


def _undoubled(line: bytes) -> bytes | None:
    return None if line.replace(b'""', b"").count(b'"') else line.replace(b'""', b'"')


def _unslashed(line: bytes) -> bytes | None:
    text = SLASHED.sub(rb"\1", line)
    return None if SLASHED.sub(b"", line).count(b'"') else text


class Quoted:
    """A quoted string with escapes, as in JSON, whose text is one line; or its bytes as numbers.

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
        found = LITERAL.match(line, start) if start >= 0 else None
        if found is None or self._tail.end(line, found.end()) != len(line):
            return None
        text = _text_of(found[0])
        whole = None if text is None else without_end(text)
        if text is None or whole is None or b"\n" in whole:
            return None
        return Part(at, start, found.end(), whole, text[len(whole) :])

    def written(self, text: bytes, line: bytes, part: Part) -> bytes:
        """The text as a string, in ASCII if the string in its place was."""
        literal = line[part.start : part.stop]
        known = of_numbers(literal) if literal.startswith(b"[") else None
        return quoted(text, is_ascii=literal.isascii()) if known is None else known.write(text)


def _text_of(literal: bytes) -> bytes | None:
    if not literal.startswith(b"["):
        return unquoted(literal)
    known = of_numbers(literal)
    return None if known is None else known.text


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
