"""Texts in the bytes of tensors: a name as a row of code points, a text as bytes.

Numbers of a model are seldom all letters. So a storage holds a text if nearly all of its integers, of any
width, are code points of letters, digits, blanks or signs, or zero; and a long run of such bytes is a text.
Shorter runs occur among random numbers by chance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTHS = "<i8", "<i4", "<u2"
"""Integers that may be code points; text in bytes makes large ones, so the widest are tried first."""
FEWEST = 4
"""Letters of a text, without zeros."""
SHARE = 0.9
"""The part of numbers that are letters or signs, where they are a text."""
FEWEST_LETTERS = 0.5
"""The part of these that are letters of ASCII, digits or blanks."""
MOST_BYTES, LOOKED_AT = 1 << 20, 1 << 8
"""Bytes of a storage in which texts are looked for, and numbers that are tested before all others."""
BLANK, DELETE, LATIN, LAST = 0x20, 0x7F, 0xA0, 0x2FFFF
"""Code points between which there are letters."""
GREEK, BEHIND_CYRILLIC, NO_LETTER = 0x370, 0x530, 0xFFFD
PRINTED, SHORTEST_RUN = bytes(BLANK <= code < DELETE for code in range(256)), b"\1" * 24
"""Translates bytes to 1 for letters and signs of ASCII; a long run of these is hardly numbers."""


def texts_of_numbers(storage: memoryview) -> Iterator[str]:
    """The texts that the bytes of a storage are, if any."""
    data = bytes(storage[:MOST_BYTES])
    for width in WIDTHS:
        values = np.frombuffer(data, width, len(data) // np.dtype(width).itemsize)
        first = values[:LOOKED_AT]
        if _is_text(first[first != 0]) and _is_text(values[values != 0]):
            letters = map(chr, np.clip(values, 0, LAST).tolist())
            yield from filter(None, "".join(letters).split("\0"))
            return
    begin = data[: 4 * LOOKED_AT].replace(b"\0", b"")[:LOOKED_AT].decode("utf-8", "replace")
    if _is_text(np.array(list(map(ord, begin)))):
        yield from filter(None, data.decode("utf-8", "replace").split("\0"))
        return
    is_printed = data.translate(PRINTED)
    at = is_printed.find(SHORTEST_RUN)
    while at >= 0:
        end = is_printed.find(b"\0", at)
        end = len(data) if end < 0 else end
        if _is_text(np.frombuffer(data[at:end], np.uint8)):
            yield data[at:end].decode()
        at = is_printed.find(SHORTEST_RUN, end)


def _is_text(codes: np.ndarray) -> bool:
    """Whether numbers are nearly all letters, and not numbers in a row."""
    if len(codes) < FEWEST:
        return False
    is_letter = (codes >= BLANK) & (codes <= LAST) & ((codes < DELETE) | (codes >= LATIN))
    is_letter = (is_letter | np.isin(codes, (9, 10, 13))) & (codes != NO_LETTER)
    if np.mean(is_letter) < SHARE or len(np.unique(np.diff(codes.astype(np.int64)))) == 1:
        return False
    if np.mean((codes >= GREEK) & (codes < BEHIND_CYRILLIC)) >= SHARE:
        return True
    of_ascii = bytes(codes[(codes >= 0) & (codes < DELETE)].astype(np.uint8)).decode()
    words = sum(letter.isalnum() or letter == " " for letter in of_ascii)
    return words >= FEWEST_LETTERS * len(codes)
