"""Messages name options: a command's reader has no arguments of Python to pass."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from itertools import chain
from pathlib import Path

import click
import pytest

import archive
from archive.base.limits import Limits
from archive.privacy.redact.rules import Rules
from archive.rewrite.migrate.migrate import migrate
from archive.store.store import Store
from tests.cli.test_lost_output import commands
from tests.support.commands import run
from tests.support.corpus import ORACLES
from tests.support.sampling import sampled

PACKAGE = Path(archive.__file__).parent
ONLY_PYTHON = {"backend", "effects", "page", "server"}
"""Rooms whose messages go to those who call Python, or who read HTML, whose attributes look alike."""


def parameters() -> set[str]:
    """The names of all optional parameters of this library's functions, and of bounds."""
    functions = [getattr(archive, name) for name in archive.__all__]
    functions += [migrate, Rules.of, *(each for _, each in inspect.getmembers(Store, inspect.isfunction))]
    names = {field.name for field in fields(Limits)}
    for function in functions:
        if inspect.isfunction(function):
            names |= set(inspect.signature(function).parameters)
    return names


def messages(path: Path) -> list[tuple[str, str]]:
    """The texts of a module that may be printed: neither docstrings nor notes for Python."""
    tree = ast.parse(path.read_text())
    left_out: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant()):
                left_out.add(node.value)
            case ast.keyword(arg="in_python", value=value):
                left_out |= set(ast.walk(value))
            case ast.Assign(targets=[ast.Name(id="IN_PYTHON" | "REPLACES" | "_json_")], value=value):
                left_out |= set(ast.walk(value))
    return [
        (f"{path.relative_to(PACKAGE)}:{node.lineno}", node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in left_out
    ]


def argument() -> re.Pattern[str]:
    """An argument of this library's functions, as a call of Python passes it."""
    names = parameters()
    assert {"lossy", "replace", "force", "preset", "companions", "memory"} <= names
    return re.compile(rf"(?<![\w-])(?<!--limit )(?:{'|'.join(sorted(names))})=(?![\"(])")


def test_no_text_that_a_command_may_print_names_an_argument_of_python() -> None:
    walked = [
        message
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in ONLY_PYTHON
        for message in messages(path)
    ]
    assert len(walked) > 1000
    of_python = argument()
    found = [f"{place}: {text}" for place, text in walked if of_python.search(text)]
    assert [text for text in found if "NAME=NUMBER" not in text] == [], "which is what --limit takes"


def test_python_prints_arguments_below_the_message() -> None:
    error = archive.ArchiveError("pass --lossy to go on", file="m.ptl", in_python="lossy=True")
    assert str(error) == "m.ptl: pass --lossy to go on"
    assert error.__notes__ == ["In Python: lossy=True"]


ANYTHING_WRONG = ["nope", "-1", "", "5 5", "a=b"]
"""Values that few options take."""
NEVER_RUN = {"serve", "demo", "lite", "profile", "help"}
"""Commands that serve, or need PyTorch."""
OF_LIMITS = re.compile(r"--limit \w+=|like memory=4G")
"""What ``--limit`` takes, in the command line's own words."""


def wrong_calls(name: str, command: click.Command, folder: Path) -> list[list[str]]:
    """A command with each option: with values that are wrong, and with each of its choices."""
    begin = [*name.split(), str(ORACLES / "plain_stack.ptl")]
    options = {word: option for option in command.params for word in option.opts if word.startswith("--")}
    del options["--verbose"]  # a traceback shows the program's own lines
    needed = {"--output": str(folder / "out"), "--store": str(folder / "store"), "--to": "1.9"}
    always = {word: value for word, value in needed.items() if word in options}
    calls = [begin, [*begin, *chain.from_iterable(always.items())]]
    for word, option in options.items():
        assert isinstance(option, click.Option)
        others = [*begin, *chain.from_iterable(pair for pair in always.items() if pair[0] != word)]
        choices = list(option.type.choices) if isinstance(option.type, click.Choice) else []
        values = [[]] if option.is_flag else [[str(value)] for value in [*ANYTHING_WRONG, *choices]]
        calls += [[*others, word, *value] for value in values]
    return calls


@pytest.mark.parametrize("name", sorted(commands().keys() - NEVER_RUN))
def test_no_command_prints_an_argument_of_python_whatever_is_wrong(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # some wrong values are names of files to write
    of_python, refused = argument(), 0
    for line in [[*name.split(), "--help"], *sampled(wrong_calls(name, commands()[name], tmp_path), most=16)]:
        done = run(*line)
        said = OF_LIMITS.sub("", (done.stdout + done.stderr).decode(errors="replace"))
        assert not of_python.search(said), (line, said)
        assert not re.search(r"\b\w+=(?:True|False|None)\b", said.replace("weights_only=False", "")), line
        refused += done.returncode == 2
    assert refused


def test_a_traceback_that_is_asked_for_says_nothing_of_arguments(tmp_path: Path) -> None:
    model = ORACLES / "plain_stack.ptl"
    done = run("-v", "migrate", model, "--to", "1.9", "-o", tmp_path / "old.ptl")
    assert b"Traceback" in done.stderr
    assert b"In Python:" not in done.stderr
