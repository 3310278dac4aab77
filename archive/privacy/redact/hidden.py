"""Bytes of storages that no tensor shows: a slice is saved with all of the tensor that it was cut from."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.errors import ArchiveError, LimitError, counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.tensors.tensor import Tensor
    from archive.reader.archive import Archive

MOST_WORK = 4
"""Elements of tensors that are marked, for each byte of a storage; views of more count from end to end."""


def hidden_bytes(opened: Archive) -> Iterator[str]:
    """A sentence for each storage with bytes that no tensor shows and that are not all 0.

    Raises:
        LimitError: it costs more memory than allowed.
    """
    try:
        tensors = opened.tensors
        for record, names in tensors.storages.items():
            data = tensors.storage(record)
            with opened.allowance.lent(2 * len(data), "bytes that tensors show", record=record):
                shown = _shown([tensors[name] for name in names], len(data))
                hidden = int(np.count_nonzero(np.frombuffer(data, np.uint8)[~shown]))
            if hidden:
                yield f"{counted(hidden, 'byte')} of {record} that no tensor shows, and that are not 0"
    except LimitError:
        raise
    except ArchiveError as problem:
        yield f"what tensors do not show, perhaps: {problem.found or problem}"


def _shown(tensors: list[Tensor], size: int) -> np.ndarray:
    """Which bytes of a storage tensors show, as flags.

    Raises:
        ArchiveError: a tensor is not within its storage, or of unknown dtype.
    """
    shown = np.zeros(size, np.bool_)
    left = MOST_WORK * size
    for tensor in tensors:
        low, high = tensor.span(size)
        dense = [pair for pair in zip(tensor.shape, tensor.strides, strict=True) if pair[1]]
        count = int(np.prod([length for length, _ in dense], dtype=object)) * (tensor.width or 1)
        left -= count
        if tensor.is_contiguous or left < 0 or not tensor.count:
            shown[low:high] = True
            continue
        width = tensor.width or 1
        view = np.lib.stride_tricks.as_strided(
            shown[low:high],
            (*(length for length, _ in dense), width),
            (*(stride * width for _, stride in dense), 1),
        )
        view[...] = True
    return shown
