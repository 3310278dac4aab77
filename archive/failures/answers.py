"""One model's answers to the failures in a log."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

from archive.base.errors import LimitError
from archive.base.strings import decoded
from archive.companion.hashed_names import HASH
from archive.failures import inputs, instructions, nodes
from archive.failures.code_records import CompanionCode, DigestedCode, FrameCode, RenamedCode
from archive.failures.eval_frames import EvalFailure
from archive.failures.failure import MAX_LINES, Answer, why_left
from archive.failures.hashed_words import names_by_hash, unhashed
from archive.failures.inputs import InputFailure
from archive.failures.instructions import InstructionFailure
from archive.failures.kernels import KernelFailure, source_of
from archive.failures.lite import LiteAnswers, LiteFailure
from archive.failures.nodes import NodeFailure
from archive.failures.printed import CODE_FOLDERS
from archive.failures.redacted import is_as_it_was
from archive.failures.redacted_answers import RedactedAnswers
from archive.failures.tracebacks import (
    CUT_NOTE,
    MAX_BYTES,
    TORN_NOTE,
    SerializedFailure,
    Traceback,
    TracebackFailure,
)
from archive.reader.lacking import why_no_ranges

if TYPE_CHECKING:
    from archive.base.spending import Spending
    from archive.debuginfo.symbolicate import Style
    from archive.failures.failure import Failure
    from archive.failures.log.streams import LogStream
    from archive.reader.archive import Archive
    from archive.reader.lookups.instructions import InstructionNodes

UNCHECKED = "nothing proves it: not checked against the model's code, which a companion doesn't have"


class ArchiveAnswers:
    """The answers of an archive, or of a companion.

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
        # The log of a redacted archive shows other lines, with hashes for names.
        self._has_hashes = companion is not None and bool(companion.salt)
        self._digests = archive.line_digests if companion and not self._has_hashes else {}
        self._unchecked = not archive.has_code and not self._digests
        # Cached, since a traceback names the same records again and again.
        self._code = lru_cache(maxsize=256)(self._code_of)
        # A profile has a row of the same kernel for each call.
        self._kernel_source = lru_cache(maxsize=256)(partial(source_of, archive.compiled))

    def saw(self, line: bytes, number: int, *, is_failing: bool = False) -> None:
        """Nothing: which model failed is known."""

    def is_quiet(self, lines: bytes) -> bool:
        """Whether lines have no hash that stands for a name."""
        return not self._has_hashes or HASH.search(lines) is None

    def named(self, line: bytes) -> bytes:
        """A line in which no failure begins, with the names that its hashes stand for."""
        return unhashed(line, self._names) if self._has_hashes and HASH.search(line) else line

    def answer(self, failure: Failure) -> Answer | None:
        """The answer to a failure; None where the log has its source, or the file has nothing of its kind."""
        if isinstance(failure, LiteFailure):
            return self.lite.answer(failure)
        if isinstance(failure, SerializedFailure):
            return self._of_serialized(failure.stream)
        if isinstance(failure, TracebackFailure):
            return self._of_traceback(failure)
        if isinstance(failure, NodeFailure):
            if failure.is_explained and (answer := self._redacted.of_node(failure)):
                return answer
            failure.leave()
            if not failure.is_unexplained or not self.archive.programs:
                return None
            return nodes.answer(self.archive, failure)
        if isinstance(failure, EvalFailure):
            return failure.answer(self.archive) if self.archive.programs else None
        if isinstance(failure, KernelFailure):
            return failure.answer(self._kernel_source(failure.named)) if self.archive.compiled else None
        if not self.archive.instructions:
            return None
        if isinstance(failure, InputFailure):
            return inputs.answer(self.archive, failure)
        assert isinstance(failure, InstructionFailure)  # noqa: S101 (the last kind)
        with self._spending.one_failure() as steps:
            try:
                return instructions.answer(self._instructions, failure, steps)
            except LimitError as error:
                return Answer(failure, None, ((0, why_left(error)),), is_possible=True)

    def _of_traceback(self, failure: TracebackFailure) -> Answer | None:
        """The answer to a traceback of TorchScript; None where it has no serialized code."""
        traceback = Traceback(failure.stream, self._code)
        frames = [frame for frame in traceback.frames if frame.is_serialized]
        if traceback.is_too_long:
            why = f"a traceback of more than {MAX_LINES} lines or {MAX_BYTES} bytes"
            return Answer(traceback, None, ((0, why),))
        if not frames:
            redacted = self._redacted.of_lite(failure.stream, failure.hierarchy)
            if redacted is not None:
                return redacted
            return Answer(traceback, None, ((0, TORN_NOTE),)) if traceback.is_torn else None
        if foreign := next((frame for frame in frames if frame.is_foreign), None):
            return Answer(traceback, None, ((foreign.first, foreign.problem),))
        if not any(frame.original for frame in frames):
            why = why_no_ranges(self.archive)
            note = frames[0].first, why or frames[0].problem
            return Answer(traceback, None, (note,), is_possible=bool(why), is_split=bool(why))
        notes = [(frame.first, frame.problem) for frame in frames if frame.problem]
        try:
            original = self._original(traceback)
        except LimitError as error:
            return Answer(traceback, None, (*notes, (0, why_left(error))), is_possible=True)
        if traceback.cut:
            notes.append((traceback.cut, CUT_NOTE))
        if self._unchecked:
            notes.append((0, UNCHECKED))
        return Answer(
            traceback,
            original,
            tuple(notes),
            is_possible=True,
            is_unproven=self._unchecked,
            cause=traceback.cause,
        )

    def _of_serialized(self, stream: LogStream) -> Answer | None:
        """The answer to a traceback of serialized and redacted code; None if its source isn't redacted."""
        if is_as_it_was(stream, self._redacted.files):
            return None
        traceback = Traceback(stream, self._code)
        answer = self._redacted.of_serialized(stream, traceback, partial(self._original, traceback))
        if answer and answer.text is not None and self._unchecked:
            return replace(answer, notes=(*answer.notes, (0, UNCHECKED)), is_unproven=True)
        return answer

    def _original(self, traceback: Traceback) -> bytes:
        """The traceback of the original code."""
        with self._spending.one_failure() as steps:
            return traceback.original(self.archive.limits, steps)

    def _code_of(self, file: bytes) -> FrameCode:
        """The code record of a file name."""
        companion = self.archive.companion
        if companion and companion.salt:
            name = companion.replaced.get(decoded(file), decoded(file))
            if name.encode().startswith(CODE_FOLDERS) and name in self.archive.records:
                return RenamedCode(self.archive, companion, name, companion.salt)
        if companion and not self.archive.has_code:
            lines = self._digests.get(decoded(file))
            return CompanionCode(companion, file) if lines is None else DigestedCode(companion, file, lines)
        return FrameCode(self.archive, file)

    @cached_property
    def _names(self) -> dict[bytes, bytes]:
        companion = self.archive.companion
        return {} if companion is None else names_by_hash(companion)

    @cached_property
    def _redacted(self) -> RedactedAnswers:
        return RedactedAnswers(self.archive, self.lite, self._spending, self._names)

    @cached_property
    def _instructions(self) -> InstructionNodes:
        from archive.reader.lookups.instructions import InstructionNodes  # noqa: PLC0415 (few archives have some)

        return InstructionNodes(self.archive)
