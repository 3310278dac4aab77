"""What is made of an archive that verification calls well is well, too: by each verb, whatever is in it.

Well is what has no error, and no warning of a kind that was not there before.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.base.errors import ArchiveError
from archive.check.verify import verify
from tests.support.corpus import ARCHIVES, CALLSTACKS, FIXTURES, REFUSED
from tests.support.halves import BARE
from tests.support.migrations import MODERN
from tests.support.sampling import examples, sampled
from tests.support.strategies import archives, patient

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.strategies import Made

LAYOUTS = ["pair-rows", "inline-rows", "string-table"]
TARGETS = ["1.4", "1.5", "1.6", "1.8", "1.9", "1.11", "2.0", "2.13", *LAYOUTS]
"""A release of each era."""
TAGS = "tag of a source range"
VALUES = re.compile(r"\d[\d,]*|'[^']*'|None|inside of the code")


def kinds(data: bytes | Path) -> set[str]:
    """The kinds of errors and warnings that verification finds, without the values in them."""
    found = [one for one in verify(data) if one.severity != "note"]
    return {f"{one.severity}: {VALUES.sub('#', one.message)}" for one in found}


def subjects(data: bytes | Path) -> set[str]:
    """The same, where all about tags of no source range is one thing: of a record, and of its rows.

    Another layout cuts a text at other places, so the reason why it is not UTF-8 is another one.
    """
    found = {kind.partition(" (")[0] if "expected UTF-" in kind else kind for kind in kinds(data)}
    return {TAGS if TAGS in kind or "source range map" in kind else kind for kind in found}


def made_of(path: Path, folder: Path) -> dict[str, bytes]:
    """What split and shrink, and their inverses join and restore, make of an archive with debug info."""
    out, companion = folder / "out", folder / "out.ptdbg"
    made = {}
    archive.split(path, out, companion, force=True)
    made["split"] = out.read_bytes()
    archive.join(out, companion, folder / "back", force=True)
    made["join"] = (folder / "back").read_bytes()
    for level in ("compact", "embed"):
        archive.shrink(path, out, level=level, force=True)
        made[level] = out.read_bytes()
    archive.restore(out, folder / "back", force=True)
    return {**made, "restore": (folder / "back").read_bytes()}


def test_what_is_made_smaller_of_real_archives_is_well(tmp_path: Path) -> None:
    for path in sampled(ARCHIVES, by=[lambda path: path.parent.name]):
        archive.shrink(path, tmp_path / "out", force=True)
        assert kinds(tmp_path / "out") == set(), path


def test_what_is_made_of_real_archives_is_well_or_as_it_was(tmp_path: Path) -> None:
    for path in sampled([path for path in ARCHIVES if path.parent.name != BARE][::5], most=5):
        original = path.read_bytes()
        for how, data in made_of(path, tmp_path).items():
            assert data == original if how in {"join", "restore"} else kinds(data) == set(), (path, how)


@pytest.mark.parametrize("target", TARGETS)
def test_what_real_archives_are_migrated_to_is_well_and_comes_back_to_the_byte(target: str) -> None:
    modern = sampled(MODERN[TARGETS.index(target) :: len(TARGETS)], most=1)
    for path in [*modern, FIXTURES / "effects" / "counting.pt"]:
        there = archive.migrate(path, to=target, lossy=True).data
        assert kinds(there) == set(), path
        assert archive.migrate(there, to="original").data == path.read_bytes(), path


def test_what_rewrites_the_records_of_one_that_pytorch_refuses_makes_it_well(tmp_path: Path) -> None:
    made = made_of(REFUSED, tmp_path)
    assert kinds(made["split"]) == kinds(made["compact"]) == set()
    assert made["join"] == made["restore"] == REFUSED.read_bytes()
    told = [str(one) for one in verify(made["embed"]) if "refuses it" in one.message]
    assert [one.partition(" refuses it")[0] for one in told] == [
        f"{CALLSTACKS}: restored, PyTorch 2.13's lite interpreter"
    ]
    for target in sampled(TARGETS):
        assert kinds(archive.migrate(REFUSED, to=target, lossy=True).data) == set(), target


@given(made=archives())
@settings(patient, max_examples=examples(20))
def test_what_is_made_of_an_archive_of_any_content_has_nothing_new(
    made: Made, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("made")
    path = folder / "in"
    path.write_bytes(made.data)
    before = subjects(path)
    for how, data in made_of(path, folder).items():
        assert {kind.replace("restored, ", "") for kind in subjects(data)} <= before, how


@given(made=archives(), target=st.sampled_from(TARGETS))
@settings(patient, max_examples=examples(40))
def test_what_an_archive_of_any_content_is_migrated_to_has_nothing_new(made: Made, target: str) -> None:
    try:
        there = archive.migrate(made.data, to=target, lossy=True).data
    except ArchiveError as error:
        assert "tags: expected up to" in str(error)  # noqa: PT017 (the one thing that may be)
    else:
        assert subjects(there) <= subjects(made.data)
