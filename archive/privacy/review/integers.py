"""Texts in tensors: a name as a row of code points, a text as bytes.

Numbers of a model are seldom all letters. So a tensor of integers holds a text if nearly all of its elements
are code points of letters, digits, blanks or signs, zeros besides; and one of bytes, too, if a long run of
them is. One of other numbers holds a text if nearly all of its bytes do; single runs stand there by chance.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError, LimitError
from archive.base.mapped import Mapped
from archive.formats.record_kinds import RecordKind
from archive.reader.opening import opened
from archive.reader.recognition import OPENED_KINDS, kind_in

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
MOST_ELEMENTS, LOOKED_AT = 1 << 20, 1 << 8
"""Elements that are asked, of a larger tensor the first ones; and those that are asked before these."""
FEWEST_BYTES = 12
"""Bytes of other numbers that may be a text."""
LONG_RUN = re.compile(r"[ -~]{24,}")
BLANK, DELETE, LATIN, LAST = 0x20, 0x7F, 0xA0, 0x2FFFF
"""Code points between which there are letters."""
GREEK, BEHIND_CYRILLIC, NO_LETTER = 0x370, 0x530, 0xFFFD


def texts_of_tensors(archive: Archive) -> Iterator[tuple[str, str, str]]:
    """The record, the tensor's name, and the text of each tensor that holds one.

    Sample inputs are files of ``torch.save`` in records; their tensors are read, too.

    Raises:
        LimitError: it costs more memory than allowed.
    """
    yield from _of_archive(archive)
    kind = archive.recognised.kind
    for record, inputs in archive.records.items():
        if kind_in(kind, record) is RecordKind.INPUTS and inputs.size:
            try:
                with opened(Mapped(inputs.view(), record), archive.allowance, OPENED_KINDS) as inner:
                    for inside, name, text in _of_archive(inner):
                        yield f"{record}!{inside}", name, text
            except LimitError:
                raise
            except ArchiveError:  # of another form: read as plain bytes
                continue


def _of_archive(archive: Archive) -> Iterator[tuple[str, str, str]]:
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
            if not tensor.record or tensor.key in seen or not tensor.count:
                continue
            seen.add(tensor.key)
            low, high = tensor.span(len(tensors.storage(tensor.record)))
            data = tensors.storage(tensor.record)[low : min(high, low + MOST_ELEMENTS * (tensor.width or 1))]
        except LimitError:
            raise
        except ArchiveError:  # outside of its storage: no elements to read
            continue
        if tensor.dtype in DTYPES:
            dtype = np.dtype(DTYPES[tensor.dtype])
            values = np.frombuffer(data, dtype, len(data) // dtype.itemsize)[:MOST_ELEMENTS]
            found = texts_of_bytes(values, runs=True) if dtype.itemsize == 1 else texts_of_codes(values)
        else:
            found = texts_of_bytes(np.frombuffer(data, np.uint8), runs=False)
        for text in found:
            yield tensor.record, name, text


def texts_of_bytes(values: np.ndarray, *, runs: bool) -> Iterator[str]:
    """The texts that bytes are as a whole; else long runs of letters, if these are asked for."""
    data = values.tobytes()
    begin = values[values != 0][:LOOKED_AT].tobytes().decode("utf-8", "replace")
    if _is_text(np.array(list(map(ord, begin)))) and (runs or len(data) >= FEWEST_BYTES):
        yield from filter(None, data.decode("utf-8", "replace").split("\0"))
    elif runs:
        yield from (run[0] for run in LONG_RUN.finditer(data.decode("latin-1")))


def texts_of_codes(values: np.ndarray) -> Iterator[str]:
    """The texts whose code points integers are, if nearly all are."""
    codes = values[values != 0]
    if _is_text(codes[:LOOKED_AT]) and _is_text(codes):
        clipped = np.clip(values, 0, LAST).tolist()
        yield from filter(None, "".join(map(chr, clipped)).split("\0"))


def _is_text(codes: np.ndarray) -> bool:
    """Whether numbers are nearly all letters, and not numbers in a row."""
    if len(codes) < FEWEST:
        return False
    is_letter = (codes >= BLANK) & (codes <= LAST) & ((codes < DELETE) | (codes >= LATIN))
    is_letter = (is_letter | np.isin(codes, (9, 10, 13))) & (codes != NO_LETTER)
    if np.mean(is_letter) < SHARE or len(np.unique(np.diff(codes.astype(np.int64)))) == 1:
        return False
    is_other = (codes >= GREEK) & (codes < BEHIND_CYRILLIC)
    if np.mean(is_other) >= SHARE:
        return True
    ascii_letters = bytes(codes[codes < DELETE].astype(np.uint8)).decode("ascii", "replace")
    words = sum(letter.isalnum() or letter == " " for letter in ascii_letters)
    return words >= FEWEST_LETTERS * len(codes)
