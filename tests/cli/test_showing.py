"""How output is shown: errors alone, tracebacks, colours, a pager; and commands that are looked for."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from archive.cli.commands import COMMANDS, group, help_width
from archive.cli.showing import DECLARATIONS
from tests.cli.test_lost_output import commands
from tests.support.commands import called, run, well
from tests.support.corpus import FIXTURES, ORACLES
from tests.support.terminals import terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MODEL = ORACLES / "plain_stack.ptl"
BEFORE = ORACLES / "plain_unicode.ptl"
PROGRAM = [sys.executable, "-c", "from archive.cli import main; main()"]
ESCAPE = "\x1b["


# --- commands that are looked for


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("symbolcate", "symbolicate"), ("split-", "split"), ("veryfy", "verify"), ("Diff", "diff")],
)
def test_a_mistyped_command_is_answered_with_the_one_that_is_meant(typed: str, meant: str) -> None:
    done = called(typed, "model.ptl")
    assert done.exit_code == 2
    assert f"No such command '{typed}'. Did you mean '{meant}'" in done.stderr


def test_a_word_like_no_command_gets_no_suggestion() -> None:
    done = called("qqqq\x1b[2J")
    assert done.exit_code == 2
    assert "Did you mean" not in done.stderr
    assert ESCAPE not in done.stderr


@pytest.mark.parametrize("name", ["", "inspect", "split", "store", "store add", "help"])
def test_help_of_a_command_is_what_its_option_shows(name: str) -> None:
    assert well("help", *name.split()) == well(*name.split(), "--help")


def helps(name: str, command: click.Command) -> Iterator[tuple[str, str]]:
    """The help of a command, and of each below it, by their names."""
    context = click.Context(command, info_name=name, terminal_width=help_width())
    yield name, command.get_help(context)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            assert found is not None
            yield from helps(f"{name} {below}", found)


def test_no_line_of_any_help_is_wider_than_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    texts = dict(helps("debug-archive", group))
    assert {"debug-archive", "debug-archive store add", *(f"debug-archive {name}" for name in COMMANDS)} <= {
        *texts
    }
    assert [line for text in texts.values() for line in text.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["symbolcate"], "Did you mean 'symbolicate'?"),
        (["store", "nothing"], "No such command 'nothing'"),
        (["split", "x"], "split has no commands; found 'x'"),
    ],
)
def test_help_of_what_there_is_not_is_refused(words: list[str], told: str) -> None:
    done = called("help", *words)
    assert done.exit_code == 2
    assert told in done.stderr


# --- less and more on standard error


@pytest.mark.parametrize("words", [["-q", "symbolicate", MODEL, "9"], ["symbolicate", MODEL, "9", "--quiet"]])
def test_quiet_leaves_notes_out(words: list[object]) -> None:
    loud = called("symbolicate", MODEL, "9")
    assert "has no debug handle 9" in loud.stderr
    done = called(*words)
    assert (done.exit_code, done.stdout, done.stderr) == (loud.exit_code, loud.stdout, "")


def test_quiet_keeps_errors(tmp_path: Path) -> None:
    done = run("-q", "inspect", tmp_path / "none")
    assert done.returncode == 2
    assert b"No such file" in done.stderr
    (tmp_path / "model.ptl").write_bytes(MODEL.read_bytes())
    (tmp_path / "broken.ptl").write_bytes(MODEL.read_bytes()[:-40])
    (tmp_path / "text.json").write_text("{}")
    assert b"skipped, files of other kinds: 1 (JSON: 1)" in run("inspect", tmp_path).stderr
    done = run("-q", "inspect", tmp_path)
    assert done.returncode == 2
    assert [
        line.startswith(b"debug-archive: ") and b"broken.ptl" in line for line in done.stderr.splitlines()
    ] == [True]
    done = run("-q", "sizes", MODEL, "--budget", "1B")
    assert b"over the budget" in done.stderr


def test_quiet_of_verify_stays_its_own() -> None:
    warned = FIXTURES / "releases" / "torch-1.9.0" / "nested.ptl"
    assert run("-q", "verify", warned).stdout == run("verify", warned).stdout
    assert b"warning" not in run("verify", warned, "-q").stdout


def test_verbose_shows_the_traceback_of_an_error(tmp_path: Path) -> None:
    broken = tmp_path / "broken.ptl"
    broken.write_bytes(MODEL.read_bytes()[:-40])
    short = run("inspect", broken)
    for words in (["-v", "inspect", broken], ["inspect", broken, "--verbose"]):
        done = run(*words)
        assert done.returncode == short.returncode == 2
        assert done.stderr.startswith(short.stderr)
        assert b"Traceback (most recent call last)" in done.stderr
    assert b"Traceback" not in run("inspect", broken).stderr, (
        "what one command is asked is not the next one's"
    )


def test_every_command_takes_what_the_group_takes() -> None:
    for name, command in commands().items():
        words = {word for parameter in command.params for word in parameter.opts}
        missing = [given for given, _ in DECLARATIONS if given[0].split("/")[0] not in words]
        assert not missing, name


# --- colours


@pytest.mark.parametrize(
    ("words", "environment", "is_styled"),
    [
        ([], {}, False),
        (["--color", "always"], {}, True),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
        ([], {"FORCE_COLOR": "", "NO_COLOR": ""}, False),
    ],
)
def test_a_pipe_gets_colours_if_it_is_asked_for(
    words: list[str],
    environment: dict[str, str],
    is_styled: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    plain = {
        command: called(command, *files).stdout
        for command, *files in (["sizes", MODEL], ["diff", MODEL, BEFORE])
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    for command, text in plain.items():
        files = [MODEL] if command == "sizes" else [MODEL, BEFORE]
        shown = called(*words, command, *files).stdout
        assert (ESCAPE in shown) == is_styled
        assert unstyled(shown) == text, "the same text, as wide"


def unstyled(text: str) -> str:
    """A text without sequences of styles."""
    first, *others = text.split(ESCAPE)
    return first + "".join(part.partition("m")[2] for part in others)


# --- terminals


def on_terminal(*words: object, lines: int = 12, **environment: str) -> bytes:
    """What a command writes to a terminal of so many lines, whose keyboard it reads."""
    with terminal(lines, 100) as seen:
        done = subprocess.run(
            [*PROGRAM, *map(str, words)],
            stdin=seen.file,
            stdout=seen.file,
            stderr=seen.file,
            env={**os.environ, "TERM": "xterm", **environment},
            check=False,
        )
    assert done.returncode in {0, 1}
    return seen.shown


def test_a_terminal_shows_styles_unless_it_is_told_not_to() -> None:
    assert ESCAPE.encode() in on_terminal("sizes", MODEL, lines=200)
    for shown in (
        on_terminal("sizes", MODEL, "--color", "never", lines=200),
        on_terminal("sizes", MODEL, lines=200, NO_COLOR="1"),
    ):
        assert ESCAPE.encode() not in shown
        assert b"source ranges" in shown


@pytest.fixture
def pager(tmp_path: Path) -> str:
    """A pager that keeps what it shows in the file ``paged`` beside it."""
    program = "import pathlib, sys; pathlib.Path(sys.argv[1]).write_bytes(sys.stdin.buffer.read())"
    return shlex.join([sys.executable, "-c", program, str(tmp_path / "paged")])


def test_what_is_longer_than_the_terminal_goes_to_the_pager(pager: str, tmp_path: Path) -> None:
    shown = on_terminal("inspect", MODEL, PAGER=pager)
    whole = (tmp_path / "paged").read_text()
    assert b"data.pkl" not in shown
    assert "data.pkl" in whole
    assert "version" in whole.splitlines()[-1] or "effects" not in whole


@pytest.mark.parametrize(
    ("words", "lines"),
    [(["--no-pager", "inspect", MODEL], 12), (["inspect", MODEL], 200)],
    ids=["asked", "short"],
)
def test_no_pager_where_none_is_wanted(words: list[object], lines: int, pager: str, tmp_path: Path) -> None:
    assert b"data.pkl" in on_terminal(*words, lines=lines, PAGER=pager)
    assert not (tmp_path / "paged").exists()


@pytest.mark.parametrize("none", ["", "cat", "/no/such/pager", "'"])
def test_without_a_pager_all_is_printed(none: str) -> None:
    shown = on_terminal("inspect", MODEL, PAGER=none)
    assert b"data.pkl" in shown
    assert b"bytecode.pkl" in shown


def test_a_pipe_has_no_pager(pager: str, tmp_path: Path) -> None:
    env = os.environ | {"PAGER": pager}
    done = subprocess.run([*PROGRAM, "inspect", MODEL], capture_output=True, env=env, check=True)
    assert b"data.pkl" in done.stdout
    assert not (tmp_path / "paged").exists()


# --- completion


def completed(*words: str) -> list[str]:
    """What bash would be offered for the last word."""
    env = os.environ | {
        "_DEBUG_ARCHIVE_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["debug-archive", *words]),
        "COMP_CWORD": str(len(words)),
    }
    done = subprocess.run(PROGRAM, capture_output=True, text=True, env=env, check=True)
    assert not done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["sy"], ["plain,symbolicate"]),
        (["--col"], ["plain,--color"]),
        (["store", "a"], ["plain,add"]),
        (["help", "sp"], ["plain,split"]),
        (["split", "--layout", "p"], ["plain,packed"]),
        (["symbolicate", "mod"], ["file,mod"]),
        (["leaks", "mod"], ["file,mod"]),
    ],
)
def test_a_shell_completes_commands_options_and_files(words: list[str], offered: list[str]) -> None:
    assert completed(*words) == offered


def test_all_commands_are_completed() -> None:
    assert completed("") == [f"plain,{name}" for name in COMMANDS]
    assert list(group.list_commands(None)) == list(COMMANDS)  # type: ignore[arg-type]
