"""ONNX: tensors are those that its package reads, wherever their elements lie; other files are refused."""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive import ArchiveError
from archive.formats.schema import protobuf
from archive.formats.tensor_files.onnx import DEPTH, LONGEST_TEXT
from tests.support.corpus import FIXTURES
from tests.support.protobuf import field, onnx_entry, onnx_model, onnx_outside, onnx_tensor, varint
from tests.support.sampling import examples
from tests.support.tensor_files import bytes_of, labels_of

if TYPE_CHECKING:
    from pathlib import Path

ZOO = FIXTURES / "zoo"
FLOAT, INT32, INT64, STRING, INT4, UINT64, FLOAT6 = 1, 6, 7, 8, 22, 13, 27
FLOATS, INT32S, STRINGS, INT64S, RAW, UINT64S = 4, 5, 6, 7, 9, 11


@pytest.mark.parametrize("name", ["weights", "outside"])
def test_all_tensors_are_as_the_package_reads_them(name: str) -> None:
    answers = json.loads((ZOO / f"{name}.json").read_text())
    path = ZOO / f"{name}.onnx"
    with archive.open(path) as opened:
        assert opened.tensors.keys() == answers.keys()
        for key, answer in answers.items():
            tensor = opened.tensors[key]
            assert [tensor.dtype, list(tensor.shape)] == [answer["dtype"], answer["shape"]]
            if answer["hex"] is not None:
                assert bytes_of(opened, key).hex() == answer["hex"]
        files = ZOO.glob(f"{name}.[ob]*n*")
        assert opened.size == sum(file.stat().st_size for file in files)
        for labels in labels_of(path):
            assert sum(labels.values()) == opened.size


def test_metadata_is_what_the_model_says_of_itself() -> None:
    with archive.open(ZOO / "weights.onnx") as opened:
        assert opened.tensor_file is not None
        assert opened.tensor_file.metadata == {
            "ir_version": 13,
            "producer_name": "net",
            "producer_version": "1",
            "graph.name": "g",
            "metadata_props.trained": "yes",
            "opset_import": "28",
        }
        assert opened.recognised.what == "an ONNX model of 3 nodes and 47 tensors"


NUMBERS = {
    (INT32, INT32S, "i4"): st.integers(-(1 << 31), (1 << 31) - 1),
    (5, INT32S, "i2"): st.integers(-(1 << 15), (1 << 15) - 1),
    (2, INT32S, "u1"): st.integers(0, 255),
    (9, INT32S, "u1"): st.integers(0, 1),
    (INT64, INT64S, "i8"): st.integers(-(1 << 63), (1 << 63) - 1),
    (12, UINT64S, "u4"): st.integers(0, (1 << 32) - 1),
    (UINT64, UINT64S, "u8"): st.integers(0, (1 << 64) - 1),
}


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_integers_in_variable_form_are_the_same_elements_packed_and_one_by_one(data: st.DataObject) -> None:
    kind, number, dtype = data.draw(st.sampled_from(sorted(NUMBERS)))
    values = data.draw(st.lists(NUMBERS[kind, number, dtype], min_size=1, max_size=9))
    packed = field(number, b"".join(map(varint, values)))
    alone = b"".join(field(number, value) for value in values)
    model = onnx_model(
        *(onnx_tensor(name, kind, (len(values),), one) for name, one in (("p", packed), ("a", alone)))
    )
    with archive.open(model) as opened:
        assert bytes_of(opened, "p") == bytes_of(opened, "a") == np.array(values, f"<{dtype}").tobytes()
    for labels in labels_of(model):
        assert sum(labels.values()) == len(model)


def test_floats_of_6_bits_that_are_an_integer_each_are_packed_as_the_package_packs_them() -> None:
    integers = field(INT32S, bytes([1, 33, 5, 1, 36]))
    model = onnx_model(
        onnx_tensor("integers", FLOAT6, (5,), integers),
        onnx_tensor("packed", FLOAT6, (5,), field(RAW, bytes.fromhex("41580424"))),
        onnx_tensor("wide", FLOAT6, (1,), field(INT32S, b"\x40")),
    )
    with archive.open(model, name="m") as opened:
        assert bytes_of(opened, "integers") == bytes_of(opened, "packed")
        with pytest.raises(ArchiveError, match="m: data/wide: expected integers of 6 bits, found 64"):
            bytes_of(opened, "wide")
    for labels in labels_of(model):
        assert sum(labels.values()) == len(model)


def test_elements_beyond_2_gib_of_another_file_are_read(tmp_path: Path) -> None:
    far = 3 << 30
    with (tmp_path / "far.bin").open("wb") as file:
        file.seek(far)
        file.write(struct.pack("<f", 1.5))
    path = tmp_path / "m.onnx"
    path.write_bytes(
        onnx_model(onnx_tensor("w", FLOAT, (), onnx_outside("far.bin", offset=str(far), length="4")))
    )
    with archive.open(path) as opened:
        assert bytes_of(opened, "w") == struct.pack("<f", 1.5)
    sizes = archive.sizes(path)
    assert (sizes.by("weights")["w"].stored, sizes.by("weights")["[external data]"].stored) == (4, far)
    assert sizes.size == far + 4 + path.stat().st_size


def test_tensors_at_one_place_of_another_file_count_its_bytes_once(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(8))
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx_model(*(onnx_tensor(name, FLOAT, (2,), onnx_outside("w.bin")) for name in "ab")))
    assert archive.sizes(path).by("weights")["a"].stored == len(bytes(8))
    assert "b" not in archive.sizes(path).by("weights")


def test_a_file_that_is_not_there_leaves_its_tensors_without_elements(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    model = onnx_model(onnx_tensor("w", FLOAT, (2,), onnx_outside("folder/w.bin")))
    path.write_bytes(model)
    for source in (path, model):
        with archive.open(source) as opened:
            assert opened.tensor_file is not None
            assert opened.tensor_file.missing == ["folder/w.bin"]
            assert opened.tensors["w"].shape == (2,)
            with pytest.raises(ArchiveError, match="w is in a file that is not there"):
                bytes_of(opened, "w")
        assert archive.sizes(source).size == len(model)


def test_a_file_beside_that_is_too_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(7))
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx_model(onnx_tensor("w", FLOAT, (2,), onnx_outside("w.bin"))))
    with pytest.raises(ArchiveError) as caught:
        archive.open(path)
    assert str(caught.value) == f"{tmp_path / 'w.bin'}: expected 8 bytes for tensor 'w', found 7"


@pytest.mark.parametrize(
    "name", ["../w.bin", "/w.bin", "a/../../w.bin", "C:w.bin", "a\\b", "w\0", "", "..", "file://w"]
)
def test_a_path_that_leads_out_of_the_folder_is_refused(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(8))
    path = folder / "m.onnx"
    path.write_bytes(onnx_model(onnx_tensor("w", FLOAT, (2,), onnx_outside(name))))
    with pytest.raises(ArchiveError, match="tensor 'w': expected a path below the model's folder, found"):
        archive.open(path)


def test_a_model_that_names_itself_as_another_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(onnx_model(onnx_tensor("w", FLOAT, (2,), onnx_outside("./m.onnx"))))
    with pytest.raises(ArchiveError, match=r"names itself as a file beside it: 'm\.onnx'"):
        archive.open(path)


def nested(depth: int) -> bytes:
    """A model of graphs inside of graphs."""
    graph = b""
    for _ in range(depth):
        graph = field(1, field(3, "n") + field(5, field(1, "a") + field(6, graph)))
    return onnx_model(before=graph)


ONE = field(RAW, bytes(4))
WRONG = "tensor 'w': expected"
REFUSED: dict[str, tuple[bytes, str]] = {
    "no graph": (field(1, 9) + field(2, "net") + field(14, b""), "no known kind of file"),
    "two graphs": (onnx_model() + field(7, b""), "field 'graph' is there twice"),
    "an initializer twice": (
        onnx_model(*[onnx_tensor("w", FLOAT, (), ONE)] * 2),
        "byte 19: initializer 'w' is there twice",
    ),
    "a type that is none": (
        onnx_model(onnx_tensor("w", 99, (), ONE)),
        f"{WRONG} a known type of elements, found 99",
    ),
    "too few bytes": (
        onnx_model(onnx_tensor("w", FLOAT, (2,), ONE)),
        f"{WRONG} 8 bytes of elements, found 4",
    ),
    "no elements": (
        onnx_model(onnx_tensor("w", FLOAT, (2,))),
        f"{WRONG} 2 elements in one field, found 0 with some",
    ),
    "elements in two fields": (
        onnx_model(onnx_tensor("w", FLOAT, (), ONE, field(FLOATS, bytes(4)))),
        f"{WRONG} 1 elements in one field, found 2 with some",
    ),
    "elements here and elsewhere": (
        onnx_model(onnx_tensor("w", FLOAT, (), ONE, onnx_outside("w"))),
        f"{WRONG} elements in one place, found some here and in another file",
    ),
    "raw data twice": (
        onnx_model(onnx_tensor("w", FLOAT, (2,), ONE, ONE)),
        "tensor 'w': field 'raw_data' is there twice",
    ),
    "a field for another type": (
        onnx_model(onnx_tensor("w", INT64, (), field(FLOATS, bytes(4)))),
        f"{WRONG} a field for its type, found int64 in field 4",
    ),
    "too few integers": (
        onnx_model(onnx_tensor("w", INT64, (99,), field(INT64S, b"\1\1"))),
        f"{WRONG} 99 integers in variable form, found 2 bytes",
    ),
    "too few texts": (
        onnx_model(onnx_tensor("w", STRING, (2,), field(STRINGS, b"a"))),
        f"{WRONG} 2 texts of elements, found 1",
    ),
    "a size below 0": (onnx_model(onnx_tensor("w", FLOAT, (-1,), ONE)), f"{WRONG} sizes from 0 on, found -1"),
    "many dimensions": (
        onnx_model(field(1, b"\1" * 2000) + onnx_tensor("w", FLOAT, (), ONE)),
        "dimensions is limited to 256, found 257",
    ),
    "a segment": (
        onnx_model(onnx_tensor("w", FLOAT, (), ONE, field(3, b""))),
        "tensor 'w': a segment of a tensor is not read",
    ),
    "an offset that is none": (
        onnx_model(onnx_tensor("w", FLOAT, (), onnx_outside("w", offset="-1"))),
        f"{WRONG} a number for offset, found '-1'",
    ),
    "another length": (
        onnx_model(onnx_tensor("w", FLOAT, (), onnx_outside("w", length="5"))),
        f"{WRONG} 4 bytes of elements, found 5",
    ),
    "graphs inside of graphs": (nested(DEPTH + 1), "byte 468: expected at most 32 graphs, found more inside"),
    "a field that is cut": (onnx_model(b"\x4a\x7f"), "byte 6: expected a field of 127, found 0 bytes"),
    "a group": (onnx_model(b"\x0b"), "byte 6: expected a field of protobuf, found field 1, wire type 3"),
    "an integer without end": (
        onnx_model(b"\x08" + b"\xff" * 11),
        "byte 7: expected an integer in variable form",
    ),
    "half a sparse tensor": (
        onnx_model(before=field(15, field(1, onnx_tensor("w", FLOAT, (1,), ONE)))),
        "byte 6: expected values and indices of a sparse tensor, found not both",
    ),
    "elements that are no bytes": (
        onnx_model(onnx_tensor("w", 2, (1,), field(RAW, 7))),
        "byte 14: expected elements, found a field of wire type 0",
    ),
    "a text that is a number": (onnx_model(before=field(2, 7)), "byte 5: expected a text of at most"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_format_does_not_allow_is_refused_with_its_place(name: str) -> None:
    data, problem = REFUSED[name]
    with pytest.raises(ArchiveError) as caught:
        archive.open(data, name="m")
    assert str(caught.value).startswith(f"m: {problem}")


def test_graphs_as_deep_as_allowed_are_read() -> None:
    with archive.open(nested(DEPTH)) as opened:
        assert not opened.tensors


def test_integers_that_are_none_are_found_out_when_they_are_read() -> None:
    many = onnx_tensor("w", INT64, (2,), field(INT64S, b"\1\2\3"))
    cut = onnx_tensor("c", INT64, (2,), field(INT64S, b"\1\xff"))
    with archive.open(onnx_model(many, cut), name="m") as opened:
        with pytest.raises(ArchiveError, match="m: data/w: expected 2 integers, found 3"):
            bytes_of(opened, "w")
        with pytest.raises(ArchiveError, match="m: data/c: expected integers in variable form"):
            bytes_of(opened, "c")


def test_the_fields_of_a_file_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protobuf, "MOST_FIELDS", 100)
    with pytest.raises(ArchiveError, match="expected at most 100 fields, found more"):
        archive.open(onnx_model(before=field(3, 1) * 100))


def test_of_long_metadata_the_beginning_is_told() -> None:
    long = "a" * (LONGEST_TEXT + 1)
    model = onnx_model(before=field(10, long)) + field(6, long) + field(14, onnx_entry("k", long))
    with archive.open(model) as opened:
        assert opened.tensor_file is not None
        assert [
            opened.tensor_file.metadata[key] for key in ("graph.doc_string", "doc_string", "metadata_props.k")
        ] == [long[:-1] + "…"] * 3


def test_metadata_of_any_key_is_told() -> None:
    with archive.open(onnx_model() + field(14, onnx_entry("a", "b"))) as opened:
        assert opened.tensor_file is not None
        assert opened.tensor_file.metadata == {"ir_version": 9, "metadata_props.a": "b"}
