"""Messages name options: a command's reader has no arguments of Python to pass."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import fields
from pathlib import Path

import archive
from archive.base.limits import Limits
from archive.privacy.redact.rules import Rules
from archive.rewrite.migrate.migrate import migrate
from archive.store.store import Store

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


def test_no_message_of_a_command_names_an_argument_of_python() -> None:
    names = parameters()
    assert {"lossy", "replace", "force", "preset", "companions", "memory"} <= names
    argument = re.compile(rf"(?<![\w-])(?<!--limit )(?:{'|'.join(sorted(names))})=(?![\"(])")
    walked = [
        message
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in ONLY_PYTHON
        for message in messages(path)
    ]
    assert len(walked) > 1000
    found = [f"{place}: {text}" for place, text in walked if argument.search(text)]
    assert [text for text in found if "NAME=NUMBER" not in text] == [], "which is what --limit takes"


def test_python_prints_arguments_below_the_message() -> None:
    error = archive.ArchiveError("pass --lossy to go on", file="m.ptl", in_python="lossy=True")
    assert str(error) == "m.ptl: pass --lossy to go on"
    assert error.__notes__ == ["In Python: lossy=True"]
