"""``--no-map``, and inputs that change while a command reads them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING
from unittest import mock

import pytest

import archive
from archive import ArchiveError
from archive.io import mapped
from tests.support.commands import run
from tests.support.corpus import RELEASES
from tests.support.faults import VERBS, contents, fill

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path
    from typing import BinaryIO

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
COMMANDS = (
    "inspect whole.ptl",
    "verify whole.ptl left.ptdbg",
    "sizes whole.ptl --base left.ptl",
    "symbolicate left.ptl -c left.ptdbg 1",
    "migrate whole.ptl -o x --to 1.9 --dry-run",
    "split whole.ptl -o out.ptl -c m.ptdbg",
    "join left.ptl -c left.ptdbg -o out.ptl",
    "shrink whole.ptl -o out.ptl",
    "restore embedded.ptl -o out.ptl",
    "convert left.ptdbg -o out.ptdbg --layout mapped",
    "migrate migrated.ptl -o out.ptl --to original",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fill(tmp_path, NESTED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_without_maps_the_result_is_the_same(command: str, folder: Path) -> None:
    mapping = run(*command.split())
    made = contents(folder)
    inputs = {(folder / name).stat().st_ino for name in made if "out" not in name and name != "m.ptdbg"}
    real = mapped._map

    def no_input(file: BinaryIO) -> object:
        assert os.fstat(file.fileno()).st_ino not in inputs
        return real(file)

    with mock.patch.object(mapped, "_map", no_input):
        reading = run(*command.split(), "--no-map", *(["--force"] if "-o out" in command else []))
    assert (reading.returncode, reading.stdout) == (mapping.returncode, mapping.stdout)
    assert contents(folder) == made


FOLDER_COMMANDS = (
    "split models -o out -c out -j 1",
    "shrink models -o out -j 1",
    "migrate models -o out -j 1 --to 1.9",
    "join models -o out -j 1",
    "restore models -o out -j 1",
    "convert models -o out -j 1 --layout mapped",
)


@pytest.mark.parametrize("command", FOLDER_COMMANDS)
def test_without_maps_a_folder_is_searched_without_maps(command: str, folder: Path) -> None:
    (folder / "models").mkdir()
    for name, new in (("left.ptl", "a.ptl"), ("left.ptdbg", "a.ptl.ptdbg"), ("embedded.ptl", "b.ptl")):
        (folder / name).rename(folder / "models" / new)
    inputs = {path.stat().st_ino for path in (folder / "models").iterdir()}
    real = mapped._map
    seen = []

    def noted(file: BinaryIO) -> object:
        seen.append(os.fstat(file.fileno()).st_ino)
        return real(file)

    with mock.patch.object(mapped, "_map", noted):
        mapping = run(*command.split())
        assert inputs <= set(seen)
        shutil.rmtree(folder / "out")
        (folder / "out.manifest.jsonl").unlink(missing_ok=True)
        seen.clear()
        reading = run(*command.split(), "--no-map")
        assert not inputs & set(seen)
    assert (reading.returncode, reading.stdout) == (mapping.returncode, mapping.stdout)
    assert contents(folder / "out")


READING_COMMANDS = (
    "symbolicate left.ptl left.ptdbg whole.ptl --log /dev/null",
    "symbolicate . --log /dev/null",
    "symbolicate left.ptdbg embedded.ptl 42",
    "join . -o out -j 1",
    "inspect . --inventory",
    "sizes . -j 1",
    "verify . -j 1",
    "redact left.ptdbg -o out.ptdbg --for vendor",
)


@pytest.mark.parametrize("command", READING_COMMANDS)
def test_without_maps_no_file_of_several_is_mapped(command: str, folder: Path) -> None:
    (folder / "cut.ptl").write_bytes(NESTED.read_bytes()[:-100])
    (folder / "page.pt").write_bytes(b"<html>404</html>")
    (folder / "model.safetensors.index.json").write_text('{"weight_map": {"a": "a.safetensors"}}')
    inputs = {path.stat().st_ino for path in folder.iterdir()}
    real = mapped._map

    def no_input(file: BinaryIO) -> object:
        assert os.fstat(file.fileno()).st_ino not in inputs
        return real(file)

    with mock.patch.object(mapped, "_map", no_input):
        run(*command.split(), "--no-map")


CUT = """
import os, sys
import archive
with archive.open(sys.argv[1], mapped=sys.argv[2] == "mapped") as opened:
    os.truncate(sys.argv[1], 0)
    print(len(opened.range_table.tag))
"""


def test_a_file_that_is_cut_short_ends_no_process_that_does_not_map_it(tmp_path: Path) -> None:
    statuses = []
    for way in ("mapped", "read"):
        shutil.copy(NESTED, tmp_path / "m.ptl")
        words = [sys.executable, "-c", CUT, str(tmp_path / "m.ptl"), way]
        statuses.append(subprocess.run(words, capture_output=True, check=False).returncode)
    assert statuses[0] < 0  # SIGBUS, which SECURITY.md tells of
    assert statuses[1] == 0


@pytest.mark.parametrize("verb", VERBS)
def test_an_input_that_changes_meanwhile_replaces_nothing(verb: str, folder: Path) -> None:
    before = contents(folder)
    inputs = [folder / name for name in before]

    def change() -> None:
        for path in inputs:
            os.utime(path, ns=(1, 1))

    with (
        changing(change),
        pytest.raises(ArchiveError, match="the file changed while it was read; nothing is written"),
    ):
        VERBS[verb].run(folder, False)  # noqa: FBT003
    assert contents(folder) == before


def changing(change: Callable[[], None]) -> AbstractContextManager[object]:
    """Let the inputs change as soon as the first of them is mapped."""
    real = mapped._map

    def mapping(file: BinaryIO) -> object:
        found = real(file)
        change()
        return found

    return mock.patch.object(mapped, "_map", mapping)


def test_a_file_that_changes_while_it_is_read_is_refused(folder: Path) -> None:
    real = mapped._read

    def grow(file: BinaryIO) -> bytes:
        with (folder / "whole.ptl").open("ab") as grown:
            grown.write(b"more")
        return real(file)

    with mock.patch.object(mapped, "_read", grow), pytest.raises(ArchiveError, match="the file changed"):
        archive.open(folder / "whole.ptl", mapped=False)
