"""What the package safetensors writes is read as it was; what the format does not allow is refused."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.numpy import save

import archive
from archive import ArchiveError
from archive.formats.tensor_files.safetensors import DTYPES
from archive.formats.tensors.dtypes import BLOCKS, WIDTHS
from tests.support.sampling import examples
from tests.support.tensor_files import bytes_of, labels_of

if TYPE_CHECKING:
    from pathlib import Path

NUMPY = ["?", "u1", "i1", "u2", "i2", "u4", "i4", "u8", "i8", "f2", "f4", "f8", "c8"]
ARRAYS = st.builds(
    lambda dtype, shape, seed: np.random.default_rng(seed).integers(0, 2, shape).astype(dtype),
    st.sampled_from(NUMPY),
    st.lists(st.integers(0, 3), max_size=4),
    st.integers(0, 9),
)
NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8).filter(
    lambda name: name != "__metadata__"
)
F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


def file(header: str | dict[str, Any], data: bytes = b"", length: int | None = None) -> bytes:
    """A file of a header and data."""
    text = (header if isinstance(header, str) else json.dumps(header)).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


@settings(max_examples=examples(200), deadline=None)
@given(st.dictionaries(NAMES, ARRAYS, max_size=6), st.dictionaries(NAMES, st.text(max_size=8), max_size=3))
def test_what_the_package_writes_is_read_as_it_was(
    arrays: dict[str, np.ndarray], metadata: dict[str, str]
) -> None:
    data = save(arrays, metadata or None)
    with archive.open(data) as opened:
        assert {name: tensor.shape for name, tensor in opened.tensors.items()} == {
            name: array.shape for name, array in arrays.items()
        }
        for name, array in arrays.items():
            assert opened.tensors[name].dtype == array.dtype.name
            assert bytes_of(opened, name) == array.tobytes()
        assert opened.tensor_file is not None
        assert opened.tensor_file.metadata == metadata
    for labels in labels_of(data):
        assert sum(labels.values()) == len(data)


def test_the_package_sees_the_same_shapes_of_all_dtypes(tmp_path: Path) -> None:
    places, at = {}, 0
    for name, dtype in DTYPES.items():
        elements, size = BLOCKS.get(dtype) or (1, WIDTHS[dtype])
        places[name] = at, at + 8 * size // elements
        at = places[name][1]
    header = {name: {"dtype": name, "shape": [2, 4], "data_offsets": place} for name, place in places.items()}
    numbers = bytes(at % 251 for at in range(at))
    path = tmp_path / "all.safetensors"
    path.write_bytes(file(header, numbers))
    with safe_open(path, "np") as theirs, archive.open(path) as ours:
        assert set(theirs.keys()) == ours.tensors.keys()
        for name, (start, stop) in places.items():
            assert tuple(theirs.get_slice(name).get_shape()) == ours.tensors[name].shape
            assert bytes_of(ours, name) == numbers[start:stop]


def test_offsets_may_be_at_any_byte() -> None:
    header = {
        "b": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "f": {"dtype": "F32", "shape": [1], "data_offsets": [3, 7]},
    }
    data = file(header, b"abc" + struct.pack("<f", 1.5))
    with archive.open(data) as opened:
        assert bytes_of(opened, "f") == struct.pack("<f", 1.5)


REFUSED = {
    "no length": (b"\2", "no known kind of file"),
    "a length beyond the file": (file(F32, length=1 << 40), ""),
    "the same key twice": (
        file(
            '{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}',
            b"0",
        ),
        "header: key 'a' is there twice",
    ),
    "a key of a tensor twice": (
        file('{"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"0"),
        "header: key 'dtype' is there twice",
    ),
    "an overlap": (
        file({"a": F32, "b": {**F32, "data_offsets": [4, 12]}}, bytes(12)),
        "header, tensor 'b': an overlap: expected offset 8, found 4",
    ),
    "a hole": (
        file({"a": {**F32, "data_offsets": [4, 12]}}, bytes(12)),
        "header, tensor 'a': a hole: expected offset 0, found 4",
    ),
    "bytes behind the data": (
        file({"a": F32}, bytes(9)),
        "expected 8 bytes of data after the header, found 9",
    ),
    "data cut short": (
        file({"a": F32}, bytes(7)),
        "safetensors cut short: it has 7 of 8 bytes of data (safetensors' own reader says `incomplete",
    ),
    "a size below 0": (
        file({"a": {**F32, "shape": [-2]}}, bytes(8)),
        "header, tensor 'a': expected shape of numbers from 0 on, found [-2]",
    ),
    "a size that is no whole number": (
        file({"a": {**F32, "shape": [2.0]}}, bytes(8)),
        "header, tensor 'a': expected shape of numbers from 0 on, found [2.0]",
    ),
    "a size that is true": (
        file({"a": {**F32, "shape": [True, 2]}}, bytes(8)),
        "header, tensor 'a': expected shape of numbers from 0 on, found [True, 2]",
    ),
    "another number of bytes": (
        file({"a": {**F32, "shape": [3]}}, bytes(8)),
        "header, tensor 'a': expected 12 bytes for F32 of shape (3,), found 8",
    ),
    "a dtype that is none": (
        file({"a": {**F32, "dtype": "F99"}}, bytes(8)),
        "header, tensor 'a': expected a dtype, found 'F99'",
    ),
    "half a byte": (
        file({"a": {"dtype": "F4", "shape": [3], "data_offsets": [0, 2]}}, bytes(2)),
        "header, tensor 'a': expected a whole number of bytes for F4 of shape (3,), found 2",
    ),
    "metadata that is no text": (
        file({"__metadata__": {"x": 1}}),
        "header, __metadata__: expected an object of texts, found {'x': 1}",
    ),
    "a tensor that is none": (
        file({"a": [1]}),
        "header, tensor 'a': expected an object of dtype, shape and data_offsets, found a list",
    ),
    "too many dimensions": (
        file({"a": {**F32, "shape": [2, *[1] * 1024]}}, bytes(8)),
        "header, tensor 'a': dimensions is limited to 256, found 1,025",
    ),
    "a name with half of a pair of surrogates": (
        file('{"\\ud800":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"0"),
        "header: expected whole characters, found '\\ud800'",
    ),
    "metadata with half of a pair of surrogates": (
        file({"__metadata__": {"a": "\udbff"}}),
        "header: expected whole characters, found '\\udbff'",
    ),
    "no JSON": (file('{"a":}'), "header, character 5: expected JSON, found Expecting value"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_format_does_not_allow_is_refused_with_its_place(name: str) -> None:
    data, problem = REFUSED[name]
    with pytest.raises(ArchiveError) as caught:
        archive.open(data, name="m")
    assert str(caught.value).startswith(f"m: {problem}")


def test_null_is_no_metadata_and_a_pair_of_surrogates_a_character(tmp_path: Path) -> None:
    data = file(
        '{"__metadata__":null,"\\ud83d\\ude00":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}', b"7"
    )
    path = tmp_path / "m.safetensors"
    path.write_bytes(data)
    with safe_open(path, "np") as theirs, archive.open(path) as ours:
        assert (theirs.metadata(), list(theirs.keys())) == (None, list(ours.tensors))
        assert ours.tensor_file is not None
        assert ours.tensor_file.metadata == {}
