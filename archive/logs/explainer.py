"""Explains the failures in a log."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from archive.companions import Companion, Rejoined
from archive.logs.handles import HandleSplits
from archive.logs.lines import Lines, ending, has_shape
from archive.logs.tracebacks import HEADING, MAX_BYTES, MAX_LINES, Code, Places, Traceback
from archive.symbolicate import Style

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.reader import Archive

# With braces in PyTorch 1.11 and later; 1.10 had none around a single handle, 1.9 no "(s)".
HANDLES = re.compile(
    rb"(?P<prefix>.*?)(?:  )?(?P<text>Debug info for handle(?:\(s\): |, )"
    rb"(?:debug_handles:\{(?P<joined>[-\d]+)\}|(?P<single>-?\d+)), (?:was )?not found\.)"
)
MAX_NOTES = 1_000
MAX_NOTE = 500  # characters
LISTED = 3  # readings
MAX_DIGITS = 20  # of a debug handle


def explain(log: Iterable[bytes], archive: Archive, *, style: Style = Style.CURRENT) -> Iterator[bytes]:
    """A log with its failures explained, in pieces.

    Args:
        log: the log, in lines or any other pieces.
        archive: the model that failed.
        style: whose words the lite interpreter's failures are explained in.

    Raises:
        ArchiveError: a record that is needed is broken.
    """
    return Explainer(archive, style=style).explain(log)


class Explainer:
    """Explains the failures in logs, and counts them.

    Args:
        archive: the model that failed.
        style: whose words the lite interpreter's failures are explained in.

    Attributes:
        explained: failures explained.
        unknown: failures that the archive cannot explain.
    """

    def __init__(self, archive: Archive, *, style: Style = Style.CURRENT) -> None:
        self.archive = archive
        self.style = style
        self.explained = 0
        self.unknown = 0
        self._splits = HandleSplits(archive)
        self._unchecked = isinstance(archive, Companion) and not isinstance(archive, Rejoined)
        self._code = lru_cache(maxsize=256)(self._code_of)
        self._notes: dict[str, tuple[int, int]] = {}

    @property
    def notes(self) -> list[str]:
        """What could not be explained, or not without doubt: each once, with the first line it is about."""
        return [
            f"line {line}: {note}" + (f" ({count} times)" if count > 1 else "")
            for note, (line, count) in self._notes.items()
        ]

    def explain(self, log: Iterable[bytes]) -> Iterator[bytes]:
        """As :func:`explain`.

        Raises:
            ArchiveError: a record that is needed is broken.
        """
        lines = Lines(log)
        before = b""
        while (line := lines.take()) is not None:
            if b"Debug info for handle" in line:
                yield self._lite(line, before, lines.number)
            elif b"Traceback of TorchScript" in line and HEADING.fullmatch(line):
                yield from self._traceback(lines, line)
            else:
                yield line
            before = line

    def _code_of(self, file: bytes) -> Code:
        if isinstance(self.archive, Companion) and self._unchecked:
            return Places(self.archive, file)
        return Code(self.archive, file)

    def _note(self, line: int, note: str) -> None:
        note = note[:MAX_NOTE]
        first, count = self._notes.get(note, (line, 0))
        if count or len(self._notes) < MAX_NOTES:
            self._notes[note] = (first, count + 1)

    def _lite(self, line: bytes, before: bytes, number: int) -> bytes:
        found = HANDLES.match(line)
        if not found:
            return line
        digits = (found["joined"] or found["single"]).decode()
        handles = self._handles(digits, number, joined=found["joined"] is not None)
        if not handles:
            self.unknown += 1
            return line
        self.explained += 1
        prefix = found["prefix"] if has_shape(before, found["prefix"]) else b""
        text = bytes(self.archive.symbolicate(handles, self.style)).replace(b"\n", ending(line) + prefix)
        return line[: found.start("text")] + text + line[found.end("text") :]

    def _handles(self, digits: str, number: int, *, joined: bool) -> tuple[int, ...]:
        """The handles in a line; none where they are not the archive's."""
        shown = f"handles {{{digits:.40}}}"
        readings = self._splits.fitting(digits) if joined else list(self._alone(digits))
        if not readings:
            self._note(number, f"{shown}: {self._why(digits)}")
            return ()
        if len(readings) > 1:
            taken, *others = (", ".join(map(str, reading)) for reading in readings[: LISTED + 1])
            more = f"; {len(readings) - LISTED - 1} more" if len(readings) > LISTED + 1 else ""
            self._note(number, f"{shown}: taken as {taken}, may also be {'; '.join(others)}{more}")
        return readings[0]

    def _alone(self, digits: str) -> Iterator[tuple[int, ...]]:
        """The one handle of a line that has no braces; a backend's own may stand there without its caller."""
        is_number = digits.isascii() and digits.isdecimal() and str(int(digits[:MAX_DIGITS])) == digits
        if is_number and int(digits) in self.archive.handles:
            yield (int(digits),)

    def _why(self, digits: str) -> str:
        if "-" in digits:
            return "where this ran, the model had no handles"
        return "not in this archive" if self.archive.handles else "this archive has no call-stack map"

    def _traceback(self, lines: Lines, heading: bytes) -> Iterator[bytes]:
        number = lines.number
        traceback = Traceback(lines, heading, self._code)
        frames = traceback.frames
        if traceback.is_too_long:
            self._note(number, f"a traceback of more than {MAX_LINES} lines or {MAX_BYTES} bytes")
        elif any(frame.is_serialized for frame in frames):
            for frame in frames:
                if frame.problem:
                    self._note(number + frame.first, frame.problem)
            if self._unchecked and any(frame.original for frame in frames):
                self._note(number, "not checked against the model's code, which a companion doesn't have")
        else:
            return iter(traceback.raw)
        is_known = not traceback.is_too_long and any(frame.original for frame in frames)
        self.explained += is_known
        self.unknown += not is_known
        return traceback.explained() if is_known else iter(traceback.raw)
