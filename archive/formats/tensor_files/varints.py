"""Elements of tensors that are integers in variable form, as in ONNX, decoded at once.

:mod:`archive.formats.schema.varints` defines the variable form.
"""

from __future__ import annotations

import numpy as np

from archive.base.errors import ArchiveError
from archive.formats.schema.varints import MORE, MOST_BYTES

DECODED_BYTES = 64
"""Bytes of memory that an integer takes while it is decoded."""


def decoded_integers(data: memoryview, width: int) -> np.ndarray:
    """Integers in variable form as little-endian ones of ``width`` bytes each: n times ``width`` bytes.

    Args:
        width: 1, 2, 4 or 8; higher bits are dropped, because protobuf writes a negative int32 with 64 bits.
    """
    stored = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(stored < MORE)  # the last byte of each
    starts = np.concatenate([np.zeros(min(len(ends), 1), np.int64), ends[:-1] + 1])
    lengths = ends - starts + 1
    if len(stored) and (not len(ends) or ends[-1] != len(stored) - 1 or lengths.max() > MOST_BYTES):
        raise ArchiveError(expected="integers in variable form", found="other bytes")
    values = np.zeros(len(ends), np.uint64)
    for place in range(int(lengths.max(initial=0))):
        longer = np.flatnonzero(lengths > place)
        part = (stored[starts[longer] + place] & 0x7F).astype(np.uint64)
        values[longer] |= part << np.uint64(7 * place)
    return values.astype(f"<u{width}").view(np.uint8)


def packed(integers: np.ndarray, bits: int) -> np.ndarray:
    """Integers of ``bits`` bits each, packed without gaps, the first in the lowest bits.

    Args:
        integers: n bytes.
        bits: of each; its other bits are 0.
    """
    most = int(integers.max(initial=0))
    if most >> bits:
        raise ArchiveError(expected=f"integers of {bits} bits", found=f"{most:,}")
    apart = np.unpackbits(integers[:, None], axis=1, bitorder="little")[:, :bits]
    return np.packbits(apart, bitorder="little")
