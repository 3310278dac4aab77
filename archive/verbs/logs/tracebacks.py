"""A traceback over serialized code, and the one over the original code that PyTorch prints behind it.

Of each frame, line and marking give a byte position in the code record, and the record's source ranges the
original range. The log has to show the very lines of this archive's record: else the frame is another
model's. Then, as in PyTorch's ``format_stack_trace``:

- the function's name is that of the serialized frame;
- a null range prints nothing;
- a frame without any range is repeated;
- without a single range there is no second traceback.

PyTorch 1.4 and older print other tracebacks, which are not read here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from archive.base.strings import decoded
from archive.debuginfo.excerpt import CONTEXT, excerpt
from archive.formats.record_kinds import LEGACY_CODE, PACKAGE_CODE
from archive.formats.source_ranges import SUFFIX
from archive.verbs.logs.lines import ending, has_shape, without_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.debuginfo.model import SourceRange
    from archive.reader.archive import Archive
    from archive.reader.companion import Companion
    from archive.verbs.logs.lines import Lines

TRACEBACK_HEADING = re.compile(rb".*Traceback of TorchScript \(most recent call last\):\r?\n?")
FRAME_HEADER = re.compile(rb'  File "(?P<file>.*)", line (?P<line>\d{1,9})(?:, in (?P<function>.*))?')
RANGE_MARKING = re.compile(rb" *~+(?P<here> <--- HERE)?")
NOT_CODE = re.compile(rb'  File "|[\w.]*(?:Error|Exception)\b|.*Traceback of TorchScript')
ORIGINAL_HEADING = b"\nTraceback of TorchScript, original code (most recent call last):\n"
CODE_FOLDERS = (LEGACY_CODE[0].encode(), PACKAGE_CODE.encode())
"""Where an archive's code is, and a package's."""

MAX_LINES = 10_000  # of one traceback
MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class LoggedFrame:
    """A frame of a traceback.

    Attributes:
        first: its first line, counted from the heading.
        stop: the line behind its last one.
        file: as printed.
        function: as printed; empty where none is.
        original: the range its code comes from; None where none is recorded.
        problem: why there is none.
        is_foreign: the archive's code is another.
    """

    first: int
    stop: int
    file: bytes
    function: bytes
    original: SourceRange | None
    problem: str
    is_foreign: bool

    @property
    def is_serialized(self) -> bool:
        """Whether the frame is of an archive's code."""
        return self.file.startswith(CODE_FOLDERS)


class CodeRecord:
    """The code record that a frame names: no lines where the archive has no such record."""

    def __init__(self, archive: Archive, file: bytes) -> None:
        self.archive = archive
        self.name = decoded(file)
        known = file.startswith(CODE_FOLDERS) and self.name in archive.records
        text = bytes(archive.records[self.name].view()) if known else b""
        self.lines = text.removesuffix(b"\n").split(b"\n") if text else []
        self.starts = list(accumulate((len(line) + 1 for line in self.lines), initial=0))

    def shows(self, shown: list[bytes], number: int) -> bool:
        """Whether these are the lines up to a line, counted from 1."""
        return 0 < len(shown) <= number and self.lines[number - len(shown) : number] == shown

    def marks(self, number: int, marking: bytes) -> bool:
        """Whether a marking is below a line, counted from 1: its first byte below one that isn't blank."""
        line = self.lines[number - 1]
        return marking.rindex(b"~") < len(line) and bool(line[marking.index(b"~") :][:1].strip())

    def original(self, line: int, column: int) -> SourceRange | None:
        """The original range of a position; column in bytes from 0."""
        if self.name + SUFFIX not in self.archive.records:
            return None
        return self.archive.locate(self.name, self.starts[line - 1] + column)


class CompanionCode(CodeRecord):
    """The code record that a frame names, of which a companion knows the places of ranges alone."""

    def __init__(self, companion: Companion, file: bytes) -> None:
        self.companion = companion
        self.name = decoded(file)
        self.lines = []

    def shows(self, shown: list[bytes], number: int) -> bool:
        """Nothing to compare with: whether there is such a record."""
        return 0 < len(shown) <= number and self.name + SUFFIX in self.companion.records

    def marks(self, number: int, marking: bytes) -> bool:  # noqa: ARG002 (as in CodeRecord)
        """Nothing to compare with."""
        return True

    def original(self, line: int, column: int) -> SourceRange | None:
        """The original range of a position; column in bytes from 0."""
        return self.companion.locate_line(self.name, line, column)


class Traceback:
    """A traceback, read from its heading on.

    Args:
        lines: the log, behind the heading.
        heading: that line.
        code: the record of a name in the traceback.

    Attributes:
        raw: the lines, as they are in the log.
        frames: the frames; raw lines behind the last one are no part of the traceback.
        is_too_long: reading was given up.
    """

    def __init__(self, lines: Lines, heading: bytes, code: Callable[[bytes], CodeRecord]) -> None:
        self.raw = [heading]
        self.is_too_long = False
        self._size = len(heading)
        self._lines = lines
        self._code = code
        self._prefix = heading[: heading.index(b"Traceback of")]
        if not FRAME_HEADER.fullmatch(self._peek() or b""):
            self._prefix = b""
        self.frames = list(iter(self._frame, None))

    def _peek(self) -> bytes | None:
        """The next line without prefix and end; None where the traceback cannot go on."""
        line = self._lines.peek()
        if line is None or self.is_too_long or not has_shape(line, self._prefix):
            return None
        return self._text(line)

    def _take(self) -> None:
        line = self._lines.take() or b""
        self._size += len(line)
        self.raw.append(line)
        self.is_too_long = len(self.raw) > MAX_LINES or self._size > MAX_BYTES

    def _text(self, line: bytes) -> bytes:
        return without_end(line)[len(self._prefix) :]

    def _frame(self) -> LoggedFrame | None:
        """The next frame; None where none follows."""
        first, header = len(self.raw), FRAME_HEADER.fullmatch(self._peek() or b"")
        if not header:
            return None
        self._take()
        shown: list[bytes] = []
        while (line := self._peek()) is not None and not RANGE_MARKING.fullmatch(line):
            if len(shown) == CONTEXT or NOT_CODE.match(line):
                return None
            shown.append(line)
            self._take()
        if line is None:
            return None
        code, number = self._code(header["file"]), int(header["line"])
        fits = code.shows(shown, number) and code.marks(number, line)
        self._take_rest(code.lines[number : number + MAX_LINES] if fits and code.lines else None)
        original = code.original(number, line.index(b"~")) if fits else None
        problem = "" if original else _problem(code, number, fits=fits)
        function = header["function"] or b""
        return LoggedFrame(first, len(self.raw), header["file"], function, original, problem, not fits)

    def _take_rest(self, follows: list[bytes] | None) -> None:
        """Take markings, and the lines between and behind them: the record's, or what looks like code."""
        here, behind = False, 0
        expected = None if follows is None else iter(follows)
        limit = CONTEXT - (expected is None)  # the last of them only behind a range that ends a line
        while behind < limit and (line := self._peek()) is not None:
            marking = None if here else RANGE_MARKING.fullmatch(line)
            if marking:
                here = bool(marking["here"])
            elif NOT_CODE.match(line) if expected is None else next(expected, None) != line:
                return
            else:
                behind += here
            self._take()

    def explained(self) -> Iterator[bytes]:
        """The lines, with the traceback of the original code behind that of the serialized code."""
        stop = self.frames[-1].stop
        yield self.raw[0].replace(b"TorchScript (most", b"TorchScript, serialized code (most")
        yield from self.raw[1:stop]
        last, end = self.raw[stop - 1], ending(self.raw[0])
        before, behind = (b"", end) if last.endswith(b"\n") else (end, b"")
        before += last[: len(self._prefix)]
        rest = ORIGINAL_HEADING
        for frame in self.frames:
            *lines, rest = (rest + self._original(frame)).split(b"\n")
            yield b"".join(before + line + behind for line in lines)
        if rest:
            yield before + rest
        yield from self.raw[stop:]

    def _original(self, frame: LoggedFrame) -> bytes:
        if frame.original is not None:
            return excerpt(frame.original, frame.function)
        return b"".join(self._text(line) + b"\n" for line in self.raw[frame.first : frame.stop])


def _problem(code: CodeRecord, number: int, *, fits: bool) -> str:
    if fits:
        return f"no source range is recorded for {code.name}, line {number}"
    if code.lines:
        return f"{code.name} has another line {number} in this archive: the failure is another model's"
    return f"this archive has no code of the name {code.name}: the failure is another model's"
