"""A code record that a frame of a traceback names: its lines, and the source ranges behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.strings import decoded
from archive.container.names import encoded
from archive.debuginfo.excerpt import CONTEXT
from archive.failures.code_lines import CodeLines
from archive.failures.hashed_words import HASH
from archive.formats.record_kinds import LEGACY_CODE, PACKAGE_CODE, RANGES_SUFFIX

if TYPE_CHECKING:
    import re

    from archive.debuginfo.model import SourceRange
    from archive.reader.archive import Archive
    from archive.reader.companion import Companion
    from archive.reader.line_digests import LineDigests

CODE_FOLDERS = (LEGACY_CODE[0].encode(), PACKAGE_CODE.encode())
"""The folders of code records, in an archive and in a torch.package."""


class CodeRecord:
    """The code record that a frame names.

    Args:
        archive: the archive whose record it may be.
        file: the file's name as printed.

    Attributes:
        name: the record's name.
        lines: its lines; None where the archive has no such record, or they are not known.
    """

    lines: CodeLines | LineDigests | None
    most_unmarked = CONTEXT - 1
    """Lines without a marking that are taken if the code is not known. PyTorch prints one more behind a range
    that ends a line, but that may be the log's next one."""

    def __init__(self, archive: Archive, file: bytes) -> None:
        self.archive = archive
        self.name = decoded(file)
        known = file.startswith(CODE_FOLDERS) and self.name in archive.records
        view = archive.records[self.name].view() if known else memoryview(b"")
        self.lines = CodeLines(view) if len(view) else None

    def shows(self, shown: list[bytes], number: int) -> bool:
        """Whether the record has these lines up to a line, counted from 1: as many as PyTorch prints."""
        if self.lines is None or number < 1 or len(shown) != min(CONTEXT, number):
            return False
        return all(map(self.lines.is_line, range(number - len(shown) + 1, number + 1), shown))

    def columns(self, number: int, shown: bytes, marking: bytes) -> tuple[int, int]:  # noqa: ARG002 (of renamed code)
        """The first and the last column of the code that a marking is below.

        Args:
            number: of the line, from 1.
            shown: the line as the log has it.
            marking: the line below.
        """
        return marking.index(b"~"), marking.rindex(b"~")

    def function(self, number: int, shown: bytes) -> bytes:  # noqa: ARG002 (of renamed code)
        """The name of the function that a line is in, as the code has it; ``shown`` is the log's."""
        return shown

    def as_written(self, header: re.Match[bytes], lines: list[bytes]) -> list[bytes]:
        """The lines of a frame that shows this record, with its own names.

        Args:
            header: the frame's heading.
            lines: those below: lines of code up to the one that the heading names, and more; markings.
        """
        return [header.string, *lines]

    def marks(self, number: int, first: int, last: int) -> bool:
        """Whether a marking of these columns fits below a line: it starts below a byte that isn't blank."""
        if not isinstance(self.lines, CodeLines):  # of digests, no columns are known
            return True
        return last < self.lines.length(number) and bool(self.lines.byte(number, first).strip())

    def original(self, line: int, column: int) -> SourceRange | None:
        """The original range of a position; the line counted from 1, the column in bytes from 0."""
        if not isinstance(self.lines, CodeLines) or self.name + RANGES_SUFFIX not in self.archive.records:
            return None
        return self.archive.locate(self.name, self.lines.start(line) + column)


class CompanionCode(CodeRecord):
    """A code record that is only known by its ranges' places: a companion does not hold the code."""

    def __init__(self, companion: Companion, file: bytes) -> None:
        self.companion = companion
        self.name = decoded(file)
        self.lines = None

    def shows(self, shown: list[bytes], number: int) -> bool:
        """Whether there is such a record; its lines are not known."""
        return 0 < len(shown) <= number and self.name + RANGES_SUFFIX in self.companion.range_names

    def original(self, line: int, column: int) -> SourceRange | None:
        """The original range of a position; the line counted from 1, the column in bytes from 0."""
        return self.companion.locate_line(self.name, line, column)


class DigestedCode(CompanionCode):
    """A code record of a companion, whose lines are compared by their digests."""

    def __init__(self, companion: Companion, file: bytes, lines: LineDigests) -> None:
        super().__init__(companion, file)
        self.lines = lines

    def shows(self, shown: list[bytes], number: int) -> bool:
        """Whether the record has these lines up to a line, counted from 1: as many as PyTorch prints."""
        return CodeRecord.shows(self, shown, number)


def problem_of(code: CodeRecord, number: int, *, fits: bool) -> str:
    """The reason that a frame has no original range."""
    if fits:
        return f"no source range is recorded for {code.name}, line {number}"
    if code.lines:
        return f"{code.name} has another line {number} in this archive: the failure is another model's"
    hashes = ", or its names are hashes of another redaction" if HASH.search(encoded(code.name)) else ""
    return f"this archive has no code of the name {code.name}: the failure is another model's{hashes}"
