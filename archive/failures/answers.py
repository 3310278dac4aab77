"""One model's answers to the failures in a log."""

from __future__ import annotations

from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

from archive.base.strings import decoded
from archive.companion.hashed_names import HASH
from archive.failures.code_records import CompanionCode, DigestedCode, FrameCode, RenamedCode
from archive.failures.hashed_words import names_by_hash, unhashed
from archive.failures.kernels import source_of
from archive.failures.lite import LiteAnswers
from archive.failures.printed import CODE_FOLDERS
from archive.failures.redacted_answers import RedactedAnswers

if TYPE_CHECKING:
    from archive.base.spending import Spending
    from archive.debuginfo.symbolicate import Style
    from archive.failures.failure import Answer, Failure
    from archive.reader.archive import Archive
    from archive.reader.lookups.instructions import InstructionNodes


class ArchiveAnswers:
    """The answers of an archive, or of a companion.

    Args:
        archive: the model that failed.
        style: the release whose wording explains the lite interpreter's failures.
        spending: counts the steps of all explanations.
    """

    def __init__(self, archive: Archive, style: Style, spending: Spending) -> None:
        self.archive = archive
        self.spending = spending
        self.lite = LiteAnswers(archive, style, spending)
        companion = archive.companion
        # The log of a redacted archive shows other lines, with hashes for names.
        self._has_hashes = companion is not None and bool(companion.salt)
        self._digests = archive.line_digests if companion and not self._has_hashes else {}
        self.is_unchecked = not archive.has_code and not self._digests
        # Cached, since a traceback names the same records again and again.
        self.code = lru_cache(maxsize=256)(self._code_of)
        # A profile has a row of the same kernel for each call.
        self.kernel_source = lru_cache(maxsize=256)(partial(source_of, archive.compiled))

    def saw(self, line: bytes, number: int, *, is_failing: bool = False) -> None:
        """Nothing: which model failed is known."""

    def names_nothing(self, lines: bytes) -> bool:
        """Whether lines have no hash that stands for a name."""
        return not self._has_hashes or HASH.search(lines) is None

    def named(self, line: bytes) -> bytes:
        """A line in which no failure begins, with the names that its hashes stand for."""
        return unhashed(line, self._names) if self._has_hashes and HASH.search(line) else line

    def answer(self, failure: Failure) -> Answer | None:
        """The answer to a failure; None where the log has its source, or the file has nothing of its kind."""
        return failure.answer(self)

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
    def redacted(self) -> RedactedAnswers:
        """The answers to failures whose source is redacted."""
        return RedactedAnswers(self.archive, self.lite, self.spending, self._names)

    @cached_property
    def instruction_nodes(self) -> InstructionNodes:
        """The nodes of an ETRecord by their instructions."""
        from archive.reader.lookups.instructions import InstructionNodes  # noqa: PLC0415 (few archives have some)

        return InstructionNodes(self.archive)
