"""Explains the failures in a log."""

from __future__ import annotations

from collections import deque
from functools import lru_cache
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.errors import LimitError
from archive.base.spending import Spending
from archive.debuginfo.symbolicate import Style
from archive.reader.lacking import why_no_ranges
from archive.verbs.logs.lines import Lines
from archive.verbs.logs.lite import LiteFailures
from archive.verbs.logs.notes import Notes, why_left
from archive.verbs.logs.tracebacks import (
    MAX_BYTES,
    MAX_LINES,
    TRACEBACK_START,
    CodeRecord,
    CompanionCode,
    Traceback,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.reader.archive import Archive
    from archive.verbs.logs.tracebacks import LoggedFrame

MAX_LINES_BEFORE = 5
"""Lines above the handles in which the error message is looked for."""


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
    return Explainer(archive, style=style).explain(log)


class Explainer:
    """Explains the failures in logs, and counts them.

    Args:
        archive: the model that failed.
        style: the release whose wording explains the lite interpreter's failures.
    """

    def __init__(self, archive: Archive, *, style: Style = Style.CURRENT) -> None:
        self.archive = archive
        self.style = style
        self._tracebacks = 0
        self._unknown_tracebacks = 0
        self._spending = Spending(archive.limits)
        self._notes = Notes(self._spending)
        self._lite = LiteFailures(archive, style, self._spending, self._notes)
        self._unchecked = not archive.has_code
        self._code = lru_cache(maxsize=256)(self._code_of)

    @property
    def explained(self) -> int:
        """The number of failures that were explained."""
        return self._tracebacks + self._lite.explained

    @property
    def unknown(self) -> int:
        """The number of failures that the archive cannot explain."""
        return self._unknown_tracebacks + self._lite.unknown

    @property
    def notes(self) -> list[str]:
        """Failures not explained, or not for certain: each note once, with the number of its first line."""
        return self._notes.texts

    @property
    def caveat(self) -> str:
        """The assumption behind failures whose handles do not name their archive; "" if there are none."""
        unnamed = self._lite.explained - self._lite.named
        if not unnamed:
            return ""
        count = "1 failure is" if unnamed == 1 else f"{unnamed} failures are"
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
                yield self._lite.line(line, before, lines.number)
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

    def _traceback(self, lines: Lines, heading: bytes) -> Iterator[bytes]:
        """Explain a traceback of TorchScript; unchanged where the archive cannot."""
        number = lines.number
        traceback = Traceback(lines, heading, self._code)
        frames = [frame for frame in traceback.frames if frame.is_serialized]
        if not frames and not traceback.is_too_long:
            return iter(traceback.raw)
        why = self._why_not(traceback, frames)
        if why:
            self._notes.add(number + why[0], why[1])
            self._unknown_tracebacks += 1
            return iter(traceback.raw)
        for frame in frames:
            if frame.problem:
                self._notes.add(number + frame.first, frame.problem)
        original = self._original(traceback, number)
        if original is None:
            self._unknown_tracebacks += 1
            return iter(traceback.raw)
        if self._unchecked:
            self._notes.add(number, "not checked against the model's code, which a companion doesn't have")
        self._tracebacks += 1
        return traceback.explained(original)

    def _original(self, traceback: Traceback, number: int) -> bytes | None:
        """The traceback of the original code; None where it would be too long, or take too many steps."""
        steps = self._spending.of_one_failure()
        try:
            text = traceback.original(self.archive.limits, steps)
        except LimitError as error:
            self._notes.add(number, why_left(error))
            return None
        finally:
            self._spending.spend(steps.taken)
        return text if self._notes.may_write(traceback.with_line_ends(text)) else None

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
