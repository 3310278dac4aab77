"""The tensors of compiled models: named by their C++ code, wherever their bytes lie."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from archive import ArchiveError
from archive.base.limits import unbounded
from archive.formats.elf.weights import weights_span
from archive.formats.tensors.compiled import compiled_constants
from tests.support.compiled import changed, member, package, written

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = "data/aotinductor/model/"
PLAIN = "cr2vcpbnitlla5b6hms25eeehm2xvtjyrbsipg45cpheyglybotf.wrapper"
OBJECT, CODE = f"{FOLDER}{PLAIN}.so", f"{FOLDER}{PLAIN}.cpp"
ROWS = 64
"""Where the second tensor begins in the weights: behind 16 numbers of float32."""
END_ADDRESS, END_SECTION = 0x4C080, 27
"""Where the weights end in memory: `readelf -s`, `_binary_constants_bin_end`."""


def retrained(folder: Path, element: int) -> Path:
    """The package after a training that changed one element of ``rows.weight`` by 1."""
    data = bytearray(member("plain", OBJECT))
    span = weights_span(memoryview(data))
    assert span is not None
    np.frombuffer(data, "<f4", offset=span[0] + ROWS)[element] += 1
    return changed("plain", {OBJECT: bytes(data)}, folder)


def values(name: str) -> dict[str, bytes]:
    with archive.open(package(name)) as opened:
        return {each: b"".join(opened.tensors.elements(each)) for each in opened.tensors}


def test_a_compiled_model_has_the_tensors_of_its_program() -> None:
    found = values("several")
    compiled = {name.rpartition(":")[2]: data for name, data in found.items() if "aotinductor" in name}
    assert list(compiled) == ["layers.0.weight", "layers.1.weight"]  # biases became code
    assert compiled == {name: found[f"tower:{name}"] for name in compiled}


@pytest.mark.parametrize("name", ["compiled", "plain", "profiled", "sources"])
def test_tensors_are_named_as_in_the_model(name: str) -> None:
    with archive.open(package(name)) as opened:
        told = {each: (one.dtype, one.shape, one.strides) for each, one in opened.tensors.items()}
    assert told == {
        "mix.weight": ("float32", (4, 4), (4, 1)),
        "rows.weight": ("float32", (6, 4), (4, 1)),
    }
    assert not any(np.isnan(np.frombuffer(data, "<f4")).any() for data in values(name).values())


def test_two_trainings_differ_in_a_weight_that_is_named(tmp_path: Path) -> None:
    found = archive.diff(
        written("plain", tmp_path), retrained(tmp_path, 3), ignore=["ids", "layout", "debug"]
    )
    (row,) = found.changes
    assert isinstance(row, archive.TensorChange)
    assert (row.name, row.changed, row.count) == ("rows.weight", 1, 24)
    assert row.max_abs == pytest.approx(1, abs=1e-6)


def test_without_the_code_nothing_tells_which_weight(tmp_path: Path) -> None:
    files = [written("plain", tmp_path), retrained(tmp_path, 3)]
    left = [tmp_path / f"left{number}.pt2" for number in range(2)]
    for file, target in zip(files, left, strict=True):
        archive.split(file, target, tmp_path / f"{target.stem}.ptdbg")
    found = archive.diff(*left, ignore=["ids", "layout", "debug"])
    told = [(row.what, row.name, row.told) for row in found.changes]
    words = "192 bytes → 192 bytes; nothing tells which tensors"
    assert told == [("weights", OBJECT, words)]


def test_a_model_is_the_same_without_the_code_that_names_its_tensors(tmp_path: Path) -> None:
    whole, left = written("plain", tmp_path), tmp_path / "left.pt2"
    archive.split(whole, left, tmp_path / "left.ptdbg")
    assert archive.diff(whole, left).same_model
    assert archive.diff(left, whole).same_model
    other = archive.diff(left, retrained(tmp_path, 3), ignore=["ids", "layout", "debug"])
    assert [row.what for row in other.changes] == ["weights"]


def test_a_digest_tells_weights_from_code_with_debug_info_and_without(tmp_path: Path) -> None:
    old, new = written("plain", tmp_path), retrained(tmp_path, 3)
    parts = [archive.digest(file).parts for file in (old, new)]
    assert {name for name in parts[0] if parts[0][name] != parts[1][name]} == {f"weights/{OBJECT}"}
    archive.split(old, tmp_path / "left.pt2", tmp_path / "left.ptdbg")
    assert archive.digest(tmp_path / "left.pt2").parts == parts[0]


def test_other_code_is_told_beside_other_weights(tmp_path: Path) -> None:
    data = bytearray(member("plain", OBJECT))
    data[0x18600] ^= 1  # in .text
    found = archive.diff(written("plain", tmp_path), changed("plain", {OBJECT: bytes(data)}, tmp_path))
    assert [row.name for row in found.changes if row.level == "model"] == [OBJECT]


def test_weights_may_be_appended_to_the_object() -> None:
    """The object of a small model, as PyTorch makes one of a large model."""
    data = bytearray(member("plain", OBJECT))
    span = weights_span(memoryview(data))
    assert span is not None
    weights, magic = bytes(range(200)), 77
    data[span[0] : span[0] + 16] = struct.pack("<QQ", len(weights) + 8, magic)
    told = struct.pack("<BBHQQ", 0x10, 0, END_SECTION, END_ADDRESS, 0)  # behind a name; `_end` is the first
    symbol = data.index(told, data.index(told) + 1)
    data[symbol + 4 : symbol + 12] = struct.pack("<Q", END_ADDRESS - (span[1] - span[0]) + 16)
    assert weights_span(memoryview(data)) == (span[0], span[0] + 16)
    data += bytes(-len(data) % 0x4000)
    start = len(data)
    data += weights + struct.pack("<Q", magic)
    assert weights_span(memoryview(data)) == (start, start + len(weights))


def test_weights_may_be_in_a_file_of_their_own(tmp_path: Path) -> None:
    """What ``aot_inductor.package_constants_on_disk_format = "binary_blob"`` makes."""
    blob = np.arange(48, dtype="<f4").tobytes()
    file = changed("plain", {f"{FOLDER}{PLAIN}_weights.blob": blob}, tmp_path)
    with archive.open(file) as opened:
        assert b"".join(b"".join(opened.tensors.elements(name)) for name in opened.tensors) == blob[:160]
    archive.split(file, tmp_path / "left.pt2", tmp_path / "left.ptdbg")
    assert archive.digest(file).value == archive.digest(tmp_path / "left.pt2").value


@pytest.mark.parametrize("cut", [0, 4, 63, 64, 300, 900])
def test_what_is_no_object_has_no_weights(cut: int) -> None:
    data = member("sources", f"{FOLDER}c4tysgn6fbr6ckg5mfewvbnuafjy4zecddu4wgxqqp2ottscfzbx.weights.o")
    assert weights_span(memoryview(data)) == (0x40, 0x100)
    assert weights_span(memoryview(data[:cut])) is None


def test_a_damaged_object_has_weights_in_it_or_none() -> None:
    whole = member("sources", f"{FOLDER}c4tysgn6fbr6ckg5mfewvbnuafjy4zecddu4wgxqqp2ottscfzbx.weights.o")
    for at in range(len(whole)):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        start, end = weights_span(memoryview(data)) or (0, 0)
        assert 0 <= start <= end <= len(data)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        (b"data_size = 128", b"data_size = 12800", "12,864 bytes of weights, as its code tells, found 192"),
        (b"shape = {6, 4}", b"shape = {6, x}", r"constants_info_\[1\]"),
        (b"constants_info_[1].stride", b"constants_info_[1].strides", r"constants_info_\[1\]: .*stride"),
    ],
)
def test_code_that_contradicts_the_weights_is_told(tmp_path: Path, old: bytes, new: bytes, told: str) -> None:
    code = member("plain", CODE)
    assert code.count(old) == 1
    file = changed("plain", {CODE: code.replace(old, new)}, tmp_path)
    with archive.open(file) as opened, pytest.raises(ArchiveError, match=told):
        list(opened.tensors)


def test_folded_constants_have_no_bytes() -> None:
    code = member("plain", CODE).replace(b"[0].from_folded = false", b"[0].from_folded = true")
    found = list(compiled_constants(memoryview(code), unbounded()))
    assert [(one.name, one.start, one.size) for one in found] == [("rows.weight", 0, 128)]
