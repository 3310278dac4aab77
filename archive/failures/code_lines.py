"""The lines of a code record, found by their places: a text of millions of lines costs no object a line."""

from __future__ import annotations

from functools import cached_property

import numpy as np

BLOCK = 1 << 14
"""Bytes whose newlines are counted together."""
NEWLINE = ord("\n")


class CodeLines:
    """The lines of a text, counted from 1. A last newline ends the last line and begins none.

    Args:
        text: the text, of one byte or more.
    """

    def __init__(self, text: memoryview) -> None:
        self._text = np.frombuffer(text, np.uint8)

    def __len__(self) -> int:
        return int(self._before[-1]) + int(self._text[-1] != NEWLINE)

    @cached_property
    def _before(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """The newlines before each block, and in all blocks."""
        starts = range(0, len(self._text), BLOCK)
        counts = [np.count_nonzero(self._text[start : start + BLOCK] == NEWLINE) for start in starts]
        return np.cumsum([0, *counts])

    def start(self, number: int) -> int:
        """The byte at which a line of the text begins."""
        return self._newline(number - 1) + 1 if number > 1 else 0

    def length(self, number: int) -> int:
        """The bytes of a line of the text, without its newline."""
        end = self._newline(number) if number <= int(self._before[-1]) else len(self._text)
        return end - self.start(number)

    def is_line(self, number: int, line: bytes) -> bool:
        """Whether the text has a line of this number, and it is this one."""
        if not 0 < number <= len(self) or self.length(number) != len(line):
            return False
        start = self.start(number)
        return self._text[start : start + len(line)].tobytes() == line

    def begins(self, number: int, line: bytes) -> bool:
        """Whether the text has a line of this number, and it begins as this one."""
        if not 0 < number <= len(self) or self.length(number) < len(line):
            return False
        start = self.start(number)
        return self._text[start : start + len(line)].tobytes() == line

    def byte(self, number: int, column: int) -> bytes:
        """One byte of a line; b"" behind its end."""
        start = self.start(number) + column
        return self._text[start : start + 1].tobytes() if column < self.length(number) else b""

    def _newline(self, number: int) -> int:
        """The place of a newline, counted from 1."""
        block = int(np.searchsorted(self._before, number)) - 1
        start = block * BLOCK
        places = np.flatnonzero(self._text[start : start + BLOCK] == NEWLINE)
        return start + int(places[number - 1 - int(self._before[block])])
