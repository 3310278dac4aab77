"""`diff` and `digest` use one word: the same model has the same digest, and the other way round."""

from __future__ import annotations

import argparse
import io
from itertools import combinations, combinations_with_replacement
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import archive
from archive.compare.changes import TensorChange
from archive.compare.sameness import IGNORABLE, Level
from archive.formats.tensors.dtypes import BITS
from tests.support.corpus import FIXTURES
from tests.support.sampling import examples
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from pathlib import Path

GROUPS = {
    "scripted": [
        "releases/torch-1.10.0/nested.pt",
        "releases/torch-2.4.1/nested.pt",
        "releases/torch-2.13.0/unicode.pt",
    ],
    "lite": [
        "releases/torch-1.13.0/nested.ptl",
        "releases/torch-2.13.0/nested.ptl",
        "releases/torch-2.13.0/unicode.ptl",
    ],
    "checkpoints": ["training/epoch1.pt", "training/epoch2.pt", "kinds/checkpoint.pt"],
    "exported": ["exported/choice.pt2", "exported/choice_decomposed.pt2"],
}


def with_record(path: Path, name: str, data: bytes, target: Path) -> Path:
    """A copy of an archive with another record of a name."""
    with ZipFile(path) as old, ZipFile(target, "w") as new:
        root = old.namelist()[0].partition("/")[0]
        for entry in old.namelist():
            if entry != f"{root}/{name}":
                new.writestr(entry, old.read(entry))
        new.writestr(f"{root}/{name}", data)
    return target


def records_of(data: bytes) -> dict[str, bytes]:
    """The records of an archive."""
    with archive.open(data) as opened:
        return {name: bytes(record.view()) for name, record in opened.records.items()}


@pytest.mark.parametrize("group", GROUPS)
def test_two_files_are_the_same_model_if_and_only_if_their_digests_are_the_same(group: str) -> None:
    paths = [str(FIXTURES / name) for name in GROUPS[group]]
    for old, new in combinations(paths, 2):
        same_digest = str(archive.digest(old)) == str(archive.digest(new))
        assert archive.diff(old, new).same_model == same_digest, (old, new)


@pytest.mark.parametrize("group", GROUPS)
def test_what_is_left_out_changes_no_verdict(group: str) -> None:
    """Of any two files, whichever levels are left out."""
    for old, new in combinations_with_replacement([FIXTURES / name for name in GROUPS[group]], 2):
        whole = archive.diff(old, new)
        for count in range(len(IGNORABLE) + 1):
            for ignored in combinations(IGNORABLE, count):
                rest = whole.without(ignored)
                verdicts = rest.same_model, rest.identical, rest.unchecked
                assert verdicts == (whole.same_model, whole.identical, whole.unchecked)
                assert [*rest.changes] == [row for row in whole.changes if row.level not in ignored]


def test_differences_of_the_model_cannot_be_left_out() -> None:
    old, new = (FIXTURES / name for name in GROUPS["checkpoints"][:2])
    assert not archive.diff(old, new, ignore=list(IGNORABLE)).same_model
    for ignored in (["model"], ["ids", Level.MODEL], list(Level)):
        with pytest.raises(ValueError, match="differences of the model cannot be left out"):
            archive.diff(old, new, ignore=ignored)
    with pytest.raises(ValueError, match="differences of the model"):
        archive.diff(old, new).without([Level.MODEL])
    with pytest.raises(ValueError, match="elements"):
        archive.diff(old, new, ignore=["elements"])


@pytest.mark.parametrize(
    ("fixture", "record"),
    [
        ("releases/torch-2.13.0/nested.pt", "extra/notes.txt"),
        ("releases/torch-2.13.0/traced.pt", "traced_inputs/9"),
        ("exported/choice.pt2", "data/sample_inputs/model.pt"),
    ],
)
def test_what_a_loader_is_given_besides_is_told_and_no_part_of_the_model(
    fixture: str, record: str, tmp_path: Path
) -> None:
    one = with_record(FIXTURES / fixture, record, b"one", tmp_path / "one.pt2")
    two = with_record(FIXTURES / fixture, record, b"another", tmp_path / "two.pt2")

    found = archive.diff(one, two)

    assert [(row.level, row.name) for row in found.changes] == [("extras", record)]
    assert found.same_model
    assert str(archive.digest(one)) == str(archive.digest(two))
    assert not archive.diff(one, two, ignore=["extras"]).changes


def test_an_added_record_that_nothing_knows_is_told_of_the_model(tmp_path: Path) -> None:
    old = FIXTURES / "releases/torch-2.13.0/nested.pt"
    new = with_record(old, "unknown.bin", b"one", tmp_path / "new.pt")

    assert not archive.diff(old, new).same_model
    assert str(archive.digest(old)) != str(archive.digest(new))


def test_weights_of_a_class_of_their_own_are_paired_by_their_names(tmp_path: Path) -> None:
    torch, own = pytest.importorskip("torch"), pytest.importorskip("torch.testing._internal.two_tensor")
    model = torch.nn.Linear(2, 2)
    model.weight = torch.nn.Parameter(own.TwoTensor(model.weight.detach(), model.weight.detach()))
    saved, bare = tmp_path / "saved.pt2", tmp_path / "bare.pt2"
    torch.export.save(torch.export.export(model, (torch.ones(1, 2),)), saved)
    archive.redact(saved, bare, tmp_path / "bare.ptdbg", preset="publish")

    assert "weight" not in archive.open(saved).tensors
    assert archive.diff(saved, bare).same_model
    assert str(archive.digest(saved)) == str(archive.digest(bare))


@pytest.mark.parametrize("ending", ["pt", "ptl"])
def test_another_version_of_operators_is_another_model(ending: str, tmp_path: Path) -> None:
    old = FIXTURES / f"releases/torch-2.13.0/nested.{ending}"
    same, other = (
        with_record(old, "version", data, tmp_path / f"{len(data)}.{ending}") for data in (b"3", b"4\n")
    )

    assert archive.diff(old, same).same_model
    assert str(archive.digest(old)) == str(archive.digest(same))
    assert [row.name for row in archive.diff(old, other).changes if row.level == "model"] == ["version"]
    assert str(archive.digest(old)) != str(archive.digest(other))


def test_storages_count_that_tensors_share_when_they_are_loaded() -> None:
    """The lite interpreter and ``torch.jit.load`` say which: they run what changes a constant in place."""
    torch = pytest.importorskip("torch")
    from torch.jit.mobile import _load_for_lite_interpreter  # noqa: PLC0415 (where there is PyTorch)

    def lite(*, shared: bool) -> bytes:
        first = torch.ones(2)
        second = first[:1] if shared else first[:1].clone()

        class Model(torch.nn.Module):  # type: ignore[name-defined]
            def forward(self, x: object) -> object:
                return x + first.mul_(2) + second

        traced = torch.jit.trace(Model(), torch.ones(2), check_trace=False)
        first.fill_(1)
        return bytes(traced._save_to_buffer_for_lite_interpreter())

    def results(data: bytes) -> list[list[float]]:
        models = _load_for_lite_interpreter(io.BytesIO(data)), torch.jit.load(io.BytesIO(data))
        return [model(torch.ones(2)).tolist() for model in models]

    own, shared = lite(shared=False), lite(shared=True)
    mine, theirs = records_of(own), records_of(shared)
    copy, second = "constants/9.storage", "constants/2.storage"
    rewritten = mine["bytecode.pkl"].replace(b"0.storage", b"9.storage")
    files = {
        "own": own,
        "shared": shared,
        "methods' own": tampered(own, {"bytecode.pkl": rewritten, copy: mine["constants/0.storage"]}),
        "shared by methods": tampered(shared, {"constants.pkl": mine["constants.pkl"], second: mine[second]}),
        "shared by code": tampered(own, {"constants.pkl": theirs["constants.pkl"]}),
    }
    for (one, old), (another, new) in combinations(files.items(), 2):
        is_same = results(old) == results(new)
        assert archive.diff(old, new).same_model is is_same, (one, another)
        assert (archive.digest(old).value == archive.digest(new).value) is is_same, (one, another)
    assert len({str(results(file)) for file in files.values()}) == 4


def test_storages_strides_and_devices_count_for_both_or_for_neither() -> None:
    torch = pytest.importorskip("torch")
    base, zeros = torch.arange(8.0), torch.zeros(8)
    pair = base.reshape(2, 4)[:, None, :2]

    def saved(value: object, device: bytes = b"cpu") -> bytes:
        file = io.BytesIO()
        torch.save(value, file)
        return tampered(file.getvalue(), {"data.pkl": lambda data: data.replace(b"cpu", device)})

    cases = {
        "halves of a storage": (saved([base[:4], base[4:]]), saved([base[:4].clone(), base[4:].clone()])),
        "overlapping parts": (saved([base[:5], base[4:]]), saved([base[:5].clone(), base[4:].clone()])),
        "parts that overlap elsewhere": (saved([zeros[:4], zeros[1:5]]), saved([zeros[:4], zeros[2:6]])),
        "a stride of one element": (saved(pair), saved(pair.as_strided((2, 1, 2), (4, 1, 1)))),
        "other strides": (saved(zeros.reshape(2, 4)), saved(zeros.reshape(4, 2).t())),
        "another device": (saved(base), saved(base, b"gpu")),
    }
    same = {"halves of a storage", "a stride of one element", "another device"}
    for name, (old, new) in cases.items():
        diff = archive.diff(old, new)
        assert (archive.digest(old).value == archive.digest(new).value) is (name in same), name
        assert diff.same_model is (name in same), name
        assert diff.changes, name


def test_what_tensors_and_keys_are_besides_counts_for_both() -> None:
    torch = pytest.importorskip("torch")

    def with_attribute(tensor: object, value: object) -> object:
        tensor.note = value  # type: ignore[attr-defined]
        return tensor

    def saved(value: object) -> bytes:
        file = io.BytesIO()
        torch.save({"net": value}, file)
        return file.getvalue()

    def module(tensor: object) -> object:
        made = torch.nn.ReLU()
        made.mask = tensor
        return made

    ones, four = torch.ones(2), torch.ones(4)
    objects = [argparse.Namespace(tensor=torch.ones(1)) for _ in range(9)]
    cases = {
        "no attribute": (ones, with_attribute(torch.ones(2), "a")),
        "another attribute": tuple(with_attribute(torch.ones(2), note) for note in "ab"),
        "of a parameter": tuple(with_attribute(torch.nn.Parameter(torch.ones(2)), note) for note in "ab"),
        "a tensor of another shape": tuple(
            with_attribute(torch.ones(2), tensor) for tensor in (four, four.reshape(2, 2))
        ),
        "of a module, another shape": (module(four), module(four.reshape(2, 2))),
        "a number for a text": ({"1": ones}, {1: ones}),
        "a text for a number, of others": ({1: ones, "a": 0}, {"a": 0, "1": ones}),
        "the last of many objects": (
            [*objects, argparse.Namespace(tensor=four)],
            [*objects, argparse.Namespace(tensor=four.reshape(2, 2))],
        ),
    }
    for name, pair in cases.items():
        old, new = map(saved, pair)
        assert archive.digest(old).value != archive.digest(new).value, name
        assert not archive.diff(old, new).same_model, name
        assert archive.diff(old, saved(pair[0])).same_model, name


@pytest.mark.parametrize("dtype", BITS)
def test_elements_that_are_no_numbers_are_compared_by_their_bits(dtype: str) -> None:
    torch = pytest.importorskip("torch")

    def saved(numbers: list[int], *, is_zip: bool = True) -> bytes:
        elements = torch.tensor(numbers, dtype=torch.uint8).view(getattr(torch, dtype))
        file = io.BytesIO()
        torch.save({"w": elements.reshape(2, -1).t()}, file, _use_new_zipfile_serialization=is_zip)
        return file.getvalue()

    old, new = saved([1, 2, 3, 4, 5, 6, 7, 8]), saved([1, 2, 3, 4, 5, 6, 7, 11])
    (row,) = (row for row in archive.diff(old, new).changes if isinstance(row, TensorChange))
    assert (row.name, row.count, row.changed, row.bits, row.max_abs) == ("w", 8 // BITS[dtype], 1, 2, None)
    assert archive.digest(old).value != archive.digest(new).value
    digests = {
        archive.digest(file, of="weights").value for file in (old, saved([*range(1, 9)], is_zip=False))
    }
    assert len(digests) == 1


def test_classes_of_modules_that_stand_with_their_source_are_compared_by_name() -> None:
    torch = pytest.importorskip("torch")

    def saved(module: object) -> bytes:
        file = io.BytesIO()
        torch.save(module, file, _use_new_zipfile_serialization=False)
        return file.getvalue()

    old = saved(torch.nn.Dropout(0.1))
    changes = archive.diff(old, saved(torch.nn.Dropout(0.2))).changes
    assert [(row.name, row.old, row.new) for row in changes] == [("p", "0.1", "0.2")]
    row = archive.diff(old, saved(torch.nn.Dropout2d(0.1))).changes[0]
    kinds = "an object of torch.nn.modules.dropout.Dropout", "of torch.nn.modules.dropout.Dropout2d"
    assert (row.old, row.new) == kinds


LAYOUTS = st.tuples(st.tuples(*2 * [st.integers(1, 3)]), st.tuples(*2 * [st.integers(0, 5)]))
"""Shapes and strides of two dimensions."""


@settings(max_examples=examples(100), deadline=None)
@given(layout=LAYOUTS, strides=st.tuples(*2 * [st.integers(0, 5)]))
@example(layout=((1, 4), (4, 1)), strides=(7, 1))
def test_of_overlapping_tensors_those_strides_count_that_count_alone(
    layout: tuple[tuple[int, ...], tuple[int, ...]], strides: tuple[int, ...]
) -> None:
    torch = pytest.importorskip("torch")
    shape, before = layout

    def saved(strides: tuple[int, ...], *, overlapping: bool) -> bytes:
        file, base = io.BytesIO(), torch.zeros(32)
        tensor = base.as_strided(shape, strides)
        torch.save([tensor, base] if overlapping else tensor, file)
        return file.getvalue()

    count = any(size > 1 and old != new for size, old, new in zip(shape, before, strides, strict=True))
    for overlapping in (False, True):
        old, new = (saved(each, overlapping=overlapping) for each in (before, strides))
        diff = archive.diff(old, new)
        assert diff.same_model is not count
        assert (archive.digest(old).value == archive.digest(new).value) is not count
