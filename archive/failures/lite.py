"""A failure of the lite interpreter, which names debug handles → the same with hierarchy and source.

A program that was lowered in parts names the handle of a node in the same words.

A reading of the digits (``handles``) is contradicted where its operator does not print the message above
(``messages``), and so is a node that has the handle. Only digits that name the archive are stronger: their
place is explained, and a note says what contradicts it.

PyTorch prints the handles at which an operation failed last in a thread. If it refuses the arguments of a
method, which it checks before the method's first operation, these are an earlier failure's, maybe of another
model. They are this one's if an instruction there calls that method through an interface, since then they
were noted after the check.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, partial
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import LimitError
from archive.base.spending import Recent
from archive.base.strings import decoded
from archive.failures.failure import Answer, Failure, FailureCause, place_of, why_left
from archive.failures.handles import CALLS, HandleSplits
from archive.failures.messages import (
    MAX_SHOWN,
    contradicted,
    known_message,
    lone_message,
    message_of,
    refused_method,
    wording,
)
from archive.failures.nodes import answer_of
from archive.failures.printed import HANDLES_NOT_FOUND
from archive.formats.bytecode import INTERFACE_CALL
from archive.reader.lacking import why_no_handles, why_no_traces
from archive.reader.lookups.lowered import lowered_nodes
from archive.reader.lookups.nodes import DELEGATE
from archive.reader.split_handles import logged_form

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.base.spending import Spending
    from archive.debuginfo.symbolicate import Style
    from archive.failures.log.streams import LogStream
    from archive.failures.one_model import OneModel
    from archive.reader.archive import Archive
    from archive.reader.facts import Facts
    from archive.reader.lookups.nodes import ProgramNode

NO_HANDLES = "where this ran, the model had no handles"
OTHERS = "the failure is another model's"
NO_LOWERED = f"no lowered node of this archive has it: {OTHERS}"
NOTHING_RUNS = "no operator runs there, and only operators print"
UNLIKELY = "as far as measured; the handle names this model, so the message may be of another failure"
REFUSED = "PyTorch refused the arguments of %s before an operation ran: the handles are an earlier failure's"
MAX_READINGS_LISTED = 3
MAX_HANDLE_DIGITS = 20
"""Digits of a debug handle, which has 64 bits."""
READINGS_KEPT = 1 << 14
"""Readings of digits seen before, together."""
TEXT_KEPT = 1 << 22
"""Bytes of explanations made before, together."""


class LiteFailure(Failure):
    """A line of the lite interpreter that names debug handles.

    Args:
        above: the texts of the lines above it, the nearest first.

    Attributes:
        is_joined: whether they may be several, printed without a separator.
        known: the error message above them; "" where ``families.txt`` doesn't have it.
        message: the same, or any other that stands there by itself or as an exception's.
        refused: the method whose arguments PyTorch refused, as the message says; "" where it says something
            else.
    """

    def __init__(self, stream: LogStream, above: Sequence[bytes] = ()) -> None:
        super().__init__(stream)
        self._text = stream.text(0) or b""
        line = HANDLES_NOT_FOUND.match(self._text)
        assert line is not None  # noqa: S101 (else it isn't a failure)
        self._start, self._stop = line.span("text")
        self.digits = (line["joined"] or line["single"]).decode()
        self.is_joined = line["joined"] is not None
        nearest = next((text for text in above if text.strip()), b"")
        self.known = known_message(decoded(nearest).strip())
        self.message = self.known or message_of(nearest) or lone_message(decoded(nearest))
        self.refused = refused_method(decoded(nearest))

    def answer(self, model: OneModel) -> Answer:
        return model.made(lite_answers).answer(self)

    @property
    def what(self) -> str:
        return f"handles {{{self.digits:.40}}}"

    @property
    def key(self) -> object:
        return self.digits, self.is_joined, wording(self.message), self.refused

    @property
    def no_line(self) -> str:  # type: ignore[override]
        """Why no line of a model is known, unless one calls a refused method; "" where handles name one."""
        if self.refused:
            return REFUSED % self.refused
        return NO_HANDLES if "-" in self.digits else ""

    @property
    def problem(self) -> str:  # type: ignore[override]
        """Why no model can explain it: its own had no handles."""
        return "" if self.refused or not self.no_line else f"{self.what}: {self.no_line}"

    def may_be_of(self, facts: Facts) -> bool:
        return facts.may_have_handles(self.digits)

    def size(self, text: bytes) -> int:
        return len(text) + text.count(b"\n") * (self.stream.cost(0) - 1)

    def explained(self, text: bytes) -> Iterator[bytes]:
        yield self.stream.written(0, self._text[: self._start] + text + self._text[self._stop :])


class Readings(NamedTuple):
    """How the digits of a failure may be split.

    Attributes:
        fitting: those that fit the archive.
        left: those that the message does not contradict.
        likeliest: those of ``left`` that rank first.
        problem: why the search was given up; "" if it wasn't.
    """

    fitting: list[tuple[int, ...]]
    left: list[tuple[int, ...]]
    likeliest: list[tuple[int, ...]]
    problem: str = ""


class Explanation(NamedTuple):
    """The explanation of some handles.

    Attributes:
        place: file, line and module hierarchy of what failed.
    """

    text: bytes
    place: tuple[str, int, str]


class LiteAnswers:
    """Explains failures of the lite interpreter by their handles."""

    def __init__(self, archive: Archive, style: Style, spending: Spending) -> None:
        self._archive = archive
        self.style = style
        self._spending = spending
        self.splits = HandleSplits(archive, partial(logged_form, archive))
        self._readings = Recent[tuple[str, ...], Readings](READINGS_KEPT)
        self._explanations = Recent[tuple[int, ...], Explanation](TEXT_KEPT)

    def answer(self, failure: LiteFailure) -> Answer:
        """The archive's answer to a failure."""
        if failure.problem:
            return Answer(failure, None, ((0, failure.problem),), is_lineless=True)
        if self._archive.programs and not self._archive.instructions:
            if failure.no_line:
                note = f"{failure.what}: {failure.no_line}"
                return Answer(failure, None, ((0, note),), is_lineless=True)
            return self._lowered_answer(failure)
        readings = self._readings_of(failure)
        handles, note = self._chosen(readings, failure)
        notes = ((0, note),) if note else ()
        if not handles:
            is_possible = bool(readings.left or readings.problem)
            is_lineless = bool(failure.no_line) and not is_possible
            return Answer(failure, None, notes, is_possible=is_possible, is_lineless=is_lineless)
        try:
            explanation = self._explanation(handles)
        except LimitError as error:
            why = f"handles {{{', '.join(map(str, handles))}}}: {why_left(error)}"
            return Answer(failure, None, (*notes, (0, why)), is_possible=True)
        is_named = self.splits.names_archive(failure.digits)
        cause = FailureCause(*explanation.place, wording(failure.message))
        return Answer(failure, explanation.text, notes, is_named, is_possible=True, cause=cause)

    def _lowered_answer(self, failure: LiteFailure) -> Answer:
        """The answer of a program: a backend names the one operation of a partition that failed."""
        nodes = self._lowered.get(failure.digits, [])
        if nodes:
            answer = answer_of(self._archive, failure, failure.what, nodes, attrgetter("text"))
            return replace(answer, is_final=not answer.is_split)
        may_have_it = self._archive.programs.may_call(DELEGATE)
        why = why_no_traces(self._archive) if may_have_it else ""
        note = f"{failure.what}: {why or NO_LOWERED}"
        return Answer(failure, None, ((0, note),), is_possible=bool(why), is_split=bool(why))

    @cached_property
    def _lowered(self) -> Mapping[str, Sequence[ProgramNode]]:
        return lowered_nodes(self._archive)

    def _explanation(self, handles: tuple[int, ...]) -> Explanation:
        """The explanation of handles, kept for the next failure with the same ones."""
        known = self._explanations.get(handles)
        if known is not None:
            return known
        with self._spending.one_failure() as steps:
            steps.take()
            symbolication = self._archive.symbolicate(handles, self.style)
            steps.take(symbolication.steps)
        text = bytes(symbolication)
        place = place_of(frame.range for frame in reversed(symbolication.frames))
        explanation = Explanation(text, (*place, symbolication.module_hierarchy))
        return self._explanations.keep(handles, explanation, len(text))

    def _chosen(self, readings: Readings, failure: LiteFailure) -> tuple[tuple[int, ...], str]:
        """The chosen reading, () where none fits or several remain; and a note, or ""."""
        shown = failure.what
        if not readings.left:
            return (), f"{shown}: {readings.problem or self._why(failure, readings.fitting)}"
        if len(readings.likeliest) > 1:
            return (), f"{shown}: may be {_listed(readings.likeliest)}, and nothing says which"
        chosen, *others = readings.left
        notes = [f"taken as {_listed([chosen])}, may also be {_listed(others)}"] if others else []
        if why := self._contradicted(chosen, failure.known):
            notes.append(f"{why}, {UNLIKELY}")
        return chosen, f"{shown}: {'; '.join(notes)}" if notes else ""

    def _readings_of(self, failure: LiteFailure) -> Readings:
        """The readings of a failure's handles; joined ones are split once for each wording of a message."""
        digits = failure.digits
        if not failure.is_joined:
            # Releases that print no braces print a backend's handle without its caller's.
            is_number = digits.isascii() and digits.isdecimal()
            is_number = is_number and str(int(digits[:MAX_HANDLE_DIGITS])) == digits
            handle = self.splits.form(digits).known_as(int(digits)) if is_number else -1
            is_known = is_number and handle in self.splits.operations
            return self._left([(handle,)] if is_known else [], failure)
        key = digits, wording(failure.known), failure.refused
        readings = self._readings.get(key)
        if readings is not None:
            return readings
        with self._spending.one_failure() as steps:
            try:
                readings = self._left(self.splits.fitting(digits, steps), failure)
            except LimitError as error:
                readings = Readings([], [], [], why_left(error))
        # Digits given up because the log's steps are spent may have a reading when the log is longer.
        given_up_early = readings.problem and steps.most < self._archive.limits.work
        return readings if given_up_early else self._readings.keep(key, readings, 1 + len(readings.fitting))

    def _left(self, fitting: list[tuple[int, ...]], failure: LiteFailure) -> Readings:
        """The readings that a message leaves, and the likeliest: all, if the digits name the archive.

        Arguments were refused whatever the digits name.
        """
        if failure.refused:
            left = [handles for handles in fitting if self._calls(handles[0], failure.refused)]
            return Readings(fitting, left, self.splits.likeliest(left))
        left = [handles for handles in fitting if not self._contradicted(handles, failure.known)]
        if not left and self.splits.names_archive(failure.digits):
            left = fitting
        return Readings(fitting, left, self.splits.likeliest(left))

    def _contradicted(self, handles: tuple[int, ...], message: str) -> str:
        """What rules out that the innermost operation printed a message, in words; "" where it may have."""
        handle = handles[0]
        known = self.splits.operations
        if message and known.runs_nothing(handle):
            return f"{NOTHING_RUNS} {message[:MAX_SHOWN]!r}"
        # That of no instruction is a backend's.
        return contradicted(known.operator(handle), message) if known[handle].method >= 0 else ""

    def _calls(self, handle: int, method: str) -> bool:
        """Whether an instruction may call a method through an interface; none calls one of the top module."""
        owner, _, name = method.rpartition(".")
        if owner == self._archive.qualified_top:
            return False
        known = self.splits.operations
        instruction = known[handle].instruction
        if instruction is None:  # a companion has no instructions
            return known.operator(handle).encode().startswith(CALLS)
        return instruction == (INTERFACE_CALL, name.encode())

    def _why(self, failure: LiteFailure, fitting: list[tuple[int, ...]]) -> str:
        """The reason that handles are not explained, though maybe some fit."""
        if failure.no_line:
            return failure.no_line
        if fitting:
            return f"{self._contradicted(fitting[0], failure.known)}: {OTHERS}"
        if not self._archive.handles:
            return why_no_handles(self._archive)
        is_own = self.splits.names_archive(failure.digits)
        foreign = "" if is_own else self._archive.handle_form.foreign(failure.digits)
        return f"not in this archive{': ' if foreign else ''}{foreign}"


def lite_answers(model: OneModel) -> LiteAnswers:
    """A model's answers to such failures."""
    return LiteAnswers(model.archive, model.style, model.spending)


def _listed(readings: Sequence[tuple[int, ...]]) -> str:
    """The first readings as text, and the number of further ones."""
    shown = "; ".join(", ".join(map(str, reading)) for reading in readings[:MAX_READINGS_LISTED])
    more = len(readings) - MAX_READINGS_LISTED
    return shown + (f"; {more} more" if more > 0 else "")
