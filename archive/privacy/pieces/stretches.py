"""Stretches of bytes outside of which there is no string: nearly all bytes of tensors need no closer look.

A string of 12 bytes of ASCII has two whole words of 4 bytes at multiples of 4, wherever it begins, and two
more bytes beside them. One with letters of 16 or 32 bits has a word in which each second byte is NUL. So
bytes are tested as numbers, in columns, and in blocks that stay in a processor's cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base import memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.base.columns import Ints

WORD = 4
"""Bytes of a word."""
BLOCK = 1 << 18
"""Bytes that are tested at once."""
FEWEST_ASKED = 1 << 12
"""Bytes below which reading is quicker than testing."""
NEAR = 256
"""Bytes between words of one stretch, at most."""
TO_HIGH_BIT = np.uint32(0x77777777)
"""Added to bytes below 128, sets the high bit of those that are 9 or more: a tabulator, or after it."""
HIGH_BITS, TWO_HIGH_BITS = np.uint32(0x80808080), np.uint32(0x8080)
LOW_HALF, TWO_BYTES = np.uint32(0xFFFF), np.uint32(16)
RARE = 4
"""Words of ASCII are few where they are less than one in this many."""
AROUND = np.arange(4 * WORD)
"""The bytes of two words and of those beside them."""
TEXT = np.array([code in {*range(32, 127), *b"\t\n\r"} for code in range(256)])
EVEN, ODD = np.uint32(0x00FF00FF), np.uint32(0xFF00FF00)
"""Each second byte of a word."""


def ascii_words(data: bytes | memoryview) -> Ints | None:
    """The numbers of the words whose bytes are all below 128, ascending; None where these are many.

    All texts of ASCII, in any encoding, consist of such words, and so does one in 16 random numbers. So they
    are found once for all that looks for texts. For few bytes, too, the answer is None.
    """
    if len(data) < FEWEST_ASKED:
        return None
    words, step = np.frombuffer(data, "<u4", len(data) // WORD), BLOCK // WORD
    numbers, left = [], len(words) // RARE
    for low in range(0, len(words), step):
        some = np.flatnonzero(words[low : low + step] & HIGH_BITS == 0)
        left -= len(some)
        if left < 0:
            return None
        memory.take(some.nbytes, "words of ASCII")
        numbers.append(some + low)
    return np.concatenate(numbers)


def of_ascii(data: bytes | memoryview, words: Ints | None = None) -> list[tuple[int, int]]:
    """Where strings of 12 bytes of ASCII or more are, and not much besides.

    Args:
        words: those of :func:`ascii_words`.

    Returns:
        The first byte of each stretch, and the one after its last; no two touch.
    """
    return _stretches(data, _in_ascii, words)


def of_wide_letters(data: bytes | memoryview, words: Ints | None = None) -> list[tuple[int, int]]:
    """Where five letters of ASCII in UTF-16 or UTF-32 are, and not much besides, in the same form."""
    return _stretches(data, _in_wide, words)


def _stretches(
    data: bytes | memoryview, in_strings: Callable[[np.ndarray, Ints | None], Ints], known: Ints | None
) -> list[tuple[int, int]]:
    """Where words that may be in a string are, with some bytes around them."""
    if len(data) < FEWEST_ASKED:
        return [(0, len(data))]
    words = np.frombuffer(data, "<u4", len(data) // WORD)
    if known is not None:
        numbers = in_strings(words, known)
    else:
        step = BLOCK // WORD
        # one more word, as two in a row are tested
        numbers = np.concatenate(
            [low + in_strings(words[low : low + step + 1], None) for low in range(0, len(words), step)]
        )
    if not len(numbers):
        return []
    ends = np.flatnonzero(np.diff(numbers) > NEAR // WORD)
    first, last = numbers[np.append(0, ends + 1)], numbers[np.append(ends, -1)]
    lows, highs = np.maximum(WORD * (first - 1), 0), np.minimum(WORD * (last + 3), len(data))
    return list(zip(lows.tolist(), highs.tolist(), strict=True))


def _in_ascii(words: np.ndarray, known: Ints | None) -> Ints:
    """The numbers of words that begin two in a row of ASCII with two more bytes before or after them.

    Args:
        known: the numbers of words whose bytes are all below 128; None where they are not known.
    """
    if known is not None:
        pairs: Ints = known[:-1][np.diff(known) == 1]
        for shift in (0, 1):
            pairs = pairs[_high_where_text(words[pairs + shift]) == HIGH_BITS]
        long: Ints = pairs[_are_long(words, pairs)]
        return long
    bits = _high_where_text(words)
    is_text = bits == HIGH_BITS
    numbers = np.flatnonzero(is_text[1:] & is_text[:-1])
    # at the edges the two words stand for their neighbours, and pass
    before, after = bits[np.maximum(numbers - 1, 0)], bits[np.minimum(numbers + 2, len(bits) - 1)]
    goes_on = (before >> TWO_BYTES == TWO_HIGH_BITS) | (after & LOW_HALF == TWO_HIGH_BITS)
    enough: Ints = numbers[goes_on]
    return enough


def _high_where_text(words: np.ndarray) -> np.ndarray:
    """Words with a high bit for each byte that may be ASCII text, and no other bits."""
    bits = words + TO_HIGH_BIT
    bits &= ~words
    bits &= HIGH_BITS
    return bits


def _are_long(words: np.ndarray, numbers: Ints) -> np.ndarray:
    """Whether two words are in 12 bytes of text, with the words beside them; at the edges they may be."""
    inside = (numbers > 0) & (numbers < len(words) - 2)
    first = WORD * (numbers[inside] - 1)
    is_text = TEXT[words.view(np.uint8)[first[:, None] + AROUND]]
    before = np.cumprod(is_text[:, WORD - 1 :: -1], axis=1, dtype=np.uint8).sum(axis=1)
    after = np.cumprod(is_text[:, -WORD:], axis=1, dtype=np.uint8).sum(axis=1)
    are_long = ~inside
    are_long[inside] = is_text[:, WORD:-WORD].all(axis=1) & (before + after >= WORD)
    return are_long


def _in_wide(words: np.ndarray, known: Ints | None) -> Ints:
    """The numbers of words of one or two letters of ASCII, and NULs beside them."""
    some = words if known is None else words[known]
    is_wide = some & EVEN == 0
    is_wide |= some & ODD == 0
    is_wide &= some & HIGH_BITS == 0
    is_wide &= some != 0
    numbers: Ints = np.flatnonzero(is_wide)
    return numbers if known is None else known[numbers]
