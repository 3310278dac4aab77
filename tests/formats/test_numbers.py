"""The numbers that elements stand for are those of PyTorch, for all codes of the small dtypes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from archive.formats.tensors.dtypes import WIDTHS
from archive.formats.tensors.numbers import FLOAT8, INTEGERS, MOVED, computed_type, exact, into

SMALL = ["bfloat16", "float16", *FLOAT8, *(dtype for dtype in sorted(INTEGERS) if WIDTHS[dtype] <= 2)]
QUANTISED = {"qint8": "int8", "quint8": "uint8"}


def codes(dtype: str) -> np.ndarray:
    """The bytes of all codes of a dtype."""
    width = WIDTHS[dtype]
    return np.arange(2 if dtype == "bool" else 1 << 8 * width, dtype=f"<u{width}").view(np.uint8)


def by_pytorch(dtype: str) -> np.ndarray:
    kind = getattr(torch, QUANTISED.get(dtype, dtype))
    found: np.ndarray = torch.from_numpy(codes(dtype).copy()).view(kind).to(torch.float64).numpy()
    return found


@np.errstate(invalid="ignore")  # NaN that signal
@pytest.mark.parametrize("dtype", SMALL)
def test_numbers_are_those_of_pytorch(dtype: str) -> None:
    theirs, kind = by_pytorch(dtype), computed_type(dtype)
    assert kind is not None
    ours = into(dtype, codes(dtype), np.empty(len(theirs), kind)).astype(np.float64)
    if dtype in MOVED:  # the rest is told by its magnitude
        assert np.array_equal(np.isfinite(theirs), np.abs(ours) < MOVED[dtype].limit)
        ours, theirs = ours[np.isfinite(theirs)], theirs[np.isfinite(theirs)]
    assert np.array_equal(ours, theirs, equal_nan=True)
    assert np.array_equal(np.signbit(ours), np.signbit(theirs)) or "8_e" in dtype  # of NaN


@np.errstate(invalid="ignore")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16", *FLOAT8])
def test_exact_numbers_are_those_of_pytorch(dtype: str) -> None:
    assert np.array_equal(exact(dtype, codes(dtype)), by_pytorch(dtype), equal_nan=True)


@pytest.mark.parametrize("dtype", ["complex32", "complex64", "complex128"])
def test_complex_numbers_are_those_of_pytorch(dtype: str) -> None:
    made = torch.randn(20, dtype=torch.complex128, generator=torch.Generator().manual_seed(3))
    stored = torch.view_as_real(made).to(getattr(torch, f"float{4 * WIDTHS[dtype]}")).contiguous()
    there = torch.view_as_complex(stored.to(torch.float64)).numpy()
    assert np.array_equal(exact(dtype, stored.view(torch.uint8).numpy().reshape(-1)), there)
