"""The stream that a failure's lines belong to, found from the line in which the failure begins."""

from __future__ import annotations

import re
from collections import deque
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from archive.base.strings import decoded
from archive.verbs.logs.families import known_message
from archive.verbs.logs.forms import Prefixed, Quoted
from archive.verbs.logs.lines import STRING, Line, Lines, without_end
from archive.verbs.logs.streams import Inner, Plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from archive.verbs.logs.streams import Stream

MARKS = (
    b"Debug info for handle",
    b"Traceback of TorchScript",
    b"While executing %",
    b'File "<eval_with_key>',
    b'File \\"<eval_with_key>',  # in a string of JSON
    b'm"<eval_with_key>',  # in colour
    b'm\\"<eval_with_key>',
    b" API call failed at ",
    b"Exception raised from cpp_",
    b"_cpp_",
    b"KernelCall failed at instruction",
    b"CALL_DELEGATE execute failed at instruction",
)
"""Each failure has one of these in its first line."""
ESCAPED = re.compile(rb"(?:not found\.|\(most recent call last\):)\\+n")
"""A failure that PyTorch printed with newlines, which became escapes."""
MOST_NESTED = 4
"""How deep JSON in strings of JSON is looked into."""
MOST_ABOVE = 100
"""Lines above a failure that are looked at, however many streams they are of."""
MAX_ABOVE = 1 << 20
"""Bytes of these lines, together; the one directly above is always kept."""

NOTHING = Plain(Line(b"", 0), Lines(()))
MAX_TEXTS = 5
"""Lines of its stream above a failure in which its error message is looked for."""


def has_failure(text: bytes) -> bool:
    """Whether there may be a failure in a text."""
    return any(mark in text for mark in MARKS)


def is_escaped(line: bytes) -> bool:
    """Whether the newlines of a line's failure are escapes, so that an explanation must not have others."""
    return ESCAPED.search(line) is not None


class Above:
    """The lines above one of a log.

    Args:
        lines: the first ones.
    """

    def __init__(self, lines: Iterable[bytes] = ()) -> None:
        self._lines = deque[bytes](lines, MOST_ABOVE)
        self._size = sum(map(len, self._lines))

    def add(self, line: bytes) -> None:
        """Add the next line."""
        if len(self._lines) == MOST_ABOVE:
            self._size -= len(self._lines[0])
        self._lines.append(line)
        self._size += len(line)
        while self._size > MAX_ABOVE and len(self._lines) > 1:
            self._size -= len(self._lines.popleft())

    def nearest(self) -> Iterator[bytes]:
        """The lines, the one directly above first."""
        return reversed(self._lines)


class Beginning(NamedTuple):
    """A line in which a failure begins.

    Attributes:
        plain: the log from this line on.
        quotes: the strings around the failure's text, the outermost first.
        text: the failure's text in the line.
        has_end: whether the innermost string has a line end behind it.
    """

    plain: Plain
    quotes: tuple[Quoted, ...]
    text: bytes
    has_end: bool

    @classmethod
    def of(cls, first: Line, lines: Lines) -> Beginning | None:
        """The beginning of a failure; None if it stands in a string of several lines, or in none of JSON.

        Args:
            first: the line.
            lines: those behind it.
        """
        plain, quotes, has_end = Plain(first, lines), list[Quoted](), False
        text = without_end(first.data)
        while strings := [found for found in STRING.finditer(text) if has_failure(found[0])]:
            start, stop = strings[0].span()
            quote = Quoted(text[:start], text[stop:])
            part = quote.part(0, text)
            if part is None or len(strings) > 1 or len(quotes) == MOST_NESTED:
                return None
            quotes.append(quote)
            text, has_end = part.text, bool(part.end)
        return None if is_escaped(text) else cls(plain, tuple(quotes), text, has_end=has_end)

    @classmethod
    def plainly(cls, first: Line, lines: Lines) -> Beginning:
        """The beginning of a failure in a line whose strings do not count."""
        return cls(Plain(first, lines), (), without_end(first.data), has_end=False)

    def stream(self, prefix: bytes = b"") -> Stream:
        """The lines from this one on that have the same strings and prefix around the text.

        Args:
            prefix: what stands before the text in the innermost string; b"" if nothing does.
        """
        stream: Stream = self.plain
        for form in self.quotes:
            stream = Inner(stream, form)
        return Inner(stream, Prefixed(prefix)) if prefix else stream

    def followed(
        self, prefix: bytes, is_second: Callable[[bytes], object], *, is_patient: bool = True
    ) -> Stream:
        """The failure's stream, as its second line shows it.

        Args:
            prefix: what stands before the text. The first line alone may have it.
            is_second: whether a text may be the second line.
            is_patient: whether to wait for that line, however long the log pauses.
        """
        exact, line = self.stream(prefix), self.plain.text(1, is_patient=is_patient)
        if line is None or _is(is_second, exact.text_of(line)):
            return exact
        if _is(is_second, exact.loosened.text_of(line)):
            return exact.loosened
        unprefixed = self.stream()
        second = unprefixed.text(1, is_patient=is_patient)
        return unprefixed if prefix and _is(is_second, second) else exact

    def preceded(self, prefix: bytes, above: Above) -> Preceding:
        """The failure's stream, as the lines above show it.

        Args:
            prefix: what stands before the text. The first line alone may have it.
            above: the lines above.
        """
        exact, numbered = preceding(self.stream(prefix), above)
        options: list[Preceding] = [exact, numbered, *(preceding(self.stream(), above) if prefix else ())]
        for one in options:
            if one.ends_message:
                return one
        # What stands before the text is a logger's prefix only if the line above has it, too.
        return (exact if exact.texts else numbered) if numbered.texts else options[-1]


class Preceding(NamedTuple):
    """Lines above a failure of the lite interpreter that may be of its stream.

    Attributes:
        stream: the stream.
        texts: their texts, the nearest first.
        is_near: whether the line directly above is of the same logger.
    """

    stream: Stream
    texts: Sequence[bytes]
    is_near: bool

    @property
    def ends_message(self) -> bool:
        """Whether they are the failure's message.

        PyTorch prints an empty line between message and handles, which some loggers leave out.
        """
        nearest = self.texts[0] if self.texts else b"-"
        return not nearest.strip() or (self.is_near and known_message(decoded(nearest)) != "")


def preceding(stream: Stream, above: Above) -> tuple[Preceding, Preceding]:
    """The lines of a stream above a failure, and those directly above it that differ in numbers, too."""
    exact = (text for line in above.nearest() if (text := stream.text_of(line)) is not None)
    numbered = takewhile(_is_there, map(stream.loosened.text_of, above.nearest()))
    near = [text for text in islice(numbered, MAX_TEXTS) if text is not None]
    is_near = bool(near)
    return (
        Preceding(stream, list(islice(exact, MAX_TEXTS)), is_near),
        Preceding(stream.loosened, near, is_near),
    )


def texts_above(head: bytes, tail: bytes, above: Above) -> Above:
    """The texts of the strings that stand in the same place of lines above.

    Args:
        head: what stands before the string in a line.
        tail: what stands behind it.
        above: the lines above.
    """
    exact, numbered = preceding(Inner(NOTHING, Quoted(head, tail)), above)
    return Above(reversed(exact.texts or numbered.texts))


def _is_there(text: bytes | None) -> bool:
    return text is not None


def _is(is_second: Callable[[bytes], object], text: bytes | None) -> bool:
    return text is not None and bool(is_second(text))
