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
    root = int(tree.roots[pickle])
    items = _tuple(tree, root, "a tuple of methods")
    version = UNVERSIONED
    if items and tree.kind(items[0]) == Kind.INT:
        version = int(tree.value[items.pop(0)])
    return Bytecode(version, dict(_method(tree, item) for item in items))


def _method(tree: Tree, node: int) -> tuple[str, int]:
    name, *rest = _tuple(tree, node, "a method: name and table") or [node]
    if tree.kind(name) != Kind.TEXT or not rest:
        raise _unexpected(tree, node, "a method: name and table")
    for entry in _tuple(tree, rest[0], "a method's table"):
        key, value, *_ = [*_tuple(tree, entry, "a pair of key and value"), entry, entry]
        if tree.kind(key) == Kind.TEXT and tree.strings[int(tree.value[key])] == "instructions":
            return str(tree.strings[int(tree.value[name])]), len(_tuple(tree, value, "instructions"))
    raise _unexpected(tree, node, "a method with instructions")


def _tuple(tree: Tree, node: int, expected: str) -> list[int]:
    if tree.kind(node) != Kind.TUPLE:
        raise _unexpected(tree, node, expected)
    return tree.items(node)


def _unexpected(tree: Tree, node: int, expected: str) -> ArchiveError:
    error = tree.tokens.fault(node, "")
    error.expected, error.found = expected, found_at(tree, node)
    return error
