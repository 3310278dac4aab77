"""Whatever ends a command: an exit status that tells it from all else, one line, and never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from unittest import mock

import pytest

import archive
from archive.base.errors import ExhaustedError
from archive.cli.status import ExitStatus
from tests.support.commands import run
from tests.support.corpus import ORACLES

if TYPE_CHECKING:
    from collections.abc import Sequence
    from subprocess import CompletedProcess

MODEL = ORACLES / "plain_stack.ptl"
HANDLE = 1445
PROGRAM = "from archive.cli import main; main()"


class Command(NamedTuple):
    """A command, and the function in which something happens."""

    arguments: Sequence[object]
    at: str


COMMANDS = {
    "inspect": Command(["inspect", MODEL], "archive.cli.inspect.inspect"),
    "symbolicate": Command(["symbolicate", MODEL, HANDLE], "archive.reader.archive.symbolicate"),
    "log": Command(["symbolicate", MODEL], "archive.failures.explainer.Lines.take"),
    "verify": Command(["verify", MODEL], "archive.cli.verify.verification"),
    "sizes": Command(["sizes", MODEL], "archive.describe.sizes.measure.sizes"),
    "split": Command(["split", MODEL, "-o", "{}/m"], "archive.reader.halves.companions.collect"),
    "migrate": Command(
        ["migrate", MODEL, "-o", "{}/m", "--to", "1.9"], "archive.rewrite.migrate.migrate.check_archive"
    ),
}
"""Each reads in another way."""


def ended(command: str, folder: Path, problem: BaseException) -> CompletedProcess[bytes]:
    """Run a command that an exception ends."""
    arguments, at = COMMANDS[command]
    with mock.patch(at, side_effect=problem):
        return run(*(str(word).format(folder) for word in arguments), stdin=b"a line\n")


def program(*arguments: object) -> list[str]:
    return [sys.executable, "-c", PROGRAM, *map(str, arguments)]


def shell(redirection: str, *arguments: object) -> CompletedProcess[bytes]:
    """Run a command in a process of its own whose descriptors a shell has closed or redirected."""
    words = ["sh", "-c", f'exec "$@" {redirection}', "sh", *program(*arguments)]
    return subprocess.run(words, capture_output=True, check=False)


# --- internal errors


@pytest.mark.parametrize("command", COMMANDS)
def test_an_internal_error_is_one_line_with_what_to_report(command: str, tmp_path: Path) -> None:
    done = ended(command, tmp_path, KeyError("nope\n\x1b[2J"))
    assert done.returncode == 70
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("debug-archive: internal error: KeyError: ")
    assert f"debug-archive {archive.__version__}, Python 3." in line
    assert f"command: debug-archive {COMMANDS[command].arguments[0]} {MODEL}" in line
    assert ", at archive/" in line
    assert line.isprintable()
    assert not list(tmp_path.iterdir())


def test_the_traceback_of_an_internal_error_is_shown_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEBUG_ARCHIVE_TRACEBACK", "1")
    done = ended("inspect", Path(), KeyError("nope"))
    assert done.returncode == 70
    assert b"Traceback (most recent call last)" in done.stderr
    assert b"cli/inspect.py" in done.stderr


def test_an_internal_error_of_one_check_is_no_finding(tmp_path: Path) -> None:
    with mock.patch("archive.check.verify.check_ranges", side_effect=KeyError("nope")):
        done = run("verify", MODEL, tmp_path / "none.ptl")
    assert done.returncode == 70
    assert f"{MODEL}: internal error: cannot be read: KeyError: 'nope'" in done.stdout.decode().splitlines()


# --- memory and stack


@pytest.mark.parametrize("problem", [MemoryError(), RecursionError("maximum recursion depth exceeded")])
@pytest.mark.parametrize("command", COMMANDS)
def test_memory_or_stack_that_ends_is_an_error(
    command: str, problem: MemoryError | RecursionError, tmp_path: Path
) -> None:
    done = ended(command, tmp_path, problem)
    assert done.returncode == 2
    (line,) = done.stderr.decode().splitlines()
    assert str(ExhaustedError.of(problem)) in line
    assert not list(tmp_path.iterdir())


# --- Ctrl-C


@pytest.mark.parametrize("command", COMMANDS)
def test_ctrl_c_is_told_apart_everywhere(command: str, tmp_path: Path) -> None:
    done = ended(command, tmp_path, KeyboardInterrupt())
    assert (done.returncode, done.stderr) == (130, b"debug-archive: interrupted\n")
    assert not list(tmp_path.iterdir())


def test_ctrl_c_while_a_log_is_awaited() -> None:
    words = program("symbolicate", MODEL)
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write(b"a line\n" * 5_000)  # more than its buffers hold: output tells that it reads
        process.stdin.flush()
        assert process.stdout.read(7) == b"a line\n"
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.stderr.read() == b"debug-archive: interrupted\n"
    assert process.returncode == 130


# --- standard input and output


def test_a_closed_pipe_is_told_apart_and_silent() -> None:
    words = program("symbolicate", MODEL)
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, said = process.communicate(b"a line\n" * 20_000)
    assert (process.returncode, said) == (141, b"")


def test_help_into_a_closed_pipe_is_told_apart_too() -> None:
    with subprocess.Popen(program("--help"), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        process.stdout = None
        _, said = process.communicate()
    assert (process.returncode, said) == (141, b"")


def test_without_standard_input_all_but_a_log_is_read() -> None:
    done = shell("<&-", "symbolicate", MODEL, HANDLE)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.startswith(b"Module hierarchy:")
    done = shell("<&-", "symbolicate", MODEL)
    assert done.returncode == 2
    assert b"give handles, --at RECORD:BYTE, --log FILE, or a log on standard input" in done.stderr


def test_without_standard_output_nothing_is_done(tmp_path: Path) -> None:
    done = shell(">&-", "split", MODEL, "-o", tmp_path / "m.ptl")
    assert (done.returncode, done.stderr) == (
        2,
        b"debug-archive: standard output: is closed; nothing is done\n",
    )
    assert not list(tmp_path.iterdir())


def test_without_standard_error_all_is_done_and_told_by_the_status(tmp_path: Path) -> None:
    assert shell("2>&-", "split", MODEL, "-o", tmp_path / "m.ptl").returncode == 0
    assert archive.open(tmp_path / "m.ptl").records
    assert shell("2>&-", "inspect", tmp_path / "none.ptl").returncode == 2
    assert shell(">&- 2>&- <&-", "inspect", MODEL).returncode == 2


# --- usage


@pytest.mark.parametrize("arguments", [["nope"], ["inspect"], ["inspect", MODEL, "--nope"], []])
def test_a_usage_error_is_an_error(arguments: list[object]) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(b"Usage: debug-archive")


def test_a_usage_error_forges_no_line() -> None:
    done = run("demo", "x\ndebug-archive: well\x1b[2J\u202e")
    assert done.returncode == 2
    assert rb"(x\ndebug-archive: well\u202e)" in done.stderr
    assert b"\x1b" not in done.stderr


def test_the_statuses_are_in_the_help() -> None:
    done = run("--help")
    assert done.returncode == 0
    for status in ExitStatus:
        assert f"\n    {int(status)} ".encode() in done.stdout


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="threads are counted in /proc")
def test_commands_import_numpy_without_threads_and_leave_the_environment() -> None:
    code = (
        "import os; from archive.cli.commands import group; group.get_command(None, 'inspect'); import numpy;"
        "print(len(os.listdir('/proc/self/task')), 'OPENBLAS_NUM_THREADS' in os.environ)"
    )
    others = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", code], env=others, capture_output=True, check=True)
    assert done.stdout.split() == [b"1", b"False"]
