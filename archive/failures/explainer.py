r"""Explains the failures in a log.

Logs in UTF-16, as PowerShell's ``>`` writes them, are explained as UTF-8 and written as UTF-16 again.
Failures in quoted strings with escapes, as in JSON, are explained there, with escapes again. Servers log
lines of JSON. Other lines have such strings, too: JSON behind a logger's prefix, ``key="value"`` pairs, a
line of a JSON file that has many. A newline in one of them would break what reads the log.

Only the strings that hold a failure are written anew; all other bytes of the line stay. A string that had
other characters than ASCII in it gets them unescaped, one that had none gets ``\u`` escapes, as before.
"""

from __future__ import annotations

import codecs
import re
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.spending import Spending
from archive.debuginfo.symbolicate import Style
from archive.failures.archive_answers import ArchiveAnswers
from archive.failures.beginnings import (
    MOST_NESTED,
    Above,
    Beginning,
    begins_failure,
    is_escaped,
    texts_above,
)
from archive.failures.causes import Causes
from archive.failures.encoded_lines import outer, regions
from archive.failures.encodings import BREAK
from archive.failures.failures import HANDLES_NOT_FOUND
from archive.failures.forms import quoted, unquoted
from archive.failures.kinds import KINDS
from archive.failures.lines import SPLITS, STRING, InnerLines, Lines
from archive.failures.marks import has_failure
from archive.failures.notes import Notes
from archive.failures.outline import Outline, SerializedOutline
from archive.failures.sources import shows_source
from archive.failures.tracebacks import FRAME_HEADER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from archive.failures.failures import Answer, Answers, Failure
    from archive.failures.lines import Line
    from archive.reader.archive import Archive

    ExplainLog = Callable[[Iterable[bytes]], Iterator[bytes]]
    from collections.abc import Callable

    from archive.failures.encoded_lines import Region

    Explain = Callable[[bytes, bytes, bytes], bytes]


# --- utf16

HEAD = 4
"""Bytes at a log's beginning that tell its encoding: a mark, or two ASCII characters."""
LITTLE = re.compile(rb"\xff\xfe|[\t-~]\0[\t-~]\0")
BIG = re.compile(rb"\xfe\xff|\0[\t-~]\0[\t-~]")


def in_utf8(log: Iterable[bytes], explain: ExplainLog) -> Iterator[bytes]:
    """A log explained by what reads UTF-8, in the log's own encoding.

    Args:
        log: the log, in pieces.
        explain: explains a log.
    """
    pieces, head = iter(log), b""
    while len(head) < HEAD and (piece := next(pieces, None)) is not None:
        head += piece
    encoding = "utf-16-le" if LITTLE.match(head) else "utf-16-be" if BIG.match(head) else ""
    whole = _chained(head, pieces)
    yield from _by_utf8(whole, encoding, explain) if encoding else explain(whole)


def _chained(first: bytes, rest: Iterable[bytes]) -> Iterator[bytes]:
    yield first
    yield from rest


def _by_utf8(log: Iterable[bytes], encoding: str, explain: ExplainLog) -> Iterator[bytes]:
    """A log in UTF-16, explained. Halves of surrogate pairs, which are no characters, stay."""
    decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")

    def texts() -> Iterator[bytes]:
        for piece in log:
            text = decoder.decode(piece)
            if text or not piece:
                yield text.encode("utf-8", "surrogatepass")

    again = codecs.getincrementaldecoder("utf-8")("surrogatepass")
    for piece in explain(texts()):
        try:
            text = again.decode(piece)
        except UnicodeDecodeError:  # a model's source may be no UTF-8
            again.reset()
            text = piece.decode("utf-8", "replace")
        yield text.encode(encoding, "surrogatepass")
    yield decoder.getstate()[0]


# --- json lines


def explained_strings(line: bytes, explain: Explain) -> bytes | None:
    """A line with the failures in its quoted strings explained; None if there are none in them.

    Args:
        line: the line.
        explain: explains a text, given what stands before its string and behind.
    """
    pieces, at, is_found = list[bytes](), 0, False
    for one in outer(line):
        pieces += [_explained_strings(line, at, one.start, explain) or line[at : one.start]]
        pieces += [_written(line, one, explain)]
        at, is_found = one.stop, True
    rest = _explained_strings(line, at, len(line), explain)
    if rest is None and not is_found:
        return _otherwise_encoded(line, explain)
    return b"".join([*pieces, line[at:] if rest is None else rest])


def _explained_strings(line: bytes, at: int, stop: int, explain: Explain) -> bytes | None:
    """A part of a line, as :func:`explained_strings` has all of it."""
    is_found = False

    def explained(found: re.Match[bytes]) -> bytes:
        nonlocal is_found
        is_one = has_failure(found[0]) and not _is_attribute(line, found)
        text = unquoted(found[0]) if is_one else None
        if text is None:
            return found[0]
        is_found = True
        new = explain(text, line[: found.start()], line[found.end() :])
        return found[0] if new == text else quoted(new, is_ascii=found[0].isascii())

    pieces = list[bytes]()
    for found in STRING.finditer(line, at, stop):
        pieces += [line[at : found.start()], explained(found)]
        at = found.end()
    return b"".join([*pieces, line[at:stop]]) if is_found else None


def _is_attribute(line: bytes, found: re.Match[bytes]) -> bool:
    """Whether a quoted string is an attribute of XML, which has entities and no escapes."""
    is_value = line.endswith(b"=", 0, found.start())
    return is_value and b'\\"' not in found[0] and BREAK.search(found[0]) is not None


def _otherwise_encoded(line: bytes, explain: Explain) -> bytes | None:
    """The same for failures in other encodings."""
    pieces, at = list[bytes](), 0
    for region in regions(line):
        pieces += [line[at : region.start], _written(line, region, explain)]
        at = region.stop
    return b"".join([*pieces, line[at:]]) if pieces else None


def _written(line: bytes, region: Region, explain: Explain) -> bytes:
    """A part of a line with the failures in it explained."""
    text, write = region.encoded
    new = explain(text, line[: region.start], line[region.stop :])
    return line[region.start : region.stop] if new == text else write(new)


# --- explainer

ESCAPED_NOTE = "a failure with escaped newlines, in no string of JSON that can be read"
UNREAD_NOTE = "a failure in a form of lines that is not read, or in none"
SPREAD_NOTE = "a traceback in JSON whose first frame is not found in the records behind it"
HEADING = b"Traceback of TorchScript (most recent call last):"
LONG_NOTE = "a failure in a line of more than 1 MiB, in no string of JSON that is shorter"


@bounded
def explain(log: Iterable[bytes], archive: Archive, *, style: Style = Style.CURRENT) -> Iterator[bytes]:
    """Explain the failures in a log.

    Args:
        log: the log, in lines or any other pieces. An empty piece is a pause: what may be a whole failure
            is then explained.
        archive: the model that failed.
        style: the release whose wording explains the lite interpreter's failures.

    ``output`` of ``archive.limits`` bounds the bytes of one explanation, and ``work`` its steps. Those of a
    log together may have four times the bytes, and 256 more for each byte of the log, and sixteen times the
    steps, and four more for each byte. A failure beyond a bound stays as it is, and a note of the
    ``Explainer`` says so; ``archive.open(file, limits=Limits(output=..., work=...))`` allows more.

    Yields:
        The log with its failures explained, in pieces.

    Raises:
        ArchiveError: a record that is needed is broken.
    """
    return Explainer.of(archive, style=style).explain(log)


class Explainer:
    """Explains the failures in logs, and counts them.

    Args:
        answers: what failures are explained by.
        spending: counts the steps and bytes of all explanations.

    Attributes:
        explained: the number of failures that were explained.
        named: the number of these that name the archive.
        unknown: the number of failures that stay unexplained.
        ambiguous: the number of these that some model may have, and it cannot be told which or how.
        causes: the explained failures by their causes.
    """

    def __init__(self, answers: Answers, spending: Spending) -> None:
        self.answers = answers
        self.spending = spending
        self.explained = self.named = self.unknown = self.ambiguous = 0
        self.causes = Causes()
        self._unproven = 0
        self._notes = Notes(spending)

    @classmethod
    def of(cls, archive: Archive, *, style: Style = Style.CURRENT) -> Explainer:
        """An explainer of one model's failures.

        Args:
            archive: the model that failed.
            style: the release whose wording explains the lite interpreter's failures.
        """
        spending = Spending(archive.limits)
        return cls(ArchiveAnswers(archive, style, spending), spending)

    @property
    def notes(self) -> list[str]:
        """Failures not explained, or not for certain: each note once, with the number of its first line."""
        return self._notes.texts

    @property
    def caveat(self) -> str:
        """The assumption behind failures whose handles or nodes name no archive; "" if there are none."""
        if not self._unproven:
            return ""
        count = "1 failure is" if self._unproven == 1 else f"{self._unproven} failures are"
        return f"nothing in the log names the model: {count} explained because nothing contradicts it"

    @bounded
    def explain(self, log: Iterable[bytes]) -> Iterator[bytes]:
        """Explain the failures in a log, as :func:`explain` does.

        Raises:
            ArchiveError: a record that is needed is broken.
        """
        return in_utf8(
            self.spending.counted(log),
            lambda log: self._explained(Lines(log, is_quiet=self._is_quiet), MOST_NESTED, Above()),
        )

    def _is_quiet(self, lines: bytes) -> bool:
        """Whether each of some lines stays as it is, and tells nothing of others; false if unsure."""
        return SPLITS not in lines and not has_failure(lines) and self.answers.is_quiet(lines)

    def _explained(self, lines: Lines, nested: int, above: Above) -> Iterator[bytes]:
        """Lines with the failures in them explained.

        Args:
            lines: the lines.
            nested: how deep JSON may be in strings of JSON.
            above: the lines above them.
        """
        while (line := lines.take()) is not None:
            if line.output is not None:
                yield line.unchanged(line.output)
                continue
            if line.count > 1:
                self.answers.saw(next(line.parted()).data, line.number)  # it tells where another log begins
                above.add_last(line.data)
                yield line.data
                continue
            self.answers.saw(line.data, line.number)
            is_plain = not has_failure(line.data)
            written = self.answers.named(line.data) if is_plain else self._line(line, lines, nested, above)
            yield line.unchanged(written)
            above.add(line.data)

    def _line(self, line: Line, lines: Lines, nested: int, above: Above) -> bytes:
        """What is written in the place of a line that may have a failure."""
        beginning = Beginning.of(line, lines) if line.is_whole else None
        plainly = Beginning.plainly(line, lines)
        written = None if beginning is None else self._failure(beginning, above)
        if written is None:
            written = self._strings(line, nested, above)
        if written is None and line.is_whole:
            if beginning is None:
                written = self._failure(plainly, above)
            if written is None and begins_failure(line.data):
                return self._left(line, UNREAD_NOTE)
        return line.data if written is None else written

    def _strings(self, line: Line, nested: int, above: Above) -> bytes | None:
        """A line with the failures in its strings explained; None where its failure is in none."""
        has_above = False

        def inside(text: bytes, head: bytes, tail: bytes) -> bytes:
            nonlocal has_above
            # Lines of a text may be records; then no line has several such strings.
            texts = Above() if has_above else texts_above(head, tail, above)
            has_above = True
            return b"".join(self._explained(InnerLines(text, line.number), nested - 1, texts))

        explained = explained_strings(line.data, inside) if nested else None
        if explained is not None:
            return explained
        if not line.is_whole:
            begins = HEADING in line.data or HANDLES_NOT_FOUND.match(line.data)
            return self._left(line, LONG_NOTE) if begins else None
        return self._left(line, ESCAPED_NOTE) if is_escaped(line.data) else None

    def _left(self, line: Line, why: str) -> bytes:
        """A line whose failure is left, which is counted, with the reason."""
        self.unknown += 1
        self._notes.add(line.number, why)
        return line.data

    def _failure(self, beginning: Beginning, above: Above) -> bytes | None:
        """What is written in the place of the first line of a failure; None where none begins."""
        for kind in KINDS:
            if found := kind.begins(beginning.text):
                failure = kind.read(beginning, found, above)
                return None if failure is None else self._of_failure(failure, beginning, above)
        return None

    def _of_failure(self, failure: Failure, beginning: Beginning, above: Above) -> bytes | None:
        """The same, of a failure that was read; None where nothing needs to be said of it."""
        answer = self.answers.answer(failure)
        if isinstance(failure, Outline) and not isinstance(failure, SerializedOutline):
            stream = failure.stream
            if answer is None and shows_source(stream, next(above.nearest(), b"")):
                return stream.line(0).data
            if beginning.quotes and not FRAME_HEADER.fullmatch(stream.text(1) or b""):
                return self._left(stream.line(0), SPREAD_NOTE)
        return None if answer is None else self._answered(answer)

    def _answered(self, answer: Answer) -> bytes:
        """The first line of a failure, with its explanation if there is one; the other lines wait for it."""
        failure, text = answer.failure, answer.text
        for line, note in answer.notes:
            self._notes.add(failure.stream.line(line).number, note)
        first = failure.stream.line(0)
        if text is None or not self._notes.may_write(failure.size(text)):
            self.unknown += 1
            self.ambiguous += answer.is_possible
            return first.data
        self.explained += 1
        self.causes.add(answer, first.number)
        self.named += answer.is_named
        self._unproven += not (failure.shows_code or answer.is_named)
        written, *others = failure.explained(text)
        for at, output in enumerate(others, 1):
            failure.stream.line(at).output = output
        return written
