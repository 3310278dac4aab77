"""Numbers of the graph: proxies of counters that calls write, of sizes, and of arguments.

A free number is computed only from arguments and sizes. Where Python needs its value, as in a branch, a guard
keeps it the same in later calls. Any other number, such as a counter, differs from call to call by itself. A
model whose Python code needs its value is captured as several entries: a guard selects the entry with this
value.

TorchScript returns inf or nan where Python raises an error, crashes where an int is divided by 0, rounds
``//`` of floats twice, and returns floats for powers of ints. The functions here build the same results from
what both compute alike, and guard against errors. Their first argument is the builder of the graph.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Protocol

import torch

from archive.effects.capture.graph.sites import use_of_index
from archive.effects.nested import with_items
from archive.formats.effects.words import COMPARISONS

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.formats.effects.model import Source


NUMBERS = (bool, int, float)
EXACT = 2.0**53
"""Up to here a float represents every int."""
MOST_SHIFT = 63
MATH = {
    getattr(math, name): name
    for name in (
        *("exp", "expm1", "log", "log10", "log1p", "sqrt", "pow", "fmod", "fabs", "copysign", "degrees"),
        *("radians", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh"),
        *("acosh", "atanh", "erf", "erfc", "isfinite", "isinf", "isnan"),
    )
}
"""Functions of ``math`` that TorchScript has, and computes alike."""


class NumberGraph(Protocol):
    """What builds the graph that numbers are computed in: ``graph_builder.GraphBuilder``."""

    refuse: Callable[[str], NoReturn]
    text_of: Callable[[object, str], str | None]

    def compute(self, function: Any, *args: Any) -> Any:
        """The number that a Python operator or function returns."""

    def assume(self, condition: Any, *, before: bool = False) -> None:
        """Guard that a bool is True in later calls."""

    def stands_for(self, number: Any, op: str, *operands: Any) -> None:
        """Note that a number is the result of one of Python's operators."""

    def fixed(self, value: Any, reason: str = "") -> Any:
        """The Python number of a number, guarded from now on."""

    def can_fix(self, value: Any) -> bool:
        """Whether a guard can determine the Python number."""


def truediv(graph: NumberGraph, left: Any, right: Any) -> Any:
    """``left / right``."""
    _nonzero(graph, right)
    return graph.compute(operator.truediv, left, right)


def mod(graph: NumberGraph, left: Any, right: Any) -> Any:
    """``left % right``: for floats, ``fmod`` with the sign of the divisor."""
    if _is_int(left) and _is_int(right):
        _nonzero(graph, right, before=True)
        return graph.compute(operator.mod, left, right)
    _nonzero(graph, right)
    compute = graph.compute
    rest = compute(math.fmod, _not_bool(graph, left), _not_bool(graph, right))
    below = compute(operator.ne, compute(operator.lt, rest, 0.0), compute(operator.lt, right, 0))
    turned = compute(operator.and_, compute(operator.ne, rest, 0.0), below)
    either = compute(operator.getitem, [rest, compute(operator.add, rest, right)], compute(int, turned))
    result = compute(math.copysign, either, _not_bool(graph, right))
    graph.stands_for(result, "mod", left, right)
    return result


def floordiv(graph: NumberGraph, left: Any, right: Any) -> Any:
    """``left // right``: for floats, the dividend without its remainder, divided, as in CPython."""
    compute = graph.compute
    if _is_int(left) and _is_int(right):
        _nonzero(graph, right, before=True)
        return compute(operator.floordiv, left, right)
    quotient = compute(operator.truediv, compute(operator.sub, left, mod(graph, left, right)), right)
    whole = compute(operator.floordiv, quotient, 1.0)
    above = compute(operator.gt, compute(operator.sub, quotient, whole), 0.5)
    whole = compute(operator.add, whole, compute(float, above))
    result = compute(math.copysign, whole, compute(operator.truediv, left, right))
    graph.stands_for(result, "floordiv", left, right)
    return finite(graph, result)


def pow(graph: NumberGraph, left: Any, right: Any) -> Any:  # noqa: A001 (the operator's name)
    """``left ** right``: for ints, a product, or an exact float as an int."""
    if not (_is_int(left) and _is_int(right)):
        return finite(graph, graph.compute(operator.pow, left, right))
    base, exponent = _not_bool(graph, left), _not_bool(graph, right)
    if type(exponent) is int and exponent >= 0:
        times = functools.partial(graph.compute, operator.mul)
        return functools.reduce(times, [base] * exponent) if exponent else 1
    power = graph.compute(math.pow, base, exponent)
    if type(exponent) is int:
        return finite(graph, power)
    graph.assume(graph.compute(operator.ge, exponent, 0))
    graph.assume(graph.compute(operator.lt, graph.compute(abs, power), EXACT))
    return graph.compute(int, power)


def power_modulo(graph: NumberGraph, left: Any, right: Any, modulus: Any) -> Any:
    """``pow(left, right, modulus)`` of ints, by the whole power."""
    if type(right) in NUMBERS and right < 0:
        graph.refuse("pow(…, …, …) with a negative exponent")
    return mod(graph, pow(graph, left, right), modulus)


def lshift(graph: NumberGraph, left: Any, right: Any) -> Any:
    """``left << right``."""
    if type(right) not in NUMBERS:
        graph.assume(graph.compute(operator.ge, right, 0))
    return graph.compute(operator.lshift, left, right)


def rshift(graph: NumberGraph, left: Any, right: Any) -> Any:
    """``left >> right``."""
    if type(right) in NUMBERS:
        return graph.compute(operator.rshift, left, min(int(right), MOST_SHIFT))
    graph.assume(graph.compute(operator.ge, right, 0))
    graph.assume(graph.compute(operator.le, right, MOST_SHIFT))
    return graph.compute(operator.rshift, left, right)


def rounded(graph: NumberGraph, number: Any) -> Any:
    """``round(number)``: halves go to the even neighbour."""
    if _is_int(number):
        return _not_bool(graph, number)
    compute = graph.compute
    low = compute(math.floor, number)
    rest = compute(operator.sub, number, compute(float, low))
    odd = compute(operator.eq, compute(operator.mod, low, 2), 1)
    half = compute(operator.and_, compute(operator.eq, rest, 0.5), odd)
    up = compute(operator.or_, compute(operator.gt, rest, 0.5), half)
    return compute(operator.add, low, compute(int, up))


def cut(graph: NumberGraph, function: Callable[..., Any], number: Any) -> Any:
    """An int near a number, as ``floor``, ``ceil`` or ``int`` returns it."""
    return _not_bool(graph, number) if _is_int(number) else graph.compute(function, number)


def math_function(graph: NumberGraph, function: Any, args: tuple[Any, ...]) -> Any:
    """A function in ``MATH``."""
    if MATH[function][:2] == "is" and _is_int(args[0]):
        return function(0)
    given = [_not_bool(graph, argument) for argument in args]
    if function is math.log and len(given) > 1:
        top, bottom = (math_function(graph, function, (number,)) for number in given)
        return truediv(graph, top, bottom)
    result = graph.compute(function, *given)
    return result if MATH[function][:2] == "is" else finite(graph, result)


def finite(graph: NumberGraph, number: Any) -> Any:
    """A number, guarded: Python raises an error where TorchScript returns inf or nan."""
    graph.assume(graph.compute(math.isfinite, number))
    return number


def _nonzero(graph: NumberGraph, divisor: Any, *, before: bool = False) -> None:
    if type(divisor) not in NUMBERS:
        graph.assume(graph.compute(operator.ne, divisor, 0), before=before)


def _is_int(number: Any) -> bool:
    """Whether a number is an int or bool, whether of the graph or not."""
    return issubclass(number.__class__, int)


def _not_bool(graph: NumberGraph, number: Any) -> Any:
    """A number that isn't a bool."""
    if number.__class__ is not bool:
        return number
    return int(number) if type(number) in NUMBERS else graph.compute(int, number)


# --- shape


class ShapeProxy(tuple[Any, ...]):
    """The proxy of a ``torch.Size``, as ``x.shape`` returns it: a tuple of numbers of the graph."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """``torch.Size``, so that ``isinstance`` sees it."""
        return torch.Size

    def numel(self) -> Any:
        """The number of elements of a tensor of this shape."""
        total: Any = 1
        for size in self:
            total = total * size
        return total

    def __getitem__(self, index: Any) -> Any:
        item = tuple.__getitem__(self, index)
        return ShapeProxy(item) if isinstance(index, slice) else item

    def __add__(self, other: Any) -> Any:
        return ShapeProxy(tuple.__add__(self, tuple(other)))

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    __str__ = __repr__


# --- scalars


class NumberOperator(NamedTuple):
    """An operator of Python's numbers.

    Attributes:
        bound: the largest absolute value of an int result, given those of the operands; None if no bound
            follows.
        result: builds the result if TorchScript computes a different one.
    """

    function: Callable[..., Any]
    bound: Callable[..., int] | None = None
    result: Callable[..., Any] | None = None


def _sum_of_bounds(left: int, right: int) -> int:
    return left + right


def _bound_of_bits(left: int, right: int) -> int:
    return 2 * max(left, right) + 1


BINARY = {
    "add": NumberOperator(operator.add, _sum_of_bounds),
    "sub": NumberOperator(operator.sub, _sum_of_bounds),
    "mul": NumberOperator(operator.mul, lambda left, right: left * right),
    "truediv": NumberOperator(operator.truediv, result=truediv),
    "floordiv": NumberOperator(operator.floordiv, lambda left, _: left + 1, floordiv),
    "mod": NumberOperator(operator.mod, lambda _, other: other, mod),
    "pow": NumberOperator(operator.pow, result=pow),
    "lt": NumberOperator(operator.lt),
    "le": NumberOperator(operator.le),
    "gt": NumberOperator(operator.gt),
    "ge": NumberOperator(operator.ge),
    "eq": NumberOperator(operator.eq),
    "ne": NumberOperator(operator.ne),
    "and": NumberOperator(operator.and_, _bound_of_bits),
    "or": NumberOperator(operator.or_, _bound_of_bits),
    "xor": NumberOperator(operator.xor, _bound_of_bits),
    "lshift": NumberOperator(operator.lshift, lambda left, right: left << min(right, 64), lshift),
    "rshift": NumberOperator(operator.rshift, lambda left, _: left, rshift),
}
UNARY = {
    "neg": NumberOperator(operator.neg, lambda bound: bound),
    "abs": NumberOperator(abs, lambda bound: bound),
}
CHOOSING = {"max": NumberOperator(max, max), "min": NumberOperator(min, min)}
BOUNDS = {
    row.function: row.bound
    for rows in (BINARY, UNARY, CHOOSING)
    for row in rows.values()
    if row.bound is not None
}
DIFFERS = "the number it depends on differs from call to call"
NEEDED = {
    "__bool__": "control flow",
    "__index__": "",  # see use_of_index
    "__int__": "a conversion",
    "__float__": "a conversion",
    "__complex__": "a conversion",
    "__hash__": "a key or hash",
    "__str__": "a text",
    "__repr__": "a text",
    "__format__": "a text",
    "__getattr__": "an attribute",
    # PyTorch's symbolic sizes have these, so they aren't missing attributes.
    "as_integer_ratio": "an attribute 'as_integer_ratio'",
    "bit_length": "an attribute 'bit_length'",
    "conjugate": "an attribute 'conjugate'",
}


class Scalar:
    """A number of the graph, with its value in the captured call.

    Args:
        free: whether it is computed only from arguments and sizes.
        origin: for an argument, its source and None; for a size, the tensor's source and the dimension. None
            for other numbers.
    """

    __slots__ = ("_builder", "_free", "_origin", "_value")

    def __init__(
        self,
        builder: NumberGraph,
        value: float,
        *,
        free: bool = False,
        origin: tuple[Source, int | None] | None = None,
    ) -> None:
        self._builder = builder
        self._value = value
        self._free = free
        self._origin = origin

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The Python number's class, so that ``isinstance`` sees a number."""
        return type(self._value)


class RealScalar(Scalar):
    """A float or bool. PyTorch accepts it as a number, and asks the torch function mode first."""

    __slots__ = ()

    @classmethod
    def __torch_function__(cls, *_: object, **__: object) -> Any:
        """Leave the call to the mode."""
        return NotImplemented


class IntScalar(Scalar, torch.SymInt):  # type: ignore[misc]
    """An int. PyTorch accepts it as a symbolic size, and does not ask for its value."""


SCALARS = (RealScalar, IntScalar)


def scalar(
    builder: NumberGraph,
    value: float,
    *,
    free: bool = False,
    origin: tuple[Source, int | None] | None = None,
) -> Scalar:
    """A number of the graph."""
    kind = IntScalar if type(value) is int else RealScalar
    return kind(builder, value, free=free, origin=origin)


def is_scalar(value: object) -> bool:
    """Whether a value is a number of the graph, whatever its ``__class__`` says."""
    return type(value) in SCALARS


def value_of(value: Any) -> Any:
    """The Python number of a number of the graph; other values as they are."""
    return value._value if type(value) in SCALARS else value


def concrete(value: Any) -> Any:
    """A value with Python numbers in place of numbers of the graph, at any depth."""
    if is_scalar(value):
        return value_of(value)
    if type(value) in (ShapeProxy, torch.Size):
        return tuple(map(concrete, value))
    return list(map(concrete, value)) if isinstance(value, list) else with_items(value, concrete)


def is_free(*values: object) -> bool:
    """Whether all numbers of the graph among some values are free."""
    return all(
        is_free(*value) if type(value) is list else value._free  # type: ignore[attr-defined]
        for value in values
        if type(value) in (*SCALARS, list)
    )


def _binary(name: str, row: NumberOperator) -> None:
    """Add an operator of two numbers, and the reflected one."""

    def computed(builder: NumberGraph, left: object, right: object) -> object:
        return row.result(builder, left, right) if row.result else builder.compute(row.function, left, right)

    def forward(self: Scalar, other: object, *modulus: object) -> object:
        if not all(is_scalar(operand) or type(operand) in NUMBERS for operand in (other, *modulus)):
            return NotImplemented
        if modulus:
            return power_modulo(self._builder, self, other, *modulus)
        return computed(self._builder, self, other)

    def backward(self: Scalar, other: object) -> object:
        return computed(self._builder, other, self) if type(other) in NUMBERS else NotImplemented

    setattr(Scalar, f"__{name}__", forward)
    if name not in COMPARISONS:
        setattr(Scalar, f"__r{name}__", backward)


def _unary(name: str, row: NumberOperator) -> None:
    setattr(Scalar, f"__{name}__", lambda self: self._builder.compute(row.function, self))


def _needed(name: str, use: str) -> None:
    """Add a method that needs the number's value: it guards a free number and refuses others."""

    def method(self: Scalar, *args: Any) -> object:
        if name == "__getattr__" and args[0] == "__torch_function__":
            raise AttributeError(args[0])
        if name == "__getattr__" and args[0] == "node":
            return self._builder.refuse("a size in a function of PyTorch that has ways of its own with it")
        text = self._builder.text_of(self, *args) if name == "__format__" else None
        if text is not None:
            return text
        what = f"{use} {args[0]!r}" if name == "__getattr__" else use or use_of_index()
        reason = f"{what}: {DIFFERS}"
        if name == "__bool__" and type(self._value) is not bool and self._builder.can_fix(self):
            return bool(self._builder.fixed(self._builder.compute(operator.ne, self, 0), reason))
        value = self._builder.fixed(self, reason)
        return getattr(value, args[0]) if name == "__getattr__" else getattr(value, name)(*args)

    setattr(Scalar, name, method)


def _cut(name: str) -> None:
    function: Callable[..., object] = int if name == "trunc" else getattr(math, name)
    setattr(Scalar, f"__{name}__", lambda self: cut(self._builder, function, self))


def _round(self: Scalar, digits: int | None = None) -> object:
    if digits is not None and not self._builder.can_fix(self):
        return self._builder.refuse(
            f"round(…, {value_of(digits)}) of a number that differs from call to call"
        )
    if digits is not None:
        return round(self._builder.fixed(self), digits)
    return rounded(self._builder, self)


def _inverted(self: Scalar) -> object:
    if type(self._value) is float:
        raise TypeError("bad operand type for unary ~: 'float'")
    return -_not_bool(self._builder, self) - 1


def _divmod(left: object, right: object) -> object:
    return left // right, left % right  # type: ignore[operator]


for _name, _row in BINARY.items():
    _binary(_name, _row)
for _name, _row in UNARY.items():
    _unary(_name, _row)
for _name in ("floor", "ceil", "trunc"):
    _cut(_name)
for _name, _use in NEEDED.items():
    _needed(_name, _use)
for _name, _method in {
    "__round__": _round,
    "__copy__": lambda self: self,
    "__deepcopy__": lambda self, _: self,
    "__pos__": lambda self: _not_bool(self._builder, self),
    "__invert__": _inverted,
    "__divmod__": _divmod,
    "__rdivmod__": lambda left, right: _divmod(right, left),
}.items():
    setattr(Scalar, _name, _method)
