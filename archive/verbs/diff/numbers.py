"""How much the elements of two tensors differ, piece by piece, in memory that does not grow with them.

Pieces stay in a processor's cache while their figures are computed. The largest difference of floating-point
numbers is searched in their own type first, without a copy as float64: rounding keeps the order of
differences, and that of quotients up to ``ROUNDED``. Only the pairs that may be the largest are computed as
float64. (Two threads are no faster: NumPy's calls on pieces are so short that they wait for one another.)
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import methodcaller
from typing import TYPE_CHECKING

import numpy as np

from archive.base.cores import Cores
from archive.formats.tensors.dtypes import WIDTHS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Pair = tuple[memoryview, memoryview]
    Array = np.ndarray[tuple[int], np.dtype[np.uint8]]

PIECE = 1 << 16
"""Bytes of the arrays that are computed with: they stay in a processor's cache, and below the size that glibc
maps anew for each array."""
SHARE = 1 << 20
"""Bytes that are searched for a difference at a time."""
WORD = 8
BFLOAT16_SHIFT = 16
"""A bfloat16 is the upper half of a float32."""
INTEGERS = {
    "bool": "u1", "qint8": "i1", "quint8": "u1", "qint32": "<i4",
    **{f"{sign}int{bits}": f"<{sign or 'i'}{bits // 8}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip
FLOATS = {"float16": "<f2", "float32": "<f4", "float64": "<f8", "complex64": "<c8", "complex128": "<c16"}
COMPARED = {"float16": 4, "bfloat16": 4, **dict.fromkeys(INTEGERS, 8)}
"""Bytes of the numbers that elements are compared as, where they are more than those of the elements."""
ROUNDED = 1 - 1e-6
"""The least share of a quotient that its value in float32 may be."""


def equal(old: memoryview, new: memoryview) -> bool:
    """Whether two stretches of bytes are the same."""
    return len(old) == len(new) and all(map(_are_equal, _shares(old, new)))


def equal_on_cores(old: memoryview, new: memoryview) -> bool:
    """The same for long stretches, by all cores."""
    return len(old) == len(new) and all(Cores().map(_are_equal, _shares(old, new)))


def _are_equal(pair: Pair) -> bool:
    words, rest = len(pair[0]) // WORD, len(pair[0]) // WORD * WORD
    was, now = (np.frombuffer(each, np.uint64, words) for each in pair)
    return np.array_equal(was, now) and pair[0][rest:] == pair[1][rest:]


def _shares(old: memoryview, new: memoryview) -> Iterator[Pair]:
    for at in range(0, len(old), SHARE):
        yield old[at : at + SHARE], new[at : at + SHARE]


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
        step = PIECE // max(width, COMPARED.get(self.dtype, 0)) * width
        was, now = np.frombuffer(old, np.uint8), np.frombuffer(new, np.uint8)
        with np.errstate(all="ignore"):  # NaN and infinities are told
            for at in range(0, len(was), step):
                self._add(was[at : at + step], now[at : at + step], width)

    def _add(self, was: Array, now: Array, width: int) -> None:
        flipped = _flipped(was, now)
        changed = _changed(flipped, width)
        if not changed:
            return
        self.changed += changed
        self.bits += int(np.bitwise_count(flipped).sum(dtype=np.int64))
        if self.dtype in NARROW and self._narrow(*(NARROW[self.dtype](each) for each in (was, now))):
            return
        differs = _words(flipped, width).any(1)
        left, right = (each.view(f"V{width}")[differs] for each in (was, now))
        if self.dtype in INTEGERS:
            self._integers(left.view(INTEGERS[self.dtype]), right.view(INTEGERS[self.dtype]))
        elif self.dtype == "bfloat16":
            self._floats(*(_widened(each) for each in (left, right)))
        elif self.dtype in FLOATS:
            self._floats(left.view(FLOATS[self.dtype]), right.view(FLOATS[self.dtype]))

    def _narrow(self, left: np.ndarray, right: np.ndarray) -> bool:
        """Compare all numbers in their own type; False if one is NaN or infinite, and nothing is told."""
        apart = np.subtract(left, right)
        np.abs(apart, out=apart)
        most = apart.max()
        if not np.isfinite(most):
            return False
        share, other = np.abs(left), np.abs(right)
        np.maximum(share, other, out=share)
        np.divide(apart, share, out=share)  # two zeros give NaN, which fmax leaves out
        top = np.fmax.reduce(share)
        if self.max_abs is None or most >= apart.dtype.type(self.max_abs):
            self._exact(left, right, apart == most)
        if not top < ROUNDED * (self.max_rel or 0.0):
            self._exact(left, right, share >= top * ROUNDED)
        return True

    def _exact(self, left: np.ndarray, right: np.ndarray, chosen: np.ndarray) -> None:
        """Take some of the numbers for the largest difference, as float64; none is NaN or infinite."""
        places = np.flatnonzero(chosen)
        if not len(places):
            return
        if len(places) < len(left):
            left, right = left[places], right[places]
        if left.min() == left.max() and right.min() == right.max():  # as if all were set to one number
            left, right = left[:1], right[:1]
        left, right = left.astype(np.float64), right.astype(np.float64)
        apart = np.abs(left - right)
        share = np.fmax.reduce(apart / np.maximum(np.abs(left), np.abs(right)))
        self._most(float(apart.max()), 0.0 if np.isnan(share) else float(share))

    def _integers(self, left: np.ndarray, right: np.ndarray) -> None:
        low, high = np.minimum(left, right), np.maximum(left, right)
        unsigned = f"<u{left.itemsize}"
        apart = high.view(unsigned) - low.view(unsigned)  # modulo 2^n, so never too large
        larger = np.maximum(np.abs(left.astype(np.float64)), np.abs(right.astype(np.float64)))
        self._most(int(apart.max()), float((apart / larger).max()))

    def _floats(self, left: np.ndarray, right: np.ndarray) -> None:
        wide = np.complex128 if left.dtype.kind == "c" else np.float64
        left, right = left.astype(wide), right.astype(wide)
        ordered = ~(np.isnan(left) | np.isnan(right))
        self.unordered += int(np.count_nonzero(~ordered))
        left, right = left[ordered], right[ordered]
        if not len(left):
            return
        apart = np.where(left == right, 0.0, np.abs(left - right))
        larger = np.maximum(np.abs(left), np.abs(right))
        share = np.where(np.isinf(apart), 1.0, apart / np.where(larger == 0, 1.0, larger))
        self._most(
            float(np.nan_to_num(apart, nan=np.inf, posinf=np.inf).max()), float(np.nan_to_num(share).max())
        )

    def _most(self, apart: float, share: float) -> None:
        self.max_abs = apart if self.max_abs is None else max(self.max_abs, apart)
        self.max_rel = share if self.max_rel is None else max(self.max_rel, share)


def _flipped(was: Array, now: Array) -> np.ndarray:
    """The bits that differ, in words of 8 bytes where the elements fill such words."""
    if len(was) % WORD:
        return np.bitwise_xor(was, now)
    return np.bitwise_xor(was.view(np.uint64), now.view(np.uint64))


def _words(flipped: np.ndarray, width: int) -> np.ndarray:
    """The bits that differ as rows, one an element."""
    return flipped.view(f"<u{min(width, WORD)}").reshape(-1, max(1, width // WORD))


def _changed(flipped: np.ndarray, width: int) -> int:
    """How many elements differ."""
    words = _words(flipped, width)
    return int(np.count_nonzero(words if width <= WORD else words.any(1)))


def _widened(halves: np.ndarray) -> np.ndarray:
    """Numbers of bfloat16 as float32."""
    return (halves.view("<u2").astype(np.uint32) << BFLOAT16_SHIFT).view("<f4")


def _float32(stored: np.ndarray) -> np.ndarray:
    return stored.view("<f2").astype(np.float32)


NARROW: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "bfloat16": _widened,
    "float16": _float32,
    "float32": methodcaller("view", "<f4"),
    "float64": methodcaller("view", "<f8"),
}
"""Numbers in the type in which the largest differences are searched."""
