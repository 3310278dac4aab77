"""Explains the failures of the lite interpreter in a log: lines that name debug handles."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import LimitError
from archive.base.spending import Recent
from archive.base.strings import decoded
from archive.reader.lacking import why_no_handles
from archive.verbs.logs.families import cannot_print, known_message
from archive.verbs.logs.handles import HandleSplits
from archive.verbs.logs.lines import ending, has_shape
from archive.verbs.logs.messages import wording
from archive.verbs.logs.notes import why_left

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator, Sequence

    from archive.base.spending import Spending
    from archive.debuginfo.symbolicate import Style
    from archive.reader.archive import Archive
    from archive.verbs.logs.notes import Notes

# PyTorch 1.11 and later print braces around handles, 1.10 none around a single one, and 1.9 no "(s)".
HANDLES_NOT_FOUND = re.compile(
    rb"(?P<prefix>.*?)(?:  )?(?P<text>Debug info for handle(?:\(s\): |, )"
    rb"(?:debug_handles:\{(?P<joined>[-\d]+)\}|(?P<single>-?\d+)), (?:was )?not found\.)"
)
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


class LiteFailures:
    """Explains the lines of the lite interpreter, and counts them.

    Args:
        archive: the model that failed.
        style: the release whose wording explains them.
        spending: counts the steps and bytes of all explanations.
        notes: takes what is not explained, or not for certain.

    Attributes:
        explained: the number of failures that were explained.
        unknown: the number of failures that the archive cannot explain.
        named: the number of explained ones whose handles name the archive.
        splits: splits joined handles.
    """

    def __init__(self, archive: Archive, style: Style, spending: Spending, notes: Notes) -> None:
        self._archive = archive
        self._style = style
        self._spending = spending
        self._notes = notes
        self.explained = 0
        self.unknown = 0
        self.named = 0
        self.splits = HandleSplits(archive)
        self._readings = Recent[tuple[str, str], Readings](READINGS_KEPT)
        self._texts = Recent[tuple[int, ...], bytes](TEXT_KEPT)

    def line(self, line: bytes, before: deque[bytes], number: int) -> bytes:
        """Explain a line of the lite interpreter.

        Args:
            line: the line.
            before: the lines above it, which hold the error message.
            number: the line's number.
        """
        found = HANDLES_NOT_FOUND.match(line)
        if not found:
            return line
        digits = (found["joined"] or found["single"]).decode()
        message = _message(before, found["prefix"])
        handles = self._handles(digits, message, number, joined=found["joined"] is not None)
        # What stands before the text is a logger's prefix only if the line above has it, too.
        prefix = found["prefix"] if has_shape(before[-1], found["prefix"]) else b""
        text = self._text(handles, number, ending(line) + prefix) if handles else b""
        if not text:
            self.unknown += 1
            return line
        self.explained += 1
        self.named += self.splits.names_archive(digits)
        return line[: found.start("text")] + text + line[found.end("text") :]

    def _text(self, handles: tuple[int, ...], number: int, between: bytes) -> bytes:
        """The explanation of handles; b"" where it would be too long, or take too many steps.

        Args:
            handles: the handles.
            number: the line's number.
            between: what stands between the explanation's lines.
        """
        text = self._texts.get(handles)
        if text is None:
            steps = self._spending.of_one_failure()
            try:
                steps.take()
                found = self._archive.symbolicate(handles, self._style)
                steps.take(found.steps)
            except LimitError as error:
                self._notes.add(number, f"handles {{{', '.join(map(str, handles))}}}: {why_left(error)}")
                return b""
            finally:
                self._spending.spend(steps.taken)
            text = bytes(found)
            self._texts.keep(handles, text, len(text))
        if not self._notes.may_write(len(text) + text.count(b"\n") * (len(between) - 1)):
            return b""
        return text.replace(b"\n", between)

    def _handles(self, digits: str, message: str, number: int, *, joined: bool) -> tuple[int, ...]:
        """The handles in a line; none where they are not the archive's, or where several readings remain."""
        shown = f"handles {{{digits:.40}}}"
        if joined:
            known = self._joined(digits, message)
        else:
            known = self._read(list(self._alone(digits)), message, digits)
        if not known.left:
            self._notes.add(number, f"{shown}: {known.problem or self._why(digits, known.found, message)}")
            return ()
        if len(known.likeliest) > 1:
            self._notes.add(number, f"{shown}: may be {_listed(known.likeliest)}, and nothing tells which")
            return ()
        if len(known.left) > 1:
            taken, *others = known.left
            self._notes.add(number, f"{shown}: taken as {_listed([taken])}, may also be {_listed(others)}")
        return known.left[0]

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


def _message(before: deque[bytes], prefix: bytes) -> str:
    """The message above the handles without the logger's prefix; "" if ``families.txt`` lacks it."""
    for line in reversed(before):
        text = line[len(prefix) :] if has_shape(line, prefix) else line
        if text.strip():
            return known_message(decoded(text).strip())
    return ""
