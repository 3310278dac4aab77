"""Elements of tensors in logical order, and the numbers that they stand for in PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError
from archive.base.limits import Limits
from archive.compare.elements import FLOAT8, INTEGERS, MOVED, computed_type, exact, into
from archive.formats.tensors import elements as module
from archive.formats.tensors.dtypes import WIDTHS
from archive.formats.tensors.elements import elements
from archive.formats.tensors.exported import exported_tensors
from archive.formats.tensors.pickled import script_tensors
from archive.formats.tensors.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

DTYPES = {
    "uint8": "u1",
    "int16": "<i2",
    "float32": "<f4",
    "float64": "<f8",
    "complex64": "<c8",
    "complex128": "<c16",
}


def laid_out(tensor: Tensor, storage: bytes, *, big: bool = False) -> bytes:
    return b"".join(elements(tensor, memoryview(storage), big=big))


@st.composite
def strided(draw: st.DrawFn) -> tuple[Tensor, np.ndarray, np.ndarray]:
    """A tensor, its storage, and its elements as NumPy strides over the storage."""
    dtype = draw(st.sampled_from(sorted(DTYPES)))
    shape = tuple(draw(st.lists(st.integers(0, 5), max_size=4)))
    strides = tuple(draw(st.integers(0, 7)) for _ in shape)
    offset = draw(st.integers(0, 5))
    length = offset + 1 + sum(stride * max(size - 1, 0) for size, stride in zip(shape, strides, strict=True))
    storage = np.arange(length).astype(DTYPES[dtype])
    width = storage.itemsize
    wanted = np.lib.stride_tricks.as_strided(storage[offset:], shape, [stride * width for stride in strides])
    return Tensor(dtype, shape, strides, offset, "data/0"), storage, wanted


@given(strided(), st.booleans(), st.integers(1, 64))
def test_elements_are_those_that_numpy_strides_over(
    drawn: tuple[Tensor, np.ndarray, np.ndarray],
    big: bool,  # noqa: FBT001
    piece: int,
) -> None:
    tensor, storage, wanted = drawn
    stored = storage.astype(storage.dtype.newbyteorder(">")) if big else storage
    before, module.PIECE = module.PIECE, piece
    try:
        assert laid_out(tensor, stored.tobytes(), big=big) == wanted.tobytes()
    finally:
        module.PIECE = before


def test_elements_in_order_are_a_view() -> None:
    storage = memoryview(bytes(range(32)))
    (piece,) = elements(Tensor("float32", (2, 3), (3, 1), 1, "data/0"), storage)
    assert piece.obj is storage.obj
    assert bytes(piece) == bytes(range(4, 28))


@pytest.mark.parametrize(
    ("tensor", "problem"),
    [
        (
            Tensor("float32", (5,), (1,), 0, "r"),
            r"r: expected a storage of 20 bytes at least, for shape \(5,\), found 16",
        ),
        (Tensor("float32", (2,), (1,), 3, "r"), "expected a storage of 20 bytes"),
        (Tensor("float32", (2,), (-1,), 3, "r"), "r: expected sizes from 0 on, found -1"),
        (Tensor("float32", (2, 2), (1,), 0, "r"), "r: expected 2 strides, one a dimension, found 1"),
        (Tensor("oddity", (2,), (1,), 0, "r"), "r: the width of oddity is not known here"),
        (Tensor("float32", (1 << 40,), (0,), 0, "r"), "strides repeat it too often"),
        (Tensor("uint8", (2, 1) * 61, (0, 5) * 61, 0, "r"), "strides repeat it too often"),
    ],
)
def test_what_no_storage_can_hold_is_refused(tensor: Tensor, problem: str) -> None:
    with pytest.raises(ArchiveError, match=problem):
        laid_out(tensor, bytes(16))


def test_dimensions_that_lie_apart_are_bounded() -> None:
    shape = (2,) * 4 + (1,) * 200
    assert len(laid_out(Tensor("uint8", shape, (1,) * 204, 0, "r"), bytes(16))) == 16


def nested(count: int) -> list[object]:
    """A list in which a tensor has ``2 ** count`` paths, though few values are held."""
    value: list[object] = [Tensor("float32", (1,), (1,), 0, "data/0")]
    for _ in range(count):
        value = [value, value]
    return value


def test_what_holds_tensors_is_looked_into_once() -> None:
    assert len(list(script_tensors(nested(60)))) == 1


def test_names_cost_memory_before_they_are_made() -> None:
    value: object = Tensor("float32", (1,), (1,), 0, "data/0")
    for _ in range(3_000):
        value = {"a" * 10_000: value}
    with pytest.raises(LimitError), memory.charged(Limits(memory=1 << 24).allowance(0)):
        list(script_tensors(value))


@pytest.mark.parametrize(
    "broken",
    [
        lambda text: text.replace(b'"config"', b'"other"'),
        lambda text: text.replace(b'"sizes"', b'"other"'),
        lambda text: text.replace(b'"as_int": 3', b'"as_int": "3"'),
        lambda text: text.replace(b'[{"as_int": 1}]', b"[]"),
        lambda text: text.replace(b'"path_name"', b'"path"'),
        lambda text: text[:-3],
    ],
)
def test_a_table_that_is_none_is_refused(broken: Callable[[bytes], bytes]) -> None:
    table = (
        b'{"config": {"w": {"path_name": "weight_0", "use_pickle": false, "tensor_meta": {"dtype": 7, '
        b'"sizes": [{"as_int": 3}], "strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}, '
        b'"requires_grad": true}}}}'
    )
    name = "data/weights/model_weights_config.json"
    assert dict(exported_tensors(name, memoryview(table))) == {
        "w": Tensor("float32", (3,), (1,), 0, "data/weights/weight_0", requires_grad=True)
    }
    assert broken(table) != table
    with pytest.raises(ArchiveError):
        list(exported_tensors(name, memoryview(broken(table))))


# --- The numbers that elements stand for are those of PyTorch, for all codes of the small dtypes


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
