"""Long runs of letters of some alphabets in a text, for all alphabets at once.

A run of 24 letters has two whole words of 8 bytes, wherever it begins. So each byte is translated to a bit
for each alphabet that it is a letter of, and words of such bytes are compared in columns. Around the few that
pass, the run's own first and last letters are looked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from archive.base.columns import Ints

WORD = 8
"""Bytes of a word; also the number of alphabets that fit."""
SHORTEST = 3 * WORD
"""Letters of a run that is found."""
BLOCK = 1 << 15
"""Words that are compared at once: they stay in a processor's cache."""
HALVES = [np.uint64(bits) for bits in (32, 16, 8)]
COPIES = 5
"""Bytes of memory that a byte of the text takes."""


def bits_of(alphabets: Iterable[bytes]) -> bytes:
    """Translates bytes to a bit for each alphabet that they are letters of."""
    numbered = list(enumerate(alphabets))
    return bytes(sum((code in letters) << number for number, letters in numbered) for code in range(256))


def long_runs(data: bytes, table: bytes, shortest: Sequence[int]) -> Iterator[tuple[int, int, int]]:
    """The runs of each alphabet, by alphabet: its number, the first letter, and the byte after the last one.

    Args:
        table: of :func:`bits_of`.
        shortest: letters of the shortest run of each alphabet, ``SHORTEST`` or more.
    """
    translated = data.translate(table) + bytes(WORD - len(data) % WORD)  # no run goes on after the text
    letters, words = np.frombuffer(translated, np.uint8), np.frombuffer(translated, "<u8")
    blocks = [_pairs(words[low : low + BLOCK + 1]) for low in range(0, len(words), BLOCK)]
    places = np.concatenate([BLOCK * number + np.flatnonzero(block) for number, block in enumerate(blocks)])
    bits = np.concatenate([block[block != 0] for block in blocks])
    for number, fewest in enumerate(shortest):
        begins, ends = _runs(places[bits >> number & 1 == 1])
        for _ in range(WORD - 1):  # letters beside whole words
            begins = begins - (letters[begins - 1] >> number & 1)
            ends = ends + (letters[ends] >> number & 1)
        long = ends - begins >= fewest
        for begin, end in zip(begins[long].tolist(), ends[long].tolist(), strict=True):
            yield number, begin, end


def _pairs(words: np.ndarray) -> np.ndarray:
    """For each word but the last, a bit for each alphabet that it and the next one are all letters of."""
    both: np.ndarray = words[:-1] & words[1:]
    for half in HALVES:
        both &= both >> half
    bits: np.ndarray = both.astype(np.uint8)
    return bits


def _runs(places: Ints) -> tuple[Ints, Ints]:
    """Where runs of whole words begin and end, given the first words of pairs in them."""
    is_first = np.diff(places, prepend=-2) != 1
    is_last = np.diff(places, append=places[-1:] + 2) != 1
    return WORD * places[is_first], WORD * (places[is_last] + 2)
