"""A project's settings: tables below ``[tool.debug-archive]`` in a TOML file, else in ``pyproject.toml``."""

from __future__ import annotations

import os.path
from typing import Any, Literal, NamedTuple

from archive.base.errors import ArchiveError, shown
from archive.io.mapped import read_whole

NAME = "pyproject.toml"
TOOL = "debug-archive"
TABLES = ["budgets", "leaks"]
MOST_STEPS = 1 << 24
"""Steps that reading a file may take; a key with dots takes many."""

TableName = Literal["budgets", "leaks"]


class Table(NamedTuple):
    """The settings for a command."""

    path: str
    values: dict[str, Any]


def nearest(name: TableName) -> Table | None:
    """The table of the nearest ``pyproject.toml`` that has it: here, or in a folder above."""
    try:
        folder, below = os.getcwd(), ""  # noqa: PTH109 (pathlib costs start-up)
    except FileNotFoundError:  # somebody removed it
        return None
    while folder != below:
        path = os.path.relpath(os.path.join(folder, NAME))  # noqa: PTH118 (the same)
        if os.path.lexists(path):
            if not os.path.isfile(path):  # noqa: PTH113 (the same)
                raise ArchiveError("isn't a regular file", file=path)
            if (values := _values(path, name)) is not None:
                return Table(path, values)
        folder, below = os.path.dirname(folder), folder  # noqa: PTH120 (the same)
    return None


def read(path: str, name: TableName) -> Table:
    """The table of a TOML file."""
    values = _values(path, name)
    if values is None:
        raise ArchiveError(f"has no table {header(name)}", file=path)
    return Table(path, values)


def header(name: TableName) -> str:
    """The line above a table."""
    return f"[tool.{TOOL}.{name}]"


def _values(path: str, name: TableName) -> dict[str, Any] | None:
    """A table of a TOML file; None if it has none."""
    data = read_whole(path)
    if _steps(data) > MOST_STEPS:
        raise ArchiveError("has keys of too many parts", file=path)
    try:
        import tomllib  # noqa: PLC0415 (few commands find settings)

        table: Any = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise ArchiveError(f"isn't TOML: {error}", file=path) from None
    for key in ("tool", TOOL, name):
        if key not in table:
            return None
        table = table[key]
        if not isinstance(table, dict):
            raise ArchiveError(file=path, place=key, expected="a table", found=shown(table))
        if key == TOOL and not set(table) <= set(TABLES):
            expected = " or ".join(TABLES)
            raise ArchiveError(file=path, place=f"[tool.{TOOL}]", expected=expected, found=shown(list(table)))
    return dict(table)


def _steps(data: bytes) -> int:
    """Most steps that ``tomllib`` takes: for each part of a key, all parts before it and of the header."""
    lines = data.split(b"\n")
    above = max((line.count(b".") for line in lines if line.lstrip().startswith(b"[")), default=0)
    dots = (line.count(b".") for line in lines)
    return sum((above + own) * (1 + own) for own in dots)
