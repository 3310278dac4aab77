"""How much elements differ: the figures are those of plain arithmetic in float64, whatever the bits."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.compare.elements import FLOAT8, FLOATS, INTEGERS, exact
from archive.compare.equality import equal, equal_on_cores
from archive.compare.numbers import PIECE, difference
from archive.formats.tensors.dtypes import WIDTHS
from tests.support.sampling import examples

SMALL_PIECE = 1 << 13
"""Bytes of a piece, so that a few thousand elements are several."""


def found(dtype: str, old: bytes, new: bytes) -> tuple[object, ...]:
    told = difference(dtype, [(memoryview(old), memoryview(new))])
    return told.changed, told.bits, told.unordered, told.max_abs, told.max_rel


@np.errstate(all="ignore")
def numbers(dtype: str, data: bytes) -> np.ndarray:
    if dtype in INTEGERS:
        return np.frombuffer(data, INTEGERS[dtype]).astype(np.float64)
    return exact(dtype, np.frombuffer(data, np.uint8))


def expected(dtype: str, old: bytes, new: bytes) -> tuple[object, ...]:
    """The figures, an element at a time."""
    width, unordered, pairs, bits = WIDTHS[dtype], 0, list[tuple[float, float]](), 0
    changed = [at for at in range(0, len(old), width) if old[at : at + width] != new[at : at + width]]
    was, now = (numbers(dtype, data).tolist() for data in (old, new))
    for at in changed:
        one, other = was[at // width], now[at // width]
        bits += (int.from_bytes(old[at : at + width]) ^ int.from_bytes(new[at : at + width])).bit_count()
        if one != one or other != other:  # noqa: PLR0124 (NaN)
            unordered += 1
            continue
        apart = 0.0 if one == other else abs(one - other)
        larger = max(abs(one), abs(other))
        share = 1.0 if apart == np.inf else apart / larger if larger else 0.0
        pairs.append((apart, share))
    most = [max(column) for column in zip(*pairs, strict=True)] or [None, None]
    return len(changed), bits, unordered, *most


@settings(deadline=None, max_examples=examples(60))
@given(
    dtype=st.sampled_from(["bfloat16", *FLOATS]),
    seed=st.integers(0, 2**32),
    kind=st.sampled_from(["bits", "near", "scaled", "zeros"]),
)
def test_the_figures_are_those_of_plain_arithmetic(dtype: str, seed: int, kind: str) -> None:
    made = np.random.default_rng(seed)
    count = int(made.choice([1, 3, 200, SMALL_PIECE + 5]))
    if kind == "bits":  # NaN, infinities and subnormal numbers among them
        old, new = (made.integers(0, 256, count * WIDTHS[dtype], np.uint8) for _ in range(2))
        new = np.where(made.random(len(old)) < 0.5, old, new)
    elif dtype == "bfloat16":
        old, new = (
            made.integers(0x3F00, 0x4200, count, np.uint16),
            made.integers(0x3F00, 0x4200, count, np.uint16),
        )
    else:
        plain = made.standard_normal(count)
        other = {
            "near": plain + made.standard_normal(count) * 1e-4,
            "scaled": plain * 1.5,
            "zeros": -0.0 * plain,
        }
        old, new = (each.astype(FLOATS[dtype]) for each in (plain * (kind != "zeros"), other[kind]))
    before, after = old.tobytes(), new.tobytes()
    with patch("archive.compare.numbers.PIECE", SMALL_PIECE):
        assert repr(found(dtype, before, after)) == repr(expected(dtype, before, after))


@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 1.0])
@pytest.mark.parametrize("dtype", sorted({*FLOAT8, *INTEGERS} - {"int64", "uint64"}))
def test_so_are_those_of_small_dtypes(dtype: str, share: float) -> None:
    made = np.random.default_rng(7)
    size, top = 3_000 * WIDTHS[dtype], 2 if dtype == "bool" else 256
    old = made.integers(0, top, size, np.uint8)
    new = np.where(made.random(size) < share, made.integers(0, top, size, np.uint8), old)
    before, after = old.tobytes(), new.tobytes()
    assert found(dtype, before, after) == expected(dtype, before, after)


@pytest.mark.parametrize("dtype", sorted({*INTEGERS, *FLOATS, "bfloat16"} - {"bool"}))
def test_one_bit_in_the_last_element_counts_whatever_the_length(dtype: str) -> None:
    for count in (1, 2, 5, PIECE // WIDTHS[dtype] + 1):
        old = bytes(count * WIDTHS[dtype])
        assert found(dtype, old, old)[:2] == (0, 0)
        assert found(dtype, old, old[:-1] + b"\1")[:2] == (1, 1)


@pytest.mark.parametrize("equality", [equal, equal_on_cores])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 3 << 20, (3 << 20) + 3])
def test_stretches_are_equal_if_no_byte_differs(equality: object, size: int) -> None:
    assert callable(equality)
    old = bytes(range(256)) * (size // 256 + 1)
    old = old[:size]
    assert equality(memoryview(old), memoryview(bytearray(old)))
    assert not equality(memoryview(old), memoryview(old + b"x"))
    for at in {0, size // 2, size - 1} - {-1}:
        if size:
            other = old[:at] + bytes([old[at] ^ 4]) + old[at + 1 :]
            assert not equality(memoryview(old), memoryview(other))
