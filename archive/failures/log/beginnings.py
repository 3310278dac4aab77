"""The stream that a failure's lines belong to, found from the line in which the failure begins."""

from __future__ import annotations

import re
from collections import deque
from itertools import chain, islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from archive.base.strings import decoded
from archive.failures.log.documents import OPENING_MARKS, Passed, form_of, may_open
from archive.failures.log.encodings import cells, entities, recodings
from archive.failures.log.forms import STRING_OR_LIST, Ended, Prefixed, Quoted, Recoded
from archive.failures.log.lines import Lines
from archive.failures.log.log_line import LogLine, without_end
from archive.failures.log.marks import NOTED
from archive.failures.log.quiet import has_failure
from archive.failures.log.streams import InnerStream, PlainStream
from archive.failures.log.strings import ESCAPED, outer
from archive.failures.messages import known_message, refused_method
from archive.failures.printed import FRAME_HEADER, HIERARCHY, NOT_CODE, RANGE_MARKING, is_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from archive.failures.log.encodings import Encoding
    from archive.failures.log.streams import LogStream


# --- beginnings

MOST_NESTED = 4
"""How deep JSON in strings of JSON is looked into."""
MOST_ABOVE = 100
"""Lines above a failure that are looked at, whatever their streams."""
MAX_ABOVE = 1 << 20
"""Bytes of these lines, together; the one directly above is always kept."""

NOTHING = PlainStream(LogLine(b"", 0), Lines(()))
SEPARATORS = (b",", b";", b"\t")
"""Stand between the cells of a table."""
STRUCTURE = {*b"\"'<>[]{}&\\%|"}
"""Characters after a failure that may belong to a text around it."""
BLANKS = re.compile(rb"(?: |&nbsp;)+\Z")
HERE = b"<--- HERE"
MOST_SHOWN = 16
"""Lines of a frame in which its marking is looked for."""
SHOWN_FRAME = re.compile(
    rb"(?P<prefix>.*?)  File %b[^\"<>|]+%b, line [0-9]{1,9}(?:, in .*)?".replace(
        b"%b", rb"(?:\"+|\\+\"|&quot;|&#34;)"
    )
)
"""The heading of a frame, also Python's, that is followed by source."""
INDENT = b"    "
OWN_MESSAGE = re.compile(rb"(?:Error|Exception)(?:: |\()[bB]?['\"]?(?:  )?Debug info for handle")
"""An exception whose message begins like the handles: PyTorch prints those below the message."""
MAX_TEXTS = 5
"""Lines of a failure's stream above it in which its error message is looked for."""


def is_noted(line: bytes) -> bool:
    """Whether a line has the words of a failure that is noted where nothing explains it."""
    return NOTED.search(line) is not None


def is_escaped(line: bytes) -> bool:
    """Whether the newlines of a line's failure are escaped, as those of an explanation must then be."""
    return ESCAPED.search(line) is not None


def is_own_message(line: bytes) -> bool:
    """Whether a line is the message of an exception that only reads like a failure's line."""
    return (b"Error" in line or b"Exception" in line) and OWN_MESSAGE.search(line) is not None


class Above:
    """The lines above a line of a log. They are looked at only once something asks for them: few lines fail.

    ``_added`` are blocks of lines that were not looked at. ``_opened`` counts the lines that may open a text
    of several lines; ``_found`` has, for each mark of one, that count when the mark was last looked for, and
    the line that had it, with its own count. ``_closed`` is the count when no text was open.

    Attributes:
        passed: the lines above those that are kept.
    """

    def __init__(self, lines: Iterable[bytes] = ()) -> None:
        self._added = deque[tuple[bytes, int]]()
        self._added_count = self._added_size = 0
        self._lines = deque[bytes]()
        self._opening = deque[bytes]()
        self._opened = 0
        self._found = dict.fromkeys(OPENING_MARKS, (0, 0, b""))
        self._closed = -1
        self._size = 0
        self.passed = Passed()
        for line in lines:
            self.add(line)

    def add(self, lines: bytes, count: int = 1) -> None:
        """Add the next line, or several whole ones."""
        self._added.append((lines, count))
        self._added_count += count
        self._added_size += len(lines)
        while len(self._added) > 1:
            first, lines_of_first = self._added[0]
            if self._added_count - lines_of_first < MOST_ABOVE and self._added_size - len(first) < MAX_ABOVE:
                return
            self._pass(first)
            self._added.popleft()
            self._added_count -= lines_of_first
            self._added_size -= len(first)

    def _pass(self, lines: bytes) -> None:
        """Keep neither the lines that are kept nor some that follow them."""
        for line in self._opening:
            self.passed.add(line)
        self.passed.add(lines)
        self._opening.clear()
        self._lines.clear()
        self._size = 0
        self._closed = -1

    def _look(self) -> None:
        """Take the lines that were added apart, and keep the last ones."""
        for lines, count in self._added:
            if count > 1:
                self._take_last(lines)
                continue
            self._lines.append(lines)
            self._size += len(lines)
            if may_open(lines):
                self._opening.append(lines)
                self._opened += 1
        self._added.clear()
        self._added_count = self._added_size = 0
        while len(self._lines) > MOST_ABOVE or (self._size > MAX_ABOVE and len(self._lines) > 1):
            line = self._lines.popleft()
            self._size -= len(line)
            if self._opening and self._opening[0] is line:
                self.passed.add(self._opening.popleft())

    def _take_last(self, lines: bytes) -> None:
        """Take whole lines, as many as are kept."""
        *others, end = lines.rsplit(b"\n", MOST_ABOVE + 1)
        assert not end  # noqa: S101 (they are whole)
        if len(others) > MOST_ABOVE:
            self._pass(others.pop(0))
        added = [line + b"\n" for line in others]
        self._lines += added
        self._size += sum(map(len, added))
        if may_open(lines):
            opening = [*filter(may_open, added)]
            self._opening += opening
            self._opened += len(opening)

    @property
    def opening(self) -> Sequence[bytes]:
        """The lines, of those that are kept, that may open a text of several lines."""
        if self._added:
            self._look()
        return self._opening

    def form(self, stream: PlainStream) -> Encoding | None:
        """How the text of several lines is written that holds the log from the next line on; None for none.

        Where nothing opened a text, nothing does until a line is added that may.
        """
        if self._added:
            self._look()
        if self._closed == self._opened:
            return None
        self._closed, has_asked = self._opened, False

        def below(at: int) -> bytes | None:
            nonlocal has_asked
            has_asked = True
            return stream.text(at)

        form = form_of(self._last, below)
        if form is not None or has_asked:
            self._closed = -1
        return form

    def _last(self, mark: bytes) -> bytes:
        """The last line, kept or passed, that has a mark of a text of several lines; b"" if there is none.

        What is found is known for the next failure, for which only the lines below it are looked at.
        """
        opening, has_mark = self.opening, OPENING_MARKS[mark]
        looked, number, found = self._found[mark]
        for at, line in enumerate(islice(reversed(opening), self._opened - looked)):
            if mark in line and has_mark(text := without_end(line)):
                number, found = self._opened - at, text
                break
        self._found[mark] = self._opened, number, found
        return found if number > self._opened - len(opening) else self.passed.last(mark)

    @property
    def hierarchy(self) -> bytes:
        """The module hierarchy that the line directly above has; b"" if it has none."""
        return next(self.nearest(), b"").partition(HIERARCHY)[2].strip()

    @property
    def is_plain(self) -> bool:
        """Whether no line, kept or passed, may open a text of several lines."""
        return not self.opening and not self.passed

    def shows_source(self, line: bytes) -> bool:
        """Whether a line below them is source that a frame shows: what it says has not happened."""
        for above in islice(self.nearest(), MOST_SHOWN):
            frame = SHOWN_FRAME.fullmatch(without_end(above)) if b"  File " in above else None
            if frame:
                part = Prefixed(frame["prefix"]).part(0, line)
                return part is not None and part.text.startswith(INDENT)
            if INDENT not in above:
                return False
        return False

    def nearest(self) -> Iterator[bytes]:
        """The lines, the one directly above first."""
        if self._added:
            self._look()
        return reversed(self._lines)


class Beginning(NamedTuple):
    """A line in which a failure begins.

    Attributes:
        plain: the log from this line on.
        quotes: the strings around the failure's text, the outermost first.
        has_end: whether a line end follows the text in the innermost string.
        document: how the text of several lines that holds the line is written; None where none is known.
    """

    plain: PlainStream
    quotes: tuple[Quoted, ...]
    text: bytes
    has_end: bool
    document: Encoding | None = None

    @classmethod
    def in_line(cls, first: LogLine, lines: Lines) -> Beginning | None:
        """The beginning of a failure; None if it stands in a text of several lines, or not in JSON."""
        plain, quotes, has_end = PlainStream(first, lines), list[Quoted](), False
        text = without_end(first.data)
        while strings := [string for string in STRING_OR_LIST.finditer(text) if has_failure(string[0])]:
            start, stop = strings[0].span()
            before, after = text[:start], text[stop:]
            is_between = before.endswith(SEPARATORS) and (not after or after.startswith(SEPARATORS))
            if is_between and not {*b"{["} & {*before} and b"\\" not in text[start:stop]:
                break  # a cell of a table in CSV, whose quotes are doubled and not escaped
            quote = Quoted(before, after)
            part = quote.part(0, text)
            if part is None or len(strings) > 1 or len(quotes) == MOST_NESTED:
                return None
            if next(outer(text), None):
                return None
            quotes.append(quote)
            text, has_end = part.text, bool(part.end)
        return (
            None
            if is_escaped(text) or next(outer(text), None)
            else cls(plain, tuple(quotes), text, has_end=has_end)
        )

    @classmethod
    def in_plain_line(cls, first: LogLine, lines: Lines) -> Beginning:
        """The beginning of a failure in a line whose strings do not count."""
        return cls(PlainStream(first, lines), (), without_end(first.data), has_end=False)

    def stream(self, prefix: bytes = b"") -> LogStream:
        """The lines from this one on with the same strings and prefix around the text.

        Args:
            prefix: what stands before the text in the innermost string; b"" for nothing.
        """
        stream: LogStream = self.plain
        for form in (*self.quotes, *((Recoded(self.document),) if self.document else ())):
            stream = InnerStream(stream, form)
        return InnerStream(stream, Prefixed(prefix)) if prefix else stream

    def stream_by_second_line(
        self,
        prefix: bytes,
        is_second: Callable[[bytes], object],
        *,
        tail: bytes = b"",
        is_patient: bool = True,
    ) -> LogStream:
        """The failure's stream, as its second line shows it.

        Args:
            prefix: what stands before the text. Only the first line may have it.
            is_second: whether a text may be the second line.
        """
        cells = self._cells(prefix, tail) if tail.startswith(b'"') else None
        exact, line = cells or self._exact(prefix, tail), self.plain.text(1, is_patient=is_patient)
        if line is None or _is(is_second, exact.text_of(line)):
            return exact
        other, unprefixed = exact.loosened, self.stream()
        if not _is(is_second, other.text_of(line)):
            second = unprefixed.text(1, is_patient=is_patient) if prefix else None
            if not _is(is_second, second):
                return exact
            other = unprefixed
        return _own(exact, is_second, is_patient=is_patient) or other

    def document_of(self, stream: LogStream, above: Above) -> Encoding | None:
        """How the text of several lines that holds the line is written; None where no document shows one.

        Args:
            stream: the document's lines, without what stands around each of them.
        """
        if stream is self.plain:
            return above.form(self.plain)
        own = stream.form.mark if isinstance(stream, InnerStream) else b""
        near = [line for line in reversed(above.opening) if own in line and self._may_open(line)]
        if not near:
            return None

        def last(mark: bytes) -> bytes:
            in_line, has_mark = mark[:1], OPENING_MARKS[mark]
            for line in near:
                if in_line in line or self.quotes:  # spares most lines the rest
                    text = stream.text_of(line)
                    if text is not None and mark in text and has_mark(text):
                        return text
            return b""

        return form_of(last, stream.text)

    def _may_open(self, line: bytes) -> bool:
        """Whether a line that may open a text may do so within the strings around this one."""
        if not self.quotes:
            return True
        return b'\\"' in line or b"'" in line or b"<" in line or b"\\u00" in line

    def in_document(self, above: Above) -> Beginning:
        """The same, with the text as the document that holds the line means it."""
        if above.is_plain:
            return self
        document = self.document_of(self.stream(), above)
        text = None if document is None else document.read(self.text)
        return self if text is None else self._replace(text=text, document=document)

    def in_encodings(self) -> Iterator[Beginning]:
        """The same, with its text as other ways to write lines mean it."""
        for encoding in recodings():
            text = encoding.read(self.text)
            if text is not None and text != self.text and b"\n" not in text:
                yield self._replace(text=text, document=encoding)

    def _document_streams(self, prefix: bytes, above: Above) -> Iterator[LogStream]:
        """The streams that are the text of a document: each line with the prefix, or without it."""
        if above.is_plain:
            return
        for around in dict.fromkeys((prefix, b"")):
            stream = self.stream(around)
            if document := self.document_of(stream, above):
                yield InnerStream(stream, Recoded(document))

    def stream_by_frame(self, prefix: bytes, tail: bytes, above: Above) -> LogStream | None:
        """The stream of a traceback, as the first frame shows it; None where no frame has its form.

        Args:
            prefix: what stands before its heading. Only the first line may have it.
        """
        line, exact = self.plain.text(1), self._exact(prefix, tail)
        held = () if tail.strip(b" ") else self._document_streams(prefix, above)
        for stream in chain(held, self._forms(prefix, tail)):
            if line is not None and _is(FRAME_HEADER.fullmatch, stream.text_of(line)) and shows_frame(stream):
                is_next = exact.text_of(line) is not None
                return stream if is_next else _own(exact, FRAME_HEADER.fullmatch) or stream
        if tail.strip(b" "):
            return None
        return self.stream_by_second_line(
            prefix, lambda line: FRAME_HEADER.fullmatch(line) or is_source(line)
        )

    def _forms(self, prefix: bytes, tail: bytes) -> Iterator[LogStream]:
        """The streams that a failure's lines may be, by what stands around the first one."""
        cells = self._cells(prefix, tail)
        bases = [self._exact(prefix, tail)]
        if prefix and not tail.strip(b" "):
            bases.append(self.stream())
        for exact in bases:
            for base in (exact, exact.loosened):
                yield base
                for encoding in recodings():
                    yield InnerStream(base, Recoded(encoding))
        yield from (cells, cells.loosened) if cells else ()

    def _exact(self, prefix: bytes, tail: bytes) -> LogStream:
        """The lines with the same strings, prefix and tail around the text."""
        return InnerStream(self.stream(), Ended(prefix, tail)) if tail.strip(b" ") else self.stream(prefix)

    def _cells(self, prefix: bytes, tail: bytes) -> LogStream | None:
        """The stream of a table's cells; None where nothing shows that a failure stands in one."""
        if prefix.endswith(b'"') and tail.startswith(b'"'):
            prefix, tail = prefix[:-1], tail[1:]
        if not prefix.endswith(SEPARATORS) or (tail and not tail.startswith(SEPARATORS)):
            return None
        around = Ended(prefix, tail) if tail else Prefixed(prefix)
        return InnerStream(InnerStream(self.stream(), around), Recoded(cells()))

    def stream_by_lines_above(self, prefix: bytes, tail: bytes, above: Above) -> Preceding | None:
        """The failure's stream, as the lines above show it; None if they don't explain its tail.

        Args:
            prefix: what stands before the text. Only the first line may have it.
        """
        for stream in self._ended(prefix, tail):
            for lines in preceding(stream, above):
                if lines.is_near:
                    return lines
        if STRUCTURE & {*tail} and not FRAME_HEADER.fullmatch(tail):  # as PyTorch 1.9 goes on
            return None
        for stream in self._document_streams(prefix, above):
            return preceding(stream, above)[0]
        exact, numbered = preceding(self.stream(prefix), above)
        options: list[Preceding] = [exact, numbered, *(preceding(self.stream(), above) if prefix else ())]
        for option in options:
            if option.ends_message:
                return option
        if (
            numbered.texts
        ):  # what stands before the text is a logger's prefix only if the line above has it too
            return exact if exact.texts else numbered
        return options[-1]

    def _ended(self, prefix: bytes, tail: bytes) -> Iterator[LogStream]:
        """The streams of lines that have a tail, or are cells of a table."""
        # Lines with tabs are more likely plain: quotes show that they are cells.
        if tail.startswith(b'"') and (cells := self._cells(prefix, tail)):
            yield cells
        if tail.lstrip(b" ").startswith(b"<br"):
            lines = InnerStream(self.stream(), Ended(BLANKS.sub(b"", prefix), tail))
            yield InnerStream(lines, Recoded(entities()))
        elif tail.strip(b" "):
            yield InnerStream(self.stream(), Ended(prefix, tail))


class Preceding(NamedTuple):
    """Lines above a failure of the lite interpreter that may belong to its stream.

    Attributes:
        texts: their texts, the nearest first.
        is_near: whether the line directly above is the same logger's.
    """

    stream: LogStream
    texts: Sequence[bytes]
    is_near: bool

    @property
    def ends_message(self) -> bool:
        """Whether they are the failure's message.

        PyTorch prints an empty line between message and handles, which some loggers drop, and none where it
        refused arguments.
        """
        nearest = self.texts[0] if self.texts else b"-"
        if not nearest.strip():
            return True
        text = decoded(nearest)
        return self.is_near and bool(known_message(text) or refused_method(text))


def preceding(stream: LogStream, above: Above) -> tuple[Preceding, Preceding]:
    """The lines of a stream above a failure, with those directly above it that differ in numbers."""
    known = (text for line in above.nearest() if (text := stream.text_of(line)) is not None)
    exact = [*islice(known, MAX_TEXTS)]
    if isinstance(stream, PlainStream):  # every line is one of its lines
        lines = Preceding(stream, exact, bool(exact))
        return lines, lines
    numbered = takewhile(lambda text: text is not None, map(stream.loosened.text_of, above.nearest()))
    near = [text for text in islice(numbered, MAX_TEXTS) if text is not None]
    return Preceding(stream, exact, bool(near)), Preceding(stream.loosened, near, bool(near))


def texts_above(head: bytes, tail: bytes, above: Above) -> Above:
    """The texts of the strings in the same place of lines above."""
    exact, numbered = preceding(InnerStream(NOTHING, Quoted(head, tail)), above)
    return Above(reversed(exact.texts or numbered.texts))


def shows_frame(stream: LogStream) -> bool:
    """Whether the first frame of a traceback is marked, so that its lines are the log's."""
    for at in range(2, 2 + MOST_SHOWN):
        line = stream.text(at)
        if line is None or NOT_CODE.match(line):
            return False
        if RANGE_MARKING.fullmatch(line) and line.endswith(HERE):
            return True
    return False


def _own(
    exact: LogStream, is_second: Callable[[bytes], object], *, is_patient: bool = True
) -> LogStream | None:
    """A stream whose next line is a failure's second; None if it isn't.

    What directly follows, and differs in numbers or has no prefix, may belong to another failing process.
    """
    return exact if _is(is_second, exact.text(1, is_patient=is_patient)) else None


def _is(is_second: Callable[[bytes], object], text: bytes | None) -> bool:
    return text is not None and bool(is_second(text))
