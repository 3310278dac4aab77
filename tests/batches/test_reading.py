"""Facts about many files: what comes of each, in their order, whatever becomes of a process."""

from __future__ import annotations

import os
import shutil
import signal
import time
from functools import partial
from pathlib import Path

import pytest

from archive.base.errors import ArchiveError
from archive.batches import reading
from archive.batches.inputs import InputFile
from archive.batches.pool import KILLED
from archive.batches.reading import readings
from archive.reader.recognition import READ_KINDS, FileKind
from tests.support.corpus import KINDS, RELEASES

listing = partial(reading.listing, kinds=READ_KINDS)
needs_kill = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the system kills in another way")


def read(file: InputFile) -> str:
    """Read a file, slowly if it is the first, and not at all if its name is an ending."""
    if file.name == "first":
        time.sleep(0.2)
    if file.name == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if file.name == "refused":
        raise ArchiveError("is refused", file=file.name)
    if file.name == "wrong":
        raise KeyError(file.name)
    return file.name.upper()


@needs_kill
def test_files_come_in_their_order_and_none_is_lost_with_another() -> None:
    names = ["first", "b", "killed"]
    first, second, killed = readings(read, [InputFile(name, name) for name in names], 2)
    assert [one.file for one in (first, second, killed)] == names
    assert (first.facts, second.facts, killed.facts) == ("FIRST", "B", None)
    assert killed.reason == KILLED


def test_an_error_is_told_and_a_fault_of_the_program_is_told_apart() -> None:
    refused, wrong, last = readings(read, [InputFile(name, name) for name in ("refused", "wrong", "last")], 1)
    assert (refused.reason, refused.problem) == ("is refused", "refused: is refused")
    assert not refused.is_internal
    assert wrong.reason.startswith("internal error: KeyError: ")
    assert wrong.is_internal
    assert last.facts == "LAST"


def test_files_are_listed_with_their_paths_below_what_was_searched() -> None:
    folder = RELEASES / "torch-2.13.0"
    found = listing([str(RELEASES), str(folder / "nested.pt")])
    assert InputFile(str(folder / "nested.pt"), "torch-2.13.0/nested.pt") in found.files
    assert len({file.name for file in found.files}) == len(found.files)
    assert not found.searched
    (named,) = listing([str(folder / "nested.pt")]).files
    assert named == InputFile(str(folder / "nested.pt"), "nested.pt")
    globbed = listing([str(RELEASES / "torch-2.*" / "nested.ptl")])
    assert globbed.searched
    assert [Path(file.relative).name for file in globbed.files] == ["nested.ptl"] * len(globbed.files)


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_to_a_folder_is_not_followed_but_told(tmp_path: Path) -> None:
    models, elsewhere = tmp_path / "models", tmp_path / "elsewhere"
    for folder in (models, elsewhere):
        folder.mkdir()
        shutil.copy(RELEASES / "torch-2.13.0" / "nested.pt", folder)
    (models / "linked.pt").symlink_to(models / "nested.pt")
    (models / "circle").symlink_to(models)
    (models / "away").symlink_to(elsewhere)
    found = listing([str(models)])
    assert [file.relative for file in found.files] == ["linked.pt", "nested.pt"]
    assert found.others == {FileKind.LINK: 2}
    assert [file.relative for file in listing([f"{models}/**/*.pt"]).files] == ["linked.pt", "nested.pt"]
    assert listing([f"{models}/**"]).files == found.files
    # Who names the link, or a pattern for its very place, means it.
    assert [file.relative for file in listing([str(models / "away")]).files] == ["nested.pt"]
    assert [file.relative for file in listing([f"{models}/a*/**/*.pt"]).files] == ["away/nested.pt"]


def test_a_file_that_is_named_is_read_though_its_folder_is_searched_and_it_is_no_archive() -> None:
    other = KINDS / "state_dict.pt"
    assert str(other) in [file.name for file in listing([str(KINDS), str(other)]).files]
    assert str(other) not in [file.name for file in listing([str(KINDS)]).files]
