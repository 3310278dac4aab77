"""The numbers that elements stand for, in a type that NumPy computes with quickly and that holds all of them.

Numbers of 16 bits or fewer become float32, integers of 32 bits float64. NumPy converts float16 element by
element, so float16 and two of float8 go by their bits: sign, exponent and fraction are moved to their places
in a float32, and a factor corrects the exponent. Sources: ``c10/util/Half.h``, ``c10/util/Float8_*.h`` of
PyTorch 2.13.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from archive.base.quick_dataclass import dataclass
from archive.formats.tensors.dtypes import WIDTHS

INTEGERS = {"bool": "u1", "qint8": "i1", "quint8": "u1", "qint32": "<i4"} | {
    f"{sign}int{bits}": f"<{sign or 'i'}{bits // 8}" for sign in ("", "u") for bits in (8, 16, 32, 64)
}
"""NumPy's type of the integers of a dtype."""
FLOATS = {"float16": "<f2", "float32": "<f4", "float64": "<f8"}
COMPLEX = {"complex32": "<f2", "complex64": "<f4", "complex128": "<f8"}
"""The type of the two parts of a complex number."""
WIDE = {"float64": np.float64, **dict.fromkeys(("int32", "uint32", "qint32"), np.float64)}
"""The dtypes whose numbers float32 does not hold."""
BFLOAT16_SHIFT = 16
"""A bfloat16 is the upper half of a float32."""


@dataclass(frozen=True, slots=True)
class Moved:
    """How the bits of a small float become those of a float32.

    Attributes:
        stored: the type of the bits, signed: so the sign fills all bits above.
        shift: how far they go to the left.
        mask: the bits that are sign, exponent and fraction then.
        factor: corrects the exponent; subnormal numbers, too.
        limit: the first magnitude that isn't a finite number of the dtype.
    """

    stored: str
    shift: int
    mask: int
    factor: float
    limit: float


MOVED = {
    "float16": Moved("<i2", 13, 0x8FFFE000, 2.0**112, 2.0**16),
    "float8_e5m2": Moved("i1", 21, 0x8FE00000, 2.0**112, 2.0**16),
    "float8_e4m3fn": Moved("i1", 20, 0x87F00000, 2.0**120, 480.0),
}


@dataclass(frozen=True, slots=True)
class Float8:
    """A float of 8 bits: :attr:`bits` of fraction after an exponent, which counts from :attr:`bias`.

    Attributes:
        nan: the codes for NaN.
        inf: the code of infinity; None where there is none.
    """

    bits: int
    bias: int
    nan: tuple[int, ...]
    inf: int | None = None
    signed: bool = True

    def number(self, code: int) -> float:
        """The number of a code."""
        if code in self.nan:
            return np.nan
        sign = -1.0 if self.signed and code & 0x80 else 1.0
        rest = code & 0x7F if self.signed else code
        if rest == self.inf:
            return sign * np.inf
        exponent, fraction = rest >> self.bits, rest & ((1 << self.bits) - 1)
        is_normal = exponent > 0 or not self.bits
        scale = 2.0 ** ((exponent if is_normal else 1) - self.bias)
        return sign * scale * (is_normal + fraction / (1 << self.bits))


FLOAT8 = {
    "float8_e4m3fn": Float8(3, 7, (0x7F, 0xFF)),
    "float8_e5m2": Float8(2, 15, (0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF), 0x7C),
    "float8_e4m3fnuz": Float8(3, 8, (0x80,)),
    "float8_e5m2fnuz": Float8(2, 16, (0x80,)),
    "float8_e8m0fnu": Float8(0, 127, (0xFF,), signed=False),
}


@cache
def table(dtype: str) -> np.ndarray:
    """The numbers of all codes of a float8, as float32."""
    return np.array([FLOAT8[dtype].number(code) for code in range(256)], np.float32)


def computed_type(dtype: str) -> type[np.floating] | None:
    """The type that :func:`into` gives; None of a dtype that is too wide for it, or is not known."""
    if dtype in ("int64", "uint64") or dtype not in WIDTHS or dtype in COMPLEX:
        return None
    return WIDE.get(dtype, np.float32)


def into(dtype: str, stored: np.ndarray, out: np.ndarray) -> np.ndarray:
    """The numbers of a dtype: a view of the stored bytes where they are computed with as they are.

    Args:
        dtype: one that has a :func:`computed_type`.
        out: as many numbers of that type; they are written where no view is given.

    Returns:
        the numbers. NaN and infinities of the dtypes in :data:`MOVED` have magnitudes from ``limit`` on.
    """
    if dtype in ("float32", "float64"):
        return stored.view(FLOATS[dtype])
    if dtype in INTEGERS:
        np.copyto(out, stored.view(INTEGERS[dtype]))
    elif dtype == "bfloat16":
        words = out.view(np.uint32)
        np.copyto(words, stored.view("<u2"))
        np.left_shift(words, BFLOAT16_SHIFT, out=words)
    elif dtype in MOVED:
        how, words = MOVED[dtype], out.view(np.int32)
        np.copyto(words, stored.view(how.stored))
        np.left_shift(words, how.shift, out=words)
        np.bitwise_and(words, np.uint32(how.mask).view(np.int32), out=words)
        np.multiply(out, np.float32(how.factor), out=out)
    else:
        table(dtype).take(stored, out=out, mode="clip")  # any byte is a code; "clip" writes without a copy
    return out


def exact(dtype: str, stored: np.ndarray) -> np.ndarray:
    """The numbers of some elements as float64 or complex128, NaN and infinities among them; no integers."""
    if dtype in COMPLEX:
        return stored.view(COMPLEX[dtype]).astype(np.float64).view(np.complex128)
    if dtype in FLOATS:
        return stored.view(FLOATS[dtype]).astype(np.float64)
    if dtype == "bfloat16":
        return (stored.view("<u2").astype(np.uint32) << BFLOAT16_SHIFT).view(np.float32).astype(np.float64)
    return np.asarray(table(dtype)[stored], np.float64)
