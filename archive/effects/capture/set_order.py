"""The order of sets that a call makes: that of numbers is the same in each process, that of texts is not.

Such a set is a plain one, which nobody is told of. So the code of a model that makes sets is compiled anew,
from its source, with ``__in_order__(…)`` around all that it iterates: a builtin of copied functions, which
refuses such sets.
"""

from __future__ import annotations

import ast
import dis
import linecache
from functools import cache
from types import CodeType
from typing import Any

ORDER = "the order of a set's elements, which differs from process to process; sorted(…) has one"
CHECK = "__in_order__"
NUMBERS = (int, float, bool)
MAKING_STEPS = ("BUILD_SET", "SET_ADD", "SET_UPDATE")
MAKING_NAMES = {"set", "frozenset"}
ITERATING = {"tuple", "iter", "enumerate", "zip", "map", "filter"}
"""Builtins that go through what they are given; the proxies of ``list`` and ``deque`` look for themselves."""
ITERATING_METHODS = {"join", "extend", "fromkeys"}


def is_unordered(value: Any) -> bool:  # noqa: ANN401
    """Whether a value is a set whose order differs from process to process."""
    is_set = issubclass(type(value), set | frozenset)  # proxies of sets look for themselves
    return is_set and len(value) > 1 and not all(map(_is_number, value))


def _is_number(value: object) -> bool:
    """Whether a value's hash is computed of a number, or of a tuple of numbers."""
    return all(map(_is_number, value)) if type(value) is tuple else type(value) in NUMBERS


@cache
def makes_sets(code: CodeType) -> bool:
    """Whether some code, or code inside of it, makes sets or has one as a constant."""
    return (
        not MAKING_NAMES.isdisjoint(code.co_names)
        or any(one.opname in MAKING_STEPS for one in dis.get_instructions(code))
        or any(isinstance(one, frozenset) for one in code.co_consts)
        or any(makes_sets(one) for one in code.co_consts if isinstance(one, CodeType))
    )


def checking(code: CodeType) -> CodeType:
    """The code of a function or method that looks at what it iterates; the same code without its source."""
    found, made = _compiled(code.co_filename, "".join(linecache.getlines(code.co_filename)))
    key = code.co_qualname, code.co_firstlineno
    return made[key] if found.get(key) == code and key in made else code


@cache
def _compiled(filename: str, text: str) -> tuple[dict[tuple[str, int], CodeType], ...]:
    """The code of each function in a source, by qualified name and first line: as it is, and looking."""
    try:
        trees = ast.parse(text), _Checking().visit(ast.parse(text))
        modules = [compile(tree, filename, "exec", dont_inherit=True) for tree in trees]
    except (SyntaxError, ValueError, RecursionError):
        return {}, {}
    return tuple(_functions(module) for module in modules)


def _functions(code: CodeType) -> dict[tuple[str, int], CodeType]:
    found = {}
    left = [code]
    while left:
        one = left.pop()
        found[one.co_qualname, one.co_firstlineno] = one
        left += [inner for inner in one.co_consts if isinstance(inner, CodeType)]
    return found


class _Checking(ast.NodeTransformer):
    """Puts a check around what functions and methods iterate.

    Functions in functions stay as they are: a hook among them is known by its code.
    """

    def __init__(self) -> None:
        self._depth = 0

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Methods are no functions in functions, wherever the class is."""
        depth, self._depth = self._depth, 0
        self.generic_visit(node)
        self._depth = depth
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.Lambda) -> ast.AST:
        """Look at a function's own loops."""
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """The same of an expression that is a function."""
        return self.visit_FunctionDef(node)

    def visit_For(self, node: ast.For) -> ast.AST:
        """``for x in …``."""
        self.generic_visit(node)
        node.iter = self._checked(node.iter)
        return node

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        """``[… for x in …]``."""
        self.generic_visit(node)
        node.iter = self._checked(node.iter)
        return node

    def visit_Starred(self, node: ast.Starred) -> ast.AST:
        """``[*…]`` and ``f(*…)``; not ``*rest = …``."""
        self.generic_visit(node)
        if isinstance(node.ctx, ast.Load):
            node.value = self._checked(node.value)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.AST:
        """``a, b = …``."""
        self.generic_visit(node)
        if any(isinstance(one, ast.Tuple | ast.List) for one in node.targets):
            node.value = self._checked(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """``tuple(…)``, ``", ".join(…)``, and ``….pop()``."""
        self.generic_visit(node)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if method in ITERATING_METHODS or (isinstance(node.func, ast.Name) and node.func.id in ITERATING):
            node.args = [one if isinstance(one, ast.Starred) else self._checked(one) for one in node.args]
        elif isinstance(node.func, ast.Attribute) and method == "pop" and not node.args:
            node.func.value = self._checked(node.func.value)
        return node

    def _checked(self, value: ast.expr) -> ast.expr:
        if self._depth != 1:
            return value
        checked = ast.Call(ast.copy_location(ast.Name(CHECK, ast.Load()), value), [value], [])
        return ast.copy_location(checked, value)
