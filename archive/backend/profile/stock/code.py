"""The calls in an archive's generated code: which module each one calls, by its attributes.

PyTorch's call stacks name a module by its last attribute alone: ``0`` for ``down.0`` and ``up.0``. Generated
code has the whole way::

    up = self.up
    _0 = getattr(up, "0")
    x = (_0).forward(x, )

Its syntax is Python's. It is parsed, and nothing of it runs.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

CODE_FOLDER, CODE_ENDING = "code/", ".py"

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call of a module's method.

    Attributes:
        start: its first byte in the record.
        end: the byte behind its last one.
        first_line: its first line, from 1.
        last_line: its last line.
        method: the method's name.
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
    """A function or method of generated code.

    Attributes:
        type_name: the class, qualified; "" for functions.
        name: its name.
        first_line: its first line, from 1.
        last_line: its last line.
        calls: the calls of modules in it.
    """

    type_name: str
    name: str
    first_line: int
    last_line: int
    calls: tuple[CallSite, ...]


@dataclass(frozen=True)
class CodeRecord:
    """A record of generated code.

    Attributes:
        name: its name in the archive.
        text: its bytes.
        functions: its functions and methods.
        types: for each class the type of each attribute that is a module.
    """

    name: str
    text: bytes
    functions: list[CodeFunction] = field(default_factory=list)
    types: dict[str, dict[str, str]] = field(default_factory=dict)

    @cached_property
    def line_starts(self) -> list[int]:
        """The first byte of each line, and the byte behind the last line."""
        return [0, *accumulate(map(len, self.text.splitlines(keepends=True)))]

    def sites(self) -> Iterator[tuple[CodeFunction, CallSite]]:
        """The calls of modules, each with the function that it is in."""
        return ((function, site) for function in self.functions for site in function.calls)

    def function_at(self, line: int) -> CodeFunction | None:
        """The function that a line belongs to."""
        return next((one for one in self.functions if one.first_line <= line <= one.last_line), None)


class Code:
    """The generated code of an archive.

    Args:
        names: the records of the archive.
        read: gives a record's bytes.
    """

    def __init__(self, names: Collection[str], read: Callable[[str], bytes]) -> None:
        self._names = names
        self._read = read
        self.record = cache(self._record)

    def _record(self, name: str) -> CodeRecord | None:
        """A code record; None if the archive has none of this name, or it is not Python's syntax."""
        if name not in self._names:
            return None
        text = self._read(name)
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        made = CodeRecord(name, text)
        module = name.removeprefix(CODE_FOLDER).removesuffix(CODE_ENDING).replace("/", ".")
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                type_name = f"{module}.{node.name}"
                made.types[type_name] = dict(_module_types(node))
                methods = [one for one in node.body if isinstance(one, ast.FunctionDef)]
                made.functions.extend(_function(one, type_name, made) for one in methods)
            elif isinstance(node, ast.FunctionDef):
                made.functions.append(_function(node, "", made))
        return made

    def type_of(self, type_name: str, path: Path) -> str:
        """The class of the module that attributes lead to from a module of a class; "" if unknown."""
        for attribute in path:
            record = self.record(
                f"{CODE_FOLDER}{type_name.rpartition('.')[0].replace('.', '/')}{CODE_ENDING}"
            )
            type_name = "" if record is None else record.types.get(type_name, {}).get(attribute, "")
        return type_name


def _module_types(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """The attributes of a class whose type is a class of the archive, with this type.

    Attributes whose names are numbers are written ``__annotations__["0"] = __torch__.Block``.
    """
    for one in node.body:
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            yield one.target.id, ast.unparse(one.annotation)
        elif isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Subscript):
            key = one.targets[0].slice
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, ast.unparse(one.value)


def _function(node: ast.FunctionDef, type_name: str, record: CodeRecord) -> CodeFunction:
    """A function with the calls of modules in it."""
    known: dict[str, Path] = {node.args.args[0].arg: ()} if type_name and node.args.args else {}
    calls = []
    for one in _in_order(node):
        if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name):
            path = _path(one.value, known)
            if path is not None:
                known[one.targets[0].id] = path
        elif isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute):
            path = _path(one.func.value, known)
            if path is not None:
                calls.append(_site(one, one.func.attr, path, record))
    return CodeFunction(type_name, node.name, node.lineno, node.end_lineno or node.lineno, tuple(calls))


def _in_order(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below a node, in the order of the text."""
    left = [*ast.iter_child_nodes(node)][::-1]
    while left:
        one = left.pop()
        yield one
        left += [*ast.iter_child_nodes(one)][::-1]


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


def _site(node: ast.Call, method: str, path: Path, record: CodeRecord) -> CallSite:
    last = node.end_lineno or node.lineno
    start = record.line_starts[node.lineno - 1] + node.col_offset
    end = record.line_starts[last - 1] + (node.end_col_offset or 0)
    return CallSite(start, end, node.lineno, last, method, path)
