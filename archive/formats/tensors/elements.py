"""The elements of a tensor, as bytes: in logical order (the last dimension fastest), little-endian.

So two tensors with equal values give equal bytes, whatever their strides and the machine that saved them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError
from archive.formats.tensors.dtypes import BLOCKS, word_width

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.tensors.tensor import Tensor

PIECE = 1 << 24
"""Bytes that are copied at a time."""
REPEATED, REPEATED_BYTES = 256, 1 << 26
"""Strides of 0 repeat elements. Limit: REPEATED x storage size + REPEATED_BYTES."""
READ_TIMES, READ_BYTES = 4, 1 << 28
"""Bytes read, for views may share a storage. Limit: READ_TIMES x file size + READ_BYTES."""
DIMENSIONS = 60
"""Dimensions that NumPy can stride over, leaving one for the bytes of an element, and a margin."""


def elements(tensor: Tensor, storage: memoryview, *, big: bool = False) -> Iterator[memoryview]:
    """The elements of a tensor, in pieces; views of the storage where they are in order.

    Elements that aren't whole bytes are returned as stored, in blocks.
    """
    first, stop = tensor.span(len(storage))
    if tensor.dtype in BLOCKS:
        if big and BLOCKS[tensor.dtype][1] > 1:
            raise ArchiveError(f"big-endian blocks of {tensor.dtype} are not read", record=tensor.record)
        yield storage[first:stop]
        return
    size, width, word = tensor.bytes or 0, tensor.width or 1, word_width(tensor.dtype)
    if size == 0:
        return
    if size > REPEATED_BYTES + REPEATED * len(storage):
        found = f"{size:,} bytes of elements in a storage of {len(storage):,}"
        raise ArchiveError("strides repeat it too often", record=tensor.record, place=found)
    swapped = big and word > 1
    if tensor.is_contiguous and not swapped:
        yield storage[first:stop]
        return
    dimensions = _merged(tensor)
    if len(dimensions) > DIMENSIONS:
        expected = f"at most {DIMENSIONS} dimensions that lie apart"
        raise ArchiveError(record=tensor.record, expected=expected, found=f"{len(dimensions)}")
    strided = np.lib.stride_tricks.as_strided(
        np.frombuffer(storage, np.uint8)[tensor.offset * width :],
        (*(length for length, _ in dimensions), width),
        (*(stride * width for _, stride in dimensions), 1),
        writeable=False,
    )
    for piece in _pieces(strided):
        yield (piece.view(f"u{word}").byteswap() if swapped else piece).data.cast("B")


def _merged(tensor: Tensor) -> list[tuple[int, int]]:
    """Size and stride of each dimension; contiguous ones are merged, those of size 1 dropped."""
    merged: list[tuple[int, int]] = []
    for size, stride in zip(tensor.shape, tensor.strides, strict=True):
        if size == 1:
            continue
        if merged and merged[-1][1] == size * stride:
            merged[-1] = (merged[-1][0] * size, stride)
        else:
            merged.append((size, stride))
    return merged


def _pieces(part: np.ndarray) -> Iterator[np.ndarray]:
    """An array of bytes in logical order, copied piece by piece."""
    rows = max(1, PIECE * len(part) // part.nbytes)
    if part.nbytes <= PIECE or part.ndim == 1:
        yield np.ascontiguousarray(part).reshape(-1)
    elif rows == 1:
        for row in part:
            yield from _pieces(row)
    else:
        for at in range(0, len(part), rows):
            yield np.ascontiguousarray(part[at : at + rows]).reshape(-1)
