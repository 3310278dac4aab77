"""Faults for ``tools.breaks``: small changes to an expression or a statement of a source file.

A comparison, an operator, a condition or a number changes; a call, a return value or an error is dropped.
"""

from __future__ import annotations

import ast
import random
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from pathlib import Path

COMPARED: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.LtE(),
    ast.LtE: ast.Lt(),
    ast.Gt: ast.GtE(),
    ast.GtE: ast.Gt(),
    ast.Eq: ast.NotEq(),
    ast.NotEq: ast.Eq(),
    ast.In: ast.NotIn(),
    ast.NotIn: ast.In(),
    ast.Is: ast.IsNot(),
    ast.IsNot: ast.Is(),
}
COMPUTED: dict[type[ast.operator], ast.operator] = {
    ast.Add: ast.Sub(),
    ast.Sub: ast.Add(),
    ast.Mult: ast.Add(),
    ast.FloorDiv: ast.Mult(),
    ast.BitAnd: ast.BitOr(),
    ast.BitOr: ast.BitAnd(),
}
"""What stands for a comparison and for an operator."""
MODULE = "<module>"
Key = tuple[str, str, str]
"""File, function and change: names one fault."""


class Fault(NamedTuple):
    """A change to one place of a source file: the bytes from ``start`` to ``end`` become ``text``.

    Attributes:
        function: the qualified name of the function or class that the place is in, or ``<module>``.
        change: what stands there, and what it becomes; numbered where a function has several like it.
    """

    path: Path
    line: int
    function: str
    start: int
    end: int
    text: str
    change: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.change}"

    @property
    def key(self) -> Key:
        """As in the table of equivalent faults."""
        return str(self.path), self.function, self.change

    def made_in(self, source: bytes) -> bytes:
        """The file with this fault."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def faults(tree: Path, path: Path) -> list[Fault]:
    """All faults that a file of a tree may be given."""
    source = (tree / path).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for function, node in nodes(ast.parse(source), MODULE):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        old = " ".join(source[start:end].decode().split())
        found += [
            Fault(path, node.lineno, function, start, end, text, f"{old} -> {text}") for text in changed(node)
        ]
    return numbered(found)


def numbered(found: list[Fault]) -> list[Fault]:
    """The same, like changes of one function distinguished: ``0 -> 1 (2 of 3)``."""
    every, seen, distinct = Counter(one.key for one in found), Counter[Key](), []
    for one in found:
        seen[one.key] += 1
        several = f" ({seen[one.key]} of {every[one.key]})" if every[one.key] > 1 else ""
        distinct.append(one._replace(change=one.change + several))
    return distinct


def nodes(tree: ast.AST, function: str) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
    """The expressions and statements that do something, each with the name of what it is in."""
    for name, value in ast.iter_fields(tree):
        for node in value if isinstance(value, list) else [value]:
            if name in {"annotation", "returns", "decorator_list"} or not isinstance(node, ast.AST):
                continue
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
                continue
            inner = qualified(tree, node, function)
            if isinstance(node, ast.expr | ast.stmt):
                yield inner, node
            if not isinstance(node, ast.JoinedStr):
                yield from nodes(node, inner)


def qualified(tree: ast.AST, node: ast.AST, function: str) -> str:
    """The qualified name of a definition in ``function``, as Python makes it; of all else, ``function``."""
    if not isinstance(node, ast.FunctionDef | ast.ClassDef):
        return function
    within = f"{function}.<locals>" if isinstance(tree, ast.FunctionDef) else function
    return node.name if function == MODULE else f"{within}.{node.name}"


def changed(node: ast.expr | ast.stmt) -> Iterator[str]:
    """What may stand instead of a node."""
    match node:
        case ast.Compare(left, [comparison], [right]) if type(comparison) in COMPARED:
            yield f"({ast.unparse(ast.Compare(left, [COMPARED[type(comparison)]], [right]))})"
        case ast.BinOp(left, operator, right) if type(operator) in COMPUTED:
            yield f"({ast.unparse(ast.BinOp(left, COMPUTED[type(operator)], right))})"
        case ast.BoolOp(joint, values):
            other = " or " if isinstance(joint, ast.And) else " and "
            yield f"({other.join(f'({ast.unparse(value)})' for value in values)})"
        case ast.IfExp(test, body, other_body):
            yield f"({ast.unparse(other_body)} if {ast.unparse(test)} else {ast.unparse(body)})"
        case ast.UnaryOp(ast.Not(), operand):
            yield f"bool({ast.unparse(operand)})"
        case ast.Constant(bool() as value):
            yield repr(not value)
        case ast.Constant(int() as value):
            yield repr(value + 1)
        case ast.Expr(ast.Call()) | ast.Raise() | ast.AugAssign():
            yield "..."
        case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "return None"


def sources(tree: Path, room: str) -> list[Path]:
    """The files of a room: a folder of ``archive``, or one file of it without its ending."""
    folder = tree / "archive" / room
    found = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]
    return [path.relative_to(tree) for path in found]


def drawn(tree: Path, room: str, count: int, seed: int, equivalent: Collection[Key]) -> list[Fault]:
    """Faults of a room, from as many of its files as there are."""
    chance = random.Random(f"{seed} {room}")  # noqa: S311 (no secret)
    pools = []
    for path in sources(tree, room):
        pool = [one for one in faults(tree, path) if one.key not in equivalent]
        chance.shuffle(pool)
        pools.append(pool)
    chance.shuffle(pools)
    found: list[Fault] = []
    while len(found) < count and any(pools):
        found += [pool.pop() for pool in pools if pool]
    return found[:count]
