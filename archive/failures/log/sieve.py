"""What a block of a log lacks for certain: many words looked for at once, some bytes at a time.

A word of seven bytes or more has four whole ones at one of the places that are multiples of four, wherever it
begins. So only these are looked at, all at once, and each is looked up in a table of those that the words
have: the rarest four for each of the four ways in which a word may lie. Where some are found, the four before
and after decide. That takes as long as finding two words by themselves, however many there are. What the
sieve finds, an exact search must find again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy.typing as npt

LEAST = 1 << 12
"""Bytes of a text from which on this is faster than looking for each word."""
QUAD, LONG, SHORT = 4, 7, 4
"""Bytes that are looked up at once; the least of a word that is found so; those of any other word."""
ALL = (1 << 8 * QUAD) - 1
LETTER = 0xFF
FACTOR, SHIFT = np.uint32(2654435761), np.uint32(16)
"""Spread the bytes over the table (Knuth's multiplicative hash)."""
COMMON = b'zqjxk9876543210":.,vbywgpfmucdlhrsnioate '
"""Bytes of many logs, the most common last; all others are rarer."""


class Sieve:
    """Groups of words, and which of them a text may have.

    Args:
        groups: the words of each, of four bytes, or of seven and more.
    """

    def __init__(self, groups: Sequence[Sequence[bytes]]) -> None:
        quads: dict[int, Quad] = {}
        self._short: list[tuple[bytes, int]] = []
        for number, words in enumerate(groups):
            self._short += [(word, 1 << number) for word in words if len(word) == SHORT]
            for word in words:
                for options in _quads(word, 1 << number) if len(word) != SHORT else ():
                    united = [quads.get(quad.itself, quad).united(quad) for quad in options]
                    best = min(united, key=Quad.commonness)
                    quads[best.itself] = best
        self._quads = np.array(sorted(quads.values()), np.uint32)
        slots = self._quads[:, 0] * FACTOR >> SHIFT
        self._is_known = np.zeros(1 << 16, bool)
        self._is_known[slots] = True

    def found_in(self, text: bytes) -> int:
        """The groups of which a text may have a word: 1 for the first, 2 for the second, 4, 8 …."""
        quads = np.frombuffer(text, "<u4", len(text) // QUAD)
        hits = np.flatnonzero(self._is_known.take(quads * FACTOR >> SHIFT, mode="clip"))
        found = self._groups_at(quads, hits) if hits.size else 0
        for word, group in self._short:
            if has_short(text, word):
                found |= group
        return found

    def _groups_at(self, quads: npt.NDArray[np.uint32], hits: npt.NDArray[np.intp]) -> int:
        """The groups of the words that may stand at some places, as the bytes before and after show."""
        rows = np.searchsorted(self._quads[:, 0], quads[hits])
        rows[rows == len(self._quads)] = 0
        itself, before, known_before, after, known_after, group = self._quads[rows].T
        last = len(quads) - 1
        is_word = (quads[hits] == itself) & (
            ((quads[np.maximum(hits - 1, 0)] & known_before) == before)
            & (((quads[np.minimum(hits + 1, last)] & known_after) == after) | (hits == last))
        )
        return int(np.bitwise_or.reduce(group[is_word])) if is_word.any() else 0


class Quad(NamedTuple):
    """Four bytes of a word, and what it has around them.

    Attributes:
        before: the four before, 0 where a byte is no longer the word's.
        known_before: has all bits of those that are.
        group: the word's.
    """

    itself: int
    before: int
    known_before: int
    after: int
    known_after: int
    group: int

    def united(self, other: Quad) -> Quad:
        """The same four bytes of two words, with what is the same around both."""
        known_before = self.known_before & other.known_before & ~(self.before ^ other.before)
        known_after = self.known_after & other.known_after & ~(self.after ^ other.after)
        return Quad(
            self.itself,
            *(self.before & known_before, known_before, self.after & known_after, known_after),
            self.group | other.group,
        )

    def commonness(self) -> int:
        """How common the four bytes are in logs, with those around them, as far as these are known."""
        known = ALL, self.known_before, self.known_after
        numbers = self.itself, self.before, self.after
        return sum(
            COMMON.find(byte) if bits == LETTER else len(COMMON) - 4 * bits.bit_count()
            for byte, bits in zip(_bytes_of(numbers), _bytes_of(known), strict=True)
        )


def _bytes_of(numbers: Iterable[int]) -> bytes:
    return b"".join(number.to_bytes(QUAD, "little") for number in numbers)


def _quads(word: bytes, group: int) -> Iterator[Sequence[Quad]]:
    """The four bytes that a word has at each place, for each way in which it may lie."""
    assert len(word) >= LONG, word  # noqa: S101 (words are constants)
    padded, known = (bytes(QUAD) + one + bytes(QUAD) for one in (word, b"\xff" * len(word)))

    def number(bits: bytes, at: int) -> int:
        return int.from_bytes(bits[at : at + QUAD], "little")

    for first in range(QUAD):
        yield [
            Quad(
                number(padded, at),
                *(number(padded, at - QUAD), number(known, at - QUAD)),
                *(number(padded, at + QUAD), number(known, at + QUAD)),
                group,
            )
            for at in range(QUAD + first, QUAD + len(word) - QUAD + 1, QUAD)
        ]


def pairs_of(text: bytes) -> npt.NDArray[np.uint16]:
    """The bytes of a text, two by two, without a last one that is left."""
    return np.frombuffer(text, "<u2", len(text) // 2)


def pair(two: bytes) -> np.uint16:
    """Two bytes as :func:`pairs_of` has them."""
    return np.uint16(int.from_bytes(two, "little"))


def has_short(text: bytes, word: bytes) -> bool:
    """Whether a text has a word of four bytes: a pair of them stands where pairs do."""
    pairs, letters = pairs_of(text)[:-1], np.frombuffer(text, np.uint8)
    seconds = np.flatnonzero(pairs == pair(word[1:3]))
    if seconds.size:
        around = (letters[2 * seconds - 1] == word[0]) & (letters[2 * seconds + 2] == word[3])
        if around.any():
            return True
    firsts = np.flatnonzero(pairs == pair(word[:2]))
    if firsts.size:
        after = (letters[2 * firsts + 2] == word[2]) & (
            letters[np.minimum(2 * firsts + 3, letters.size - 1)] == word[3]
        )
        if after.any():
            return True
    return text.endswith(word)


def may_have(text: bytes, pairs: Sequence[np.uint16]) -> bool:
    """Whether one of some pairs of bytes stands in a text where pairs do."""
    every = pairs_of(text)
    return any((every == one).any() for one in pairs)


def lines_in(text: bytes) -> int:
    """The number of line ends."""
    if len(text) < LEAST:
        return text.count(b"\n")
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == ord("\n")))
