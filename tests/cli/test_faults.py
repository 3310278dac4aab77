"""Whatever stops the writing, and whenever: nothing is lost, and nothing is half written."""

from __future__ import annotations

import json
import subprocess
import sys
from operator import itemgetter
from pathlib import Path

import pytest

from archive import ArchiveError
from archive.io.drafts import DRAFT_NAME
from archive.rewrite.join import join
from archive.rewrite.split import split
from tests.support.corpus import RELEASES
from tests.support.faults import VERBS, calls_to_strike, contents, failing, fill, full_disk
from tests.support.sampling import sampled

ROOT = Path(__file__).resolve().parents[2]
NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
OLD = b"what stood here before"
WAYS = [(verb, force) for verb in VERBS for force in (False, True) if force or "in place" not in verb]
"""Verbs, each with and without replacing files."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the verbs' inputs."""
    fill(tmp_path, NESTED)
    return tmp_path


def occupy(folder: Path, verb: str) -> dict[str, str]:
    """Make all targets of a verb exist, and return the folder's contents."""
    for name in VERBS[verb].targets:
        if not (folder / name).exists():
            (folder / name).write_bytes(OLD)
    return contents(folder)


# --- targets


@pytest.mark.parametrize(
    ("verb", "name"),
    [(verb, name) for verb, (_, targets) in VERBS.items() if "place" not in verb for name in targets],
)
def test_an_existing_file_is_not_replaced_unasked(verb: str, name: str, folder: Path) -> None:
    (folder / name).write_bytes(OLD)
    before = contents(folder)
    with pytest.raises(ArchiveError, match=r"the file exists; pass --force to replace it"):
        VERBS[verb].run(folder, False)  # noqa: FBT003
    assert contents(folder) == before


@pytest.mark.parametrize("verb", VERBS)
def test_existing_files_are_replaced_when_asked(verb: str, folder: Path) -> None:
    VERBS[verb].run(folder, False)  # noqa: FBT003
    expected = contents(folder)
    (folder / "whole.ptl").write_bytes(NESTED.read_bytes())
    for name in set(VERBS[verb].targets) - {"whole.ptl"}:
        (folder / name).write_bytes(OLD)
    VERBS[verb].run(folder, True)  # noqa: FBT003
    assert contents(folder) == expected


@pytest.mark.parametrize("verb", VERBS)
def test_replaced_files_keep_their_permissions(verb: str, folder: Path) -> None:
    occupy(folder, verb)
    for name in VERBS[verb].targets:
        (folder / name).chmod(0o640)
    VERBS[verb].run(folder, True)  # noqa: FBT003
    assert {(folder / name).stat().st_mode & 0o777 for name in VERBS[verb].targets} == {0o640}


def test_a_folder_that_is_not_there_is_an_error_of_the_system(folder: Path) -> None:
    before = contents(folder)
    nowhere = folder / "nowhere" / "m"
    for run in (
        lambda: split(folder / "whole.ptl", nowhere, folder / "m.ptdbg"),
        lambda: split(folder / "whole.ptl", folder / "out.ptl", nowhere),
        lambda: join(folder / "left.ptl", folder / "left.ptdbg", nowhere),
    ):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            run()
        assert contents(folder) == before


# --- a disk that is full


@pytest.mark.parametrize(("verb", "force"), sampled(WAYS, most=10, by=[itemgetter(0)]))
def test_a_full_disk_leaves_everything_as_it_was(verb: str, folder: Path, *, force: bool) -> None:
    before = occupy(folder, verb) if force else contents(folder)
    size = written(verb, folder, before)
    for space in {0, size // 2, size - BUFFERED, size - 1}:
        with full_disk(space), pytest.raises(OSError, match="No space left on device"):
            VERBS[verb].run(folder, force)
        assert contents(folder) == before, f"{space} of {size} bytes"
    with full_disk(size):
        VERBS[verb].run(folder, force)
    assert contents(folder).keys() == before.keys() | set(VERBS[verb].targets)


BUFFERED = 500


def written(verb: str, folder: Path, before: dict[str, str]) -> int:
    """The number of bytes that a verb writes; the folder is left as it was."""
    kept = {name: (folder / name).read_bytes() for name in before}
    with full_disk(1 << 30) as left:
        VERBS[verb].run(folder, True)  # noqa: FBT003
    size = (1 << 30) - left[0]
    for name in VERBS[verb].targets:
        (folder / name).unlink()
    for name, data in kept.items():
        (folder / name).write_bytes(data)
    return size


@pytest.mark.parametrize(("verb", "force"), sampled(WAYS, most=10, by=[itemgetter(0)]))
def test_whichever_call_fails_targets_are_absent_or_whole(verb: str, folder: Path, *, force: bool) -> None:
    before = occupy(folder, verb) if force else contents(folder)
    kept = {path: path.read_bytes() for path in folder.iterdir()}
    ended, failed = outcome(verb, folder, kept, force=force), 0
    for number in calls_to_strike():
        restore_contents(folder, kept)
        problem = None
        with failing(number) as calls:
            try:
                VERBS[verb].run(folder, force)
            except OSError as error:
                problem = error
                failed += 1
                assert Path(error.filename).name in VERBS[verb].targets  # noqa: PT017 (not each call's failure ends it)
        if len(calls) <= number:
            break
        left = contents(folder)
        more = left.keys() - before.keys() - ended.keys()
        assert all(DRAFT_NAME.fullmatch(name) for name in more)
        assert {name: left[name] for name in left.keys() - more} == (before if problem else ended)
    assert failed >= 2
    assert contents(folder) == ended


def restore_contents(folder: Path, kept: dict[Path, bytes]) -> None:
    for path in folder.iterdir():
        path.unlink()
    for path, data in kept.items():
        path.write_bytes(data)


def outcome(verb: str, folder: Path, kept: dict[Path, bytes], *, force: bool) -> dict[str, str]:
    """The contents of the folder after a verb, which are taken back."""
    VERBS[verb].run(folder, force)
    ended = contents(folder)
    restore_contents(folder, kept)
    return ended


# --- a process that is killed


KILLED = [
    ("split in place", True),
    ("join", True),
    ("embed", False),
    ("restore", False),
    ("convert", True),
    ("migrate back", False),
]


def test_a_killed_process_leaves_whole_files_alone(tmp_path: Path) -> None:
    verbs = sampled(KILLED, most=3)
    before, command = [], [sys.executable, "-m", "tests.support.faults"]
    for number, (verb, force) in enumerate(verbs):
        folder = tmp_path / str(number)
        folder.mkdir()
        fill(folder, NESTED)
        before.append(occupy(folder, verb) if force else contents(folder))
        command += [verb, str(folder), "force" if force else "no"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    for (verb, _), was, (*killed, ended) in zip(verbs, before, json.loads(done.stdout), strict=True):
        assert len(killed) > 4
        assert set(ended) == was.keys() | set(VERBS[verb].targets)
        for left in killed:
            assert_whole(verb, left, was, ended)
            assert left.keys() <= ended.keys()  # the next process has cleared the rest


def assert_whole(verb: str, left: dict[str, str], before: dict[str, str], ended: dict[str, str]) -> None:
    """Each file has its old or its new content."""
    targets = set(VERBS[verb].targets)
    assert before.keys() <= left.keys()
    for name in before.keys() | (left.keys() & targets):
        assert left[name] == before.get(name) or (name in targets and left[name] == ended[name]), verb
    lost = "split" in verb and left["whole.ptl"] != before["whole.ptl"]
    assert not lost or left.get("m.ptdbg") == ended["m.ptdbg"], "neither debug information nor companion"
