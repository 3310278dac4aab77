"""Python's numbers in a graph: operators that TorchScript computes otherwise, by operators that it does not.

TorchScript gives inf or nan where Python raises an error, crashes where an int is divided by 0, rounds
``//`` of floats twice, and has floats for powers of ints. The functions here build the same results from
what both compute alike, and guard what would be an error.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


NUMBERS = (bool, int, float)
EXACT = 2.0**53
"""Up to here a float holds each int."""
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


class Graph(Protocol):
    """The part of a ``GraphBuilder`` that this module needs."""

    def compute(self, function: Any, *args: Any) -> Any:  # noqa: ANN401
        """Add a node that computes a number of the graph."""

    def stands_for(self, number: Any, op: str, *operands: Any) -> None:  # noqa: ANN401
        """Note that a number is the result of one of Python's operators."""

    def assume(self, condition: Any, *, before: bool = False) -> None:  # noqa: ANN401
        """Guard that a bool of the graph is True."""


def truediv(graph: Graph, one: Any, other: Any) -> Any:  # noqa: ANN401
    """``one / other``."""
    _nonzero(graph, other)
    return graph.compute(operator.truediv, one, other)


def mod(graph: Graph, one: Any, other: Any) -> Any:  # noqa: ANN401
    """``one % other``: of floats, ``fmod`` with the sign of the divisor."""
    if _is_int(one) and _is_int(other):
        _nonzero(graph, other, before=True)
        return graph.compute(operator.mod, one, other)
    _nonzero(graph, other)
    compute = graph.compute
    rest = compute(math.fmod, _plain(graph, one), _plain(graph, other))
    below = compute(operator.ne, compute(operator.lt, rest, 0.0), compute(operator.lt, other, 0))
    turned = compute(operator.and_, compute(operator.ne, rest, 0.0), below)
    either = compute(operator.getitem, [rest, compute(operator.add, rest, other)], compute(int, turned))
    result = compute(math.copysign, either, _plain(graph, other))
    graph.stands_for(result, "mod", one, other)
    return result


def floordiv(graph: Graph, one: Any, other: Any) -> Any:  # noqa: ANN401
    """``one // other``: of floats, what is left without the rest, divided, as CPython does."""
    compute = graph.compute
    if _is_int(one) and _is_int(other):
        _nonzero(graph, other, before=True)
        return compute(operator.floordiv, one, other)
    quotient = compute(operator.truediv, compute(operator.sub, one, mod(graph, one, other)), other)
    whole = compute(operator.floordiv, quotient, 1.0)
    above = compute(operator.gt, compute(operator.sub, quotient, whole), 0.5)
    whole = compute(operator.add, whole, compute(float, above))
    result = compute(math.copysign, whole, compute(operator.truediv, one, other))
    graph.stands_for(result, "floordiv", one, other)
    return finite(graph, result)


def pow(graph: Graph, one: Any, other: Any) -> Any:  # noqa: A001, ANN401 (the operator's name)
    """``one ** other``: of ints, a product, or an exact float as an int."""
    if not (_is_int(one) and _is_int(other)):
        return finite(graph, graph.compute(operator.pow, one, other))
    base, exponent = _plain(graph, one), _plain(graph, other)
    if type(exponent) is int and exponent >= 0:
        times = functools.partial(graph.compute, operator.mul)
        return functools.reduce(times, [base] * exponent) if exponent else 1
    power = graph.compute(math.pow, base, exponent)
    if type(exponent) is int:
        return finite(graph, power)
    graph.assume(graph.compute(operator.ge, exponent, 0))
    graph.assume(graph.compute(operator.lt, graph.compute(abs, power), EXACT))
    return graph.compute(int, power)


def lshift(graph: Graph, one: Any, other: Any) -> Any:  # noqa: ANN401
    """``one << other``."""
    if type(other) not in NUMBERS:
        graph.assume(graph.compute(operator.ge, other, 0))
    return graph.compute(operator.lshift, one, other)


def rshift(graph: Graph, one: Any, other: Any) -> Any:  # noqa: ANN401
    """``one >> other``."""
    if type(other) in NUMBERS:
        return graph.compute(operator.rshift, one, min(int(other), MOST_SHIFT))
    graph.assume(graph.compute(operator.ge, other, 0))
    graph.assume(graph.compute(operator.le, other, MOST_SHIFT))
    return graph.compute(operator.rshift, one, other)


def rounded(graph: Graph, number: Any) -> Any:  # noqa: ANN401
    """``round(number)``: a half goes to the even neighbour."""
    if _is_int(number):
        return _plain(graph, number)
    compute = graph.compute
    low = compute(math.floor, number)
    rest = compute(operator.sub, number, compute(float, low))
    odd = compute(operator.eq, compute(operator.mod, low, 2), 1)
    half = compute(operator.and_, compute(operator.eq, rest, 0.5), odd)
    up = compute(operator.or_, compute(operator.gt, rest, 0.5), half)
    return compute(operator.add, low, compute(int, up))


def cut(graph: Graph, function: Callable[..., Any], number: Any) -> Any:  # noqa: ANN401
    """An int near a number, as ``floor``, ``ceil`` or ``int`` gives it."""
    return _plain(graph, number) if _is_int(number) else graph.compute(function, number)


def math_function(graph: Graph, function: Any, args: tuple[Any, ...]) -> Any:  # noqa: ANN401
    """A function in ``MATH``."""
    if MATH[function][:2] == "is" and _is_int(args[0]):
        return function(0)
    given = [_plain(graph, one) for one in args]
    if function is math.log and len(given) > 1:
        top, bottom = (math_function(graph, function, (one,)) for one in given)
        return truediv(graph, top, bottom)
    result = graph.compute(function, *given)
    return result if MATH[function][:2] == "is" else finite(graph, result)


def finite(graph: Graph, number: Any) -> Any:  # noqa: ANN401
    """A number, guarded: Python raises an error where TorchScript gives inf or nan."""
    graph.assume(graph.compute(math.isfinite, number))
    return number


def _nonzero(graph: Graph, divisor: Any, *, before: bool = False) -> None:  # noqa: ANN401
    if type(divisor) not in NUMBERS:
        graph.assume(graph.compute(operator.ne, divisor, 0), before=before)


def _is_int(number: Any) -> bool:  # noqa: ANN401
    """Whether a number is an int or bool, whether of the graph or not."""
    return issubclass(number.__class__, int)


def _plain(graph: Graph, number: Any) -> Any:  # noqa: ANN401
    """A number that is no bool."""
    if number.__class__ is not bool:
        return number
    return int(number) if type(number) in NUMBERS else graph.compute(int, number)
