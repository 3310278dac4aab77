"""The view weights: each storage once, by its first tensor, wherever it lies in the file."""

from __future__ import annotations

import io
import lzma
from math import prod
from typing import TYPE_CHECKING

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import archive
from archive.describe.sizes import View, Weight, WeightSize
from archive.describe.sizes.account import UNNAMED
from archive.describe.sizes.pieces import apportioned
from archive.describe.sizes.weights import _apart, divided
from tests.support.commands import told, well
from tests.support.corpus import FIXTURES, KINDS
from tests.support.sampling import examples, sampled
from tests.support.tampering import STACK, tampered

if TYPE_CHECKING:
    from pathlib import Path

FILES = sorted(
    [
        *(FIXTURES / "exported").glob("*.pt2"),
        *(FIXTURES / "exported" / "legacy").glob("*.pt2"),
        *(FIXTURES / "releases").glob("torch-*/*.pt*"),
        *(FIXTURES / "executorch").glob("*.etrecord"),
        *(
            KINDS / name
            for name in ("checkpoint.pt", "module.pt", "package.pt", "state_dict.pt", "tensor.pt")
        ),
    ]
)
COMPILED = FIXTURES / "compiled"


def weights(path: Path | bytes) -> dict[str, WeightSize]:
    sizes = archive.sizes(path).by("weights")
    assert all(isinstance(size, WeightSize) for size in sizes.values())
    return {label: size for label, size in sizes.items() if isinstance(size, WeightSize)}


@pytest.mark.parametrize("path", sampled(FILES, 30), ids=str)
def test_each_storage_counts_once_for_its_first_tensor(path: Path) -> None:
    found = weights(path)
    assert sum(size.stored for size in found.values()) == path.stat().st_size
    with archive.open(path) as opened:
        tensors = opened.tensors
        for record, names in tensors.storages.items():
            place = tensors.place_of(record)
            first = tensors[names[0]]
            if place is None or not place.size:
                continue
            label = names[0] or UNNAMED
            assert found[label].inflated == place.size
            views = {(tensors[name].offset, tensors[name].shape, tensors[name].strides) for name in names}
            elements = sum(prod(shape) for _, shape, _ in views)
            assert found[label].elements == min(elements, place.size // (first.width or 1))
            assert found[label].dtypes == (first.dtype,)
            assert not [name for name in names[1:] if name in found]


@pytest.mark.parametrize("name", ["compiled.pt2.xz", "plain.pt2.xz", "profiled.pt2.xz"])
def test_weights_inside_of_shared_objects_are_found(name: str) -> None:
    data = lzma.decompress((COMPILED / name).read_bytes())
    found, account = weights(data), archive.sizes(data)
    with archive.open(data) as opened:
        tensors = {name: opened.tensors[name] for name in opened.tensors}
        inside = {name: tensor for name, tensor in tensors.items() if ":" in tensor.record}
        for label, tensor in inside.items():
            assert found[label].elements == tensor.count
            assert found[label].inflated == tensor.bytes  # without the padding behind it
    assert inside
    named, unnamed = archive.sizes(data), archive.sizes(data, weights=False)
    for view in (View.KIND, View.PART, View.RECORD, View.MODULE, View.SOURCE):
        assert named.by(view) == unnamed.by(view)
    assert account.size == sum(size.stored for size in found.values())


VIEWS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 4), st.sampled_from([0, 1, 1, 2, 5, 12])), max_size=3),
        st.integers(0, 9),
    ),
    min_size=1,
    max_size=3,
)
"""Sizes and strides of views, and where each begins."""


@settings(max_examples=examples(200), deadline=None)
@given(VIEWS)
@example([([(10, 1)], 0), ([(10, 1)], 5)])
@example([([(30, 0), (2, 1)], 0)])
def test_an_element_that_views_share_counts_once(views: list[tuple[list[tuple[int, int]], int]]) -> None:
    torch = pytest.importorskip("torch")
    base, file = torch.zeros(60), io.BytesIO()
    parts = [
        base.as_strided([size for size, _ in dims], [stride for _, stride in dims], at) for dims, at in views
    ]
    torch.save(parts, file)
    numbers = torch.arange(60.0)
    places = [numbers.as_strided(part.shape, part.stride(), part.storage_offset()) for part in parts]
    distinct = {number for place in places for number in place.reshape(-1).tolist()}
    assert sum(size.elements for size in weights(file.getvalue()).values()) == len(distinct)


def test_names_that_cannot_be_read_are_missing() -> None:
    data = tampered(STACK, {"data.pkl": b"broken"})
    assert sum(size.stored for size in weights(data).values()) == len(data)
    assert "[tensor]" in weights(data)
    assert "head.weight" not in weights(data)


def test_depth_rolls_up_modules() -> None:
    rolled = told("sizes", STACK, "--by", "weights", "--depth", "1")["labels"]
    assert isinstance(rolled, dict)
    found = weights(STACK)
    head = {name: size for name, size in found.items() if name.startswith("head.")}
    assert rolled["head.*"]["elements"] == sum(size.elements for size in head.values()) > 0
    assert rolled["head.*"]["stored"] == sum(size.stored for size in head.values())
    assert rolled["head.*"]["dtypes"] == ["float32"]


def test_the_table_shows_elements_and_dtype() -> None:
    text = well("sizes", STACK, "--by", "weights", "-n", "0")
    assert text.splitlines()[0].split() == ["weights", "stored", "%", "inflated", "elements", "dtype"]
    (line,) = (line for line in text.splitlines() if line.startswith("head.weight"))
    assert line.split()[-1] == "float32"


def test_stretches_are_cut_out_of_their_record() -> None:
    a, b = Weight("a", "float32", (2,), 2, 0), Weight("b", "float32", (1,), 1, 0)
    stretches = [(4, 12, a), (12, 16, b)]
    assert list(divided(0, 20, stretches)) == [(4, None), (8, a), (4, b), (4, None)]
    assert list(divided(8, 14, stretches)) == [(4, a._replace(elements=0)), (2, b)]
    assert list(divided(0, 0, [])) == [(0, None)]
    assert list(_apart([(6, 9, b), (4, 12, a), (3, 3, b)])) == [(4, 12, a)]
    assert apportioned(3, [1, 2]) == [1, 2]
