"""``debug-archive diff``: text, JSON, folders, companions, exit status."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import archive
from tests.support.commands import called
from tests.support.corpus import RELEASES
from tests.support.documents import file_of, files_of
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from pathlib import Path

NEW = RELEASES / "torch-2.13.0"
NESTED = NEW / "nested.pt"


@pytest.fixture
def edited(tmp_path: Path) -> Path:
    """``nested.pt`` with another bit in a weight."""
    path = tmp_path / "edited.pt"
    path.write_bytes(tampered(NESTED, {"data/0": lambda data: bytes([data[0] ^ 1]) + data[1:]}))
    return path


def test_the_exit_status_is_that_of_diff(edited: Path, tmp_path: Path) -> None:
    other = NEW / "nested-nostringtable.pt"
    assert called("diff", NESTED, NESTED).exit_code == 0
    assert called("diff", NESTED, edited).exit_code == 1
    assert called("diff", NESTED, other).exit_code == 1
    assert called("diff", NESTED, other, "--ignore", "ids", "--ignore", "layout").exit_code == 0
    (tmp_path / "text.txt").write_text("no archive", encoding="utf-8")
    for unread in ("text.txt", "none.pt"):
        assert called("diff", NESTED, tmp_path / unread).exit_code != 0


def test_the_text_ends_with_what_may_be_concluded(edited: Path) -> None:
    assert called("diff", NESTED, NESTED).stdout.splitlines()[-1] == "identical, to the byte"
    done = called("diff", NESTED, edited)
    assert "~ tensor first.w: 1 of 12 elements differ, 1 bit; max abs " in done.stdout
    assert done.stdout.splitlines()[-1].startswith("differences: 1 of model")
    assert "\x1b" not in done.stdout
    same = called("diff", NESTED, NEW / "nested-nostringtable.pt").stdout
    assert same.splitlines()[-1].startswith("same model; differences: ")


def test_rows_and_lines_are_limited() -> None:
    old, new = NEW / "nested.ptl", NEW / "traced.ptl"
    short, whole = (called("diff", old, new, "-n", rows).stdout for rows in (1, 0))
    assert "more difference" in short
    assert "-n 0 shows all" not in whole
    assert len(whole.splitlines()) > len(short.splitlines())
    assert "@@" not in called("diff", old, new, "--stat").stdout


def test_json_has_all_facts(edited: Path) -> None:
    facts = file_of(called("diff", NESTED, edited, "--json").stdout)
    assert (facts["identical"], facts["same_model"], facts["unchecked"]) == (False, False, [])
    change = next(one for one in facts["changes"] if one["level"] == "model")
    assert (change["what"], change["name"], change["changed"], change["bits"]) == ("tensor", "first.w", 1, 1)


def test_folders_are_compared_by_relative_path(edited: Path, tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for folder in (old, new):
        (folder / "in").mkdir(parents=True)
        shutil.copy(NESTED, folder / "same.pt")
    shutil.copy(NESTED, old / "in" / "edited.pt")
    shutil.copy(edited, new / "in" / "edited.pt")
    shutil.copy(NESTED, old / "gone.pt")
    shutil.copy(NESTED, new / "came.pt")
    done = called("diff", old, new, "--stat", "--ignore", "ids", "--ignore", "layout")
    assert done.exit_code == 1
    assert sorted(done.stdout.splitlines()) == [
        "came.pt: added",
        "gone.pt: gone",
        "in/edited.pt: differences: 1 of model",
        "same.pt: identical, to the byte",
    ]
    facts = files_of(called("diff", old, new, "--json").stdout)
    assert {one["file"]: one.get("status") for one in facts} == {
        "gone.pt": "gone",
        "in/edited.pt": None,
        "same.pt": None,
        "came.pt": "added",
    }
    assert called("diff", old, NESTED).exit_code == 2


def test_a_companion_goes_to_the_file_that_it_is_of(tmp_path: Path) -> None:
    lite, small, companion = NEW / "nested.ptl", tmp_path / "small.ptl", tmp_path / "small.ptdbg"
    archive.split(lite, small, companion)
    ignored = ("--ignore", "ids", "--ignore", "layout", "--ignore", "format")
    assert called("diff", lite, small, *ignored).exit_code == 1
    done = called("diff", lite, small, "-c", companion, *ignored)
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (
        0,
        "same model; none of the differences asked for",
    )
    assert called("diff", NESTED, NEW / "traced.pt", "-c", companion).exit_code != 0
