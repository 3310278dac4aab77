"""The stream that a failure's lines belong to, found from the line in which the failure begins."""

from __future__ import annotations

import re
from collections import deque
from functools import partial
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from archive.base.strings import decoded
from archive.verbs.logs.families import known_message
from archive.verbs.logs.lines import STRING, Line, Lines, without_end
from archive.verbs.logs.shapes import NUMBERS, TIMES
from archive.verbs.logs.streams import Inner, Plain, Prefixed, Quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from archive.verbs.logs.streams import Form, Stream

    MakeForm = Callable[[re.Pattern[bytes]], Form]

MARKS = (b"Debug info for handle", b"Traceback of TorchScript")
"""Each failure has one of these in its first line."""
ESCAPED = re.compile(rb"(?:not found\.|\(most recent call last\):)\\+n")
"""A failure that PyTorch printed with newlines, which became escapes."""
MOST_NESTED = 4
"""How deep JSON in strings of JSON is looked into."""
MOST_ABOVE = 200
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
    quotes: tuple[MakeForm, ...]
    text: bytes
    has_end: bool

    @classmethod
    def of(cls, first: Line, lines: Lines) -> Beginning | None:
        """The beginning of a failure; None if it stands in a string of several lines, or in none of JSON.

        Args:
            first: the line.
            lines: those behind it.
        """
        plain, quotes, has_end = Plain(first, lines), list["MakeForm"](), False
        text = without_end(first.data)
        while strings := [found for found in STRING.finditer(text) if has_failure(found[0])]:
            start, stop = strings[0].span()
            quote = partial(Quoted, text[:start], text[stop:])
            part = quote(TIMES).part(0, text)
            if part is None or len(strings) > 1 or len(quotes) == MOST_NESTED:
                return None
            quotes.append(quote)
            text, has_end = part.text, bool(part.end)
        return None if is_escaped(text) else cls(plain, tuple(quotes), text, has_end=has_end)

    @classmethod
    def plainly(cls, first: Line, lines: Lines) -> Beginning:
        """The beginning of a failure in a line whose strings do not count."""
        return cls(Plain(first, lines), (), without_end(first.data), has_end=False)

    def stream(self, prefix: bytes = b"", varying: re.Pattern[bytes] = TIMES) -> Stream:
        """The lines from this one on that have the same strings and prefix around the text.

        Args:
            prefix: what stands before the text in the innermost string; b"" if nothing does.
            varying: what may differ around the text.
        """
        stream: Stream = self.plain
        for make in self.quotes:
            stream = Inner(stream, make(varying), is_numbered=varying is NUMBERS)
        return Inner(stream, Prefixed(prefix, varying), is_numbered=varying is NUMBERS) if prefix else stream

    def followed(self, prefix: bytes, is_second: Callable[[bytes], object]) -> Stream:
        """The failure's stream, as its second line shows it.

        Args:
            prefix: what stands before the text. The first line alone may have it.
            is_second: whether a text may be the second line.
        """
        exact, line = self.stream(prefix), self.plain.text(1)
        if line is None or _is(is_second, exact.text_of(line)):
            return exact
        if _is(is_second, self.stream(prefix, NUMBERS).text_of(line)):
            return self.stream(prefix, NUMBERS)
        unprefixed = self.stream()
        return unprefixed if prefix and _is(is_second, unprefixed.text(1)) else exact

    def preceded(self, prefix: bytes, above: Above) -> tuple[Stream, Sequence[bytes]]:
        """The failure's stream, as the lines above show it, and the texts of these, the nearest first.

        Args:
            prefix: what stands before the text. The first line alone may have it.
            above: the lines above.
        """
        before = [
            (one, _texts(self.stream(one, varying), above, is_numbered=varying is NUMBERS))
            for one in dict.fromkeys((prefix, b""))
            for varying in (TIMES, NUMBERS)
        ]
        found = next(((one, texts) for one, texts in before if ends_message(texts)), None)
        if found is None:
            (_, exact), (_, numbered), *_ = before
            found = (prefix, exact or numbered) if numbered else before[-1]
        one, texts = found
        form = Prefixed(prefix, NUMBERS)
        texts = texts if one else [part.text if (part := form.part(0, text)) else text for text in texts]
        return self.stream(one), texts


def texts_above(head: bytes, tail: bytes, above: Above) -> Above:
    """The texts of the strings that stand in the same place of lines above.

    Args:
        head: what stands before the string in a line.
        tail: what stands behind it.
        above: the lines above.
    """
    exact, numbered = (Inner(NOTHING, Quoted(head, tail, varying)) for varying in (TIMES, NUMBERS))
    texts = _texts(exact, above) or _texts(numbered, above, is_numbered=True)
    return Above(reversed(texts))


def _texts(stream: Stream, above: Above, *, is_numbered: bool = False) -> Sequence[bytes]:
    """The texts of a stream's lines above a failure, the nearest first."""
    found = map(stream.text_of, above.nearest())
    texts = takewhile(_is_there, found) if is_numbered else filter(_is_there, found)
    return [text for text in islice(texts, MAX_TEXTS) if text is not None]


def ends_message(texts: Sequence[bytes]) -> bool:
    """Whether the lines above a failure of the lite interpreter are its message, the nearest first.

    PyTorch prints an empty line between message and handles, which some loggers leave out.
    """
    return bool(texts) and (not texts[0].strip() or known_message(decoded(texts[0])) != "")


def _is_there(text: bytes | None) -> bool:
    return text is not None


def _is(is_second: Callable[[bytes], object], text: bytes | None) -> bool:
    return text is not None and bool(is_second(text))
