"""Explains the failures in a log."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.spending import Spending
from archive.debuginfo.symbolicate import Style
from archive.verbs.logs.archive_answers import ArchiveAnswers
from archive.verbs.logs.causes import Causes
from archive.verbs.logs.failures import LiteFailure
from archive.verbs.logs.json_lines import explained_strings, has_failure, is_escaped
from archive.verbs.logs.lines import InnerLines, Lines, Window
from archive.verbs.logs.notes import Notes
from archive.verbs.logs.tracebacks import TRACEBACK_START

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from archive.reader.archive import Archive
    from archive.verbs.logs.failures import Answer, Answers

MAX_LINES_BEFORE = 5
"""Lines above the handles in which the error message is looked for."""
MOST_NESTED = 4
"""How deep JSON in strings of JSON is looked into."""
ESCAPED_NOTE = "a failure with escaped newlines, in no string of JSON that can be read"

SPREAD_NOTE = "a traceback whose lines are records of their own"


@bounded
def explain(log: Iterable[bytes], archive: Archive, *, style: Style = Style.CURRENT) -> Iterator[bytes]:
    """Explain the failures in a log.

    Args:
        log: the log, in lines or any other pieces.
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
        self._handles_alone = 0
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
        """The assumption behind failures whose handles do not name their archive; "" if there are none."""
        if not self._handles_alone:
            return ""
        count = "1 failure is" if self._handles_alone == 1 else f"{self._handles_alone} failures are"
        return f"nothing in the log names the model: {count} explained because nothing contradicts it"

    @bounded
    def explain(self, log: Iterable[bytes]) -> Iterator[bytes]:
        """Explain the failures in a log, as :func:`explain` does.

        Raises:
            ArchiveError: a record that is needed is broken.
        """
        return self._explained(Lines(self.spending.counted(log)), MOST_NESTED, ())

    def _explained(self, lines: Lines, nested: int, above: Iterable[bytes]) -> Iterator[bytes]:
        """Lines with the failures in them explained.

        Args:
            lines: the lines.
            nested: how deep JSON may be in strings of JSON.
            above: the lines above them.
        """
        before = deque([b"", *above], MAX_LINES_BEFORE)
        while (line := lines.take()) is not None:
            self.answers.saw(line, lines.number)
            strings = self._strings(line, before, lines.number, nested) if has_failure(line) else None
            yield from self._line(line, before, lines) if strings is None else (strings,)
            before.append(line)

    def _strings(self, line: bytes, before: deque[bytes], number: int, nested: int) -> bytes | None:
        """A line with the failures in its strings explained; None where its failure is in none."""
        inside = partial(self._inside, number, nested - 1)
        explained = explained_strings(line, before, inside) if nested else None
        if explained is None and is_escaped(line):
            self._leave(number, ESCAPED_NOTE)
            return line
        return explained

    def _leave(self, number: int, why: str) -> None:
        """Count a failure that is left, with the reason."""
        self.unknown += 1
        self._notes.add(number, why)

    def _inside(self, number: int, nested: int, text: bytes, above: Sequence[bytes]) -> bytes:
        """A text inside of a line, with the failures in it explained."""
        if TRACEBACK_START.fullmatch(text):
            self._leave(number, SPREAD_NOTE)
        return b"".join(self._explained(InnerLines(text, number), nested, above))

    def _line(self, line: bytes, before: deque[bytes], lines: Lines) -> Iterator[bytes]:
        """A line, or the lines of the failure that begins in it."""
        answer = self._answer(line, before, lines)
        return iter([line]) if answer is None else self._answered(answer, lines)

    def _answer(self, line: bytes, before: deque[bytes], lines: Lines) -> Answer | None:
        """The answer to the failure that begins in a line; None where none does."""
        if b"Debug info for handle" in line:
            failure = LiteFailure.of(line, before)
            return self.answers.of_handles(failure) if failure else None
        if b"Traceback of TorchScript" in line and TRACEBACK_START.fullmatch(line):
            return self.answers.of_traceback(Window(lines), line)
        return None

    def _answered(self, answer: Answer, lines: Lines) -> Iterator[bytes]:
        """The lines of a failure, with its explanation if there is one."""
        for line, note in answer.notes:
            self._notes.add(lines.number_of(line), note)
        failure, text = answer.failure, answer.text
        if text is None or not self._notes.may_write(failure.size(text)):
            self.unknown += 1
            self.ambiguous += answer.is_possible
            yield failure.raw[0]
            return
        self.explained += 1
        self.causes.add(answer, lines.number)
        self.named += answer.is_named
        self._handles_alone += isinstance(failure, LiteFailure) and not answer.is_named
        lines.skip(len(failure.raw) - 1)
        yield from failure.explained(text)
