"""PyTorch takes what was split: it runs, and what it reports on failures is explained by the companion."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

import archive
from archive.formats.record_kinds import RecordKind, kind_of
from archive.rewrite.shrink import shrink
from archive.rewrite.split import split
from tests.support.halves import halves, split_companion
from tests.support.reports import explained

pytest.importorskip("torch", exc_type=ImportError)

import torch

from tests.support.sampling import sampled
from tests.support.torch_oracles import (
    CURRENT,
    Call,
    answers,
    cases,
    clean,
    failure,
    have_backends,
    loaded,
    result,
)

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

MADE = {
    made["file"]: made["case"] for made in json.loads((CURRENT / "made.json").read_text("utf-8"))["files"]
}
NOT_FOUND = ", was not found.\n"


def split_to(folder: Path, path: Path) -> Path:
    """What is left of an archive, under the archive's own name."""
    left = folder / path.name
    left.write_bytes(halves(path).out)
    return left


@pytest.mark.parametrize("file", sampled(MADE))
def test_pytorch_runs_what_is_left_with_the_same_results(file: str, tmp_path: Path) -> None:
    have_backends()
    left = split_to(tmp_path, CURRENT / file)
    ours, theirs = result(left, MADE[file]), result(CURRENT / file, MADE[file])
    assert isinstance(theirs, Exception) == ("lowered" in file)
    assert same_results(ours, theirs)


def same_results(ours: object, theirs: object) -> bool:
    if isinstance(theirs, Exception):  # the demo backend returns one value for each operator
        return clean(str(ours)).splitlines()[0] == clean(str(theirs)).splitlines()[0]
    return torch.equal(ours, theirs) if isinstance(theirs, torch.Tensor) else ours == theirs


def some(calls: tuple[Call, ...]) -> pytest.MarkDecorator:
    """Parametrise a test by some calls."""
    named = {f"{call.path.name}-{call.method}-{number}": call for number, call in enumerate(calls)}
    taken = sampled(named)
    return pytest.mark.parametrize("call", [named[name] for name in taken], ids=taken)


@some(cases())
def test_failures_of_what_is_left_are_explained_by_the_companion(call: Call, tmp_path: Path) -> None:
    have_backends()
    report = failure(split_to(tmp_path, call.path), call.method, call.arguments)
    assert report != call.error
    if call.path.suffix == ".ptl":
        assert NOT_FOUND in report
        assert "debug_handles:{" in report
        assert "{-1}" not in report
    assert_explained(report, call)


@some(answers())
def test_failures_are_explained_as_they_were_when_the_archive_was_made(call: Call, tmp_path: Path) -> None:
    have_backends()
    report = failure(split_to(tmp_path, call.path), call.method, call.arguments)
    assert_explained(report, call)


def assert_explained(report: str, call: Call) -> None:
    out, companion, _ = halves(call.path)
    known = "nodebug" not in call.path.name
    with archive.open(companion) as alone, archive.open(out, companion=companion) as both:
        for opened in (alone, both):
            said = explained(report.encode(), opened)
            assert (said.text.decode(), said.explained, said.unknown) == (call.error, known, not known)


def test_there_are_as_many_calls_as_ever() -> None:
    assert (len(cases()), len(answers())) == (34, 33)


def test_without_handles_the_lite_interpreter_has_none_to_report(tmp_path: Path) -> None:
    path = CURRENT / "nested.ptl"
    left = tmp_path / "nested.ptl"
    split(path, left, tmp_path / "m.ptdbg", handles="drop")
    report = failure(left, "forward", (torch.ones(2, 5),))
    assert "debug_handles:{-1}, was not found." in report


@pytest.mark.parametrize("file", ["nested.pt", "nested.ptl", "consts.pt"])
def test_tensors_of_what_is_left_lie_where_pytorch_would_map_them(file: str, tmp_path: Path) -> None:
    left = split_to(tmp_path, CURRENT / file)
    reader = torch._C.PyTorchFileReader(str(left))
    mapped = torch.UntypedStorage.from_file(str(left), shared=False, nbytes=left.stat().st_size)
    with archive.open(left) as opened:
        tensors = [
            r for r in opened.container.records.values() if kind_of(r.name) is RecordKind.TENSOR and r.size
        ]
        for record in tensors:
            offset = reader.get_record_offset(record.name)
            assert (offset, offset % 64) == (record.place.data, 0)
            assert bytes(mapped[offset : offset + record.size].tolist()) == bytes(record.view())
    assert tensors


def test_pytorch_reads_every_record_of_what_is_left(tmp_path: Path) -> None:
    for file in MADE:
        left = split_to(tmp_path, CURRENT / file)
        reader = torch._C.PyTorchFileReader(str(left))
        with archive.open(left) as opened:
            assert set(reader.get_all_records()) == set(opened.records)
            for name, record in opened.records.items():
                assert reader.get_record(name) == bytes(record.view())


def test_what_pytorch_saves_again_can_be_split_again(tmp_path: Path) -> None:
    left = split_to(tmp_path, CURRENT / "nested.pt")
    again = tmp_path / "again.pt"
    loaded(left).save(str(again))  # type: ignore[attr-defined]
    with archive.open(again) as opened:
        assert opened.range_records  # ranges in the generated code of what was left
    assert halves(again.read_bytes()).said.exact


# --- embedded companions


def embed_to(folder: Path, path: Path) -> Path:
    """The archive with an embedded companion, under its own name."""
    small = folder / path.name
    shrink(path, small, level="embed")
    return small


@pytest.mark.parametrize("file", sampled(MADE))
def test_pytorch_runs_archives_with_an_embedded_companion(file: str, tmp_path: Path) -> None:
    have_backends()
    small = embed_to(tmp_path, CURRENT / file)
    ours, theirs = result(small, MADE[file]), result(CURRENT / file, MADE[file])
    assert same_results(ours, theirs)


@pytest.mark.parametrize("file", ["nested.pt", "traced.pt", "unicode.pt", "frozen.pt", "nested.ptl"])
def test_pytorch_hands_out_an_embedded_companion(file: str, tmp_path: Path) -> None:
    small = embed_to(tmp_path, CURRENT / file)
    extra = {"debug.ptdbg": ""}
    torch.jit.load(str(small), _extra_files=extra)
    companion = extra["debug.ptdbg"]
    assert isinstance(companion, bytes)
    assert companion == split_companion(CURRENT / file, "drop" if file.endswith(".ptl") else None)
    with archive.open(companion) as handed, archive.open(CURRENT / file) as before:
        assert dict(handed.generations) == {
            name: layout for name, layout in before.generations.items() if kind_of(name).is_debug
        }


@some(answers()[::4])
def test_failures_of_an_archive_are_explained_by_what_is_embedded(call: Call, tmp_path: Path) -> None:
    have_backends()
    small = tmp_path / call.path.name
    lite = call.path.suffix == ".ptl" and "nodebug" not in call.path.name
    shrink(call.path, small, level="embed", handles="keep" if lite else None)
    report = failure(small, call.method, call.arguments)
    with archive.open(small) as opened:
        said = explained(report.encode(), opened)
    assert said.text.decode() == call.error
