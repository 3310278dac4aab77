"""Stretches of bytes outside of which there is no string: nearly all bytes of tensors need no closer look.

A string of ASCII of 12 bytes has two whole words of 4 bytes at multiples of 4, wherever it begins, and beside
them two bytes more. One of letters of 16 or 32 bits has a word in which each second byte is NUL. So bytes are
asked as numbers, in columns, and in blocks that stay in a processor's cache.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.base.columns import Ints

WORD = 4
"""Bytes of a word."""
BLOCK = 1 << 18
"""Bytes that are asked at once."""
FEWEST_ASKED = 1 << 12
"""Bytes of which fewer are quicker read than asked."""
NEAR = 256
"""Bytes between words that are of one stretch, at most."""
TO_HIGH_BIT = np.uint32(0x77777777)
"""Added to bytes below 128, gives those a high bit that are 9 or more: a tabulator, or behind it."""
HIGH_BITS, TWO_HIGH_BITS = np.uint32(0x80808080), np.uint32(0x8080)
LOW_HALF, TWO_BYTES = np.uint32(0xFFFF), np.uint32(16)
EVEN, ODD = np.uint32(0x00FF00FF), np.uint32(0xFF00FF00)
"""Each second byte of a word."""


def of_ascii(data: bytes) -> list[tuple[int, int]]:
    """Where strings of 12 bytes of ASCII or more are, and not much besides.

    Returns:
        The first byte of each stretch, and the one behind its last; none of them touch.
    """
    return _stretches(data, _in_ascii)


def of_wide_letters(data: bytes) -> list[tuple[int, int]]:
    """Where five letters of ASCII in UTF-16 or UTF-32 are, and not much besides, in the same form."""
    return _stretches(data, _in_wide)


def _stretches(data: bytes, in_strings: Callable[[np.ndarray], Ints]) -> list[tuple[int, int]]:
    """Where words are that may be in a string, with some bytes around them."""
    if len(data) < FEWEST_ASKED:
        return [(0, len(data))]
    words = np.frombuffer(data, "<u4", len(data) // WORD)
    step = BLOCK // WORD
    # a word more, as two in a row are asked
    numbers = np.concatenate(
        [low + in_strings(words[low : low + step + 1]) for low in range(0, len(words), step)]
    )
    if not len(numbers):
        return []
    ends = np.flatnonzero(np.diff(numbers) > NEAR // WORD)
    first, last = numbers[np.append(0, ends + 1)], numbers[np.append(ends, -1)]
    lows, highs = np.maximum(WORD * (first - 1), 0), np.minimum(WORD * (last + 3), len(data))
    return list(zip(lows.tolist(), highs.tolist(), strict=True))


def _in_ascii(words: np.ndarray) -> Ints:
    """The numbers of words that begin two in a row of ASCII with two bytes more before or behind them."""
    bits = words + TO_HIGH_BIT
    bits &= ~words
    bits &= HIGH_BITS
    is_text = bits == HIGH_BITS
    numbers = np.flatnonzero(is_text[1:] & is_text[:-1])
    # at the edges the two words stand for their neighbours, and go through
    before, behind = bits[np.maximum(numbers - 1, 0)], bits[np.minimum(numbers + 2, len(bits) - 1)]
    goes_on = (before >> TWO_BYTES == TWO_HIGH_BITS) | (behind & LOW_HALF == TWO_HIGH_BITS)
    enough: Ints = numbers[goes_on]
    return enough


def _in_wide(words: np.ndarray) -> Ints:
    """The numbers of words of one or two letters of ASCII, and NULs beside them."""
    is_wide = words & EVEN == 0
    is_wide |= words & ODD == 0
    is_wide &= words & HIGH_BITS == 0
    is_wide &= words != 0
    numbers: Ints = np.flatnonzero(is_wide)
    return numbers
