"""A traceback over serialized code → the same, followed by the traceback over the original code.

A frame's line and marking give a byte position in the code record, and the record's source ranges map the
position to the original range. The log must show the very lines of this archive's record; otherwise the frame
is another model's. The second traceback is made as PyTorch's ``format_stack_trace`` makes it
(``torch/csrc/jit/frontend/source_range.cpp``):

- a function has the name of the serialized frame;
- a null range prints nothing;
- a frame without any range is repeated;
- if no frame has a range, the second traceback is missing.

PyTorch 1.4 and older print other tracebacks, which are not read here.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from archive.base.errors import LimitError
from archive.base.quick_dataclass import dataclass
from archive.base.strings import decoded
from archive.debuginfo.excerpt import CONTEXT, bounded_excerpt
from archive.failures.code_records import CodeLines, FrameCode, problem_of
from archive.failures.failure import MAX_LINES, FailureCause, place_of, written
from archive.failures.log.log_line import ending
from archive.failures.log.test_cases import FULL_REPORT
from archive.failures.messages import message_of, wording
from archive.failures.printed import (
    CODE,
    CODE_FOLDERS,
    FRAME,
    FRAME_HEADER,
    NOT_CODE,
    ORIGINAL,
    RANGE_MARKING,
    RETHROWN,
    WHOLE_HEADING,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.base.limits import Limits, Steps
    from archive.debuginfo.model import SourceRange
    from archive.failures.log.streams import LogStream
    from archive.reader.line_digests import LineDigests

ORIGINAL_HEADING = b"\n" + ORIGINAL + b"\n"
LINES_AFTER = CONTEXT - 1
"""Lines that PyTorch prints after a range, unless its source ends before."""
CUT_NOTE = "the traceback breaks off here: it is explained as far as it goes"
MAX_BYTES = 1 << 20
"""Bytes of one traceback."""


@dataclass(frozen=True, slots=True)
class LoggedFrame:
    """A frame of a traceback in a log.

    Attributes:
        first: the frame's first line, counted from the heading.
        stop: the line after its last one.
        function: the function's name as printed; empty where none is.
        original: the range that the code comes from; None where none is recorded.
        is_foreign: whether the archive's code differs from the frame's.
    """

    first: int
    stop: int
    file: bytes
    function: bytes
    original: SourceRange | None
    problem: str
    is_foreign: bool

    @property
    def is_placed(self) -> bool:
        """Whether the model knows a line of source that it comes from."""
        return self.original is not None and not self.original.source.is_null

    @property
    def is_serialized(self) -> bool:
        """Whether the frame's file is a code record's."""
        return self.file.startswith(CODE_FOLDERS)


class Traceback:
    """A traceback in a log.

    Args:
        code: file name in the traceback → code record.

    Attributes:
        renamed: the lines in which hashes were replaced by names, by their place in ``raw``.
        frames: the frames; raw lines after the last one aren't part of the traceback.
        cut: the line, counted from the heading, at which the traceback breaks off; 0 where it is whole.
    """

    def __init__(self, stream: LogStream, code: Callable[[bytes], FrameCode]) -> None:
        self.stream = stream
        self.raw = [stream.text(0) or b""]
        self.renamed: dict[int, bytes] = {}
        self.is_too_long = self.is_torn = False
        self.cut = 0
        self._size = len(self.raw[0])
        self._code = code
        self.frames = list(iter(self._frame, None))
        next_line = self._peek(is_patient=False) if self.frames else None
        if next_line is not None and CODE.match(next_line) and not self.cut:
            self.cut = len(self.raw)  # a frame's heading is missing
        elif self.frames and stream.is_last(len(self.raw) - 1) and not self.cut:
            self.cut = len(self.raw) - 1  # PyTorch prints a message after the last frame

    def _peek(self, *, is_patient: bool = True) -> bytes | None:
        """The next line; None where the traceback ends, or may end while the log pauses."""
        return None if self.is_too_long else self.stream.text(len(self.raw), is_patient=is_patient)

    def _take(self, line: bytes) -> None:
        """Take the next line, and give up reading if there are too many."""
        self._size += len(line)
        self.raw.append(line)
        self.is_too_long = len(self.raw) > MAX_LINES or self._size > MAX_BYTES

    def _frame(self) -> LoggedFrame | None:
        """Take the next frame; None where none follows.

        A frame has a heading, lines of code, and a marking below the last of them::

              File "code/__torch__/net.py", line 8, in forward
                x: Tensor) -> Tensor:
                weight = self.weight
                return torch.matmul(x, weight)
                       ~~~~~~~~~~~~ <--- HERE

        The heading names the marked line, so the lines shown end there. More lines may follow.
        """
        first = len(self.raw)
        # After a whole frame the traceback may have ended: what follows is not held back for long.
        heading = self._peek(is_patient=first == 1) or b""
        header = FRAME_HEADER.fullmatch(heading)
        if not header:
            return None
        self._take(heading)
        shown: list[bytes] = []
        while (line := self._peek()) is not None and not RANGE_MARKING.fullmatch(line):
            if len(shown) == CONTEXT or NOT_CODE.match(line):
                line = None
                break
            shown.append(line)
            self._take(line)
        if line is None:
            self.is_torn = header["file"].startswith(CODE_FOLDERS)
            self.cut = first
            return None
        code, number = self._code(header["file"]), int(header["line"])
        fits, first_column = code.shows(shown, number), 0
        if fits:
            first_column, last_column = code.columns(number, shown[-1], line)
            fits = code.marks(number, first_column, last_column)
        # With the record at hand, the lines that follow must be the record's.
        other = self._take_rest(code, code.lines if fits else None, number)
        fits = fits and not other
        if fits:
            logged = self.raw[first:]
            pairs = enumerate(zip(code.as_written(header, logged[1:]), logged, strict=True), first)
            self.renamed |= {at: own for at, (own, line) in pairs if own != line}
        original = code.original(number, first_column) if fits else None
        is_placed = original is not None and not original.source.is_null
        problem = "" if is_placed else problem_of(code, other or number, [] if other else shown, fits=fits)
        function = header["function"] or b""
        if original and function:
            function = code.function(number, function)
        return LoggedFrame(first, len(self.raw), header["file"], function, original, problem, not fits)

    def _take_rest(self, record: FrameCode, code: CodeLines | LineDigests | None, number: int) -> int:
        """Take the rest of a frame: further markings, and the lines between and after them.

        Returns:
            The number of the record's line that the log shows differently; 0 where there is none.
        """
        rest = FrameRest(code, number)
        most = record.most_unmarked if code is None else CONTEXT
        while rest.unmarked < most and (line := self._peek(is_patient=rest.lacks_lines)) is not None:
            ends_log = line != b"" and self.stream.line(len(self.raw)).data.endswith(line)
            what = rest.add(line, ends_log=ends_log)
            if what is Following.NOTHING:
                return 0
            if what is Following.OTHER_CODE:
                return rest.number + 1
            if what is Following.OTHER_TEXT:
                break
            self._take(line)
            if what is Following.TORN:
                self.cut = len(self.raw) - 1
                return 0
        if rest.lacks_lines:
            self.cut = len(self.raw) - 1
        return 0

    @property
    def is_proof(self) -> bool:
        """Whether it has hashes for names: no other redaction has the key."""
        return bool(self.renamed)

    @property
    def cause(self) -> FailureCause:
        """What failed, by the frames of serialized code; there must be one."""
        frames = [frame for frame in reversed(self.frames) if frame.is_serialized]
        place, function = place_of(frame.original for frame in frames), decoded(frames[0].function)
        return FailureCause(*place, function, wording(self.message))

    @property
    def _below(self) -> bytes:
        """The line that follows the last frame; b"" where none does."""
        line = self.stream.text(self.frames[-1].stop, is_patient=False) if self.frames else None
        return line or b""

    @property
    def message(self) -> str:
        """The message of the exception, where its line follows the last frame."""
        return message_of(self._below)

    @property
    def is_cut_short(self) -> bool:
        """Whether pytest has cut the message, and the whole of it follows."""
        return FULL_REPORT.fullmatch(self._below) is not None

    @property
    def inner(self) -> int:
        """The line that begins the traceback of what it waited for, from its heading; 0 where none does.

        ``torch.jit.wait`` throws what the forked function threw: the message below the last frame is another
        traceback. Both are of one failure, and the inner one says why.
        """
        message = self.frames[-1].stop if self.frames else len(self.raw)
        lines = [self.stream.text(message + more, is_patient=False) or b"" for more in range(3)]
        header = FRAME_HEADER.fullmatch(lines[2])
        is_code = header is not None and header["file"].startswith(CODE_FOLDERS)
        is_thrown = RETHROWN.fullmatch(lines[0]) is not None and lines[1] == WHOLE_HEADING
        return message + 1 if is_thrown and is_code else 0

    def original(self, limits: Limits, steps: Steps) -> bytes:
        """The traceback of the original code: each frame's original source, or its own lines."""
        text = bytearray(ORIGINAL_HEADING)
        for frame in self.frames:
            if frame.original is None:
                text += b"".join(line + b"\n" for line in self.raw[frame.first : frame.stop])
            else:
                text += bounded_excerpt(frame.original, frame.function, limits, steps)
            if len(text) > limits.output:
                raise LimitError("output", limits.output, len(text))
        return bytes(text)

    def size(self, original: bytes) -> int:
        """The bytes that a traceback of the original code takes in the log."""
        lines = original.count(b"\n")
        return len(original) + lines * (self.stream.cost(self.frames[-1].stop - 1) - 1)

    def explained(self, original: bytes) -> Iterator[bytes]:
        """The traceback's lines, with the traceback of the original code after the last frame."""
        last = self.frames[-1].stop - 1
        heading = self.raw[0].replace(b"TorchScript (most", b"TorchScript, serialized code (most")
        yield self.stream.written(0, heading)
        for at in range(1, last):
            yield written(self.stream, at, self.renamed)
        line, is_open = written(self.stream, last, self.renamed), not original.endswith(b"\n")
        # A log may end within the traceback's last line.
        end = b"" if line.endswith(b"\n") else ending(self.stream.line(0).data)
        yield line + end + self.stream.written(last, original.removesuffix(b"\n"), is_open=is_open)


class Following(Enum):
    """What a line after the marked line of a frame is."""

    FRAMES_OWN = "a marking, or a line of its code"
    TORN = "the beginning of such a line, at the end of the log"
    NOTHING = "no line of the frame, which is whole"
    OTHER_CODE = "code that the record doesn't have there"
    OTHER_TEXT = "something else of the log, before the frame is whole"


class FrameRest:
    """The lines of a frame after its marked line.

    Args:
        code: the record's lines; None where they aren't known, and lines are taken that look like code.
        number: the marked line; then the last one that was added.
    """

    def __init__(self, code: CodeLines | LineDigests | None, number: int) -> None:
        self._code = code
        self.number = number
        self.unmarked = 0
        self._has_here = False

    @property
    def lacks_lines(self) -> bool:
        """Whether PyTorch prints more of the record: a range may end without a marking that says HERE."""
        return self._code is not None and self.number < len(self._code) and self.unmarked < LINES_AFTER

    def add(self, line: bytes, *, ends_log: bool) -> Following:
        """Add a line, if it is the frame's."""
        marking = None if self._has_here else RANGE_MARKING.fullmatch(line)
        if marking:
            self._has_here, self.unmarked = bool(marking["here"]), 0
            return Following.FRAMES_OWN
        if ends_log and self._may_begin(line):
            return Following.TORN
        is_code = CODE.match(line) is not None and not NOT_CODE.match(line)
        if is_code and (self._code is None or self._code.is_line(self.number + 1, line)):
            self.number += 1
            self.unmarked += 1
            return Following.FRAMES_OWN
        if not self.lacks_lines:
            return Following.NOTHING
        is_other = CODE.match(line) or NOT_CODE.match(line)
        return Following.OTHER_CODE if is_other else Following.OTHER_TEXT

    def _may_begin(self, line: bytes) -> bool:
        """Whether the next line of the record may begin so; of digests, whether this looks like code."""
        if self._code is None:
            return False
        if isinstance(self._code, CodeLines):
            return self._code.begins(self.number + 1, line)
        is_code = CODE.match(line) is not None and not FRAME.startswith(line[: len(FRAME)])
        return self.number < len(self._code) and is_code
