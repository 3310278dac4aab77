"""How much the elements of two tensors differ: piece by piece, in memory that does not grow with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from archive.formats.tensors.dtypes import WIDTHS

if TYPE_CHECKING:
    from collections.abc import Iterator

    Array = np.ndarray[tuple[int], np.dtype[np.uint8]]

PIECE = 1 << 17
"""Bytes that are compared at a time: they stay in a processor's cache."""
BFLOAT16_SHIFT = 16
"""A bfloat16 is the upper half of a float32."""
INTEGERS = {
    "bool": "u1", "qint8": "i1", "quint8": "u1", "qint32": "<i4",
    **{f"{sign}int{bits}": f"<{sign or 'i'}{bits // 8}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
FLOATS = {"float16": "<f2", "float32": "<f4", "float64": "<f8", "complex64": "<c8", "complex128": "<c16"}


def equal(old: memoryview, new: memoryview) -> bool:
    """Whether two stretches of bytes are the same."""
    if len(old) != len(new):
        return False
    return all(np.array_equal(*pair) for pair in _pairs(old, new, 1))


@dataclass(slots=True)
class Difference:
    """How much elements differ so far: see :class:`~archive.verbs.diff.changes.TensorChange`.

    Attributes:
        dtype: of the elements.
    """

    dtype: str
    changed: int = 0
    bits: int = 0
    unordered: int = 0
    max_abs: float | None = None
    max_rel: float | None = None

    def add(self, old: memoryview, new: memoryview) -> None:
        """Compare further elements, of which there are as many on both sides."""
        width = WIDTHS[self.dtype]
        for was, now in _pairs(old, new, width):
            if not np.array_equal(was, now):
                self._add(was, now, width)

    def _add(self, was: Array, now: Array, width: int) -> None:
        flipped = was ^ now
        words = flipped.view(f"<u{min(width, 8)}")
        self.bits += int(np.bitwise_count(words).sum(dtype=np.int64))
        differs = (words != 0).reshape(len(was) // width, -1).any(1)
        self.changed += int(np.count_nonzero(differs))
        left, right = (each.view(f"V{width}")[differs] for each in (was, now))
        if self.dtype in INTEGERS:
            self._integers(left.view(INTEGERS[self.dtype]), right.view(INTEGERS[self.dtype]))
        elif self.dtype == "bfloat16":
            self._floats(*(_widened(each) for each in (left, right)))
        elif self.dtype in FLOATS:
            self._floats(left.view(FLOATS[self.dtype]), right.view(FLOATS[self.dtype]))

    def _integers(self, left: np.ndarray, right: np.ndarray) -> None:
        low, high = np.minimum(left, right), np.maximum(left, right)
        unsigned = f"<u{left.itemsize}"
        apart = high.view(unsigned) - low.view(unsigned)  # modulo 2^n, so never too large
        larger = np.maximum(np.abs(left.astype(np.float64)), np.abs(right.astype(np.float64)))
        self._most(int(apart.max()), float((apart / larger).max()))

    def _floats(self, left: np.ndarray, right: np.ndarray) -> None:
        wide = np.complex128 if left.dtype.kind == "c" else np.float64
        with np.errstate(invalid="ignore"):  # signaling NaN
            left, right = left.astype(wide), right.astype(wide)
        ordered = ~(np.isnan(left) | np.isnan(right))
        self.unordered += int(np.count_nonzero(~ordered))
        left, right = left[ordered], right[ordered]
        if not len(left):
            return
        with np.errstate(all="ignore"):
            apart = np.where(left == right, 0.0, np.abs(left - right))
            larger = np.maximum(np.abs(left), np.abs(right))
            share = np.where(np.isinf(apart), 1.0, apart / np.where(larger == 0, 1.0, larger))
        self._most(
            float(np.nan_to_num(apart, nan=np.inf, posinf=np.inf).max()), float(np.nan_to_num(share).max())
        )

    def _most(self, apart: float, share: float) -> None:
        self.max_abs = apart if self.max_abs is None else max(self.max_abs, apart)
        self.max_rel = share if self.max_rel is None else max(self.max_rel, share)


def _pairs(old: memoryview, new: memoryview, width: int) -> Iterator[tuple[Array, Array]]:
    """Two stretches of bytes, piece by piece; pieces hold whole elements."""
    step = PIECE // width * width
    was, now = np.frombuffer(old, np.uint8), np.frombuffer(new, np.uint8)
    for at in range(0, len(was), step):
        yield was[at : at + step], now[at : at + step]


def _widened(halves: Array) -> Array:
    """Numbers of bfloat16 as float32."""
    return (halves.view("<u2").astype(np.uint32) << BFLOAT16_SHIFT).view("<f4")
