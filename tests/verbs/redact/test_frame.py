"""What a redaction takes out of the model's own records is in the companion, which is found by both ids."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pytest

import archive
from archive.store.store import Store
from tests.support.commands import run
from tests.support.corpus import FIXTURES
from tests.support.exported import EXPORTED

if TYPE_CHECKING:
    from pathlib import Path

SHOP = EXPORTED / "shop.pt2"


@pytest.fixture
def published(tmp_path: Path) -> tuple[Path, Path, Any]:
    out, companion = tmp_path / "public.pt2", tmp_path / "private.ptdbg"
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
    with Store.open(tmp_path / "store", create=True) as store:
        store.add(companion)
        for word in (facts.archive_id, facts.redacted_id, facts.redacted_id[:8]):
            assert [one.archive_id for one in store.find(word)] == [facts.archive_id]


def test_a_companion_of_another_model_is_refused_with_both_ids(published: tuple[Path, Path, Any]) -> None:
    _, companion, facts = published
    with pytest.raises(archive.ArchiveError, match=f"{facts.archive_id} or {facts.redacted_id}"):
        archive.open(EXPORTED / "several.pt2", companion=companion)


EMBEDDED = FIXTURES / "frozen" / "v1" / "embedded" / "torch-1.9.0_nested.ptl"


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
    assert (facts.left, "extra/effects.pkl" in facts.rewritten) == ((), True)
    with archive.open(out) as after:
        assert "'reporting.py'" in repr(after.effects)
        assert "models/" not in repr(after.effects)
