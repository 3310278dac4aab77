"""Answers to failures of the lite interpreter: the explanation of the debug handles that they name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import LimitError
from archive.base.spending import Recent
from archive.failures.failures import Answer, Cause
from archive.failures.families import cannot_print
from archive.failures.handles import HandleSplits
from archive.failures.messages import wording
from archive.failures.notes import why_left
from archive.failures.tracebacks import place_of
from archive.reader.lacking import why_no_handles

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.base.spending import Spending
    from archive.debuginfo.symbolicate import Style
    from archive.failures.failures import LiteFailure
    from archive.reader.archive import Archive

MAX_MESSAGE_SHOWN = 100
"""Characters of a message in a note."""
MAX_READINGS_LISTED = 3
MAX_HANDLE_DIGITS = 20
"""Digits of a debug handle, which has 64 bits."""
READINGS_KEPT = 1 << 14
"""Readings of digits seen before, together."""
TEXT_KEPT = 1 << 22
"""Bytes of explanations made before, together."""


class Readings(NamedTuple):
    """How the digits of a failure may be split.

    Attributes:
        found: what fits the archive.
        left: what the message does not contradict.
        likeliest: those of ``left`` that rank first.
        problem: why the search was given up; "" if it was not.
    """

    found: list[tuple[int, ...]]
    left: list[tuple[int, ...]]
    likeliest: list[tuple[int, ...]]
    problem: str = ""

    @property
    def weight(self) -> int:
        """The cost of keeping it, in readings."""
        return 1 + len(self.found)


class Explanation(NamedTuple):
    """The explanation of some handles.

    Attributes:
        text: as PyTorch prints it.
        place: file, line and module hierarchy of what failed.
    """

    text: bytes
    place: tuple[str, int, str]


class LiteAnswers:
    """Explains failures of the lite interpreter by their handles.

    Args:
        archive: the model that failed.
        style: the release whose wording explains them.
        spending: counts the steps of all explanations.

    Attributes:
        style: as given.
        splits: splits joined handles.
    """

    def __init__(self, archive: Archive, style: Style, spending: Spending) -> None:
        self._archive = archive
        self.style = style
        self._spending = spending
        self.splits = HandleSplits(archive)
        self._readings = Recent[tuple[str, str], Readings](READINGS_KEPT)
        self._found = Recent[tuple[int, ...], Explanation](TEXT_KEPT)

    def answer(self, failure: LiteFailure) -> Answer:
        """The archive's answer to a failure."""
        known = self._readings_of(failure)
        handles, note = self._chosen(known, failure)
        notes = ((0, note),) if note else ()
        if not handles:
            return Answer(failure, None, notes, is_possible=bool(known.left or known.problem))
        try:
            found = self._explanation(handles)
        except LimitError as error:
            why = f"handles {{{', '.join(map(str, handles))}}}: {why_left(error)}"
            return Answer(failure, None, (*notes, (0, why)), is_possible=True)
        is_named = self.splits.names_archive(failure.digits)
        cause = Cause(*found.place, wording(failure.message))
        return Answer(failure, found.text, notes, is_named, is_possible=True, cause=cause)

    def _explanation(self, handles: tuple[int, ...]) -> Explanation:
        """The explanation of handles; kept for the next failure with these.

        Raises:
            LimitError: it would be too long, or take too many steps.
        """
        known = self._found.get(handles)
        if known is not None:
            return known
        steps = self._spending.of_one_failure()
        try:
            steps.take()
            found = self._archive.symbolicate(handles, self.style)
            steps.take(found.steps)
        finally:
            self._spending.spend(steps.taken)
        text = bytes(found)
        place = place_of(frame.range for frame in reversed(found.frames))
        return self._found.keep(handles, Explanation(text, (*place, found.module_hierarchy)), len(text))

    def _chosen(self, known: Readings, failure: LiteFailure) -> tuple[tuple[int, ...], str]:
        """The reading that is taken, none where none fits or several remain; and a note, or ""."""
        shown = f"handles {{{failure.digits:.40}}}"
        if not known.left:
            return (), f"{shown}: {known.problem or self._why(failure.digits, known.found, failure.message)}"
        if len(known.likeliest) > 1:
            return (), f"{shown}: may be {_listed(known.likeliest)}, and nothing tells which"
        if len(known.left) > 1:
            taken, *others = known.left
            return taken, f"{shown}: taken as {_listed([taken])}, may also be {_listed(others)}"
        return known.left[0], ""

    def _readings_of(self, failure: LiteFailure) -> Readings:
        if failure.is_joined:
            return self._joined(failure.digits, failure.message)
        return self._read(list(self._alone(failure.digits)), failure.message, failure.digits)

    def _joined(self, digits: str, message: str) -> Readings:
        """The readings of joined handles; sought once for messages of one wording."""
        key = digits, wording(message)
        readings = self._readings.get(key)
        if readings is not None:
            return readings
        steps = self._spending.of_one_failure()
        try:
            readings = self._read(self.splits.fitting(digits, steps), message, digits)
        except LimitError as error:
            readings = Readings([], [], [], why_left(error))
        finally:
            self._spending.spend(steps.taken)
        # Digits given up because the log's steps are spent may have a reading when the log is longer.
        given_up_early = readings.problem and steps.most < self._archive.limits.work
        return readings if given_up_early else self._readings.keep(key, readings, readings.weight)

    def _read(self, found: list[tuple[int, ...]], message: str, digits: str) -> Readings:
        """The readings that a message leaves, and the likeliest; none is left out if it names the archive."""
        left = [handles for handles in found if not self._is_contradicted(handles, message)]
        if not left and self.splits.names_archive(digits):
            left = found
        return Readings(found, left, self.splits.likeliest(left))

    def _is_contradicted(self, handles: tuple[int, ...], message: str) -> bool:
        """Whether the innermost operator cannot have printed the message; a backend's always may."""
        handle = handles[0]
        known = self.splits.operations
        if not message or known[handle].method < 0:
            return False
        return known.runs_nothing(handle) or cannot_print(known.operator(handle), message)

    def _alone(self, digits: str) -> Iterator[tuple[int, ...]]:
        """The handle of a line without braces.

        Nothing else is asked of it: releases that print no braces print a backend's handle without its
        caller's.
        """
        is_number = digits.isascii() and digits.isdecimal() and str(int(digits[:MAX_HANDLE_DIGITS])) == digits
        if not is_number:
            return
        handle = self._archive.handle_form.known_as(int(digits))
        if handle in self.splits.operations:
            yield (handle,)

    def _why(self, digits: str, contradicted: list[tuple[int, ...]], message: str) -> str:
        """The reason that handles are not explained."""
        if contradicted:
            handle = contradicted[0][0]
            if self.splits.operations.runs_nothing(handle):
                what = "no operator runs there, and only operators print"
            else:
                what = f"{self.splits.operations.operator(handle)} does not print"
            return f"{what} {message[:MAX_MESSAGE_SHOWN]!r}: the failure is another model's"
        if "-" in digits:
            return "where this ran, the model had no handles"
        if not self._archive.handles:
            return why_no_handles(self._archive)
        foreign = self._archive.handle_form.foreign(digits)
        return f"not in this archive{': ' if foreign else ''}{foreign}"


def _listed(readings: Sequence[tuple[int, ...]]) -> str:
    """The first readings as text, and the number of further ones."""
    listed = "; ".join(", ".join(map(str, reading)) for reading in readings[:MAX_READINGS_LISTED])
    more = len(readings) - MAX_READINGS_LISTED
    return listed + (f"; {more} more" if more > 0 else "")
