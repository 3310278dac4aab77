"""One model's answers to the failures in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.companion.hashed_names import HASH
from archive.failures.code_records import ModelCode
from archive.failures.hashed_words import names_of, unhashed
from archive.failures.lite import lite_answers
from archive.failures.one_model import OneModel

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.base.spending import Spending
    from archive.debuginfo.symbolicate import Style
    from archive.failures.failure import Answer, Failure
    from archive.reader.archive import Archive


class ArchiveAnswers(OneModel):
    """The answers of an archive, or of a companion."""

    notes = ()

    def __init__(self, archive: Archive, style: Style, spending: Spending) -> None:
        super().__init__(archive, style, spending)
        # The log of a redacted archive shows other lines, with hashes for names.
        self._has_hashes = archive.companion is not None and bool(archive.companion.salt)
        for make in (lite_answers, ModelCode):  # what is damaged is refused before any failure
            self.made(make)

    def saw(self, line: bytes, number: int, *, is_failing: bool = False) -> None:
        """Do nothing: lines name models, and here is only one."""

    def naming_in(self, lines: bytes) -> Iterable[int]:
        """The places of what may be hashes that stand for names."""
        return [match.start() for match in HASH.finditer(lines)] if self._has_hashes else ()

    def named(self, line: bytes) -> bytes:
        """A line in which no failure begins, with the names that its hashes stand for."""
        return unhashed(line, self.made(names_of)) if self._has_hashes and HASH.search(line) else line

    def answer(self, failure: Failure) -> Answer | None:
        """The answer to a failure; None where the log has its source, or the file has nothing of its kind."""
        return failure.answer(self)

    def source_problem(self, failure: Failure) -> tuple[int, str] | None:
        """A line of a failure that shows source which the model has otherwise, and why; None for none."""
        return failure.source_problem(self)
