"""Explains the failures in a log."""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from archive.base.bounded import bounded
from archive.base.errors import LimitError
from archive.base.spending import Recent, Spending
from archive.base.strings import decoded
from archive.debuginfo.symbolicate import Style
from archive.reader.lacking import why_no_handles, why_no_ranges
from archive.verbs.logs.families import cannot_print, known_message
from archive.verbs.logs.handles import HandleSplits
from archive.verbs.logs.lines import Lines, ending, has_shape
from archive.verbs.logs.messages import wording
from archive.verbs.logs.tracebacks import (
    MAX_BYTES,
    MAX_LINES,
    TRACEBACK_START,
    CodeRecord,
    CompanionCode,
    Traceback,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from archive.reader.archive import Archive
    from archive.verbs.logs.tracebacks import LoggedFrame

# PyTorch 1.11 and later print braces around handles, 1.10 none around a single one, and 1.9 no "(s)".
HANDLES_NOT_FOUND = re.compile(
    rb"(?P<prefix>.*?)(?:  )?(?P<text>Debug info for handle(?:\(s\): |, )"
    rb"(?:debug_handles:\{(?P<joined>[-\d]+)\}|(?P<single>-?\d+)), (?:was )?not found\.)"
)
MAX_NOTES = 100
MAX_NOTE = 500
"""Characters of a note."""
MAX_LINES_BEFORE = 5
"""Lines above the handles in which the error message is looked for."""
MAX_MESSAGE_SHOWN = 100
"""Characters of a message in a note."""
MAX_READINGS_LISTED = 3
MAX_HANDLE_DIGITS = 20
"""Digits of a debug handle, which has 64 bits."""
READINGS_KEPT = 1 << 14
"""Readings of digits seen before, together."""
TEXT_KEPT = 1 << 22
"""Bytes of explanations made before, together."""
EXPLAINED_BY = ("output", "work")
"""The bounds beyond which a failure stays unexplained; the log goes on."""


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
        """What keeping it costs, in readings."""
        return 1 + len(self.found)


@bounded
def explain(log: Iterable[bytes], archive: Archive, *, style: Style = Style.CURRENT) -> Iterator[bytes]:
    """Explain the failures in a log.

    Args:
        log: the log, in lines or any other pieces.
        archive: the model that failed.
        style: the release whose wording explains the lite interpreter's failures.

    Yields:
        The log with its failures explained, in pieces.

    Raises:
        ArchiveError: a record that is needed is broken.
    """
    return Explainer(archive, style=style).explain(log)


class Explainer:
    """Explains the failures in logs, and counts them.

    Args:
        archive: the model that failed.
        style: the release whose wording explains the lite interpreter's failures.

    Attributes:
        explained: the number of failures that were explained.
        unknown: the number of failures that the archive cannot explain.
    """

    def __init__(self, archive: Archive, *, style: Style = Style.CURRENT) -> None:
        self.archive = archive
        self.style = style
        self.explained = 0
        self.unknown = 0
        self._by_handles = 0
        self._splits = HandleSplits(archive)
        self._spending = Spending(archive.limits)
        self._readings = Recent[tuple[str, str], Readings](READINGS_KEPT)
        self._texts = Recent[tuple[int, ...], bytes](TEXT_KEPT)
        self._left_out = 0
        self._unchecked = not archive.has_code
        self._code = lru_cache(maxsize=256)(self._code_of)
        self._notes: dict[str, tuple[int, int]] = {}
        self._more = 0

    @property
    def notes(self) -> list[str]:
        """Failures not explained, or not for certain: each note once, with the number of its first line."""
        notes = [
            f"line {line}: {note}" + (f" ({count} times)" if count > 1 else "")
            for note, (line, count) in self._notes.items()
        ]
        if self._more:
            notes.append(f"{self._more} more such failures")
        if self._left_out:
            failures = "1 failure" if self._left_out == 1 else f"{self._left_out} failures"
            why = f"the explanations would exceed {self._spending.most_output:,} bytes"
            notes.append(f"{failures} left unexplained: {why}; --limit output=… allows more")
        return notes

    @property
    def caveat(self) -> str:
        """The assumption behind failures explained by their handles; "" if there are none."""
        if not self._by_handles:
            return ""
        count = "1 failure is" if self._by_handles == 1 else f"{self._by_handles} failures are"
        return f"nothing in the log names the model: {count} explained because nothing contradicts it"

    @bounded
    def explain(self, log: Iterable[bytes]) -> Iterator[bytes]:
        """Explain the failures in a log, as :func:`explain` does.

        Raises:
            ArchiveError: a record that is needed is broken.
        """
        lines = Lines(self._spending.counted(log))
        before = deque([b""], MAX_LINES_BEFORE)
        while (line := lines.take()) is not None:
            if b"Debug info for handle" in line:
                yield self._lite(line, before, lines.number)
            elif b"Traceback of TorchScript" in line and TRACEBACK_START.fullmatch(line):
                yield from self._traceback(lines, line)
            else:
                yield line
            before.append(line)

    def _code_of(self, file: bytes) -> CodeRecord:
        """The code record of a file name; cached, for a traceback names the same records again and again."""
        if self.archive.companion and self._unchecked:
            return CompanionCode(self.archive.companion, file)
        return CodeRecord(self.archive, file)

    def _note(self, line: int, note: str) -> None:
        """Count a note; of more than 100 different ones only the number is kept."""
        note = note[:MAX_NOTE]
        first, count = self._notes.get(note, (line, 0))
        if count or len(self._notes) < MAX_NOTES:
            self._notes[note] = (first, count + 1)
        else:
            self._more += 1

    def _lite(self, line: bytes, before: deque[bytes], number: int) -> bytes:
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
        self._by_handles += 1
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
                found = self.archive.symbolicate(handles, self.style)
                steps.take(found.steps)
            except LimitError as error:
                self._note(number, f"handles {{{', '.join(map(str, handles))}}}: {_left(error)}")
                return b""
            finally:
                self._spending.spend(steps.taken)
            text = bytes(found)
            self._texts.keep(handles, text, len(text))
        if not self._may_write(len(text) + text.count(b"\n") * (len(between) - 1)):
            return b""
        return text.replace(b"\n", between)

    def _may_write(self, size: int) -> bool:
        """Whether an explanation of so many bytes may be written; counted if not."""
        allowed = self._spending.write(size)
        self._left_out += not allowed
        return allowed

    def _handles(self, digits: str, message: str, number: int, *, joined: bool) -> tuple[int, ...]:
        """The handles in a line; none where they are not the archive's, or where several readings remain."""
        shown = f"handles {{{digits:.40}}}"
        known = self._joined(digits, message) if joined else self._read(list(self._alone(digits)), message)
        if not known.left:
            self._note(number, f"{shown}: {known.problem or self._why(digits, known.found, message)}")
            return ()
        if len(known.likeliest) > 1:
            self._note(number, f"{shown}: may be {_listed(known.likeliest)}, and nothing tells which")
            return ()
        if len(known.left) > 1:
            taken, *others = known.left
            self._note(number, f"{shown}: taken as {_listed([taken])}, may also be {_listed(others)}")
        return known.left[0]

    def _joined(self, digits: str, message: str) -> Readings:
        """The readings of joined handles; sought once for messages of one wording."""
        key = digits, wording(message)
        readings = self._readings.get(key)
        if readings is not None:
            return readings
        steps = self._spending.of_one_failure()
        try:
            readings = self._read(self._splits.fitting(digits, steps), message)
        except LimitError as error:
            readings = Readings([], [], [], _left(error))
        finally:
            self._spending.spend(steps.taken)
        # Digits given up because the log's steps are spent may have a reading when the log is longer.
        given_up_early = readings.problem and steps.most < self.archive.limits.work
        return readings if given_up_early else self._readings.keep(key, readings, readings.weight)

    def _read(self, found: list[tuple[int, ...]], message: str) -> Readings:
        """The readings that a message leaves, and the likeliest."""
        left = [handles for handles in found if not self._is_contradicted(handles, message)]
        return Readings(found, left, self._splits.likeliest(left))

    def _is_contradicted(self, handles: tuple[int, ...], message: str) -> bool:
        """Whether the innermost operator cannot have printed the message; a backend's always may."""
        handle = handles[0]
        known = self._splits.operations
        if not message or known[handle].method < 0:
            return False
        return known.runs_nothing(handle) or cannot_print(known.operator(handle), message)

    def _alone(self, digits: str) -> Iterator[tuple[int, ...]]:
        """The handle of a line without braces.

        Nothing else is asked of it: releases that print no braces print a backend's handle without its
        caller's.
        """
        is_number = digits.isascii() and digits.isdecimal() and str(int(digits[:MAX_HANDLE_DIGITS])) == digits
        if is_number and int(digits) in self._splits.operations:
            yield (int(digits),)

    def _why(self, digits: str, contradicted: list[tuple[int, ...]], message: str) -> str:
        """The reason that handles are not explained."""
        if contradicted:
            handle = contradicted[0][0]
            if self._splits.operations.runs_nothing(handle):
                what = "no operator runs there, and only operators print"
            else:
                what = f"{self._splits.operations.operator(handle)} does not print"
            return f"{what} {message[:MAX_MESSAGE_SHOWN]!r}: the failure is another model's"
        if "-" in digits:
            return "where this ran, the model had no handles"
        return "not in this archive" if self.archive.handles else why_no_handles(self.archive)

    def _traceback(self, lines: Lines, heading: bytes) -> Iterator[bytes]:
        """Explain a traceback of TorchScript; unchanged where the archive cannot."""
        number = lines.number
        traceback = Traceback(lines, heading, self._code)
        frames = [frame for frame in traceback.frames if frame.is_serialized]
        if not frames and not traceback.is_too_long:
            return iter(traceback.raw)
        why = self._why_not(traceback, frames)
        if why:
            self._note(number + why[0], why[1])
            self.unknown += 1
            return iter(traceback.raw)
        for frame in frames:
            if frame.problem:
                self._note(number + frame.first, frame.problem)
        original = self._original(traceback, number)
        if original is None:
            self.unknown += 1
            return iter(traceback.raw)
        if self._unchecked:
            self._note(number, "not checked against the model's code, which a companion doesn't have")
        self.explained += 1
        return traceback.explained(original)

    def _original(self, traceback: Traceback, number: int) -> bytes | None:
        """The traceback of the original code; None where it would be too long, or take too many steps."""
        steps = self._spending.of_one_failure()
        try:
            text = traceback.original(self.archive.limits, steps)
        except LimitError as error:
            self._note(number, _left(error))
            return None
        finally:
            self._spending.spend(steps.taken)
        return text if self._may_write(traceback.with_line_ends(text)) else None

    def _why_not(self, traceback: Traceback, frames: list[LoggedFrame]) -> tuple[int, str] | None:
        """Why a traceback is not explained, and the line, counted from the heading; None if it is."""
        if traceback.is_too_long:
            return 0, f"a traceback of more than {MAX_LINES} lines or {MAX_BYTES} bytes"
        foreign = next((frame for frame in frames if frame.is_foreign), None)
        if foreign:
            return foreign.first, foreign.problem
        if not any(frame.original for frame in frames):
            return frames[0].first, why_no_ranges(self.archive) or frames[0].problem
        return None


def _left(error: LimitError) -> str:
    """A note about a failure that is left unexplained.

    Raises:
        LimitError: the error, where its bound is none of explanations.
    """
    if error.resource not in EXPLAINED_BY:
        raise error
    what = "the explanation would be too long" if error.resource == "output" else "too many steps"
    return f"left unexplained: {what}; --limit {error.resource}=… allows more"


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
