"""What ``leaks`` says of a way out is true: with the options that it names, the finding is gone."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING, Any

import pytest

import archive
from tests.support.canaries import CANARIES, FILES, rewritten
from tests.support.exported import EXPORTED, written
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from pathlib import Path

KINDS, LEGACY, PACKAGE_FOLDER = EXPORTED.parent / "kinds", EXPORTED / "legacy", EXPORTED.parent / "compiled"
OPTIONS: dict[str, dict[str, Any]] = {
    "--paths basename": {"paths": "basename"},
    "--source none": {"text": "none"},
    "--no-inputs": {"inputs": False},
    "--no-extra": {"extra": False},
    "--ids anew": {"ids": "anew"},
}
OF_RECORDS = {"--ids anew", "--no-inputs", "--no-extra"}
"""Ways in which names go, too, that do not count."""
NAMED = re.compile(r"`redact ([^`]+)`")


def ways(found: archive.Leaks) -> set[str]:
    return {way for one in found.findings for way in NAMED.findall(one.remedy)}


def told(found: archive.Leaks, way: str) -> set[tuple[str, str, str]]:
    """The findings, with their records, that are to go by a way."""
    return {
        (one.kind, one.text, place.record)
        for one in found.findings
        if f"`redact {way}`" in one.remedy and (one.kind.counts or way in OF_RECORDS)
        for place in one.places[:1]
    }


@pytest.mark.parametrize(
    "path", sampled(FILES, most=6, by=[lambda path: path.suffix]), ids=lambda path: path.name
)
def test_a_way_out_leads_out(path: Path) -> None:
    before = archive.leaks(path)
    assert ways(before) <= OPTIONS.keys() | {"--names hash", "--map OLD=NEW"}
    for way in ways(before) & OPTIONS.keys():
        out = io.BytesIO()
        archive.redact(path, out, io.BytesIO(), **OPTIONS[way], partial=True)
        after = {
            (one.kind, one.text, place.record)
            for one in archive.leaks(out.getvalue()).findings
            for place in one.places
        }
        assert not told(before, way) & after


@pytest.mark.parametrize("name", ["scripted.pt", "traced.ptl", "exported.pt2"])
def test_a_way_out_of_a_companion_leads_out(name: str) -> None:
    companion = io.BytesIO()
    archive.split(CANARIES / name, io.BytesIO(), companion)
    before = archive.leaks(companion.getvalue())
    assert {"--paths basename"} <= ways(before) <= {"--paths basename", "--source none"}
    for way in ways(before):
        out = io.BytesIO()
        archive.redact_companion(companion.getvalue(), out, **OPTIONS[way], partial=True)
        after = {(one.kind, one.text, "") for one in archive.leaks(out.getvalue()).findings}
        assert told(before, way)
        assert not {(kind, text, "") for kind, text, _ in told(before, way)} & after


def test_what_a_program_computes_with_is_told_to_be_of_the_model() -> None:
    """A key of the outputs, say, which no option takes out."""

    def keyed(record: str, data: bytes) -> bytes:
        if record != "models/model.json":
            return data
        assert b'"out_spec": "[1, {' in data
        return data.replace(b'"out_spec": "[1, {', b'"out_spec": "[1, {\\"/home/ann/key\\": 1, ')

    found = archive.leaks(rewritten((CANARIES / "exported.pt2").read_bytes(), keyed))
    ways = {one.remedy for one in found.findings if one.text == "/home/ann/key"}
    assert ways == {"it is a part of the model: change it in the model's source"}


def remedies_of(source: Path | bytes, kind: str) -> set[str]:
    return {one.remedy for one in archive.leaks(source).findings if one.kind == kind}


PROGRAMS = [CANARIES / "exported.pt2", CANARIES / "record.etrecord", LEGACY / "shop.pt2"]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.name)
def test_names_of_classes_go_from_programs(path: Path) -> None:
    assert remedies_of(path, "class name") == {
        "`redact --names hash` hashes names that loading does not need"
    }
    out = io.BytesIO()
    archive.redact(path, out, io.BytesIO(), names="hash", partial=True)
    before, after = (
        {one.text for one in archive.leaks(source).findings if one.kind == "class name"}
        for source in (path, out.getvalue())
    )
    assert before
    assert not before & after


def test_a_name_in_sample_inputs_goes_with_them() -> None:
    (found,) = (one for one in archive.leaks(CANARIES / "exported.pt2").findings if one.text == "zqkeywordxz")
    assert found.remedy == "`redact --no-inputs` takes them out"


def test_code_beside_its_shared_object_is_taken_out_and_other_code_is_compiled(tmp_path: Path) -> None:
    path = written("compiled", tmp_path)
    assert remedies_of(path, "generated code") == {"`redact --source none` takes it out"}
    out = io.BytesIO()
    archive.redact(path, out, io.BytesIO(), text="none", partial=True)
    assert remedies_of(out.getvalue(), "generated code") == set()
    sources = PACKAGE_FOLDER / "sources.pt2"
    assert remedies_of(sources, "generated code") == {"PyTorch compiles it and runs that"}
    out = io.BytesIO()
    archive.redact(sources, out, io.BytesIO(), text="none", partial=True)
    assert remedies_of(out.getvalue(), "generated code") == {"PyTorch compiles it and runs that"}


SAVED = "it is a part of what was saved: change it there, and save again"


REPLACED = f"`redact --replace VALUE=TEXT` changes it, unless loading needs it; else {SAVED}"


@pytest.mark.parametrize(("kind", "remedy"), [("attribute name", SAVED), ("home path", REPLACED)])
def test_what_was_saved_is_not_said_to_be_in_a_models_source(kind: str, remedy: str) -> None:
    assert remedies_of(CANARIES / "checkpoint.pt", kind) == {remedy}


def test_a_path_that_was_saved_goes_by_its_remedy() -> None:
    out = io.BytesIO()
    archive.redact_checkpoint(CANARIES / "checkpoint.pt", out, replace=["/home/zquserxz/zqfolderxz/=out/"])
    assert remedies_of(out.getvalue(), "home path") == set()


@pytest.mark.parametrize(
    ("name", "kind", "remedy"),
    [
        ("state_dict.pt", "attribute name", SAVED),
        ("object.pt", "attribute name", SAVED),
        ("package.pt", "comment", "it is in a file of the package: change that, and package the model again"),
        ("loose.zip", "id", "it is in a zip of no known kind: change what was zipped, and zip it again"),
    ],
)
def test_each_kind_of_file_has_its_own_way(name: str, kind: str, remedy: str) -> None:
    assert remedies_of(KINDS / name, kind) == {remedy}
