"""``bytecode.pkl``: the methods of the lite interpreter. Read for names and instruction counts only.

``(version, (method, (("instructions", ((op, x, n), ...)), ("operators", ...), ...), ...), ...)``; PyTorch 1.5
and 1.6 wrote no version (readers take it as 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from archive.formats.schema import found_at
from archive.pickles.ops import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.errors import ArchiveError
    from archive.pickles.tree import Tree

NAME = "bytecode.pkl"
UNVERSIONED = 3
INSTRUCTIONS = b"instructions"


@dataclass(frozen=True, slots=True)
class Bytecode:
    """What ``bytecode.pkl`` says: its version, and the number of instructions of each method."""

    version: int
    instructions: Mapping[str, int]


def parse_bytecode(tree: Tree, pickle: int) -> Bytecode:
    """The methods of one record of a tree.

    Raises:
        ArchiveError: a value that is not as above.
    """
    items = _tuple(tree, int(tree.roots[pickle]), "a tuple of methods")
    version = UNVERSIONED
    if items and tree.kind(items[0]) == Kind.INT:
        version = int(tree.value[items.pop(0)])
    names: dict[int, str] = {}  # by their strings, and counts by their tables: both may be shared
    counts: dict[int, int] = {}
    instructions = {}
    for item in items:
        name, table = _first_two(tree, item, "a method: name and table")
        if tree.kind(name) != Kind.TEXT:
            raise _unexpected(tree, name, "a method's name")
        if table not in counts:
            counts[table] = _instructions(tree, table)
        string = int(tree.value[name])
        if string not in names:
            names[string] = str(tree.strings[string])
        instructions[names[string]] = counts[table]
    return Bytecode(version, instructions)


def _instructions(tree: Tree, table: int) -> int:
    """How many instructions a method's table lists."""
    for entry in _tuple(tree, table, "a method's table"):
        key, value = _first_two(tree, entry, "a pair of key and value")
        if tree.kind(key) == Kind.TEXT and tree.strings.data(int(tree.value[key])) == INSTRUCTIONS:
            if tree.kind(value) != Kind.TUPLE:
                raise _unexpected(tree, value, "instructions")
            return int(tree.count[value])
    raise _unexpected(tree, table, "a method with instructions")


def _first_two(tree: Tree, node: int, expected: str) -> tuple[int, int]:
    if tree.kind(node) != Kind.TUPLE or tree.count[node] < 2:  # noqa: PLR2004 (the two)
        raise _unexpected(tree, node, expected)
    first = int(tree.first[node])
    return int(tree.children[first]), int(tree.children[first + 1])


def _tuple(tree: Tree, node: int, expected: str) -> list[int]:
    if tree.kind(node) != Kind.TUPLE:
        raise _unexpected(tree, node, expected)
    return tree.items(node)


def _unexpected(tree: Tree, node: int, expected: str) -> ArchiveError:
    error = tree.tokens.fault(node, "")
    error.expected, error.found = expected, found_at(tree, node)
    return error
