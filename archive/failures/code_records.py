"""The generated code that a frame of a traceback names: its lines, and their source ranges.

A log may be of a redacted archive, in which names are hashes. The companion has the original code and the key
of the hashes: a line of the log is the code's line if it has the same characters between its
names, and each name is the code's or its hash. So places in it lead to places in the code.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

from archive.base.strings import decoded
from archive.companion.hashed_names import HASH, hashed
from archive.container.names import as_bytes
from archive.debuginfo.excerpt import CONTEXT
from archive.failures.printed import CODE_FOLDERS, RANGE_MARKING
from archive.formats.record_kinds import RANGES_SUFFIX

if TYPE_CHECKING:
    from archive.debuginfo.model import SourceRange
    from archive.failures.one_model import OneModel
    from archive.reader.archive import Archive
    from archive.reader.companion import Companion
    from archive.reader.line_digests import LineDigests

BLOCK = 1 << 14
"""Bytes whose newlines are counted together."""
NEWLINE = ord("\n")
WORD = re.compile(rb'("[^"\n]*"|\w+)')
"""A name, or a text in quotes, which may be one."""
DEFINED = re.compile(rb"def (\w+)\(")
MOST_MOVED = 1_000
"""Lines above and below, among which those of a log are looked for that stand elsewhere."""
MOST_FUNCTIONS = 100
"""Functions above a line that are checked for the name in the log."""


# --- lines


class CodeLines:
    """The lines of a text, counted from 1. A last newline ends the last line and begins none.

    Args:
        text: the text, not empty.
    """

    def __init__(self, text: memoryview) -> None:
        self._text = np.frombuffer(text, np.uint8)
        self._block, self._places = -1, np.empty(0, np.uint16)

    def __len__(self) -> int:
        return self._before[-1] + int(self._text[-1] != NEWLINE)

    @cached_property
    def _before(self) -> list[int]:
        """The newlines before each block, and in all blocks."""
        starts = range(0, len(self._text), BLOCK)
        counts = [int(np.count_nonzero(self._text[start : start + BLOCK] == NEWLINE)) for start in starts]
        return list(accumulate(counts, initial=0))

    def start(self, number: int) -> int:
        """The byte at which a line of the text begins."""
        return self._newline(number - 1) + 1 if number > 1 else 0

    def length(self, number: int) -> int:
        """The bytes of a line of the text, without its newline."""
        end = self._newline(number) if number <= self._before[-1] else len(self._text)
        return end - self.start(number)

    def is_line(self, number: int, line: bytes) -> bool:
        """Whether the text has a line of this number, and it is this one."""
        return self.begins(number, line) and self.length(number) == len(line)

    def begins(self, number: int, line: bytes) -> bool:
        """Whether the text has a line of this number, and it begins like this one."""
        if not 0 < number <= len(self) or self.length(number) < len(line):
            return False
        start = self.start(number)
        return self._text[start : start + len(line)].tobytes() == line

    def ends_of(self, lines: list[bytes], near: int) -> list[int]:
        """The numbers of the lines, near one, at which all of some lines end."""
        first, last = max(near - MOST_MOVED, 1), min(near + MOST_MOVED, len(self))
        if first > last:
            return []
        text = b"\n%b\n" % bytes(self._text[self.start(first) : self.start(last) + self.length(last)])
        block, ends, at = b"\n%b\n" % b"\n".join(lines), list[int](), -1
        while (at := text.find(block, at + 1)) >= 0:
            ends.append(first + text.count(b"\n", 0, at) + len(lines) - 1)
        return ends

    def byte(self, number: int, column: int) -> bytes:
        """One byte of a line; b"" past its end."""
        start = self.start(number) + column
        return self._text[start : start + 1].tobytes() if column < self.length(number) else b""

    def _newline(self, number: int) -> int:
        """The place of a newline, counted from 1."""
        block = bisect_left(self._before, number) - 1
        start = block * BLOCK
        if block != self._block:  # the lines of a traceback lie close together
            newlines = np.flatnonzero(self._text[start : start + BLOCK] == NEWLINE)
            self._block, self._places = block, newlines.astype(np.uint16)
        return start + int(self._places[number - 1 - self._before[block]])


class RenamedLines(CodeLines):
    """The lines of code, to be compared with lines in which names may be hashes."""

    def __init__(self, text: memoryview, salt: bytes) -> None:
        super().__init__(text)
        self.text, self.salt = text, salt

    def line(self, number: int) -> bytes:
        """A line of the code, counted from 1, without its newline."""
        start = self.start(number)
        return bytes(self.text[start : start + self.length(number)])

    def is_line(self, number: int, line: bytes) -> bool:
        return 0 < number <= len(self) and self.is_same(self.line(number), line)

    def ends_of(self, lines: list[bytes], near: int) -> list[int]:  # noqa: ARG002 (hashes hide where they are)
        return []

    def is_same(self, line: bytes, shown: bytes) -> bool:
        """Whether a line that is shown is a line of the code, apart from hashes."""
        words, shown_words = WORD.split(line), WORD.split(shown)
        if len(words) != len(shown_words):
            return False
        for word, shown_word in zip(words, shown_words, strict=True):
            if word != shown_word:
                quote = b'"' if word[:1] == b'"' else b""
                name = word.removeprefix(quote).removesuffix(quote)
                if shown_word != quote + hashed(decoded(name), self.salt).encode() + quote:
                    return False
        return True

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


# --- records


class FrameCode:
    """The generated code that a frame names.

    Attributes:
        lines: its lines; None where the archive has no such record, or they are not known.
    """

    lines: CodeLines | LineDigests | None
    most_unmarked = CONTEXT - 1
    """Lines without a marking that are taken if the code is not known. PyTorch prints one more after a range
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
        """The first and the last column of the code that a marking is below."""
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


class CompanionCode(FrameCode):
    """A code record of which only the places of ranges are known: a companion has no code."""

    def __init__(self, companion: Companion, file: bytes) -> None:
        self.companion = companion
        self.name = decoded(file)
        self.lines = None

    def shows(self, shown: list[bytes], number: int) -> bool:
        """Whether there is such a record; its lines are not known."""
        return 0 < len(shown) <= number and self.name + RANGES_SUFFIX in self.companion.range_names

    def original(self, line: int, column: int) -> SourceRange | None:
        return self.companion.locate_line(self.name, line, column)


class DigestedCode(CompanionCode):
    """A code record of a companion, whose lines are compared by their digests."""

    def __init__(self, companion: Companion, file: bytes, lines: LineDigests) -> None:
        super().__init__(companion, file)
        self.lines = lines

    def shows(self, shown: list[bytes], number: int) -> bool:
        return FrameCode.shows(self, shown, number)


class RenamedCode(FrameCode):
    """A code record whose names may be hashes.

    Args:
        name: the record's name before.
    """

    lines: RenamedLines

    def __init__(self, archive: Archive, companion: Companion, name: str, salt: bytes) -> None:
        self.archive, self.companion, self.name = archive, companion, name
        self.lines = RenamedLines(memoryview(archive.records[name].view()), salt)

    def columns(self, number: int, shown: bytes, marking: bytes) -> tuple[int, int]:
        first, last = super().columns(number, shown, marking)
        return self.lines.column(number, shown, first), self.lines.column(number, shown, last)

    def as_written(self, header: re.Match[bytes], lines: list[bytes]) -> list[bytes]:
        line, function, number = header.string, header["function"], int(header["line"])
        heading = (
            line[: header.start("file")] + as_bytes(self.name) + line[header.end("file") : header.end("line")]
        )
        own = [heading if function is None else heading + b", in " + self.function(number, function)]
        number -= next(at for at, line in enumerate(lines) if RANGE_MARKING.fullmatch(line)) - 1
        for at, line in enumerate(lines):
            if marking := RANGE_MARKING.fullmatch(line):
                first, last = self.columns(number - 1, lines[at - 1], line)
                own.append(b" " * first + b"~" * (last - first + 1) + (marking["here"] or b""))
            else:
                own.append(self.lines.line(number))
                number += 1
        return own

    def function(self, number: int, shown: bytes) -> bytes:
        text = bytes(self.lines.text[: self.lines.start(number)])
        end = len(text)
        for _ in range(MOST_FUNCTIONS):
            end = text.rfind(b"def ", 0, end)
            definition = DEFINED.match(text, max(end, 0))
            if end < 0 or definition is None:
                break
            if self.lines.is_same(definition[1], shown):
                return definition[1]
        return shown


class ModelCode:
    """The code records of a model, as tracebacks name them.

    Attributes:
        is_unchecked: whether code to compare a traceback with is missing.
        of: the code record of a file name; a traceback names the same ones again and again.
    """

    def __init__(self, model: OneModel) -> None:
        self._archive, companion = model.archive, model.archive.companion
        self._companion = companion
        self._digests = model.archive.line_digests if companion and not companion.salt else {}
        self.is_unchecked = not model.archive.has_code and not self._digests
        self.of = lru_cache(maxsize=256)(self._of)

    def _of(self, file: bytes) -> FrameCode:
        companion = self._companion
        if companion and companion.salt:
            name = companion.replaced.get(decoded(file), decoded(file))
            if name.encode().startswith(CODE_FOLDERS) and name in self._archive.records:
                return RenamedCode(self._archive, companion, name, companion.salt)
        if companion and not self._archive.has_code:
            lines = self._digests.get(decoded(file))
            return CompanionCode(companion, file) if lines is None else DigestedCode(companion, file, lines)
        return FrameCode(self._archive, file)


def problem_of(code: FrameCode, number: int, shown: list[bytes], *, fits: bool) -> str:
    """The reason that a frame has no original range.

    Args:
        shown: lines of the log that end with that one, and may stand elsewhere here; none where one of those
            below it is another.
    """
    if fits:
        return f"no source range is recorded for {code.name}, line {number}"
    if code.lines:
        ends = code.lines.ends_of(shown, number) if shown and number else []
        if len(ends) == 1 and ends != [number]:
            moved = f"{code.name} has line {number} of the log as line {ends[0]} in this archive"
            return f"{moved}: the failure is another version's"
        return f"{code.name} has another line {number} in this archive: the failure is another model's"
    hashes = ", or its names are hashes of another redaction" if HASH.search(as_bytes(code.name)) else ""
    return f"this archive has no code of the name {code.name}: the failure is another model's{hashes}"
