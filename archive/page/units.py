r"""Texts as a browser counts them: in UTF-16 units, where everything else here counts bytes.

Bytes that aren't UTF-8 are shown escaped, as everywhere: ``\xff`` is one byte, and four units.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory
from archive.base.columns import firsts
from archive.base.errors import escape_of
from archive.base.strings import charged

if TYPE_CHECKING:
    from archive.base.columns import Ints

SURROGATES = re.compile("[\ud800-\udfff]")
ESCAPE_UNITS = 4
"""Units of a byte that is shown escaped."""
ESCAPES, ESCAPES_END = 0xDC80, 0xDD00
"""The surrogates that stand for bytes which aren't UTF-8."""
TWO_BYTES, THREE_BYTES, FOUR_BYTES = 0x80, 0x800, 0x10000
"""The first characters of two, three and four bytes; those of four are two units."""


class Units:
    """A text, and the units before each of its bytes.

    Attributes:
        text: as it is shown.
    """

    def __init__(self, data: bytes) -> None:
        self.text = charged(data)
        self._size = len(data)
        self._bytes: Ints | None = None
        self._units: Ints | None = None
        if not data.isascii():
            memory.take(5 * memory.NUMBER * len(data), "positions of texts")
            self._bytes, self._units = _starts(data)

    def at(self, positions: Ints) -> Ints:
        """Where bytes are in the shown text: where each one's character begins.

        Args:
            positions: of bytes; one outside the text counts as its nearest end (n).

        Returns:
            Positions in UTF-16 units (n).
        """
        inside: Ints = np.clip(positions, 0, self._size)
        if self._bytes is None or self._units is None:
            return inside
        return self._units[np.searchsorted(self._bytes, inside, "right") - 1]


def _starts(data: bytes) -> tuple[Ints, Ints]:
    """Where each character begins, in bytes and in units; and the text's end (c + 1)."""
    escaped = data.decode("utf-8", "surrogateescape")
    code = np.frombuffer(escaped.encode("utf-32-le", "surrogatepass"), np.uint32)
    is_escape = (code >= ESCAPES) & (code < ESCAPES_END)
    size = 1 + (code >= TWO_BYTES).astype(np.int64) + (code >= THREE_BYTES) + (code >= FOUR_BYTES)
    size[is_escape] = 1
    units = 1 + (code >= FOUR_BYTES).astype(np.int64)
    units[is_escape] = ESCAPE_UNITS
    return firsts(size), firsts(units)


def count_of(text: str) -> int:
    """The units of a text."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def plain(name: str) -> str:
    """A name as text that JSON can hold: surrogates, which stand for other bytes, are escaped."""
    return name if name.isascii() else SURROGATES.sub(lambda match: escape_of(match[0]), name)


def differences(positions: Ints) -> list[int]:
    """Rising numbers as their differences, which take few digits; the first counts from 0."""
    values: list[int] = np.diff(positions, prepend=0).tolist()
    return values
