"""Which of many words a text contains. Nearly all are absent, so they are ruled out without a search each.

All stretches of 4 bytes of the text in lower case set flags in a table, by their hash. A word with a stretch
whose flag isn't set is absent; the others, and shorter ones, are searched for.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from archive.base.columns import Ints

STRETCH = 4
WINDOW = 1 << 16
"""Bytes of a text whose stretches are hashed at once."""
SHORT = 1 << 10
"""Bytes of a text of which only the first stretch of each word is looked up."""
HASH_BITS = {False: 14, True: 18}
"""Bits of a hash for texts of one window, and for longer ones: tables are emptied soon, or have few flags."""
MIX = np.uint32(0x9E3779B1)
"""An odd factor: the upper bits of its product with a number are the number's hash."""


class FoundWords(NamedTuple):
    """Words that stand in a text.

    Attributes:
        exact: as they are.
        in_any_case: in letters of either case.
    """

    exact: list[bytes]
    in_any_case: list[bytes]


def present(marks: Iterable[bytes], words: FoundWords | None) -> Iterable[bytes]:
    """Those of some marks that may stand in a text: all, where its words are not known."""
    return marks if words is None else [mark for mark in marks if mark in words.exact]


class Words:
    """Words that many texts are searched for.

    Args:
        exact: words that count as they are.
        in_any_case: words in lower case that count in either.
    """

    def __init__(self, exact: Sequence[bytes], in_any_case: Sequence[bytes]) -> None:
        self._exact = len(exact)
        self._words = [*exact, *in_any_case]
        self._hashes = lru_cache(self._hashed)

    def among(self, text: bytes) -> FoundWords:
        """Those that a text contains, in their order."""
        if not text:
            return FoundWords([], [])
        lowered, bits = text.lower(), HASH_BITS[len(text) > WINDOW]
        flags = np.zeros((1 << bits) + 1, np.bool_)
        flags[-1] = True
        for low in range(0, len(text) - STRETCH + 1, WINDOW):
            flags[_hashes(lowered[low : low + WINDOW + STRETCH - 1], bits)] = True
        hashes, starts = self._hashes(bits)
        found = FoundWords([], [])
        # a short text is searched for a word in less time than the word's other stretches take
        is_short = len(text) <= SHORT
        are_set = flags[hashes[starts]] if is_short else np.minimum.reduceat(flags[hashes], starts)
        for number in np.flatnonzero(are_set).tolist():
            word, is_exact = self._words[number], number < self._exact
            if word in (text if is_exact else lowered):
                found[not is_exact].append(word)
        return found

    def _hashed(self, bits: int) -> tuple[Ints, Ints]:
        """The hashes of the words' stretches, -1 for a word that has none, and where each word's begin."""
        hashes = [
            _hashes(word.lower(), bits) if len(word) >= STRETCH else np.array([-1]) for word in self._words
        ]
        return np.concatenate(hashes), np.array([0, *accumulate(map(len, hashes))][:-1])


def _hashes(text: bytes, bits: int) -> Ints:
    """The hashes of all stretches of a text that has one."""
    stretches = np.ndarray((len(text) - STRETCH + 1,), "<u4", text, 0, (1,))
    hashes: Ints = (stretches * MIX >> np.uint32(32 - bits)).astype(np.intp)
    return hashes
