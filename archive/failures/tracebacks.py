"""A traceback over serialized code → the same, followed by the traceback over the original code.

A frame's line and marking give a byte position in the code record, and the record's source ranges map the
position to the original range. The log must show the very lines of this archive's record; otherwise the frame
is another model's. The second traceback is made as PyTorch's ``format_stack_trace`` makes it
(``torch/csrc/jit/frontend/source_range.cpp``):

- a function has the name of the serialized frame;
- a null range prints nothing;
- a frame without any range is repeated;
- if no frame has a range, there is no second traceback.

PyTorch 1.4 and older print other tracebacks, which are not read here.
"""

from __future__ import annotations

import re
from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING

from archive.base.errors import LimitError
from archive.base.quick_dataclass import dataclass
from archive.base.strings import decoded
from archive.companion.hashed_names import HASH
from archive.debuginfo.excerpt import CONTEXT, bounded_excerpt
from archive.failures.code_records import CodeLines, FrameCode, problem_of
from archive.failures.failure import MAX_LINES, Cause, Failure, place_of
from archive.failures.log.log_line import ending
from archive.failures.printed import (
    CODE,
    CODE_FOLDERS,
    FRAME,
    FRAME_HEADER,
    HIERARCHY,
    NOT_CODE,
    ORIGINAL,
    RANGE_MARKING,
    is_source,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from archive.base.limits import Limits, Steps
    from archive.debuginfo.model import SourceRange
    from archive.failures.log.streams import LogStream
    from archive.reader.facts import Facts
    from archive.reader.line_digests import LineDigests

ORIGINAL_HEADING = b"\n" + ORIGINAL + b"\n"
TORN_NOTE = "a traceback that breaks off within its first frame, or has lines of others in it"
DIGEST = 16
"""Bytes of a traceback's digest."""
REDACTED = "traceback of redacted source"
TOP = re.compile(rb"top\(([^)]*)\)")
"""Begins a module hierarchy: the class of the top module."""
BEHIND = CONTEXT - 1
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
        file: the file's name as printed.
        function: the function's name as printed; empty where none is.
        original: the range that the code comes from; None where none is recorded.
        problem: why there is no range.
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
    def is_serialized(self) -> bool:
        """Whether the frame's file is a code record's."""
        return self.file.startswith(CODE_FOLDERS)


class Traceback:
    """A traceback in a log.

    Args:
        stream: its lines, the heading first.
        code: file name in the traceback → code record.

    Attributes:
        stream: as given.
        raw: the texts of the lines that are part of it.
        renamed: the lines in which hashes were replaced by names, by their place in ``raw``.
        frames: the frames; raw lines after the last one aren't part of the traceback.
        is_too_long: whether reading was given up.
        is_torn: whether a frame of serialized code breaks off.
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
        behind = self._peek(is_patient=False) if self.frames else None
        if behind is not None and CODE.match(behind) and not self.cut:
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
        problem = "" if original else problem_of(code, other or number, fits=fits)
        function = header["function"] or b""
        if original and function:
            function = code.function(number, function)
        return LoggedFrame(first, len(self.raw), header["file"], function, original, problem, not fits)

    def _take_rest(self, record: FrameCode, code: CodeLines | LineDigests | None, number: int) -> int:
        """Take the rest of a frame: further markings, and the lines between and after them.

        Args:
            record: the frame's.
            code: its lines. If they are not known, lines are taken that look like code.
            number: the marked line.

        Returns:
            The number of the record's line that the log shows differently; 0 where there is none.
        """
        here, unmarked, size = False, 0, 0 if code is None else len(code)
        most = record.most_unmarked if code is None else CONTEXT

        def lacks() -> bool:  # a range that ends before its last line's first word has no "HERE"
            return number < size and unmarked < BEHIND

        while unmarked < most and (line := self._peek(is_patient=lacks())) is not None:
            marking = None if here else RANGE_MARKING.fullmatch(line)
            if marking:
                here, unmarked = bool(marking["here"]), 0
            else:
                ends_log = line and self.stream.line(len(self.raw)).data.endswith(line)
                if code is not None and ends_log and _may_begin(code, number + 1, line):
                    self.cut = len(self.raw)
                    self._take(line)
                    return 0
                is_code = CODE.match(line) is not None and not NOT_CODE.match(line)
                if not is_code or (code is not None and not code.is_line(number + 1, line)):
                    if not lacks():
                        return 0
                    if CODE.match(line) or NOT_CODE.match(line):
                        return number + 1
                    self.cut = len(self.raw) - 1  # something else of the log follows
                    return 0
                number += 1
                unmarked += 1
            self._take(line)
        if lacks():
            self.cut = len(self.raw) - 1
        return 0

    @property
    def is_proof(self) -> bool:
        """Whether it has hashes for names: no other redaction has the key."""
        return bool(self.renamed)

    @property
    def cause(self) -> Cause:
        """What failed, by the frames of serialized code; there must be one."""
        frames = [frame for frame in reversed(self.frames) if frame.is_serialized]
        return Cause(*place_of(frame.original for frame in frames), decoded(frames[0].function), "")

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


def _may_begin(code: CodeLines | LineDigests, number: int, line: bytes) -> bool:
    """Whether a line of the code may begin like this one; of digests, if this looks like code."""
    if isinstance(code, CodeLines):
        return code.begins(number, line)
    is_code = CODE.match(line) is not None and not FRAME.startswith(line[: len(FRAME)])
    return number <= len(code) and is_code


def written(stream: LogStream, at: int, others: Mapping[int, bytes]) -> bytes:
    """A line of a log, or another text in its place."""
    return stream.written(at, others[at]) if at in others else stream.line(at).data


# --- what a log shows without any model


class AnyCode(FrameCode):
    """A code record of which nothing is known: all lines are taken that may be code."""

    most_unmarked = CONTEXT

    def __init__(self, file: bytes) -> None:
        self.name = decoded(file)
        self.lines = None

    def shows(self, shown: list[bytes], number: int) -> bool:  # noqa: ARG002 (nothing is known)
        """False."""
        return False

    def original(self, line: int, column: int) -> SourceRange | None:  # noqa: ARG002 (the same)
        """None."""
        return None


class TracebackFailure(Failure):
    """A traceback of TorchScript. Its lines are read once they are needed.

    Args:
        stream: the traceback's lines, its heading first.
        hierarchy: the module hierarchy above, which the lite interpreter prints; b"" where there is none.
    """

    def __init__(self, stream: LogStream, hierarchy: bytes = b"") -> None:
        super().__init__(stream)
        self.hierarchy = hierarchy

    def shows_source(self, above: bytes) -> bool:
        """Whether it already shows the model's own source, and no generated code.

        Args:
            above: the line above it; empty where there is none.
        """
        first = self.stream.text(1, is_patient=False)
        return HIERARCHY in above or (first is not None and is_source(first))

    @property
    def lacks_frame(self) -> bool:
        """Whether the line below its heading doesn't begin a frame."""
        return FRAME_HEADER.fullmatch(self.stream.text(1) or b"") is None

    @cached_property
    def _traceback(self) -> Traceback:
        return Traceback(self.stream, AnyCode)

    @cached_property
    def names(self) -> frozenset[str]:
        """The code records that its frames name."""
        return frozenset(decoded(frame.file) for frame in self._traceback.frames if frame.is_serialized)

    @property
    def has_code(self) -> bool:
        """Whether there are any; true where it is too long to read."""
        return bool(self.names) or self._traceback.is_too_long

    @property
    def is_torn(self) -> bool:
        """Whether a frame that names one breaks off."""
        return self._traceback.is_torn

    @property
    def stop(self) -> int:
        """The line after its last frame."""
        return self._traceback.frames[-1].stop if self._traceback.frames else 1

    @property
    def what(self) -> str:
        """Whether it has code, or source."""
        return "traceback" if self.has_code else REDACTED

    @property
    def key(self) -> object:
        """The same for tracebacks of the same lines of code, whatever a logger writes around them."""
        if not self.has_code:
            return object()  # only a model knows where its lines of source end
        return blake2b(b"\n".join(self._traceback.raw[1:]), digest_size=DIGEST).digest()

    def may_be_of(self, facts: Facts) -> bool:
        """Whether a model may have this code, or, where there is only source, the module hierarchy."""
        if self.has_code:
            return facts.may_have_code(self.names)
        if not facts.handles:
            return False
        top = TOP.match(self.hierarchy)  # a hash, in a redacted archive
        return top is None or decoded(top[1]) == facts.top or HASH.fullmatch(top[1]) is not None


class SerializedFailure(TracebackFailure):
    """A traceback of TorchScript that goes on with its original code; its first heading says *serialized*."""

    what = REDACTED
    lacks_frame = False

    def shows_source(self, above: bytes) -> bool:  # noqa: ARG002 (its source may be redacted)
        """False."""
        return False

    @property
    def key(self) -> object:
        """Different for each failure."""
        return object()

    def may_be_of(self, facts: Facts) -> bool:
        """Whether a model may have this code."""
        return facts.may_have_code(self.names)
