"""``-o -``: a single file on standard output, once it is complete, and what is said about it beside it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import run
from tests.support.corpus import RELEASES
from tests.support.documents import file_of
from tests.support.faults import fill
from tests.support.terminals import terminal

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
COMMANDS = {
    "shrink": ("whole.ptl",),
    "join": ("left.ptl", "-c", "left.ptdbg"),
    "restore": ("embedded.ptl",),
    "convert": ("left.ptdbg", "--layout", "mapped"),
    "migrate": ("whole.ptl", "--to", "1.9", "--lossy"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    fill(tmp_path, NESTED)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("verb", COMMANDS)
def test_standard_output_takes_the_file_and_standard_error_the_summary(verb: str, folder: Path) -> None:
    written = run(verb, *COMMANDS[verb], "-o", "out")
    before = sorted(folder.iterdir())
    streamed = run(verb, *COMMANDS[verb], "-o", "-")
    assert (written.returncode, streamed.returncode) == (0, 0)
    assert streamed.stdout == (folder / "out").read_bytes()
    said = streamed.stderr.decode().replace("standard output", "out")
    assert said.replace("─", "").split() == written.stdout.decode().replace("─", "").split()
    assert sorted(folder.iterdir()) == before
    facts = file_of(run(verb, *COMMANDS[verb], "-o", "-", "--json").stderr)
    assert facts["out"] == "standard output"


@pytest.mark.parametrize("words", ["split whole.ptl", "shrink whole.ptl left.ptl", "restore ."])
def test_several_files_do_not_go_to_standard_output(words: str, folder: Path) -> None:
    done = run(*words.split(), "-o", "-")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == b"debug-archive: standard output: takes one file, and several are written\n"
    assert not (folder / "-").exists()


def test_what_fails_writes_nothing_to_standard_output(folder: Path) -> None:
    done = run("restore", folder / "whole.ptl", "-o", "-")
    assert (done.returncode, done.stdout) == (2, b"")


def test_a_terminal_takes_no_model(folder: Path) -> None:
    words = [sys.executable, "-c", "from archive.cli import main; main()", "shrink", "whole.ptl", "-o", "-"]
    with terminal() as seen:
        done = subprocess.run(words, cwd=folder, stdout=seen.file, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr == b"debug-archive: standard output: refusing to write a binary model to a terminal\n"
    assert not seen.shown


def test_a_device_is_refused_and_the_way_out_named(folder: Path) -> None:
    (folder / "pipe").unlink(missing_ok=True)
    os.mkfifo(folder / "pipe")
    done = run("shrink", "whole.ptl", "-o", "pipe", "--force")
    assert done.returncode == 2
    assert b"pipe: is a pipe, and only regular files are written; `-o -` writes" in done.stderr
    assert (folder / "pipe").is_fifo()


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/full", "/dev/urandom"])
def test_a_log_is_no_device_without_end(device: str) -> None:
    if not Path(device).exists():
        pytest.skip("no such device")
    done = run("symbolicate", NESTED, "--log", device)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == f"debug-archive: {device}: is a device, not a log file\n".encode()


def test_a_log_may_be_nothing() -> None:
    assert run("symbolicate", NESTED, "--log", os.devnull).returncode == 0
