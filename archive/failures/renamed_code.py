"""Code of a redacted archive whose names are hashes, by the code that it was made of.

The companion has that code and the key of the hashes. A line of the log is the code's line if it has the same
characters between its names, and each name is the code's or its hash. So places in it lead to places in the
code.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base.strings import decoded
from archive.companion.hashed_names import hashed
from archive.container.names import encoded
from archive.failures.code_lines import CodeLines
from archive.failures.code_records import CodeRecord
from archive.failures.tracebacks import RANGE_MARKING

if TYPE_CHECKING:
    from archive.reader.archive import Archive
    from archive.reader.companion import Companion

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
