"""The calls in an archive's generated code: which module each one calls, by its attributes.

PyTorch's call stacks name a module only by its last attribute: ``0`` for ``down.0`` and ``up.0``. Generated
code has the whole way::

    up = self.up
    _0 = getattr(up, "0")
    x = (_0).forward(x, )

Its syntax is Python's. It is parsed, and nothing of it runs.
"""

from __future__ import annotations

import ast
from dataclasses import field
from functools import cache, cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

from archive.base.quick_dataclass import dataclass
from archive.formats.record_kinds import code_record, module_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

EITHER = "|"
"""Stands between the names of modules, any of which may be the one that is called."""
Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call of a module's method.

    Attributes:
        path: the attributes that lead from ``self`` to the module; none for ``self``.
    """

    start: int
    end: int
    first_line: int
    last_line: int
    method: str
    path: Path


@dataclass(frozen=True)
class CodeFunction:
    """A function or method of generated code."""

    type_name: str
    name: str
    first_line: int
    last_line: int
    calls: tuple[CallSite, ...]


@dataclass(frozen=True)
class ParsedCode:
    """A record of generated code.

    Attributes:
        types: for each class the type of each attribute that is a module.
    """

    name: str
    text: bytes
    functions: list[CodeFunction] = field(default_factory=list)
    types: dict[str, dict[str, str]] = field(default_factory=dict)

    @cached_property
    def line_starts(self) -> list[int]:
        """The first byte of each line, and the byte after the last line."""
        return [0, *accumulate(map(len, self.text.splitlines(keepends=True)))]

    def sites(self) -> Iterator[tuple[CodeFunction, CallSite]]:
        """The calls of modules, each with the function that it is in."""
        return ((function, site) for function in self.functions for site in function.calls)

    def function_at(self, line: int) -> CodeFunction | None:
        """The function that a line belongs to."""
        return next(
            (function for function in self.functions if function.first_line <= line <= function.last_line),
            None,
        )


class GeneratedCode:
    """The generated code of an archive."""

    def __init__(self, names: Collection[str], read: Callable[[str], bytes]) -> None:
        self._names = names
        self._read = read
        self.record = cache(self._record)
        self.type_of = cache(self._type_of)

    def _record(self, name: str) -> ParsedCode | None:
        """A code record; None if the archive has none of this name, or it is not Python's syntax."""
        if name not in self._names:
            return None
        text = self._read(name)
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        made = ParsedCode(name, text)
        module = module_of(name)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                type_name = f"{module}.{node.name}"
                types = made.types[type_name] = {}  # attributes whose type is a class of the archive
                for part in node.body:
                    if isinstance(part, ast.FunctionDef):
                        made.functions.append(_function(part, type_name, made))
                    elif isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
                        types[part.target.id] = _name(part.annotation)
                    elif isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Subscript):
                        key = part.targets[0].slice  # __annotations__["0"] = __torch__.Block
                        if isinstance(key, ast.Constant) and isinstance(key.value, str):
                            types[key.value] = _name(part.value)
            elif isinstance(node, ast.FunctionDef):
                made.functions.append(_function(node, "", made))
        return made

    def _type_of(self, type_name: str, path: Path) -> str:
        """The class of the module that attributes lead to from a module of a class; "" if unknown."""
        for attribute in path:
            record = self.record(code_record(type_name.rpartition(".")[0]))
            type_name = "" if record is None else record.types.get(type_name, {}).get(attribute, "")
        return type_name


def _function(node: ast.FunctionDef, type_name: str, record: ParsedCode) -> CodeFunction:
    """A function with the calls of modules in it."""
    known: dict[str, Path] = {node.args.args[0].arg: ()} if type_name and node.args.args else {}
    calls = []
    left: list[ast.AST] = [*reversed(node.body)]
    while left:  # in the order of the text
        part = left.pop()
        left += _parts(part)[::-1]
        if isinstance(part, ast.Assign) and isinstance(part.targets[0], ast.Name):
            path = _path(part.value, known)
            if path is not None:
                known[part.targets[0].id] = path
        elif isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
            path = _path(part.func.value, known)
            if path is not None:
                last = part.end_lineno or part.lineno
                start = record.line_starts[part.lineno - 1] + part.col_offset
                end = record.line_starts[last - 1] + (part.end_col_offset or 0)
                calls.append(CallSite(start, end, part.lineno, last, part.func.attr, path))
    return CodeFunction(type_name, node.name, node.lineno, node.end_lineno or node.lineno, tuple(calls))


def _parts(node: ast.AST) -> list[ast.AST]:
    """The parts of a node in the order of the text, without names and constants, which no call is in."""
    if isinstance(node, ast.Call):
        parts = [node.func, *node.args, *node.keywords]
    elif isinstance(node, ast.Assign):
        parts = [*node.targets, node.value]
    else:
        parts = [*ast.iter_child_nodes(node)]
    found = []
    for part in parts:
        while isinstance(part, ast.Attribute):
            part = part.value  # noqa: PLW2901 (an attribute is of one thing)
        if not isinstance(part, ast.Name | ast.Constant | ast.expr_context | ast.operator):
            found.append(part)
    return found


def _name(node: ast.expr) -> str:
    """The text of a type, most of which are names with dots."""
    names: list[str] = []
    inner = node
    while isinstance(inner, ast.Attribute):
        names.append(inner.attr)
        inner = inner.value
    return ".".join([inner.id, *names[::-1]]) if isinstance(inner, ast.Name) else ast.unparse(node)


def _path(node: ast.expr, known: dict[str, Path]) -> Path | None:
    """The attributes that lead from ``self`` to the value of an expression; None for other expressions."""
    if isinstance(node, ast.Name):
        return known.get(node.id)
    if isinstance(node, ast.Attribute):
        base, name = _path(node.value, known), node.attr
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "getattr":
        given = node.args[1]
        if not isinstance(given, ast.Constant):
            return None
        base, name = _path(node.args[0], known), str(given.value)
    else:
        return None
    return None if base is None else (*base, name)


def one_path(
    sites: Iterable[tuple[CodeFunction, CallSite]],
    caller: str,
    callee: str,
    code: GeneratedCode,
    last: str = "",
) -> str:
    """The attributes that lead from a module to the one that is called, joined by dots.

    Args:
        sites: the calls that may be meant, with the functions that they are in.
        last: the last attribute; "" if it is unknown.

    Returns:
        "" for the module itself, or if there is none. Several paths are joined by ``EITHER``.
    """
    paths = {
        site.path
        for function, site in sites
        if function.type_name == caller and code.type_of(caller, site.path) == callee
    }
    if last:
        paths = {path for path in paths if path[-1:] == (last,)}
    return EITHER.join(sorted(".".join(path) for path in paths))
