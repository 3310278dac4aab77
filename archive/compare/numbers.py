"""How much the elements of two tensors differ, piece by piece, in memory that does not grow with them.

Figures are computed in arrays that are made once. The largest differences are searched in the type of
:func:`~archive.compare.elements.computed_type` first: rounding keeps the order of differences, and
that of quotients up to ``ROUNDED``. Only the pairs that may be the largest are computed as float64.

Two numbers of one sign differ by their larger magnitude at most. So as soon as a quotient of 1 was found,
only pairs of two signs are looked at; one bit shows them.
"""

from __future__ import annotations

from functools import cached_property
from threading import local
from typing import TYPE_CHECKING

import numpy as np

from archive.base.quick_dataclass import dataclass
from archive.compare.elements import INTEGERS, MOVED, computed_type, exact, into
from archive.formats.tensors.dtypes import BITS, BLOCKS, WIDTHS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.compare.equality import Pair

    Array = np.ndarray[tuple[int], np.dtype[np.uint8]]

PIECE = 1 << 20
"""Bytes of each array that is computed with. Smaller ones fit into a core's own cache, but then NumPy's calls
are so short that threads wait for one another."""
WORD = 8
ROUNDED = 1 - 1e-6
"""The least share of a quotient that its value in float32 may be."""
MOST = 2.0
"""The largest quotient: that of two numbers that differ only in their sign."""
FEW = 16
"""If at most one in this many elements has another sign, only those are computed, otherwise all."""
SOME = 1_000
"""Up to this many pairs are computed without a look at whether all of them are the same."""
UNSIGNED = ("bool", "quint8", "uint8", "uint16", "uint32", "float8_e8m0fnu")
"""The unsigned dtypes among those that have a :func:`computed_type`."""
_THREAD = local()
"""The arrays of each thread, for the dtype of the last tensor: the system takes long to give new ones."""


@dataclass(slots=True)
class Difference:
    """How much elements differ so far: see :class:`~archive.compare.changes.TensorChange`."""

    changed: int = 0
    bits: int = 0
    unordered: int = 0
    max_abs: float | None = None
    max_rel: float | None = None

    def most(self, apart: float, share: float) -> None:
        """Take a difference, and a quotient, for the largest if they are."""
        self.max_abs = apart if self.max_abs is None else max(self.max_abs, apart)
        self.max_rel = share if self.max_rel is None else max(self.max_rel, share)


def difference(dtype: str, stretches: Iterable[Pair]) -> Difference:
    """How much elements differ.

    Args:
        stretches: bytes of elements, those of the old tensor and as many of the new one; of blocks a single
            stretch, as :func:`~archive.formats.tensors.elements.elements` gives them.
    """
    result = Difference()
    if dtype in BLOCKS or dtype in BITS:
        size = BLOCKS[dtype][1] if dtype in BLOCKS else BITS[dtype]
        for old, new in stretches:
            _blocks(size, old, new, result)
        return result
    if getattr(_THREAD, "dtype", None) != dtype:
        _THREAD.dtype, _THREAD.pieces = dtype, _Pieces(dtype)
    for old, new in stretches:
        _THREAD.pieces.compare(old, new, result)
    return result


def _blocks(size: int, old: memoryview, new: memoryview, result: Difference) -> None:
    """Add how many blocks of some bytes differ, and how many bits; the last block may have less bytes."""
    was, now = np.frombuffer(old, np.uint8), np.frombuffer(new, np.uint8)
    step = PIECE // size * size
    for at in range(0, len(was), step):
        flipped = np.bitwise_xor(was[at : at + step], now[at : at + step])
        result.bits += int(np.bitwise_count(flipped).sum(dtype=np.uint32))
        starts = np.arange(0, len(flipped), size)
        result.changed += int(np.count_nonzero(np.bitwise_or.reduceat(flipped, starts)))


class _Pieces:
    """The arrays that pieces of elements are computed in."""

    def __init__(self, dtype: str) -> None:
        self._dtype, self._width = dtype, WIDTHS[dtype]
        self._type = computed_type(dtype)
        self._step = PIECE // max(self._width, np.dtype(self._type or np.float64).itemsize)
        self._flipped = np.empty(-(-self._step * self._width // WORD) * WORD, np.uint8)
        self._counts = np.empty(len(self._flipped) // WORD, np.uint8)

    def compare(self, old: memoryview, new: memoryview, result: Difference) -> None:
        """Add how much elements differ to what was found."""
        was, now = np.frombuffer(old, np.uint8), np.frombuffer(new, np.uint8)
        step = self._step * self._width
        with np.errstate(all="ignore"):  # NaN and infinities are reported
            for at in range(0, len(was), step):
                self._compare(was[at : at + step], now[at : at + step], result)

    def _compare(self, was: Array, now: Array, result: Difference) -> None:
        flipped = self._flipped[: len(was)]
        np.bitwise_xor(was, now, out=flipped)
        differs = _elements(flipped, self._width)
        changed = len(differs) if np.minimum.reduce(differs) else int(np.count_nonzero(differs))
        if not changed:
            return
        result.changed += changed
        result.bits += self._bits(len(flipped))
        if self._type is not None and self._computed(was, now, result):
            return
        width = self._width
        left, right = (each.reshape(-1, width)[differs != 0].reshape(-1) for each in (was, now))
        if self._dtype in INTEGERS:
            kind = INTEGERS[self._dtype]
            _integers(left.view(kind), right.view(kind), result)
        else:
            _floats(exact(self._dtype, left), exact(self._dtype, right), result)

    def _bits(self, size: int) -> int:
        """How many bits differ in a piece of some bytes."""
        words = -(-size // WORD)
        self._flipped[size : words * WORD] = 0
        counts = self._counts[:words]
        np.bitwise_count(self._flipped[: words * WORD].view(np.uint64), out=counts)
        return int(counts.sum(dtype=np.uint32))

    def _computed(self, was: Array, now: Array, result: Difference) -> bool:
        """Compare all numbers in their type; False if one is NaN or infinite; then nothing is noted."""
        count = len(was) // self._width
        left, right, apart = (each[:count] for each in self._numbers[:3])
        left, right = into(self._dtype, was, left), into(self._dtype, now, right)
        if self._dtype in MOVED and not _are_below(MOVED[self._dtype].limit, left, right):
            return False
        np.subtract(left, right, out=apart)
        np.abs(apart, out=apart)
        most = np.maximum.reduce(apart)
        if not np.isfinite(most):
            return False
        if result.max_abs is None or most > result.max_abs or (most == result.max_abs and self._is_rounded):
            self._take(left, right, np.flatnonzero(apart == most), result)
        if result.max_rel is None or result.max_rel < MOST:
            self._quotients(left, right, apart, result)
        return True

    def _quotients(self, left: np.ndarray, right: np.ndarray, apart: np.ndarray, result: Difference) -> None:
        """Look for a larger quotient of a difference and the larger magnitude."""
        most = result.max_rel or 0.0
        if most >= 1:
            # the places of elements whose signs differ
            signs = np.empty(0, np.intp)
            if self._dtype not in UNSIGNED:
                flipped = self._flipped[: len(left) * self._width].view(f"<i{self._width}")
                signs = np.flatnonzero(flipped < 0)
            if len(signs) * FEW <= len(left):
                self._take(left, right, signs, result)
                return
        *_, share, other = (each[: len(left)] for each in self._numbers)
        np.maximum(np.abs(left, out=share), np.abs(right, out=other), out=share)
        np.divide(apart, share, out=share)  # two zeros give NaN, which fmax leaves out
        top = np.fmax.reduce(share)
        if not top < ROUNDED * most:
            self._take(left, right, np.flatnonzero(share >= top * ROUNDED), result)

    @cached_property
    def _numbers(self) -> list[np.ndarray]:
        """Old numbers, new ones, differences, quotients, and what these are computed with."""
        return [np.empty(self._step, self._type) for _ in range(5)]

    @property
    def _is_rounded(self) -> bool:
        """Whether a difference of two numbers is rounded in their type."""
        return self._dtype not in INTEGERS

    def _take(self, left: np.ndarray, right: np.ndarray, places: np.ndarray, result: Difference) -> None:
        """Take the numbers at some places for the largest difference, as float64; all of them are finite."""
        if not len(places):
            return
        left, right = left[places], right[places]
        if (
            len(places) > SOME and left.min() == left.max() and right.min() == right.max()
        ):  # as if all were set to one number
            left, right = left[:1], right[:1]
        left, right = left.astype(np.float64), right.astype(np.float64)
        apart = np.abs(left - right)
        share = np.fmax.reduce(apart / np.maximum(np.abs(left), np.abs(right)))
        most = float(apart.max())
        result.most(most if self._is_rounded else int(most), 0.0 if np.isnan(share) else float(share))


def _elements(flipped: Array, width: int) -> np.ndarray:
    """A number for each element, which is 0 if none of its bits differs."""
    if width <= WORD:
        return flipped.view(f"<u{width}")
    halves = flipped.view(np.uint64).reshape(-1, 2)
    return halves[:, 0] | halves[:, 1]


def _are_below(limit: float, *numbers: np.ndarray) -> bool:
    """Whether all magnitudes are below a limit."""
    return all(np.maximum.reduce(each) < limit and -np.minimum.reduce(each) < limit for each in numbers)


def _integers(left: np.ndarray, right: np.ndarray, result: Difference) -> None:
    """Integers of any width; all of them differ."""
    low, high = np.minimum(left, right), np.maximum(left, right)
    unsigned = f"<u{left.itemsize}"
    apart = high.view(unsigned) - low.view(unsigned)  # modulo 2^n, so never too large
    larger = np.maximum(np.abs(left.astype(np.float64)), np.abs(right.astype(np.float64)))
    result.most(int(apart.max()), float((apart / larger).max()))


def _floats(left: np.ndarray, right: np.ndarray, result: Difference) -> None:
    """Numbers of float64 or complex128, NaN and infinities among them; the bits of all pairs differ."""
    ordered = ~(np.isnan(left) | np.isnan(right))
    result.unordered += int(np.count_nonzero(~ordered))
    left, right = left[ordered], right[ordered]
    if not len(left):
        return
    apart = np.where(left == right, 0.0, np.abs(left - right))
    larger = np.maximum(np.abs(left), np.abs(right))
    share = np.where(np.isinf(apart), 1.0, apart / np.where(larger == 0, 1.0, larger))
    result.most(
        float(np.nan_to_num(apart, nan=np.inf, posinf=np.inf).max()), float(np.nan_to_num(share).max())
    )
