"""A dry run tells what the work would write, to the byte, refuses what it refuses, and writes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest import mock

import pytest

import archive
from tests.support.commands import called, files
from tests.support.corpus import RELEASES
from tests.support.documents import files_of
from tests.support.faults import fill
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from pathlib import Path

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
COMMANDS = {
    "split": "split whole.ptl -o out -c dbg",
    "join": "join left.ptl -c left.ptdbg -o out",
    "shrink": "shrink whole.ptl -o out",
    "restore": "restore embedded.ptl -o out",
    "convert": "convert left.ptdbg -o out --layout mapped",
    "migrate": "migrate whole.ptl -o out --to 1.9 --lossy",
    "split a folder": "split models -o out -c dbg -j 1",
    "shrink a folder": "shrink models -o out -j 1",
    "migrate a folder": "migrate models -o out --to 1.9 --lossy -j 1",
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fill(tmp_path, NESTED)
    (tmp_path / "models").mkdir()
    for name in ("a.ptl", "b.ptl"):
        (tmp_path / "models" / name).write_bytes(NESTED.read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


def snapshot(folder: Path) -> dict[str, tuple[bytes, int]]:
    return {
        name: ((folder / name).read_bytes(), (folder / name).stat().st_mtime_ns) for name in files(folder)
    }


@pytest.mark.parametrize("name", sampled(COMMANDS))
def test_a_dry_run_tells_the_bytes_that_the_work_writes(name: str, folder: Path) -> None:
    command = COMMANDS[name]
    before = snapshot(folder)
    dry = called(*command.split(), "--dry-run")
    assert (dry.exit_code, dry.stderr) == (0, "")
    assert (snapshot(folder), (folder / "out").exists()) == (before, False)
    assert called(*command.split()).exit_code == 0
    written = [file for file in files(folder) if file not in before and not file.endswith("manifest.jsonl")]
    assert written
    for file in written:
        assert f"would write {file}: {(folder / file).stat().st_size:,} bytes" in dry.stdout
    assert dry.stdout.count("would write") == len(written)

    dry = called(*command.split(), "--dry-run", "--force")
    assert dry.stdout.count("would replace") == len(written)


@pytest.mark.parametrize("name", ["split", "migrate", "split a folder", "migrate a folder"])
def test_a_dry_run_refuses_what_the_work_refuses(name: str, folder: Path) -> None:
    command = COMMANDS[name]
    taken = folder / ("out/a.ptl" if "models" in command else "out")
    taken.parent.mkdir(exist_ok=True)
    taken.write_bytes(b"somebody else's")
    before = snapshot(folder)
    dry = called(*command.split(), "--dry-run")
    assert snapshot(folder) == before
    done = called(*command.split())
    assert dry.exit_code == done.exit_code != 0
    assert "the file exists; pass " in f"{dry.stderr}{dry.exception}"
    assert (dry.stderr, str(dry.exception)) == (done.stderr, str(done.exception))


def test_a_dry_run_for_standard_output_writes_nothing_there(folder: Path) -> None:
    (folder / "standard output").write_bytes(b"a file of that name")
    dry = called("shrink", "whole.ptl", "-o", "-", "--dry-run")
    size = archive.shrink("whole.ptl", "alone.ptl").out_size
    assert (dry.exit_code, dry.stdout) == (0, f"would write standard output: {size:,} bytes\n")


def test_after_the_work_a_dry_run_says_that_nothing_is_left(folder: Path) -> None:
    words = COMMANDS["split a folder"].split()
    called(*words)
    (folder / "out" / "b.ptl").unlink()
    before = snapshot(folder)
    dry = called(*words, "--dry-run", "--json")
    assert [one["outcome"] for one in files_of(dry.stdout)] == ["same", "to do"]
    assert files_of(dry.stdout)[1]["reason"] == "done again: the result was gone"
    assert "bytes; done again: the result was gone\n" in called(*words, "--dry-run").stdout
    assert snapshot(folder) == before


def test_a_folder_that_takes_no_files_is_told(folder: Path) -> None:
    with mock.patch("archive.io.places.os.access", return_value=False):
        found = archive.batch("shrink", "models", "out", jobs=1, dry_run=True)
    assert {one.reason for one in found} == {f"{folder}: Permission denied"}


@pytest.mark.usefixtures("folder")
def test_a_file_in_the_place_of_a_folder_is_told() -> None:
    for words in ("shrink whole.ptl -o left.ptl/out", "split whole.ptl -o out -c left.ptl/dbg"):
        dry, done = called(*words.split(), "--dry-run"), called(*words.split())
        assert isinstance(dry.exception, OSError)
        assert isinstance(done.exception, OSError)
