"""Proxies of sets: an element is known once the model asks for it; relying on their order is refused.

A set that a call makes is a plain one, which no proxy sees. Its order is the same in every process if its
elements are numbers, but not if they are texts. So the code of a model that makes sets is compiled from its
source again, with ``__in_order__(…)`` around whatever it iterates: a builtin of copied functions, which
refuses such sets.
"""

from __future__ import annotations

import ast
import dis
import linecache
from functools import cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.graph.variables import (
    is_literal,
)
from archive.effects.placeholders import ABSENT
from archive.formats.effects.model import Look, Op

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.effects.capture.table.call import CapturedCall
    from archive.formats.effects.model import Source


# --- set order

UNORDERED = "the order of a set's elements, which differs from process to process; sorted(…) has one"
CHECK = "__in_order__"
NUMBERS = (int, float, bool)
MAKING_STEPS = ("BUILD_SET", "SET_ADD", "SET_UPDATE")
MAKING_NAMES = {"set", "frozenset"}
ITERATING = {"tuple", "iter", "enumerate", "zip", "map", "filter"}
"""Builtins that go through what they are given; the proxies of ``list`` and ``deque`` check by themselves."""
ITERATING_METHODS = {"join", "extend", "fromkeys"}


def is_unordered(value: Any) -> bool:
    """Whether a value is a set whose order differs from process to process."""
    is_set = issubclass(type(value), set | frozenset)  # proxies of sets check by themselves
    return is_set and len(value) > 1 and not all(map(_is_number, value))


def _is_number(value: object) -> bool:
    """Whether a value's hash is computed from a number, or from a tuple of numbers."""
    return all(map(_is_number, value)) if type(value) is tuple else type(value) in NUMBERS


@cache
def makes_sets(code: CodeType) -> bool:
    """Whether some code, or code inside it, makes sets or has one as a constant."""
    return (
        not MAKING_NAMES.isdisjoint(code.co_names)
        or any(step.opname in MAKING_STEPS for step in dis.get_instructions(code))
        or any(isinstance(const, frozenset) for const in code.co_consts)
        or any(makes_sets(const) for const in code.co_consts if isinstance(const, CodeType))
    )


def checking(code: CodeType) -> CodeType:
    """The code of a function or method that checks what it iterates; the same without its source."""
    as_is, made = _compiled(code.co_filename, "".join(linecache.getlines(code.co_filename)))
    key = code.co_qualname, code.co_firstlineno
    return made[key] if as_is.get(key) == code and key in made else code


@cache
def _compiled(filename: str, text: str) -> tuple[dict[tuple[str, int], CodeType], ...]:
    """The code of each function in a source, by qualified name and first line: unchanged, and checking."""
    try:
        trees = ast.parse(text), _Checking().visit(ast.parse(text))
        modules = [compile(tree, filename, "exec", dont_inherit=True) for tree in trees]
    except (SyntaxError, ValueError, RecursionError):
        return {}, {}
    functions: tuple[dict[tuple[str, int], CodeType], ...] = ({}, {})
    for by_place, module in zip(functions, modules, strict=True):
        waiting = [module]
        while waiting:
            code = waiting.pop()
            by_place[code.co_qualname, code.co_firstlineno] = code
            waiting += [inner for inner in code.co_consts if isinstance(inner, CodeType)]
    return functions


class _Checking(ast.NodeTransformer):
    """Puts a check around what functions and methods iterate.

    Functions in functions stay unchanged: a hook among them is known by its code.
    """

    def __init__(self) -> None:
        self._depth = 0

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """Methods don't count as functions in functions, wherever the class is."""
        depth, self._depth = self._depth, 0
        self.generic_visit(node)
        self._depth = depth
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.Lambda) -> ast.AST:
        """Check a function's own loops."""
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        return node

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        """The same for a lambda."""
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
        if any(isinstance(target, ast.Tuple | ast.List) for target in node.targets):
            node.value = self._checked(node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """``tuple(…)``, ``", ".join(…)``, and ``….pop()``."""
        self.generic_visit(node)
        method = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        if method in ITERATING_METHODS or (isinstance(node.func, ast.Name) and node.func.id in ITERATING):
            node.args = [
                argument if isinstance(argument, ast.Starred) else self._checked(argument)
                for argument in node.args
            ]
        elif isinstance(node.func, ast.Attribute) and method == "pop" and not node.args:
            node.func.value = self._checked(node.func.value)
        return node

    def _checked(self, value: ast.expr) -> ast.expr:
        if self._depth != 1:
            return value
        checked = ast.Call(ast.copy_location(ast.Name(CHECK, ast.Load()), value), [value], [])
        return ast.copy_location(checked, value)


# --- tracked set

UNKNOWN_ELEMENTS = "iteration of a set whose elements differ from call to call"
CODE_ELEMENTS = (type, FunctionType)
"""Types of elements that are part of the model's code."""
READING = (
    "__and__", "__rand__", "__or__", "__ror__", "__sub__", "__rsub__", "__xor__", "__rxor__",
    "__eq__", "__ne__", "__le__", "__lt__", "__ge__", "__gt__",
    "union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset", "isdisjoint",
)  # fmt: skip
"""Methods that read all elements and change none."""
UPDATES = {
    "__ior__": "union",
    "__iand__": "intersection",
    "__isub__": "difference",
    "__ixor__": "symmetric_difference",
    "intersection_update": "intersection",
    "symmetric_difference_update": "symmetric_difference",
}
"""Methods that change a set to what another method returns."""


class TrackedSet:
    """The proxy of a set or frozenset of constants. It derives from neither, so that C code asks its methods.

    Attributes:
        is_code: whether some elements are classes or functions.
    """

    def __init__(self, call: CapturedCall, source: Source, kind: type) -> None:
        self._call, self._source, self._kind = call, source, kind
        self._old: set[Any] = set()
        self._now: dict[Any, bool] = {}
        self._is_old = True
        self.is_code = False

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """The set's class, so that ``isinstance`` sees it."""
        return self._kind

    def fill(self, values: Iterable[object]) -> None:
        """Give it the elements that it has before the call."""
        self._old = set(values)
        self.is_code = any(isinstance(element, CODE_ELEMENTS) for element in self._old)
        if not all(is_literal(element) or isinstance(element, CODE_ELEMENTS) for element in self._old):
            self._call.refuse("a set whose elements aren't constants")

    @staticmethod
    def intact() -> bool:
        """Whether all changes went through its methods: there is no other way."""
        return True

    def contents(self) -> set[Any]:
        """Its elements after the captured call."""
        old = {element for element in self._old if self._now.get(element, True)} if self._is_old else set()
        return old | {element for element, there in self._now.items() if there}

    # --- reading -----------------------------------------------------------------------------------

    def _was(self, element: Any) -> bool:
        """Whether an element was there before the call, guarded; classes and functions aren't state."""
        if self.is_code:
            original = self._call.functions.original(element)
            return (self._call.objects.real_of(element) if original is None else original) in self._old
        if not is_literal(element):
            return False
        is_there = element in self._old
        self._call.guards.note(Look.HAS, self._source, is_there, element)
        return is_there

    def _refuse_code(self) -> None:
        """Refuse all but membership in a set of classes or functions, such as a registry."""
        if self.is_code:
            self._call.refuse("a set whose elements aren't constants")

    def __contains__(self, element: object) -> bool:
        if self.is_code:
            return self._was(element)
        element = self._call.constant_key(element)
        if element in self._now:
            return self._now[element]
        return self._is_old and self._was(element)

    def length(self) -> Any:
        """The number of elements: a number of the graph where calls change it."""
        self._refuse_code()
        now = sum(self._now.values())
        if not self._is_old:
            return now
        call = self._call
        changed = now - sum(map(self._was, self._now))
        if self._source not in call.seen.resized:
            call.guards.note(Look.LENGTH, self._source, len(self._old))
            return len(self._old) + changed
        old = call.length_of(self._source, len(self._old))
        return old + changed if changed else old

    def whole(self) -> set[Any]:
        """All elements, guarded."""
        self._refuse_code()
        if self._is_old:
            reason = UNKNOWN_ELEMENTS if self._source in self._call.seen.resized else ""
            self._call.guards.note(Look.LENGTH, self._source, len(self._old), reason=reason)
            for element in sorted(self._old, key=repr):
                self._was(element)
        return self.contents()

    def __len__(self) -> int:
        return int(self.length())

    def __bool__(self) -> bool:
        return bool(self.length())

    def __iter__(self) -> Iterator[Any]:
        inside = self.whole()
        if len(inside) > 1:
            self._call.refuse(UNORDERED)
        return iter(inside)

    def __hash__(self) -> int:
        if self._kind is set:
            raise TypeError("unhashable type: 'set'")
        return hash(frozenset(self.whole()))

    def __repr__(self) -> str:
        inside = self.whole()
        if len(inside) > 1:
            self._call.refuse(UNORDERED)
        return repr(self._kind(inside))

    def copy(self) -> Any:
        return self._kind(self.whole())

    def __reduce_ex__(self, _: object) -> Any:
        return self._kind, (self.whole(),)

    def __deepcopy__(self, _: object) -> Any:
        return self.copy()

    __copy__ = copy

    # --- changes -----------------------------------------------------------------------------------

    def _check(self, name: str) -> None:
        if self._kind is frozenset:
            raise AttributeError(f"'frozenset' object has no attribute {name!r}")

    def add(self, element: object) -> None:
        self._check("add")
        self._note(Op.ADD, element, there=True)

    def discard(self, element: object) -> None:
        self._check("discard")
        self._note(Op.DISCARD, element, there=False)

    def _note(self, op: Op, element: Any, *, there: bool) -> None:
        self._refuse_code()
        if not isinstance(element, torch.Tensor):
            element = self._call.constant_key(element)
        if not is_literal(element):
            self._call.refuse("an element of a set that isn't a constant")
        self._call.seen.resized.add(self._source)
        self._now[element] = there
        self._call.mutate(self, op, ABSENT, element)

    def remove(self, element: object) -> None:
        self._check("remove")
        if element not in self:
            raise KeyError(element)
        self.discard(element)

    def pop(self) -> Any:
        self._check("pop")
        inside = self.whole()
        if len(inside) > 1:
            self._call.refuse(UNORDERED)
        if not inside:
            raise KeyError("pop from an empty set")
        (element,) = inside
        self.discard(element)
        return element

    def clear(self) -> None:
        self._check("clear")
        self._refuse_code()
        self._call.seen.resized.add(self._source)
        self._is_old, self._now = False, {}
        self._call.mutate(self, Op.CLEAR)

    def update(self, *others: Iterable[Any]) -> None:
        self._check("update")
        for other in others:
            for element in elements(other):
                self.add(element)

    def difference_update(self, *others: Iterable[Any]) -> None:
        self._check("difference_update")
        for other in others:
            for element in elements(other):
                self.discard(element)


def elements(values: Any) -> list[Any]:
    """The elements of an iterable; those of sets in an order that is the same in each process."""
    if type(values) is TrackedSet:
        values = values.whole()
    return sorted(values, key=repr) if isinstance(values, set | frozenset) else list(values)


def _as_set(value: Any) -> Any:
    return value.whole() if type(value) is TrackedSet else value


def _reading(name: str) -> None:
    def method(self: TrackedSet, *others: Any) -> Any:
        own = self._kind(self.whole())
        return getattr(own, name)(*map(_as_set, others))

    setattr(TrackedSet, name, method)


def _updating(name: str, reading: str) -> None:
    def method(self: TrackedSet, *others: Any) -> Any:
        if self._kind is frozenset:
            return NotImplemented if name[:2] == "__" else self._check(name)
        wanted = getattr(self.whole(), reading)(*map(_as_set, others))
        before = self.whole()
        for element in sorted(before - wanted, key=repr):
            self.discard(element)
        for element in sorted(wanted - before, key=repr):
            self.add(element)
        return self if name[:2] == "__" else None

    setattr(TrackedSet, name, method)


for _name in READING:
    _reading(_name)
for _name, _read in UPDATES.items():
    _updating(_name, _read)
