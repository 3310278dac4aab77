"""Attacks by the surroundings: targets that are no files, links, closed streams, forged names."""

from __future__ import annotations

import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from archive.cli.status import ExitStatus
from archive.store.store import Store
from tests.attacks.pieces import handles, ranges
from tests.attacks.records import CODE
from tests.attacks.zips import archive_of
from tests.support.commands import run
from tests.support.kin import id_of, kin
from tests.support.processes import PATIENCE
from tests.support.terminals import terminal

if TYPE_CHECKING:
    from subprocess import CompletedProcess

ROOT = Path(__file__).resolve().parents[2]
ESCAPES = "\x1b[2J\x1b]0;owned\x07\u202egpj.\u009b31m".encode()
"""What clears a terminal, names its window, turns text around, and colours it by a C1 control."""
MODEL = archive_of(
    {
        **CODE,
        "code/m.py.debug_pkl": ranges(b"x = '" + ESCAPES + b"'\n"),
        "callstack_debug_map.pkl": handles([1], 1),
    }
)
OLD = b"what stood here before"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, where commands run."""
    (tmp_path / "m.ptl").write_bytes(MODEL)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def shell(command: str) -> CompletedProcess[bytes]:
    """A command of a shell in which ``$TOOL`` is the program."""
    tool = f'"{sys.executable}" -m archive'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    script = f"set -o pipefail; {command.replace('$TOOL', tool)}"
    return subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, check=False, timeout=PATIENCE
    )


def assert_refused(done: CompletedProcess[bytes], name: str) -> None:
    """One line that names a file, and status 2."""
    assert done.returncode == ExitStatus.FAILED
    assert done.stderr.count(b"\n") == 1
    assert name.encode() in done.stderr


# --- targets that are no files


@pytest.mark.parametrize("force", [(), ("--force",)])
@pytest.mark.parametrize("verb", ["split", "shrink", "migrate --to latest"])
def test_a_pipe_is_not_replaced(verb: str, force: tuple[str, ...], folder: Path) -> None:
    os.mkfifo("pipe")
    assert_refused(run(*verb.split(), "m.ptl", "-o", "pipe", *force), "pipe")
    assert stat.S_ISFIFO((folder / "pipe").stat().st_mode)


@pytest.mark.parametrize("force", [(), ("--force",)])
def test_a_device_is_not_replaced(force: tuple[str, ...], folder: Path) -> None:
    try:
        os.mknod("null", stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("only root makes devices")
    assert_refused(run("shrink", "m.ptl", "-o", "null", *force), "null")
    assert stat.S_ISCHR((folder / "null").stat().st_mode)


def test_a_link_stays_and_what_it_names_is_written(folder: Path) -> None:
    (folder / "file").write_bytes(OLD)
    (folder / "link").symlink_to("file")
    assert_refused(run("shrink", "m.ptl", "-o", "link"), "link")
    assert (folder / "file").read_bytes() == OLD
    assert run("shrink", "m.ptl", "-o", "link", "--force").returncode == ExitStatus.WELL
    assert (folder / "link").is_symlink()
    assert (folder / "file").read_bytes().startswith(b"PK")


def test_a_link_to_nothing_is_not_replaced_unasked(folder: Path) -> None:
    (folder / "link").symlink_to("nowhere")
    assert_refused(run("shrink", "m.ptl", "-o", "link"), "link")
    assert (folder / "link").is_symlink()
    assert not (folder / "nowhere").exists()


def test_links_in_a_circle_are_refused(folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    for arguments in (["inspect", "a"], ["shrink", "m.ptl", "-o", "a", "--force"]):
        assert_refused(run(*arguments), "a")


# --- inputs that are no files


@pytest.mark.parametrize("name", ["/dev/null", "/dev/zero", "/proc/self/mem"])
@pytest.mark.parametrize("verb", ["inspect", "verify", "sizes", "symbolicate"])
@pytest.mark.usefixtures("folder")
def test_devices_are_no_archives(verb: str, name: str) -> None:
    done = run(verb, name, *(["1"] if verb == "symbolicate" else []))
    assert done.returncode in (ExitStatus.FINDINGS, ExitStatus.FAILED)
    assert b"Traceback" not in done.stderr
    assert len(done.stdout + done.stderr) < 1_000


# --- streams that are closed


@pytest.mark.usefixtures("folder")
def test_closed_standard_input_is_no_crash() -> None:
    done = shell("$TOOL symbolicate m.ptl <&-")
    assert done.returncode == ExitStatus.FAILED
    assert b"Traceback" not in done.stderr


@pytest.mark.usefixtures("folder")
def test_closed_standard_output_is_no_crash() -> None:
    done = shell("$TOOL inspect m.ptl >&-")
    assert done.returncode in (ExitStatus.FAILED, ExitStatus.CLOSED_PIPE)
    assert b"Traceback" not in done.stderr


@pytest.mark.usefixtures("folder")
def test_a_closed_pipe_is_told_from_findings() -> None:
    done = shell("mkfifo gone; (cat < gone; $TOOL inspect m.ptl) | (exec < /dev/null; : > gone)")
    assert (done.returncode, done.stderr) == (ExitStatus.CLOSED_PIPE, b"")


# --- text and names that forge


def on_terminal(*arguments: str) -> bytes:
    """What a command writes to a terminal."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
    words = [sys.executable, "-m", "archive", *arguments]
    with terminal() as seen:
        subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=seen.file,
            stderr=subprocess.PIPE,
            env=environment,
            check=False,
        )
    return seen.shown


@pytest.mark.usefixtures("folder")
def test_a_terminal_gets_no_controls_of_a_source() -> None:
    shown = on_terminal("symbolicate", "m.ptl", "1")
    assert b"x = " in shown
    assert not any(piece in shown for piece in (b"\x1b[2J", b"\x1b]0;", "\u202e".encode(), "\u009b".encode()))


@pytest.mark.usefixtures("folder")
def test_a_pipe_gets_the_bytes_of_the_source() -> None:
    assert ESCAPES in run("symbolicate", "m.ptl", "1").stdout


@pytest.mark.parametrize("verb", ["verify", "inspect", "sizes"])
def test_a_file_name_forges_no_line(verb: str, folder: Path) -> None:
    name = "x\nm.ptl: well\x1b[2J"
    (folder / name).write_bytes(b"no archive")
    done = run(verb, name)
    assert done.returncode == ExitStatus.FAILED
    said = done.stdout + done.stderr
    assert b"\x1b" not in said
    assert not any(line.startswith(b"m.ptl: well") for line in said.splitlines())


# --- a store whose folder somebody else may write to


@pytest.fixture
def stores(folder: Path) -> Path:
    """Two stores of the same kin."""
    for name in ("mine", "theirs"):
        with Store.open(folder / name, create=True) as store:
            for number in range(3):
                store.add(kin(number))
    return folder


def test_a_stores_folder_that_is_anothers_is_not_cleaned(stores: Path) -> None:
    (stores / "theirs" / "bases").rmdir()
    (stores / "theirs" / "bases").symlink_to(stores / "mine" / "companions")
    assert_refused(run("store", "gc", "--store", "theirs"), "theirs/bases: is a link")
    assert Store.open(stores / "mine").companion(id_of(2)) == kin(2)
    assert len(list((stores / "mine" / "companions").iterdir())) == 3


def test_an_index_that_lies_of_bases_costs_no_companion(stores: Path) -> None:
    with closing(sqlite3.connect(stores / "theirs" / "index.sqlite")) as index:
        index.execute("UPDATE companions SET depth = 0, base = '', body = ?", ("0" * 32,))
        index.commit()
    assert_refused(run("store", "gc", "--store", "theirs"), "index.sqlite")
    assert run("store", "gc", "--store", "theirs").returncode == 0  # the index was made anew
    store = Store.open(stores / "theirs")
    assert [store.companion(id_of(number)) for number in range(3)] == [kin(number) for number in range(3)]
