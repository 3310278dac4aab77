"""What loggers put around the text of a line: a prefix, or a quoted string as in JSON."""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

from archive.base.quick_dataclass import dataclass
from archive.failures.log.encodings import NUMBER_LIST, of_numbers, quoted, unquoted
from archive.failures.log.lines import STRING
from archive.failures.log.log_line import without_end
from archive.failures.log.times import MONTH, TIME_OF_DAY

if TYPE_CHECKING:
    from archive.failures.log.encodings import Encoding

# --- what differs from line to line

ZONED_CLOCK = TIME_OF_DAY + rb"(?:[.,]\d{1,9})?(?:Z| ?[+-]\d\d:?\d\d(?!\d))?"
DATE = (
    rb"(?:\d{4}[-/]\d\d[-/]\d\d[T ]|\d\d-\d\d |(?<!\d)\d{4} |"
    + MONTH
    + rb" [ \d]\d |\d\d/"
    + MONTH
    + rb"/\d{4}:)"
)
# Seconds since 1970, and parts of them; the kernel's seconds since its start; journald's counters.
EPOCH = rb"(?<!\d)1\d{9}(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?(?!\d)"
UPTIME = rb"\[ *\d{1,9}\.\d{6}\]"
SEQUENCE = rb'"_\w*(?:MONOTONIC_TIMESTAMP|SEQNUM)": ?"\d+"'
CURSOR = rb"s=[0-9a-f]{32};i=[0-9a-f]+;b=[0-9a-f]{32};m=[0-9a-f]+;t=[0-9a-f]+;x=[0-9a-f]+"
LEVEL_WORD = rb"TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRIT(?:ICAL)?|FATAL"
LEVEL = rb"\b(?:(?:" + LEVEL_WORD + rb")\b *|[VDIWEF](?=[ /]|\d{4} ))"
TIMES = re.compile(rb"|".join((DATE + ZONED_CLOCK, ZONED_CLOCK, CURSOR, SEQUENCE, EPOCH, UPTIME, LEVEL)))
"""What differs between lines of one process."""
TIMES_AND_NUMBERS = re.compile(TIMES.pattern + rb"| {0,40}\d+")
"""The same where lines are also numbered."""


class LineShape(NamedTuple):
    """A text in which some places differ from line to line.

    A level that ends the text has one blank after it, or as many as fill its column: what follows may itself
    begin with blanks, which the shape must leave.

    Attributes:
        literals: the text between these places.
        varying: what may stand there.
        column: the bytes of a level that ends the text, with the blanks that fill its column; 1 where it has
            one blank, and 0 where no level ends the text.
    """

    literals: tuple[bytes, ...]
    varying: re.Pattern[bytes]
    column: int = 0

    def end(self, line: bytes, at: int = 0) -> int:
        """Where the shape ends, if a line has it at this byte; else -1."""
        first, *others = self.literals
        if not line.startswith(first, at):
            return -1
        at += len(first)
        place = None
        for literal in others:
            place = self.varying.match(line, at)
            if place is None or not line.startswith(literal, place.end()):
                return -1
            at = place.end() + len(literal)
        if place is None or not self.column:
            return at
        level = len(place[0].rstrip(b" "))
        stop = place.start() + max(self.column, level + 1)
        return stop if stop <= at else -1


def shape_of(text: bytes, varying: re.Pattern[bytes] = TIMES) -> LineShape:
    """The shape of a text."""
    literals = tuple(varying.split(text))
    if literals[-1] or not text.endswith(b" "):
        return LineShape(literals, varying)
    *_, level = varying.finditer(text)
    return LineShape(literals, varying, len(level[0]) if level[0].endswith(b"  ") else 1)


# --- forms

STRING_OR_LIST = re.compile(STRING.pattern + b"|" + NUMBER_LIST.pattern, re.DOTALL)
"""A string, or its bytes as numbers, as journald writes bytes that JSON has no form for."""


@dataclass(frozen=True, slots=True)
class LinePart:
    """A line of a stream, as its parent has it.

    Attributes:
        at: its number in the parent.
        start: the byte at which its text, or the string with the text, begins.
        stop: the byte after it.
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
    def mark(self) -> bytes:
        """Bytes that each line of the form has; b"" where none are certain."""

    @property
    def loosened(self) -> Form:
        """The form of lines that differ in numbers, too."""

    def part(self, at: int, line: bytes) -> LinePart | None:
        """The text in a line; None if the line has another form."""

    def written(self, text: bytes, line: bytes, part: LinePart) -> bytes:
        """A text as it stands in a line, in place of another."""


class Prefixed:
    """A prefix in front of the text."""

    def __init__(self, prefix: bytes, varying: re.Pattern[bytes] = TIMES) -> None:
        self._prefix = prefix
        self._shape = shape_of(prefix, varying)
        self._alone = shape_of(prefix.rstrip(b" \t"), varying)

    @cached_property
    def mark(self) -> bytes:
        """The longest of the prefix's literals, as far as it also stands before an empty text."""
        literals = (literal.rstrip(b" \t") for literal in self._shape.literals)
        common = (one for one in literals if any(one in other for other in self._alone.literals))
        return max(common, key=len, default=b"")

    @property
    def loosened(self) -> Form:
        return Prefixed(self._prefix, TIMES_AND_NUMBERS)

    def part(self, at: int, line: bytes) -> LinePart | None:
        """The text in a line. Before an empty one, the prefix may lack blanks at its end."""
        start = self._shape.end(line)
        if start < 0 and self._alone.end(line) == len(line):
            start = len(line)
        return None if start < 0 else LinePart(at, start, len(line), line[start:])

    def written(self, text: bytes, line: bytes, part: LinePart) -> bytes:  # noqa: ARG002 (as it is)
        return text


class Ended:
    """A prefix in front of the text, and an end after it: colours that are reset, the border of a panel.

    Args:
        tail: what stands after the first line's text, with blanks that pad the line.
    """

    def __init__(self, prefix: bytes, tail: bytes, varying: re.Pattern[bytes] = TIMES) -> None:
        self._around = prefix, tail
        self._prefix = Prefixed(prefix, varying)
        self._end = tail.lstrip(b" ")
        blanks = len(tail) - len(self._end)
        self._is_filled = blanks > 1
        self._tail = b" " * (not self._is_filled and blanks) + self._end

    @property
    def mark(self) -> bytes:
        """The prefix's."""
        return self._prefix.mark

    @property
    def loosened(self) -> Form:
        return Ended(*self._around, TIMES_AND_NUMBERS)

    def part(self, at: int, line: bytes) -> LinePart | None:
        """The text in a line, without the blanks that pad it."""
        if not line.endswith(self._end):
            return None
        inner = self._prefix.part(at, line.removesuffix(self._end))
        if inner is None:
            return None
        text = inner.text.rstrip(b" ") if self._is_filled else line.removesuffix(self._tail)[inner.start :]
        return LinePart(at, inner.start, len(line), text)

    def written(self, text: bytes, line: bytes, part: LinePart) -> bytes:
        """The text, padded to the width of a line."""
        width = _width(line[part.start : len(line) - len(self._end)]) if self._is_filled else 0
        return text + b" " * (width - _width(text)) + (self._end if self._is_filled else self._tail)


def _width(text: bytes) -> int:
    return len(text.decode("utf-8", "replace"))


class Unwritable(Exception):  # noqa: N818 (no error of the log, nor of the model)
    """The form of a log's lines has no way to write a text."""


class Recoded:
    """A text of which each line is in an encoding, and nothing stands around it."""

    def __init__(self, encoding: Encoding) -> None:
        self._encoding = encoding

    @property
    def mark(self) -> bytes:
        """None is known."""
        return b""

    @property
    def loosened(self) -> Form:
        return self

    def ends(self, line: bytes) -> bool:
        """Whether a line ends the text, so that no line below belongs to it."""
        return self._encoding.ends(line)

    def part(self, at: int, line: bytes) -> LinePart | None:
        text = self._encoding.read(line)
        return None if text is None else LinePart(at, 0, len(line), text)

    def written(self, text: bytes, line: bytes, part: LinePart) -> bytes:  # noqa: ARG002 (one way for all lines)
        """The text as it is written."""
        return self._encoding.write(text)


class Quoted:
    """A quoted string with escapes, as in JSON, whose text is one line; or its bytes as numbers."""

    def __init__(self, head: bytes, tail: bytes, varying: re.Pattern[bytes] = TIMES) -> None:
        self._around = head, tail
        self._head = shape_of(head, varying)
        self._tail = shape_of(tail, varying)

    @cached_property
    def mark(self) -> bytes:
        """The longest literal of what stands around the string."""
        return max(*self._head.literals, *self._tail.literals, key=len)

    @property
    def loosened(self) -> Form:
        return Quoted(*self._around, TIMES_AND_NUMBERS)

    def part(self, at: int, line: bytes) -> LinePart | None:
        """The text in a line."""
        if not line.endswith(self._tail.literals[-1]):  # spares most lines the rest
            return None
        start = self._head.end(line)
        literal = STRING_OR_LIST.match(line, start) if start >= 0 else None
        if literal is None or self._tail.end(line, literal.end()) != len(line):
            return None
        text = _text_of(literal[0])
        whole = None if text is None else without_end(text)
        if text is None or whole is None or b"\n" in whole:
            return None
        return LinePart(at, start, literal.end(), whole, text[len(whole) :])

    def written(self, text: bytes, line: bytes, part: LinePart) -> bytes:
        """The text as a string, in ASCII if the string that it replaces was."""
        literal = line[part.start : part.stop]
        known = of_numbers(literal) if literal.startswith(b"[") else None
        return quoted(text, is_ascii=literal.isascii()) if known is None else known.write(text)


def _text_of(literal: bytes) -> bytes | None:
    if not literal.startswith(b"["):
        return unquoted(literal)
    known = of_numbers(literal)
    return None if known is None else known.text
