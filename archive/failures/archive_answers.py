"""One archive's answers to the failures in a log."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

from archive.base.errors import LimitError
from archive.base.strings import decoded
from archive.failures import instructions, nodes
from archive.failures.code_records import CODE_FOLDERS, CodeRecord, CompanionCode, DigestedCode
from archive.failures.eval_frames import EvalTraceback
from archive.failures.failures import Answer, Cause
from archive.failures.hashed_words import HASH, names_by_hash, unhashed
from archive.failures.instructions import InstructionFailure
from archive.failures.kernels import KernelLine, known_of
from archive.failures.lite import LiteAnswers
from archive.failures.nodes import NodeFailure
from archive.failures.notes import why_left
from archive.failures.redacted import HIERARCHY, Hierarchies, is_as_it_was
from archive.failures.redacted_answers import RedactedAnswers
from archive.failures.renamed_code import RenamedCode
from archive.failures.tracebacks import (
    CUT_NOTE,
    MAX_BYTES,
    MAX_LINES,
    TORN_NOTE,
    Traceback,
    place_of,
)
from archive.reader.lacking import why_no_ranges

if TYPE_CHECKING:
    from archive.base.spending import Spending
    from archive.debuginfo.symbolicate import Style
    from archive.failures.failures import LiteFailure
    from archive.failures.lookups.instructions import Places
    from archive.failures.streams import Stream
    from archive.failures.tracebacks import LoggedFrame
    from archive.reader.archive import Archive

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
        self._hierarchies = Hierarchies()
        # Cached, for a traceback names the same records again and again.
        self._code = lru_cache(maxsize=256)(self._code_of)
        # A profile has a row of the same kernel for each call.
        self._known = lru_cache(maxsize=256)(partial(known_of, archive.compiled))

    def saw(self, line: bytes, number: int) -> None:
        """Keep the module hierarchy that stands above a traceback of the lite interpreter."""
        self._hierarchies.saw(line, number)

    def is_quiet(self, lines: bytes) -> bool:
        """Whether lines have neither a module hierarchy nor a hash."""
        return HIERARCHY not in lines and HASH.search(lines) is None

    def named(self, line: bytes) -> bytes:
        """A line in which no failure begins, with the names that its hashes stand for."""
        return unhashed(line, self._names) if HASH.search(line) else line

    @cached_property
    def _names(self) -> dict[bytes, bytes]:
        companion = self.archive.companion
        return {} if companion is None else names_by_hash(companion)

    def of_handles(self, failure: LiteFailure) -> Answer:
        """The answer to a failure of the lite interpreter."""
        return self.lite.answer(failure)

    def of_traceback(self, stream: Stream) -> Answer | None:
        """The answer to a traceback of TorchScript; None where it is of no serialized code."""
        traceback = Traceback(stream, self._code)
        frames = [frame for frame in traceback.frames if frame.is_serialized]
        if not frames and not traceback.is_too_long:
            redacted = self.of_redacted(stream, self._hierarchies.above(stream))
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

    def of_serialized(self, stream: Stream) -> Answer | None:
        """The answer to a traceback of serialized and of redacted code; None where the latter is none."""
        if is_as_it_was(stream, self._redacted.files):
            return None
        traceback = Traceback(stream, self._code)
        answer = self._redacted.of_serialized(stream, traceback, partial(self._original, traceback))
        if answer and answer.text is not None and self._unchecked:
            return replace(answer, notes=(*answer.notes, (0, UNCHECKED)), is_unproven=True)
        return answer

    def of_redacted(self, stream: Stream, hierarchy: bytes) -> Answer | None:
        """The answer to a traceback of the lite interpreter of redacted code; None where it is none.

        Args:
            stream: its lines, the heading first.
            hierarchy: the module hierarchy above; b"" where there is none.
        """
        return self._redacted.of_lite(stream, hierarchy)

    @cached_property
    def _redacted(self) -> RedactedAnswers:
        return RedactedAnswers(self.archive, self.lite, self._spending, self._names)

    def of_node(self, stream: Stream) -> Answer | None:
        """The answer to a failure of ``torch.fx.Interpreter``; None where the log has its source."""
        failure = NodeFailure(stream)
        if failure.is_explained and (found := self._redacted.of_node(failure)):
            return found
        failure.leave()
        if not failure.is_unexplained or not self.archive.programs:
            return None
        return nodes.answer(self.archive, failure)

    def of_frames(self, stream: Stream) -> Answer | None:
        """The answer to a traceback through graph modules; None where none of their code is shown."""
        traceback = EvalTraceback(stream)
        traceback.leave()
        if traceback.is_explained or not traceback.statements or not self.archive.programs:
            return None
        return traceback.answer(self.archive)

    def of_kernel(self, stream: Stream) -> Answer | None:
        """The answer to a line that names code or a kernel of AOTInductor; None where it has its source."""
        line = KernelLine(stream)
        if line.is_explained:
            line.leave()
            return None
        if not self.archive.compiled:
            return None
        return line.answer(self._known(line.named))

    def of_instruction(self, stream: Stream) -> Answer | None:
        """The answer to a failure of ExecuTorch's runtime; None where the log has its source."""
        failure = InstructionFailure(stream)
        if failure.is_explained or not self.archive.instructions:
            return None
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
