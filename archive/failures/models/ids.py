"""The archive ids of models in a log, found among all words of as many hexadecimal digits.

Traces and requests have such words too, so a log may have one in each line. In a block of lines, every fourth
byte shows where one may stand: eight in a row are digits. The eight bytes there decide whether they are those
of any id, so the others are never looked at one by one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.failures.log.sieve import LEAST
from archive.formats.archive_id import ID_WIDTH

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt

DIGIT, OTHER = b"0", b" "
DIGITS = bytes(DIGIT[0] if byte in b"0123456789abcdefABCDEF" else OTHER[0] for byte in range(256))
"""Translates each hexadecimal digit to one byte, and all else to another. Finding a run of digits in that
takes a tenth of the time of a regular expression."""
IS_DIGIT = np.frombuffer(DIGITS, np.uint8) == DIGIT[0]
ID_DIGITS = 2 * ID_WIDTH
ID_LIKE = OTHER + DIGIT * ID_DIGITS + OTHER
STEP = 4
"""Every fourth byte is looked at first: of an id that makes eight."""


class KnownIds:
    """Archive ids, each as a log has it.

    Args:
        words: ids of all kinds; those that have other lengths are not looked for.
    """

    def __init__(self, words: Iterable[bytes]) -> None:
        self._words = frozenset(word for word in words if len(word) == ID_DIGITS)
        digits = np.frombuffer(b"".join(self._words), np.uint8).reshape(-1, ID_DIGITS)
        parts = [np.ascontiguousarray(digits[:, at : at + 2 * STEP]).view("<u8")[:, 0] for at in range(STEP)]
        self._parts = np.unique(np.concatenate(parts))

    def places_in(self, lines: bytes) -> list[tuple[int, bytes]]:
        """The ids in lines, as whole words, each with its place."""
        if not self._words or not self._may_be_in(lines):
            return []
        words, found = OTHER + lines.translate(DIGITS) + OTHER, list[tuple[int, bytes]]()
        start = words.find(ID_LIKE)
        while start >= 0:  # the blank before has the place of the word
            if (word := lines[start : start + ID_DIGITS]) in self._words:
                found.append((start, word))
            start = words.find(ID_LIKE, start + 1 + ID_DIGITS)
        return found

    def _may_be_in(self, lines: bytes) -> bool:
        """Whether some id may be in lines; false for certain."""
        if len(lines) < LEAST:
            return DIGIT * (ID_DIGITS // STEP) in lines[::STEP].translate(DIGITS)
        runs = IS_DIGIT.take(np.frombuffer(lines, np.uint8)[::STEP])
        for together in (1, 2, 4):
            runs = runs[:-together] & runs[together:]
        places = np.flatnonzero(runs)
        if not places.size:
            return False
        quads: npt.NDArray[np.uint32] = np.frombuffer(lines, "<u4", len(lines) // STEP)
        parts = quads[places].astype(np.uint64) | quads[places + 1].astype(np.uint64) << np.uint64(32)
        rows = np.searchsorted(self._parts, parts)
        return bool((self._parts[np.minimum(rows, len(self._parts) - 1)] == parts).any())
