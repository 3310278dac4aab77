"""The rooms of the package, and the arrows between them as imports draw them. import-linter keeps floors."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).resolve().parents[2] / "archive"
BESIDE = {"__init__.py", "__init__.pyi", "__main__.py", "py.typed"}
MOST_ROOMS, MOST_ARROWS = 24, 161


BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""The fields in which statements, and parts of them, hold statements: an import is in no expression."""


class Module(NamedTuple):
    """What a file imports, in functions too, and the names that its statements bind."""

    imports: list[ast.Import | ast.ImportFrom]
    bound: list[str]


@cache
def module(path: Path) -> Module:
    """A file, read once."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    nodes: list[ast.AST] = [tree]
    for node in nodes:  # which grows meanwhile
        for field in BLOCKS:
            inner = getattr(node, field, ())
            nodes += inner if isinstance(inner, list) else ()
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    return Module(imports, [name for statement in tree.body for name in bound(statement)])


def imports(path: Path) -> list[ast.Import | ast.ImportFrom]:
    return module(path).imports


def rooms() -> list[str]:
    return sorted(path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists())


def arrows(room: str) -> set[tuple[str, str]]:
    """The room, with each other room that one of its modules imports from, for types too."""
    found = set()
    for path in (PACKAGE / room).rglob("*.py"):
        for node in imports(path):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("archive."):
                found.add((room, str(node.module).split(".")[1]))
    return found - {(room, room)}


def imported(path: Path) -> set[str]:
    """The modules, and names within modules, that one imports anywhere: for types and in functions, too."""
    names = {alias.name for node in imports(path) if isinstance(node, ast.Import) for alias in node.names}
    froms = [node for node in imports(path) if isinstance(node, ast.ImportFrom)]
    return names | {f"{node.module}.{alias.name}" for node in froms for alias in node.names}


def test_no_module_imports_itself_in_a_circle() -> None:
    files = {path.relative_to(PACKAGE.parent).with_suffix(""): path for path in PACKAGE.rglob("*.py")}
    modules = {".".join(name.parts).removesuffix(".__init__"): path for name, path in files.items()}
    graph = {
        name: {one if one in modules else one.rpartition(".")[0] for one in imported(path)}
        for name, path in modules.items()
    }
    TopologicalSorter(graph).prepare()  # CycleError names the circle


def bound(statement: ast.stmt) -> list[str]:
    """The names that a statement of a module binds; of imports and overloads none."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        overload = any(ast.unparse(decorator) == "overload" for decorator in statement.decorator_list)
        return [] if overload else [statement.name]
    targets = statement.targets if isinstance(statement, ast.Assign) else []
    return [
        node.id
        for target in targets
        for node in ast.walk(target)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    ]


def test_a_name_of_a_module_stands_for_one_thing() -> None:
    twice = {
        (path.name, name)
        for path in PACKAGE.rglob("*.py")
        for name, count in Counter(module(path).bound).items()
        if count > 1
    }
    assert twice == set()


def test_there_are_few_rooms_and_nothing_beside_them() -> None:
    assert len(rooms()) <= MOST_ROOMS
    assert {path.name for path in PACKAGE.iterdir() if path.is_file()} == BESIDE


def test_few_arrows_run_between_them() -> None:
    found = set().union(*map(arrows, rooms()))
    assert 0 < len(found) <= MOST_ARROWS


def test_the_architecture_lists_the_rooms() -> None:
    text = (PACKAGE.parent / "ARCHITECTURE.md").read_text(encoding="utf-8")
    assert [room for room in rooms() if f"| `{room}/` |" not in text] == []


SHOWING = ("cli", "compare", "describe", "page", "render", "store")
"""Rooms that ask for the kinds of records of any file."""
BY_NAME_ALONE = {"kind_of", "kind_in_exported", "kind_in_etrecord", "kind_in_legacy_exported"}


def test_the_kind_of_a_record_is_asked_with_the_kind_of_its_file() -> None:
    """``kind_in`` answers for all files; a name alone may be anything in a file of another kind."""
    asking = {
        f"{path.relative_to(PACKAGE)}: {alias.name}"
        for room in SHOWING
        for path in (PACKAGE / room).rglob("*.py")
        for node in module(path).imports
        if isinstance(node, ast.ImportFrom) and node.module == "archive.formats.record_kinds"
        for alias in node.names
        if alias.name in BY_NAME_ALONE
    }
    assert asking == set()
