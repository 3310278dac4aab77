"""Files of text in UTF-16, which Windows writes with a mark at the beginning, read in UTF-8: any script."""

from __future__ import annotations

import codecs
from bisect import bisect_right
from typing import NamedTuple

from archive.privacy.pieces.framed import is_text

MARKS = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
WIDTH = 2
"""Bytes of a unit, and of the mark."""
COPIES = 6
"""Bytes of memory that a byte of such a file takes while it is read."""


class WideText(NamedTuple):
    """The text of such a file.

    Attributes:
        data: in UTF-8.
        lines: where each line begins in it, ascending.
        starts: where each begins in the file.
    """

    data: bytes
    lines: list[int]
    starts: list[int]

    def place(self, position: int) -> int:
        """The byte of the file that a position in the text comes from."""
        line = bisect_right(self.lines, position) - 1
        before = self.data[self.lines[line] : position].decode(errors="ignore")
        return self.starts[line] + len(before.encode("utf-16-le"))


def wide_text(data: memoryview) -> WideText | None:
    """The text that a file is; None for what has no mark, or controls."""
    codec = MARKS.get(bytes(data[:WIDTH]))
    if codec is None or len(data) % WIDTH:
        return None
    try:
        text = str(data[WIDTH:], codec)
        whole = text.encode()
    except UnicodeError:
        return None
    if not is_text(whole):
        return None
    at, start, lines, starts = 0, WIDTH, [0], [WIDTH]
    for line in text.split("\n")[:-1]:
        at += len(line.encode()) + 1
        start += len(line.encode("utf-16-le")) + WIDTH
        lines.append(at)
        starts.append(start)
    return WideText(whole, lines, starts)
