"""One archive's answers to the failures in a log.

Code of a redacted archive whose names are hashes, by the code that it was made of.

The companion has that code and the key of the hashes. A line of the log is the code's line if it has the same
characters between its names, and each name is the code's or its hash. So places in it lead to places in the
code.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

from archive.base.errors import LimitError
from archive.base.strings import decoded
from archive.companion.hashed_names import hashed
from archive.container.names import encoded
from archive.failures import instructions, nodes
from archive.failures.code_lines import CodeLines
from archive.failures.code_records import CODE_FOLDERS, CodeRecord, CompanionCode, DigestedCode
from archive.failures.eval_frames import EvalTraceback
from archive.failures.failures import Answer, Cause, LiteFailure
from archive.failures.hashed_words import HASH, names_by_hash, unhashed
from archive.failures.instructions import InstructionFailure
from archive.failures.kernels import KernelLine, known_of
from archive.failures.lite import LiteAnswers
from archive.failures.nodes import NodeFailure
from archive.failures.notes import why_left
from archive.failures.outline import Outline, SerializedOutline
from archive.failures.redacted import is_as_it_was
from archive.failures.redacted_answers import RedactedAnswers
from archive.failures.tracebacks import (
    CUT_NOTE,
    MAX_BYTES,
    MAX_LINES,
    RANGE_MARKING,
    TORN_NOTE,
    Traceback,
    place_of,
)
from archive.reader.lacking import why_no_ranges

if TYPE_CHECKING:
    from archive.base.spending import Spending
    from archive.debuginfo.symbolicate import Style
    from archive.failures.failures import Failure
    from archive.failures.lookups.instructions import Places
    from archive.failures.streams import Stream
    from archive.failures.tracebacks import LoggedFrame
    from archive.reader.archive import Archive
    from archive.reader.companion import Companion

# --- renamed code

WORD = re.compile(rb'("[^"\n]*"|\w+)')
"""A name, or a text in quotes, which may be one."""
DEFINED = re.compile(rb"def (\w+)\(")
MOST_FUNCTIONS = 100
"""Functions above a line that are asked whether they are the one that the log names."""


class RenamedLines(CodeLines):
    """The lines of code, to be compared with lines in which names may be hashes.

    Args:
        text: the code, of one byte or more.
        salt: the key of the hashes.
    """

    def __init__(self, text: memoryview, salt: bytes) -> None:
        super().__init__(text)
        self.text, self.salt = text, salt

    def line(self, number: int) -> bytes:
        """A line of the code, counted from 1, without its newline."""
        start = self.start(number)
        return bytes(self.text[start : start + self.length(number)])

    def is_line(self, number: int, line: bytes) -> bool:
        """Whether the code has a line of this number, and it is this one but for hashes."""
        return 0 < number <= len(self) and self.is_same(self.line(number), line)

    def is_same(self, line: bytes, shown: bytes) -> bool:
        """Whether a line that is shown is a line of the code but for hashes."""
        old, new = WORD.split(line), WORD.split(shown)
        return len(old) == len(new) and all(
            one == two or self._is_hash(one, two) for one, two in zip(old, new, strict=True)
        )

    def _is_hash(self, name: bytes, shown: bytes) -> bool:
        quote = b'"' if name[:1] == b'"' else b""
        inner = name.removeprefix(quote).removesuffix(quote)
        return shown == quote + hashed(decoded(inner), self.salt).encode() + quote

    def column(self, number: int, shown: bytes, column: int) -> int:
        """The column of the code that a column of the shown line stands for; both in bytes, from 0.

        The last column of a hash stands for the last one of its name.
        """
        before = after = 0
        for old, new in zip(WORD.split(self.line(number)), WORD.split(shown), strict=True):
            if column < after + len(new):
                is_last = column == after + len(new) - 1
                return before + max(0, len(old) - 1 if is_last else min(column - after, len(old) - 1))
            before, after = before + len(old), after + len(new)
        return before + column - after


class RenamedCode(CodeRecord):
    """A code record whose names may be hashes.

    Args:
        archive: the archive that the code is of, or its companion alone.
        companion: the companion of the redacted one.
        name: the record's name before.
        salt: the key of the hashes.
    """

    lines: RenamedLines

    def __init__(self, archive: Archive, companion: Companion, name: str, salt: bytes) -> None:
        self.archive, self.companion, self.name = archive, companion, name
        self.lines = RenamedLines(memoryview(archive.records[name].view()), salt)

    def columns(self, number: int, shown: bytes, marking: bytes) -> tuple[int, int]:
        """The first and the last column of the code that a marking is below."""
        first, last = super().columns(number, shown, marking)
        return self.lines.column(number, shown, first), self.lines.column(number, shown, last)

    def as_written(self, header: re.Match[bytes], lines: list[bytes]) -> list[bytes]:
        """The lines of a frame that shows this record, with its own names."""
        shown = next(at for at, line in enumerate(lines) if RANGE_MARKING.fullmatch(line))
        number = int(header["line"]) - shown + 1
        own = [self._heading(header)]
        for at, line in enumerate(lines):
            if marking := RANGE_MARKING.fullmatch(line):
                first, last = self.columns(number - 1, lines[at - 1], line)
                own.append(b" " * first + b"~" * (last - first + 1) + (marking["here"] or b""))
            else:
                own.append(self.lines.line(number))
                number += 1
        return own

    def _heading(self, header: re.Match[bytes]) -> bytes:
        line, function = header.string, header["function"]
        named = b"" if function is None else b", in " + self.function(int(header["line"]), function)
        return (
            line[: header.start("file")]
            + encoded(self.name)
            + line[header.end("file") : header.end("line")]
            + named
        )

    def function(self, number: int, shown: bytes) -> bytes:
        """The name of a function that is shown, by its definition above a line."""
        text = bytes(self.lines.text[: self.lines.start(number)])
        end = len(text)
        for _ in range(MOST_FUNCTIONS):
            end = text.rfind(b"def ", 0, end)
            found = DEFINED.match(text, max(end, 0))
            if end < 0 or found is None:
                break
            if self.lines.is_same(found[1], shown):
                return found[1]
        return shown


# --- archive answers

UNCHECKED = "nothing proves it: not checked against the model's code, which a companion doesn't have"


class ArchiveAnswers:
    """The answers of an archive.

    Args:
        archive: the model that failed.
        style: the release whose wording explains the lite interpreter's failures.
        spending: counts the steps of all explanations.
    """

    def __init__(self, archive: Archive, style: Style, spending: Spending) -> None:
        self.archive = archive
        self._spending = spending
        self.lite = LiteAnswers(archive, style, spending)
        companion = archive.companion
        # Of a redacted archive, whose lines have hashes for names, a log shows other lines.
        self._digests = archive.line_digests if companion and not companion.salt else {}
        self._unchecked = not archive.has_code and not self._digests
        # Cached, for a traceback names the same records again and again.
        self._code = lru_cache(maxsize=256)(self._code_of)
        # A profile has a row of the same kernel for each call.
        self._known = lru_cache(maxsize=256)(partial(known_of, archive.compiled))

    def saw(self, line: bytes, number: int) -> None:
        """Nothing: which model failed is known."""

    def is_quiet(self, lines: bytes) -> bool:
        """Whether lines have no hash."""
        return HASH.search(lines) is None

    def named(self, line: bytes) -> bytes:
        """A line in which no failure begins, with the names that its hashes stand for."""
        return unhashed(line, self._names) if HASH.search(line) else line

    @cached_property
    def _names(self) -> dict[bytes, bytes]:
        companion = self.archive.companion
        return {} if companion is None else names_by_hash(companion)

    def answer(self, failure: Failure) -> Answer | None:
        """The answer to a failure; None where the log has its source, or it is of no kind of this file."""
        if isinstance(failure, LiteFailure):
            return self.lite.answer(failure)
        if isinstance(failure, SerializedOutline):
            return self._of_serialized(failure.stream)
        if isinstance(failure, Outline):
            return self._of_traceback(failure)
        if isinstance(failure, NodeFailure):
            return self._of_node(failure)
        if isinstance(failure, EvalTraceback):
            return failure.answer(self.archive) if self.archive.programs else None
        if isinstance(failure, KernelLine):
            return failure.answer(self._known(failure.named)) if self.archive.compiled else None
        assert isinstance(failure, InstructionFailure)  # noqa: S101 (the last kind)
        return self._of_instruction(failure) if self.archive.instructions else None

    def _of_traceback(self, outline: Outline) -> Answer | None:
        """The answer to a traceback of TorchScript; None where it is of no serialized code."""
        traceback = Traceback(outline.stream, self._code)
        frames = [frame for frame in traceback.frames if frame.is_serialized]
        if not frames and not traceback.is_too_long:
            redacted = self._redacted.of_lite(outline.stream, outline.hierarchy)
            if redacted is not None:
                return redacted
            return Answer(traceback, None, ((0, TORN_NOTE),)) if traceback.is_torn else None
        why = self._why_not(traceback, frames)
        if why:
            return Answer(traceback, None, (why,))
        notes = [(frame.first, frame.problem) for frame in frames if frame.problem]
        try:
            original = self._original(traceback)
        except LimitError as error:
            return Answer(traceback, None, (*notes, (0, why_left(error))), is_possible=True)
        if traceback.cut:
            notes.append((traceback.cut, CUT_NOTE))
        if self._unchecked:
            notes.append((0, UNCHECKED))
        place = place_of(frame.original for frame in reversed(frames))
        cause = Cause(*place, decoded(frames[-1].function), "")
        return Answer(
            traceback, original, tuple(notes), is_possible=True, is_unproven=self._unchecked, cause=cause
        )

    def _of_serialized(self, stream: Stream) -> Answer | None:
        """The answer to a traceback of serialized and of redacted code; None where the latter is none."""
        if is_as_it_was(stream, self._redacted.files):
            return None
        traceback = Traceback(stream, self._code)
        answer = self._redacted.of_serialized(stream, traceback, partial(self._original, traceback))
        if answer and answer.text is not None and self._unchecked:
            return replace(answer, notes=(*answer.notes, (0, UNCHECKED)), is_unproven=True)
        return answer

    @cached_property
    def _redacted(self) -> RedactedAnswers:
        return RedactedAnswers(self.archive, self.lite, self._spending, self._names)

    def _of_node(self, failure: NodeFailure) -> Answer | None:
        """The answer to a failure of ``torch.fx.Interpreter``; None where the log has its source."""
        if failure.is_explained and (found := self._redacted.of_node(failure)):
            return found
        failure.leave()
        if not failure.is_unexplained or not self.archive.programs:
            return None
        return nodes.answer(self.archive, failure)

    def _of_instruction(self, failure: InstructionFailure) -> Answer:
        """The answer to a failure of ExecuTorch's runtime."""
        steps = self._spending.of_one_failure()
        try:
            return instructions.answer(self._places, failure, steps)
        except LimitError as error:
            return Answer(failure, None, ((0, why_left(error)),), is_possible=True)
        finally:
            self._spending.spend(steps.taken)

    @cached_property
    def _places(self) -> Places:
        from archive.failures.lookups.instructions import Places  # noqa: PLC0415 (few archives have some)

        return Places(self.archive)

    def _code_of(self, file: bytes) -> CodeRecord:
        """The code record of a file name."""
        companion = self.archive.companion
        if companion and companion.salt:
            name = companion.replaced.get(decoded(file), decoded(file))
            if name.encode().startswith(CODE_FOLDERS) and name in self.archive.records:
                return RenamedCode(self.archive, companion, name, companion.salt)
        if companion and not self.archive.has_code:
            lines = self._digests.get(decoded(file))
            return CompanionCode(companion, file) if lines is None else DigestedCode(companion, file, lines)
        return CodeRecord(self.archive, file)

    def _original(self, traceback: Traceback) -> bytes:
        """The traceback of the original code.

        Raises:
            LimitError: it would be too long, or take too many steps.
        """
        steps = self._spending.of_one_failure()
        try:
            return traceback.original(self.archive.limits, steps)
        finally:
            self._spending.spend(steps.taken)

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
