"""Numbers of the graph: proxies of counters that calls write, of sizes, and of arguments.

A free number is computed from arguments and sizes alone. Where Python needs its value, as in a branch, a
guard keeps it the same in later calls. Any other number, such as a counter, differs from call to call by
itself, and a model whose Python code needs its value is refused, or captured as several entries: then a
guard tells the entry that has this value.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import torch

from archive.effects.capture.graph import python_numbers
from archive.effects.capture.graph.python_numbers import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.formats.effects.model import Source


# --- shape


class Shape(tuple[Any, ...]):
    """The proxy of a ``torch.Size``, as ``x.shape`` gives it: a tuple of numbers of the graph."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # noqa: ANN401
        """``torch.Size``, so that ``isinstance`` sees it."""
        return torch.Size

    def numel(self) -> Any:  # noqa: ANN401
        """The number of elements of a tensor of this shape."""
        total: Any = 1
        for one in self:
            total = total * one
        return total

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401
        found = tuple.__getitem__(self, index)
        return Shape(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:  # noqa: ANN401
        return Shape(tuple.__add__(self, tuple(other)))

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    __str__ = __repr__


# --- scalars

BINARY = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
)
UNARY = ("neg", "abs")
DIFFERENT: dict[str, Callable[..., object]] = {
    name: getattr(python_numbers, name) for name in ("truediv", "floordiv", "mod", "pow", "lshift", "rshift")
}
"""Operators that TorchScript computes otherwise, for some operands."""
DIFFERS = "the number it depends on differs from call to call"
NEEDED = {
    "__bool__": "control flow",
    "__index__": "an index or a size",
    "__int__": "a conversion",
    "__float__": "a conversion",
    "__complex__": "a conversion",
    "__hash__": "a key or hash",
    "__str__": "a text",
    "__repr__": "a text",
    "__format__": "a text",
    "__getattr__": "an attribute",
}


class Arithmetic(python_numbers.Graph, Protocol):
    """The part of a ``GraphBuilder`` that its numbers need."""

    def fixed(self, value: Any, reason: str = "") -> Any:  # noqa: ANN401
        """Guard a number of the graph, and give its Python number."""

    def can_fix(self, value: Any) -> bool:  # noqa: ANN401
        """Whether a guard can tell the Python number of a number of the graph."""

    @property
    def text_of(self) -> Callable[[object, str], str | None]:
        """Give a mark in the place of a number's text, if a table can hold the text; else None."""

    @property
    def refuse(self) -> Callable[[str], NoReturn]:
        """End the call with an error at the model's statement."""


class Scalar:
    """A number of the graph, with its value in the captured call.

    Args:
        arithmetic: computes with it.
        value: in this call.
        free: whether it is computed from arguments and sizes alone.
        origin: of a number that is an argument: its source and None; of a size: the tensor's source and the
            dimension. None for other numbers.
    """

    __slots__ = ("_arithmetic", "_free", "_origin", "_value")

    def __init__(
        self,
        arithmetic: Arithmetic,
        value: float,
        *,
        free: bool = False,
        origin: tuple[Source, int | None] | None = None,
    ) -> None:
        self._arithmetic = arithmetic
        self._value = value
        self._free = free
        self._origin = origin

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The Python number's class, so that ``isinstance`` sees a number."""
        return type(self._value)


class RealScalar(Scalar):
    """A float or bool. PyTorch takes it as a number, and asks the torch function mode first."""

    __slots__ = ()

    @classmethod
    def __torch_function__(cls, *_: object, **__: object) -> Any:  # noqa: ANN401 (PyTorch's name)
        """Leave the call to the mode."""
        return NotImplemented


class IntScalar(Scalar, torch.SymInt):  # type: ignore[misc]
    """An int. PyTorch takes it as a symbolic size, and does not ask for its value."""


SCALARS = (RealScalar, IntScalar)


def scalar(
    arithmetic: Arithmetic,
    value: float,
    *,
    free: bool = False,
    origin: tuple[Source, int | None] | None = None,
) -> Scalar:
    """A number of the graph."""
    kind = IntScalar if type(value) is int else RealScalar
    return kind(arithmetic, value, free=free, origin=origin)


def is_scalar(value: object) -> bool:
    """Whether a value is a number of the graph, whatever its ``__class__`` says."""
    return type(value) in SCALARS


def value_of(value: Any) -> Any:  # noqa: ANN401 (a number)
    """The Python number of a number of the graph; other values as they are."""
    return value._value if type(value) in SCALARS else value


def concrete(value: Any) -> Any:  # noqa: ANN401
    """A value with Python numbers in place of numbers of the graph, at any depth."""
    if is_scalar(value):
        return value_of(value)
    if type(value) in (tuple, Shape, torch.Size):
        return tuple(map(concrete, value))
    if isinstance(value, list):
        return list(map(concrete, value))
    if type(value) is dict:
        return {key: concrete(one) for key, one in value.items()}
    if isinstance(value, slice):
        return slice(*map(concrete, (value.start, value.stop, value.step)))
    return value


def is_free(*values: object) -> bool:
    """Whether all numbers of the graph among some values are free."""
    return all(
        is_free(*one) if type(one) is list else one._free  # type: ignore[attr-defined]
        for one in values
        if type(one) in (*SCALARS, list)
    )


def _computed(arithmetic: Arithmetic, name: str, function: Callable[..., object], *numbers: object) -> object:
    """The result of an operator, as Python computes it."""
    made = DIFFERENT.get(name)
    return made(arithmetic, *numbers) if made else arithmetic.compute(function, *numbers)


def _binary(name: str) -> None:
    function = getattr(operator, name)
    plain = name.rstrip("_")

    def forward(self: Scalar, other: object) -> object:
        if not (is_scalar(other) or type(other) in NUMBERS):
            return NotImplemented
        return _computed(self._arithmetic, name, function, self, other)

    def backward(self: Scalar, other: object) -> object:
        if type(other) not in NUMBERS:
            return NotImplemented
        return _computed(self._arithmetic, name, function, other, self)

    setattr(Scalar, f"__{plain}__", forward)
    if plain not in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Scalar, f"__r{plain}__", backward)


def _unary(name: str) -> None:
    function: Callable[..., object] = abs if name == "abs" else operator.neg

    def method(self: Scalar) -> object:
        return self._arithmetic.compute(function, self)

    setattr(Scalar, f"__{name}__", method)


def _needed(name: str, use: str) -> None:
    """Add a method that needs the number's value: it guards a free number and refuses others."""

    def method(self: Scalar, *args: Any) -> object:  # noqa: ANN401
        if name == "__getattr__" and args[0] == "__torch_function__":
            raise AttributeError(args[0])
        if name == "__getattr__" and args[0] == "node":
            return self._arithmetic.refuse("a size in a function of PyTorch that has ways of its own with it")
        text = self._arithmetic.text_of(self, *args) if name == "__format__" else None
        if text is not None:
            return text
        what = f"{use} {args[0]!r}" if name == "__getattr__" else use
        reason = f"{what}: {DIFFERS}"
        if name == "__bool__" and type(self._value) is not bool and self._arithmetic.can_fix(self):
            return bool(self._arithmetic.fixed(self._arithmetic.compute(operator.ne, self, 0), reason))
        value = self._arithmetic.fixed(self, reason)
        return getattr(value, args[0]) if name == "__getattr__" else getattr(value, name)(*args)

    setattr(Scalar, name, method)


def _cut(name: str) -> None:
    function: Callable[..., object] = int if name == "trunc" else getattr(math, name)
    setattr(Scalar, f"__{name}__", lambda self: python_numbers.cut(self._arithmetic, function, self))


def _round(self: Scalar, digits: int | None = None) -> object:
    if digits is not None and not self._arithmetic.can_fix(self):
        return self._arithmetic.refuse(
            f"round(…, {value_of(digits)}) of a number that differs from call to call"
        )
    if digits is not None:
        return round(self._arithmetic.fixed(self), digits)
    return python_numbers.rounded(self._arithmetic, self)


def _divmod(one: object, other: object) -> object:
    return one // other, one % other  # type: ignore[operator]


for _name in BINARY:
    _binary(_name)
for _name in UNARY:
    _unary(_name)
for _name in ("floor", "ceil", "trunc"):
    _cut(_name)
for _name, _use in NEEDED.items():
    _needed(_name, _use)
for _name, _method in {
    "__round__": _round,
    "__divmod__": _divmod,
    "__rdivmod__": lambda one, other: _divmod(other, one),
}.items():
    setattr(Scalar, _name, _method)
