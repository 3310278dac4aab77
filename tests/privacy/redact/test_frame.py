"""What a redaction takes out of the model's own records is in the companion, which is found by both ids."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.companion.build import build_companion
from archive.reader.collect import collect
from archive.reader.facts import facts_of
from archive.reader.recognition import ZIP_KINDS
from archive.store.store import Store
from tests.support.commands import run
from tests.support.corpus import FIXTURES
from tests.support.exported import EXPORTED

if TYPE_CHECKING:
    from pathlib import Path

SHOP = EXPORTED / "shop.pt2"


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Any]:
    folder = tmp_path_factory.mktemp("published")
    out, companion = folder / "public.pt2", folder / "private.ptdbg"
    return out, companion, archive.redact(SHOP, out, companion, preset="publish", partial=True)


def test_inputs_and_root_go_and_a_join_gives_them_back(published: tuple[Path, Path, Any]) -> None:
    out, companion, facts = published
    assert facts.gone == ("data/sample_inputs/model.pt",)
    assert facts.redacted_id != facts.archive_id
    with archive.open(out) as after, archive.open(SHOP) as before:
        assert (after.root, after.archive_id.hex()) == ("archive", facts.redacted_id)
        assert after.records["data/sample_inputs/model.pt"].size == 0
        assert before.archive_id.hex() == facts.archive_id
    back = io.BytesIO()
    assert archive.join(out, companion, back).exact
    assert back.getvalue() == SHOP.read_bytes()


def test_the_companion_is_found_by_either_id(published: tuple[Path, Path, Any], tmp_path: Path) -> None:
    out, companion, facts = published
    told = run("symbolicate", SHOP, "linear_1").stdout
    assert b"price" in told
    assert run("symbolicate", out, "-c", companion, "linear_1").stdout == told
    assert run("symbolicate", SHOP, "-c", companion, "linear_1").stdout == told
    sentence = f"companion of archive {facts.archive_id}, redacted {facts.redacted_id}"
    assert sentence.encode() in run("inspect", companion).stdout
    with Store.open(tmp_path / "store", create=True) as store:
        store.add(companion)
        for word in (facts.archive_id, facts.redacted_id, facts.redacted_id[:8]):
            assert [one.archive_id for one in store.find(word)] == [facts.archive_id]


def test_a_companion_of_another_model_is_refused_with_both_ids(published: tuple[Path, Path, Any]) -> None:
    _, companion, facts = published
    with pytest.raises(archive.ArchiveError, match=f"{facts.archive_id} or {facts.redacted_id}"):
        archive.open(EXPORTED / "several.pt2", companion=companion)


EMBEDDED = FIXTURES / "frozen" / "v2" / "embedded" / "torch-1.9.0_nested.ptl"


def test_an_embedded_companion_goes_and_is_what_the_new_one_explains_by(tmp_path: Path) -> None:
    out, companion, back = (tmp_path / name for name in ("out.ptl", "private.ptdbg", "back.ptl"))
    facts = archive.redact(EMBEDDED, out, companion, paths="basename", text="none")
    assert facts.gone == ("extra/debug.ptdbg",)
    assert run("symbolicate", out, "-c", companion, 10).stdout == run("symbolicate", EMBEDDED, 10).stdout
    assert b"/src/models.py" in run("symbolicate", EMBEDDED, 10).stdout
    archive.join(out, companion, back)
    with archive.open(EMBEDDED) as before, archive.open(back) as after:
        there = after.container.records
        assert {name: bytes(one.view()) for name, one in before.container.records.items()} == {
            name: bytes(one.view()) for name, one in there.items()
        }


def test_paths_in_effects_go_as_those_of_source_ranges_do(tmp_path: Path) -> None:
    path, out = FIXTURES / "effects" / "reporting.pt", tmp_path / "out.pt"
    with archive.open(path) as before:
        assert "models/reporting.py" in repr(before.effects)
    facts = archive.redact(path, out, tmp_path / "c", paths="basename")
    assert (facts.is_clean, "extra/effects.pkl" in facts.rewritten) == (True, True)
    with archive.open(out) as after:
        assert "'reporting.py'" in repr(after.effects)
        assert "models/" not in repr(after.effects)


@pytest.mark.parametrize("name", ["checkpoint.pt", "state_dict.pt", "module.pt", "object.pt", "tensor.pt"])
def test_of_what_torch_save_writes_root_and_dates_go(name: str) -> None:
    path = FIXTURES / "kinds" / name
    out, companion, back = io.BytesIO(), io.BytesIO(), io.BytesIO()
    facts = archive.redact(path, out, companion, preset="publish")
    assert (facts.archive_id, facts.rewritten, facts.gone, facts.refused) == (facts.redacted_id, (), (), ())
    with archive.open(out.getvalue(), kinds=ZIP_KINDS) as after:
        assert after.root == "archive"
        assert {record.entry.modified for record in after.container.records.values()} == {0}
    assert archive.join(out.getvalue(), companion.getvalue(), back).exact
    assert back.getvalue() == path.read_bytes()


def test_what_a_checkpoint_still_tells_is_refused_with_its_place(tmp_path: Path) -> None:
    with pytest.raises(
        archive.ArchiveError,
        match=r"would be left: path .*zqoutputxz in data.pkl, user name zquserxz in data.pkl;",
    ):
        archive.redact(
            FIXTURES / "canaries" / "checkpoint.pt", tmp_path / "out", tmp_path / "c", preset="publish"
        )
    assert list(tmp_path.iterdir()) == []


def test_dates_stay_where_that_is_asked_for(tmp_path: Path) -> None:
    path, out = FIXTURES / "releases" / "torch-1.2.0" / "traced.pt", tmp_path / "out.pt"
    with archive.open(path) as before:
        dates = [record.entry.modified for record in before.container.records.values()]
    assert any(dates)
    archive.redact(path, out, tmp_path / "c", paths="basename", times="keep")
    with archive.open(out) as after:
        assert [record.entry.modified for record in after.container.records.values()] == dates
    archive.redact(path, out, tmp_path / "c", paths="basename", force=True)
    with archive.open(out) as after:
        assert {record.entry.modified for record in after.container.records.values()} == {0}


@pytest.mark.parametrize("digits", [b"", b"x", b"f" * 31, b"F" * 32, b"f" * 33])
def test_an_id_that_is_none_is_refused_with_its_place(digits: bytes, tmp_path: Path) -> None:
    path = tmp_path / "lying.ptdbg"
    with archive.open(SHOP) as opened:
        contents = collect(opened).with_strings({"file.redacted": [digits]})
        path.write_bytes(build_companion(contents))
    other = EXPORTED / "several.pt2"
    for ask in (lambda: archive.open(other, companion=path), lambda: facts_of(archive.open(path))):
        with pytest.raises(archive.ArchiveError, match=r"file.redacted: expected 32 hexadecimal digits"):
            ask()


def test_names_of_records_that_were_redacted_lead_to_those_of_the_original(tmp_path: Path) -> None:
    path, out, companion = FIXTURES / "canaries" / "scripted.pt", tmp_path / "out.pt", tmp_path / "c"
    archive.redact(path, out, companion, names="hash")
    with archive.open(path) as before, archive.open(out) as after:
        assert after.container.records.keys() != before.container.records.keys()
        with archive.open(out, companion=companion) as both:
            assert both.records.keys() - {"extra/zqextranamexz.txt"} >= before.records.keys() - {
                ".data/serialization_id",
                "extra/zqextranamexz.txt",
            }
            assert both.records.keys() & (after.records.keys() - before.records.keys()) == set()
