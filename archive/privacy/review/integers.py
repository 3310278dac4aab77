"""Texts in tensors of integers: a name as a row of code points, a text as bytes.

Numbers of a model are seldom all letters. So a tensor holds a text if nearly all of its elements are code
points of letters, digits, blanks or signs, zeros besides; and one of bytes, too, if a long run of them is.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError, LimitError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.reader.archive import Archive

DTYPES = {
    "uint8": "<u1", "int8": "<i1", "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4",
    "int64": "<i8", "uint64": "<u8",
}  # fmt: skip
FEWEST = 4
"""Elements of a text, without zeros."""
SHARE = 0.9
"""The part of a tensor's elements that are letters, where it is a text."""
FEWEST_LETTERS = 0.5
"""The part of these that are letters of an alphabet, digits or blanks."""
MOST_ELEMENTS = 1 << 20
"""Elements of which all are asked; of a larger tensor the first ones."""
LONG_RUN = re.compile(r"[ -~]{24,}")
BLANK, DELETE, LATIN, BEHIND_LATIN, LAST = 0x20, 0x7F, 0xA0, 0x250, 0x2FFFF
"""Code points between which there are letters: of ASCII, of Latin scripts, of all."""


def texts_of_tensors(archive: Archive) -> Iterator[tuple[str, str, str]]:
    """The record, the tensor's name, and the text of each tensor of integers that holds one.

    Raises:
        LimitError: it costs more memory than allowed.
    """
    try:
        tensors = archive.tensors
        names = list(tensors)
    except LimitError:
        raise
    except ArchiveError:  # what describes tensors is broken, and read as texts
        return
    seen = set[str]()
    for name in names:
        try:
            tensor = tensors[name]
            if tensor.dtype not in DTYPES or not tensor.record or tensor.key in seen or not tensor.count:
                continue
            seen.add(tensor.key)
            low, high = tensor.span(len(tensors.storage(tensor.record)))
            data = tensors.storage(tensor.record)[low : min(high, low + 8 * MOST_ELEMENTS)]
        except LimitError:
            raise
        except ArchiveError:  # outside of its storage: no elements to read
            continue
        dtype = np.dtype(DTYPES[tensor.dtype])
        values = np.frombuffer(data, dtype, len(data) // dtype.itemsize)[:MOST_ELEMENTS]
        for text in texts_of(values):
            yield tensor.record, name, text


def texts_of(values: np.ndarray) -> Iterator[str]:
    """The texts that integers are, if they are some."""
    if not len(values):
        return
    if values.dtype.itemsize == 1:
        data = values.tobytes()
        text = data.decode("utf-8", "replace").replace("\0", "\n")
        if _is_text(np.array([ord(letter) for letter in text[:MOST_ELEMENTS] if letter != "\n"] or [0])):
            yield from (line for line in text.split("\n") if line)
        else:
            yield from (run[0] for run in LONG_RUN.finditer(data.decode("latin-1")))
    elif _is_text(values[values != 0]):
        clipped = np.clip(values, 0, LAST).tolist()
        yield from (line for line in "".join(map(chr, clipped)).split("\0") if line)


def _is_text(codes: np.ndarray) -> bool:
    """Whether numbers are nearly all letters, and not numbers in a row."""
    if len(codes) < FEWEST:
        return False
    is_letter = (codes >= BLANK) & (codes <= LAST) & ((codes < DELETE) | (codes >= LATIN))
    is_letter |= np.isin(codes, (9, 10, 13))
    if np.mean(is_letter) < SHARE or len(np.unique(np.diff(codes.astype(np.int64)))) == 1:
        return False
    words = sum(map(str.isalnum, map(chr, np.clip(codes, 0, LAST).tolist())))
    return bool(words >= FEWEST_LETTERS * len(codes) and np.mean(codes < BEHIND_LATIN) >= FEWEST_LETTERS)
