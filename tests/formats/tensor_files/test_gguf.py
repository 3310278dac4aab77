"""What the package gguf writes is read as it was, in both byte orders; other files are refused."""

from __future__ import annotations

import re
import struct
import tempfile
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gguf
import numpy as np
import pytest
from gguf import GGMLQuantizationType as Kind
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive import ArchiveError
from archive.base import memory
from archive.base.limits import Limits
from archive.formats.tensor_files import described
from archive.formats.tensor_files.described import ArrayOf
from archive.formats.tensor_files.gguf import DTYPES, read_gguf
from archive.formats.tensors.dtypes import BLOCKS, WIDTHS
from archive.io.ranged import RangedBytes
from archive.reader.recognition import TENSOR_KINDS
from tests.support.sampling import examples
from tests.support.tensor_files import bytes_of, labels_of

if TYPE_CHECKING:
    from collections.abc import Mapping

PLAIN = ["i1", "i2", "i4", "i8", "f2", "f4", "f8"]
ARRAYS = st.builds(
    lambda dtype, shape, seed: np.random.default_rng(seed).integers(0, 100, shape).astype(dtype),
    st.sampled_from(PLAIN),
    st.lists(st.integers(1, 4), min_size=1, max_size=4),
    st.integers(0, 9),
)
NAMES = st.text("abz.µ", min_size=1, max_size=8)
TOKENS = st.lists(st.text(max_size=4), min_size=1, max_size=20)


def written(
    tensors: Mapping[str, np.ndarray | tuple[np.ndarray, Kind]],
    *,
    tokens: list[str] | None = None,
    alignment: int | None = None,
    big: bool = False,
) -> bytes:
    """A file as the package writes it."""
    order = gguf.GGUFEndian.BIG if big else gguf.GGUFEndian.LITTLE
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.gguf")
        writer = gguf.GGUFWriter(path, "net", endianess=order)
        writer.add_name("a name")
        writer.add_int16("small", -7)
        writer.add_float64("half", 0.5)
        writer.add_bool("yes", val=True)
        if tokens:
            writer.add_array("tokenizer.ggml.tokens", tokens)
        if alignment:
            writer.add_custom_alignment(alignment)
        for name, tensor in tensors.items():
            array, kind = tensor if isinstance(tensor, tuple) else (tensor, None)
            writer.add_tensor(name, array.copy(), raw_dtype=kind)  # which it turns around for the other order
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        return path.read_bytes()


@settings(max_examples=examples(100), deadline=None)
@given(
    st.dictionaries(NAMES, ARRAYS, min_size=1, max_size=5),
    TOKENS,
    st.sampled_from([None, 8, 64]),
    st.booleans(),
)
def test_what_the_package_writes_is_read_as_it_was(
    arrays: dict[str, np.ndarray],
    tokens: list[str],
    alignment: int | None,
    big: bool,  # noqa: FBT001 (hypothesis gives it)
) -> None:
    data = written(arrays, tokens=tokens, alignment=alignment, big=big)
    with archive.open(data) as opened:
        assert [(name, tensor.shape) for name, tensor in opened.tensors.items()] == [
            (name, array.shape) for name, array in arrays.items()
        ]
        assert opened.tensors.is_big_endian == big
        for name, array in arrays.items():
            assert opened.tensors[name].dtype == array.dtype.name
            assert bytes_of(opened, name) == array.tobytes()
        assert opened.tensor_file is not None
        metadata = dict(opened.tensor_file.metadata)
        assert metadata.pop("general.alignment", None) == alignment
        assert metadata == {
            "general.architecture": "net",
            "general.name": "a name",
            "small": -7,
            "half": 0.5,
            "yes": True,
            "tokenizer.ggml.tokens": ArrayOf(len(tokens), "texts"),
        }
    for labels in labels_of(data):
        assert sum(labels.values()) == len(data)


def test_sizes_of_blocks_are_those_of_the_package() -> None:
    for kind, (elements, size) in gguf.GGML_QUANT_SIZES.items():
        dtype = DTYPES[kind]
        assert (BLOCKS.get(dtype) or (1, WIDTHS[dtype])) == (elements, size)
    assert len(DTYPES) == len(gguf.GGML_QUANT_SIZES)


@pytest.mark.parametrize("kind", [Kind.Q4_0, Kind.Q8_0, Kind.Q4_K, Kind.IQ4_XS, Kind.MXFP4])
def test_blocks_lie_along_the_last_dimension(kind: Kind, tmp_path: Path) -> None:
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    stored = np.arange(3 * 2 * size, dtype=np.uint8).reshape(3, 2 * size)
    path = tmp_path / "m.gguf"
    path.write_bytes(written({"first": np.ones(3, "f4"), "w": (stored, kind)}))
    theirs = {tensor.name: tensor for tensor in gguf.GGUFReader(path).tensors}["w"]
    with archive.open(path) as opened:
        ours = opened.tensors["w"]
        assert ours.shape == (3, 2 * elements) == tuple(reversed(theirs.shape.tolist()))
        assert (ours.dtype, ours.bytes) == (kind.name.lower(), theirs.n_bytes)
        assert bytes_of(opened, "w") == stored.tobytes() == theirs.data.tobytes()
        place = archive.sizes(path).by("weights")["w"]
    assert (place.stored, place.elements) == (theirs.n_bytes, theirs.n_elements)  # type: ignore[attr-defined]


def test_blocks_of_a_big_endian_file_are_not_given_as_if_they_were_little_endian() -> None:
    data = written({"w": (np.zeros((1, 34), np.uint8), Kind.Q8_0)}, big=True)
    with archive.open(data) as opened, pytest.raises(ArchiveError, match="big-endian blocks of q8_0"):
        bytes_of(opened, "w")


# --- what is refused


def text(value: str) -> bytes:
    """A text."""
    return struct.pack("<Q", len(value.encode())) + value.encode()


def pair(key: str, kind: int, value: bytes) -> bytes:
    """A key and its value."""
    return text(key) + struct.pack("<I", kind) + value


def row(name: str, sizes: list[int], kind: int = 0, offset: int = 0) -> bytes:
    """A row of the table."""
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)


def file(
    *parts: bytes,
    pairs: int = 0,
    tensors: int = 0,
    version: int = 3,
    data: bytes = b"",
    alignment: int = 32,
) -> bytes:
    """A file of parts, padded, and data."""
    out = BytesIO()
    out.write(b"GGUF" + struct.pack("<IQQ", version, tensors, pairs) + b"".join(parts))
    if data:
        out.write(bytes(-out.tell() % alignment) + data)
    return out.getvalue()


def test_a_file_of_version_2_is_read() -> None:
    with archive.open(file(row("w", [2, 3]), tensors=1, version=2, data=bytes(24))) as opened:
        assert opened.tensors["w"].shape == (3, 2)
        assert opened.recognised.what == "1 tensor in GGUF version 2"


def test_arrays_of_arrays_and_empty_files_are_read() -> None:
    inner = struct.pack("<IQ", 4, 2) + bytes(8)
    nested = pair("a", 9, struct.pack("<IQ", 9, 2) + inner + inner)
    with archive.open(file(nested, pairs=1)) as opened:
        assert opened.tensor_file is not None
        assert opened.tensor_file.metadata == {"a": ArrayOf(2, "arrays")}
        assert not opened.tensors


def test_bytes_behind_the_last_tensor_are_counted() -> None:
    data = file(row("w", [2]), tensors=1, data=bytes(40))
    assert archive.sizes(data).by("kind")["gaps"].stored == 8
    assert archive.sizes(data).by("kind")["padding"].stored == len(data) - 8 - 8 - 24 - len(row("w", [2]))


FIXED_BYTES = 24  # magic, version, and how many tensors and pairs follow
HUGE = 1 << 62
FOUND = "found 4,611,686,018,427,387,904"
REFUSED: dict[str, tuple[bytes, str]] = {
    "version 1": (file(version=1), "byte 4: expected version 2 or 3, found 1"),
    "more tensors than fit": (
        file(tensors=HUGE),
        f"byte 24: the file is cut short: expected at most 0 tensors, {FOUND}",
    ),
    "more pairs than fit": (
        file(pairs=HUGE),
        f"byte 24: the file is cut short: expected at most 0 pairs, {FOUND}",
    ),
    "a long array": (
        file(pair("a", 9, struct.pack("<IQ", 4, HUGE)), pairs=1),
        "byte 49, field value: the file is cut short: expected 18,446,744,073,709,551,616 bytes, found 0",
    ),
    "a long array of texts": (
        file(pair("a", 9, struct.pack("<IQ", 8, HUGE)), pairs=1),
        f"byte 49: the file is cut short: expected at most 0 texts, {FOUND}",
    ),
    "a text beyond the file": (
        file(pair("a", 9, struct.pack("<IQQ", 8, 1, HUGE)), pairs=1),
        "byte 49, field value: the file is cut short: expected 4,611,686,018,427,387,912 bytes, found 8",
    ),
    "arrays inside of arrays": (
        file(pair("a", 9, struct.pack("<IQ", 9, 1) * 9 + bytes(12)), pairs=1),
        "byte 121: expected at most 8 arrays, found more inside",
    ),
    "a type that is none": (
        file(pair("a", 13, b""), pairs=1),
        "byte 37: expected a type from 0 to 12, found 13",
    ),
    "a key twice": (file(pair("a", 0, b"0"), pair("a", 0, b"1"), pairs=2), "byte 38: key 'a' is there twice"),
    "a tensor twice": (
        file(row("w", [2]), row("w", [2], offset=32), tensors=2, data=bytes(64)),
        "byte 57: tensor 'w' is there twice",
    ),
    "a hole": (
        file(row("w", [2], offset=32), tensors=1, data=bytes(64)),
        "tensor 'w': expected offset 0, found 32",
    ),
    "an overlap": (
        file(row("v", [2]), row("w", [2]), tensors=2, data=bytes(64)),
        "tensor 'w': expected offset 32, found 0",
    ),
    "a file cut short": (
        file(row("w", [2]), tensors=1, data=bytes(7)),
        "tensor 'w': the file is cut short: expected 72 bytes of file, found 71",
    ),
    "too many dimensions": (
        file(row("w", [1] * 5), tensors=1, data=bytes(4)),
        "tensor 'w': expected at most 4 dimensions, found 5",
    ),
    "a type of elements that is gone": (
        file(row("w", [32], kind=4), tensors=1, data=bytes(32)),
        "tensor 'w': expected a known type of elements, found 4",
    ),
    "half a block": (
        file(row("w", [48, 2], kind=2), tensors=1, data=bytes(54)),
        "tensor 'w': expected rows of blocks of 32 elements for q4_0, found [48, 2]",
    ),
    "an alignment that is none": (
        file(pair("general.alignment", 4, struct.pack("<I", 24)), pairs=1),
        "general.alignment: expected a power of two, found 24",
    ),
    "a header cut short": (
        file(pair("a", 8, text("b")), pairs=1)[:-1],
        "byte 45, field value: the file is cut short: expected 1 bytes, found 0",
    ),
}


@pytest.mark.parametrize("big", [False, True])
def test_a_header_cut_at_any_byte_is_refused_with_the_field_or_read_in_a_longer_piece(
    big: bool,  # noqa: FBT001 (pytest gives it)
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data = written({"w": np.zeros((2, 3), "f4")}, tokens=["a", "bc"], big=big)
    end = len(data) - 24
    with archive.open(data) as opened:
        tensors = dict(opened.tensors)
    for size in range(5, end):
        with pytest.raises(ArchiveError) as caught:
            archive.open(data[:size], name="m", kinds=TENSOR_KINDS)
        place = "(byte [0-9]+(, field [a-z_]+)*|tensor 'w')"
        cut = "the file is cut short: " if size >= FIXED_BYTES else ""
        assert re.match(f"m: {place}: {cut}expected .*, found", str(caught.value)), str(caught.value)
    with memory.charged(Limits().allowance(len(data))):
        for size in range(24, end, 7):
            monkeypatch.setattr(described, "WINDOW", size)
            remote = RangedBytes(lambda start, stop: data[start:stop], len(data))
            assert dict(read_gguf(remote).tensors) == tensors


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_format_does_not_allow_is_refused_with_its_place(name: str) -> None:
    data, problem = REFUSED[name]
    with pytest.raises(ArchiveError) as caught:
        archive.open(data, name="m")
    assert str(caught.value) == f"m: {problem}"


def test_numbers_that_are_none_are_texts_of_metadata() -> None:
    data: Any = file(pair("a", 6, struct.pack("<f", float("nan"))), pairs=1)
    with archive.open(data) as opened:
        assert opened.tensor_file is not None
        assert opened.tensor_file.metadata == {"a": "nan"}
