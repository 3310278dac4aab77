"""A log → the log with its failures explained.

Each line in which a failure may begin is read three ways: as the failure's own text, in the form that a
logger gave it (``log.beginnings``); as strings that hold whole failures (``log.strings``), which are logs
themselves; and as plain text, whatever strings it has. A failure that begins there is of some kind
(``kinds``). One model or many (:class:`~archive.failures.failure.Answers`) are asked about it, and the text
of their answer is written.
"""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from archive.base.bounded import bounded
from archive.base.errors import counted
from archive.base.quick_dataclass import dataclass
from archive.base.spending import Spending
from archive.debuginfo.symbolicate import Style
from archive.failures.answers import ArchiveAnswers
from archive.failures.kinds import failure_at
from archive.failures.log.beginnings import (
    MOST_NESTED,
    Above,
    Beginning,
    is_escaped,
    is_noted,
    is_own_message,
    texts_above,
)
from archive.failures.log.forms import Unwritable
from archive.failures.log.lines import InnerLines, Lines
from archive.failures.log.python_tracebacks import lines_of_traceback
from archive.failures.log.quiet import has_failure, loud_places
from archive.failures.log.recoding import in_latin, in_utf8
from archive.failures.log.strings import explained_strings
from archive.failures.log.test_cases import TestCases
from archive.failures.log.times import LogTime, LogTimes, TimeCounts
from archive.failures.printed import HANDLES_NOT_FOUND, WHOLE_HEADING
from archive.failures.traceback_failures import UNCHECKED
from archive.reader.lacking import REMEDY

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from archive.failures.failure import Answer, Answers, Failure, FailureCause, LoggedLines
    from archive.failures.log.log_line import LogLine
    from archive.reader.archive import Archive

OF_ONE = " (-c COMPANION, or --store STORE)"
"""In the place of ``REMEDY``, where one model is asked about a log."""
ESCAPED_NOTE = "a failure with escaped newlines, in no string of JSON that can be read"
UNREAD_NOTE = "a failure in a form of lines that is not read, or in none"
OTHER_NOTE = "a failure of another kind of model: none that was asked can fail so"
OWN_NOTE = "the message of an exception reads like a failure: PyTorch prints handles below a message"
SPREAD_NOTE = "a traceback in JSON whose first frame is not found in the records after it"
LONG_NOTE = "a failure in a line of more than 1 MiB, in no string of JSON that is shorter"
TORN_NOTE = (
    "a failure in a line that a container runtime cut, whose pieces are not all there or lie too far apart"
)
UNWRITABLE_NOTE = "left unexplained: what holds its lines has no way to write the explanation"
NAMELESS = "nothing in the log names the model"
OF_RELEASE = "only the label of a release in the log names the model"
MAX_NOTES = 100
MAX_NOTE = 500
"""Characters of a note."""


class OuterPart(NamedTuple):
    """An explained failure that goes on with another one, which is counted for both."""

    models: tuple[str, ...]
    is_named: bool
    time: LogTime | None


MOST_CAUSES = 10_000
"""Causes that are kept apart; failures of others are counted together."""


@bounded
def explain(log: Iterable[bytes], archive: Archive, *, style: Style = Style.CURRENT) -> Iterator[bytes]:
    """Explain the failures in a log by one model.

    Args:
        log: the log, in lines or any other pieces. An empty piece is a pause: what may be a whole failure
            is then explained.

    ``output`` of ``archive.limits`` bounds the bytes of one explanation, and ``work`` its steps. Those of a
    log together may have four times the bytes, and 256 more for each byte of the log, and sixteen times the
    steps, and four more for each byte. A failure beyond a bound stays as it is, and a note of the
    ``LogExplainer`` says so; ``archive.open(file, limits=Limits(output=..., work=...))`` allows more.

    Yields:
        The log with its failures explained, in pieces.
    """
    return LogExplainer.of(archive, style=style).explain(log)


class LogExplainer:
    """Explains the failures in one log, and counts them.

    Attributes:
        named: the number of those explained that name the archive.
        agreed: the number of those explained that several models explain, all alike.
        ambiguous: the number of those not explained that some model may have, and nothing says which or how.
        lacking: the number of those not explained that fit only models without their debug info.
        lineless: the number of those not explained whose log shows no line of any model.
        unchecked: the number of those explained that nothing proves, for there is no code to compare.
    """

    def __init__(self, answers: Answers, spending: Spending) -> None:
        self.answers = answers
        self.spending = spending
        self.explained = self.named = self.agreed = 0
        self.unchecked = 0
        self.unknown = self.ambiguous = self.lacking = self.lineless = 0
        self.causes = Causes()
        self._unproven = Counter[str]()
        self._notes = FailureNotes(spending)
        self._times = LogTimes()
        self._cases = TestCases()
        self._outer: tuple[bytes, Above] = b"", Above()
        self._outer_parts: dict[int, OuterPart] = {}
        self._is_latin = self._is_read = False

    @classmethod
    def of(cls, archive: Archive, *, style: Style = Style.CURRENT) -> LogExplainer:
        """An explainer of one model's failures."""
        spending = Spending(archive.limits)
        return cls(ArchiveAnswers(archive, style, spending), spending)

    @property
    def notes(self) -> list[str]:
        """Notes on failures not explained, or not for certain: each once, with its first line's number.

        At the end of the log also the patterns that none of its lines matches.
        """
        return [*self._notes.texts, *self.answers.notes]

    def notes_of_most(self, most: int | None) -> list[str]:
        """The notes about most failures, and how many failures the others are about; all notes for None."""
        return self.notes if most is None else self._notes.of_most(most)

    @property
    def caveat(self) -> str:
        """The assumption of explanations that nothing proves; "" if there are none.

        Proof is a unique handle, an id or a name of the model in the log, or a hash of a redaction;
        :attr:`CauseGroup.proven` counts it. The label of a release isn't: other models may have it. Nor is
        code, though it is the model's: PyTorch prints five lines around a place, which leave out at least the
        first lines of a class, and a version that differs above or below prints the same. Explanations with a
        note of their own, since there was no code to compare, do not count.
        """
        caveats = []
        for what, count in self._unproven.items():
            failures = "1 failure is" if count == 1 else f"{count} failures are"
            caveats.append(f"{what}: {failures} explained because nothing contradicts it")
        return "; ".join(caveats)

    @bounded
    def explain(self, log: Iterable[bytes]) -> Iterator[bytes]:
        """Explain the failures in a log, as :func:`explain` does."""
        return in_utf8(
            self.spending.counted(log),
            lambda log: self._explained(Lines(log, self._loud), MOST_NESTED, Above()),
        )

    def _loud(self, lines: bytes) -> list[int]:
        """Places in whole lines, one at least in each that may change, or say something about others."""
        return [*loud_places(lines), *self.answers.naming_in(lines)]

    def _explained(self, lines: Lines, nested: int, above: Above) -> Iterator[bytes]:
        """Lines with the failures in them explained.

        Args:
            nested: how deep JSON may be in strings of JSON.
        """
        while (line := lines.take()) is not None:
            if line.output is not None:
                yield line.written(line.output)
                continue
            self._cases.saw(line.data)
            if line.count > 1:
                self.answers.saw(b"", line.number)  # the number shows where another log begins
                above.add(line.data, line.count)
                yield line.data
                continue
            is_plain = not has_failure(line.data)
            self.answers.saw(line.data, line.number, is_failing=not is_plain)
            if nested == MOST_NESTED:  # strings in a line are as old as the line
                self._outer = line.data, above
                self._is_latin = line.latin is not None
            if line.is_torn:
                self._left(line, TORN_NOTE)
            written = self.answers.named(line.data) if is_plain else self._line(line, lines, nested, above)
            yield line.written(written)
            above.add(line.data)

    def _line(self, line: LogLine, lines: Lines, nested: int, above: Above) -> bytes:
        """What is written in the place of a line that may have a failure."""
        if above.shows_source(line.data):
            return line.data
        if is_own_message(line.data):
            return self._left(line, OWN_NOTE)
        self._is_read = False
        beginning = Beginning.in_line(line, lines) if line.is_whole else None
        written = None if beginning is None else self._failure(beginning, above)
        if written is None:
            written = self._strings(line, nested, above)
        if written is None and line.is_whole:
            if beginning is None:
                written = self._failure(Beginning.in_plain_line(line, lines), above)
            if written is None and is_noted(line.data):
                return self._left(line, OTHER_NOTE if self._is_read else UNREAD_NOTE)
        return line.data if written is None else written

    def _strings(self, line: LogLine, nested: int, above: Above) -> bytes | None:
        """A line with the failures in its strings explained; None where no string holds its failure."""
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
            begins = WHOLE_HEADING in line.data or HANDLES_NOT_FOUND.match(line.data)
            return self._left(line, LONG_NOTE) if begins else None
        return self._left(line, ESCAPED_NOTE) if is_escaped(line.data) else None

    def _left(self, line: LogLine, why: str) -> bytes:
        """A line whose failure stays unexplained; counted, with the reason."""
        handles = HANDLES_NOT_FOUND.match(line.data)
        if handles and self._cases.has_shown(_handles(handles)):
            return line.data
        self.unknown += 1
        self._notes.add(line.number, why)
        return line.data

    def _failure(self, beginning: Beginning, above: Above) -> bytes | None:
        """What is written in the place of a failure's first line; None where no failure needs it."""
        failure = failure_at(beginning, above)
        if failure is None:
            return None
        failure.lines_of_traceback = lines_of_traceback(above.nearest())
        failure.stream.text(0)  # some kinds read it later
        first = failure.stream.line(0)
        outer = self._outer_parts.pop(first.number, None)
        failure.within = outer.models if outer else ()
        answer = self.answers.answer(failure)
        if answer is None and (other := self.answers.source_problem(failure)):
            self._notes.add(failure.stream.line(other[0]).number, other[1])
        if answer is None and failure.has_source(next(above.nearest(), b"")):
            return first.data
        if beginning.quotes and failure.lacks_frame:
            return self._left(first, SPREAD_NOTE)
        self._is_read |= answer is None and failure.shows_model()
        if answer is None:
            return None
        return self._answered(answer, outer, is_repeated=self._is_repeated(failure, answer))

    def _is_repeated(self, failure: Failure, answer: Answer) -> bool:
        """Whether the test case that a failure is in has shown it before, or has its full report below."""
        if answer.inner or not self._cases.is_in_one:
            return answer.failure.is_cut_short
        same = failure.key if answer.text is None else (answer.models, answer.cause)
        handles = [("handles", failure.digits)] if failure.digits else []
        return self._cases.has_shown(same, *handles) or answer.failure.is_cut_short

    def _answered(self, answer: Answer, outer: OuterPart | None, *, is_repeated: bool) -> bytes:
        """The first line of a failure, explained if there is an answer; the other lines get their output.

        Args:
            is_repeated: whether it counts where the log shows it elsewhere.
        """
        failure, text = answer.failure, answer.text
        is_named = answer.is_named or bool(outer and outer.is_named)
        is_proven = is_named or failure.is_proof
        for line, note in answer.notes:
            if not (is_repeated or (is_proven and note == UNCHECKED)):
                self._notes.add(failure.stream.line(line).number, note.replace(REMEDY, OF_ONE))
        first = failure.stream.line(0)
        lines = None if text is None else self._lines_of(failure, text)
        if lines is None and is_repeated:
            return first.data
        if lines is None:
            self.unknown += 1
            self.lacking += answer.is_split
            self.ambiguous += answer.is_possible and not answer.is_split
            self.lineless += answer.is_lineless
            return first.data
        outermost, above = self._outer
        time = self._times.of(outermost, above.nearest()) or (outer.time if outer else None)
        if answer.inner:
            inner = failure.stream.line(answer.inner).number
            self._outer_parts[inner] = OuterPart(answer.models, is_named, time)
        elif not is_repeated:
            self._count(answer, first.number, time, is_named=is_named, is_proven=is_proven)
        written, *others = lines
        for at, output in enumerate(others, 1):
            failure.stream.line(at).output = output
        return written

    def _count(
        self, answer: Answer, line: int, time: LogTime | None, *, is_named: bool, is_proven: bool
    ) -> None:
        """Count an explained failure, by the number of its first line."""
        self.explained += 1
        self.causes.add(answer, line, time, is_proven=is_proven)
        self.named += is_named
        self.agreed += len(answer.models) > 1
        self.unchecked += answer.is_unproven and not is_proven
        if not (is_proven or answer.is_unproven):
            self._unproven[OF_RELEASE if answer.is_of_release else NAMELESS] += 1

    def _lines_of(self, failure: LoggedLines, text: bytes) -> list[bytes] | None:
        """The lines of a failure with its explanation; None if that is too much, or can't be written."""
        if not self._notes.may_write(failure.size(text)):
            return None
        if not self._is_latin or in_latin(text):
            with suppress(Unwritable):
                return [*failure.explained(text)]
        self._notes.add(failure.stream.line(0).number, UNWRITABLE_NOTE)
        return None


def _handles(match: re.Match[bytes]) -> tuple[str, str]:
    """What tells the handles that a line prints from others."""
    return "handles", (match["joined"] or match["single"]).decode()


# --- notes and causes


class FailureNotes:
    """The notes about a log's failures: each once, with the number of its first line."""

    def __init__(self, spending: Spending) -> None:
        self._spending = spending
        self._counts: dict[str, tuple[int, int]] = {}
        self._more = 0
        self._left_out = 0

    @property
    def texts(self) -> list[str]:
        """The notes as they are printed; the last ones say how many failures have no note of their own."""
        return self._texts(self._counts, self._more)

    def of_most(self, most: int) -> list[str]:
        """The texts of the notes about most failures; those of others are counted."""
        ordered = sorted(self._counts.items(), key=lambda note: -note[1][1])
        left = sum(count for _, (_, count) in ordered[most:])
        return self._texts(dict(ordered[:most]), self._more + left)

    def _texts(self, counts: Mapping[str, tuple[int, int]], more: int) -> list[str]:
        texts = [
            f"line {line}: {note}" + (f" ({count} times)" if count > 1 else "")
            for note, (line, count) in counts.items()
        ]
        if more:
            texts.append(counted(more, "more such failure"))
        if self._left_out:
            failures = "1 failure" if self._left_out == 1 else f"{self._left_out} failures"
            why = f"the explanations would exceed {self._spending.most_output:,} bytes"
            texts.append(f"{failures} left unexplained: {why}; --limit output=… allows more")
        return texts

    def add(self, line: int, note: str) -> None:
        """Count a note; beyond 100 different ones, only their number is kept."""
        note = note[:MAX_NOTE]
        first, count = self._counts.get(note, (line, 0))
        if count or len(self._counts) < MAX_NOTES:
            self._counts[note] = (first, count + 1)
        else:
            self._more += 1

    def may_write(self, size: int) -> bool:
        """Whether an explanation of this size may be written; if not, it is counted."""
        allowed = self._spending.write(size)
        self._left_out += not allowed
        return allowed


@dataclass(slots=True)
class CauseGroup:
    """The failures of one cause.

    Attributes:
        models: the files of the models that explain them; () if only one model was given.
        first: the number of the line in which the first one begins.
        message: theirs if they have the same, else its wording; "" where it is not known.
        text: the explanation of the first one; None where it is not kept.
        times: how many there are in each interval of the log's time; None where no line has a time.
        first_time: the earliest time of one; None likewise.
        proven: how many of them something in the log proves to be of their models.
    """

    models: tuple[str, ...]
    cause: FailureCause
    count: int
    first: int
    last: int
    message: str = ""
    text: bytes | None = None
    times: dict[int, int] | None = None
    first_time: LogTime | None = None
    last_time: LogTime | None = None
    proven: int = 0

    @property
    def is_proven(self) -> str:
        """Whether something proves them: yes, no, or how many."""
        return {0: "no", self.count: "yes"}.get(self.proven, f"{self.proven:,} of {self.count:,}")


class Causes:
    """Counts failures by their causes.

    Attributes:
        others: the number of failures with further causes.
        room: bytes of explanations to keep, one for each cause; 0 unless the caller sets it.
    """

    def __init__(self) -> None:
        self._groups: dict[tuple[tuple[str, ...], FailureCause], CauseGroup] = {}
        self.others = 0
        self.room = 0
        self.times = TimeCounts()

    def add(self, answer: Answer, line: int, time: LogTime | None = None, *, is_proven: bool = False) -> None:
        """Count an explained failure by its answer, the number of its first line, its time and its proof."""
        assert answer.cause is not None  # noqa: S101 (it is explained)
        key = answer.models, answer.cause
        message = answer.failure.message or answer.cause.message
        group = self._groups.get(key)
        if group is not None:
            group.count += 1
            group.last = line
            if group.message != message:
                group.message = answer.cause.message
        elif len(self._groups) < MOST_CAUSES:
            group = CauseGroup(*key, 1, line, line, message, self._kept(answer))
            self._groups[key] = group
        else:
            self.others += 1
            return
        group.proven += is_proven
        if time is not None:
            group.first_time = min(group.first_time or time, time)
            group.last_time = max(group.last_time or time, time)
            if group.times is None:
                group.times = self.times.new()
            self.times.add(group.times, time.seconds)

    def _kept(self, answer: Answer) -> bytes | None:
        """The text of an answer, if there is room."""
        text = answer.text or b""
        if not 0 < len(text) <= self.room:
            return None
        self.room -= len(text)
        return text

    def top(self, most: int | None = None) -> Sequence[CauseGroup]:
        """The groups with most failures first; among equal ones, in the order of the log."""
        groups = sorted(self._groups.values(), key=lambda group: (-group.count, group.first))
        return groups[:most]
