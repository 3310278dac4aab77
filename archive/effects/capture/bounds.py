"""Bounds for ints, so that everything computed from them fits into a graph's 64 bits.

Python's ints grow; a graph's wrap around silently. So a guard bounds the absolute value of each int that the
graph is given. Interval arithmetic finds the widest bound at which no computed int overflows.
"""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

from archive.effects.capture.python_numbers import EXACT
from archive.effects.capture.scalars import is_scalar, value_of
from archive.effects.capture.sites import error_at
from archive.formats.effects.model import Length, Look

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.effects.capture.call import CapturedCall
    from archive.effects.errors import CaptureError

LARGEST_INT = (1 << 63) - 1
INT_BITS = 62
SIZE_BITS = 40
"""Sizes are below 2**40: no memory holds more elements."""
BOUNDS: dict[Any, Callable[..., int]] = {
    operator.add: lambda one, other: one + other,
    operator.sub: lambda one, other: one + other,
    operator.mul: lambda one, other: one * other,
    operator.neg: lambda one: one,
    operator.abs: lambda one: one,
    abs: lambda one: one,
    operator.floordiv: lambda one, _: one + 1,
    operator.mod: lambda _, other: other,
    operator.and_: lambda one, other: 2 * max(one, other) + 1,
    operator.or_: lambda one, other: 2 * max(one, other) + 1,
    operator.xor: lambda one, other: 2 * max(one, other) + 1,
    operator.lshift: lambda one, other: one << min(other, 64),
    operator.rshift: lambda one, _: one,
    max: max,
    min: max,
}
"""The largest absolute value of an operator's result, given those of its operands."""
SIZE_METHODS = ("size", "numel", "dim")


class Bounds:
    """Bounds the ints of a call.

    Args:
        call: the captured call.
    """

    def __init__(self, call: CapturedCall) -> None:
        self._call = call
        self._ints: dict[Any, Any] = {}  # numbers of the graph by node, in order
        self._quotients: list[Any] = []  # nodes that divide ints, in order
        for value in call.builder.values():
            if is_scalar(value) and type(value_of(value)) is int:
                self._ints[call.builder.node_of(value)] = value
            elif is_scalar(value) and self._divides_ints(call.builder.node_of(value)):
                self._quotients.append(call.builder.node_of(value))

    def note(self) -> None:
        """Guard the ints that computed ones depend on.

        Raises:
            CaptureError: an int may overflow at any bound; the error names the model's line.
        """
        computed = [node for node in self._ints if self._is_computed(node)]
        bits = next((bits for bits in range(INT_BITS, 0, -1) if self._excess(bits) is None), None)
        if bits is None:
            raise self._refused(self._excess(1))
        used = {one for node in (*computed, *self._quotients) for one in node.all_input_nodes}
        for node, value in self._ints.items():
            if self._is_computed(node) or not (node in used or self._is_cut(node)):
                continue
            if self._is_size(node):
                if bits < SIZE_BITS:
                    self._call.guards.note(Look.RANGE, value, 1 << bits, statement=node.meta.get("statement"))
                continue
            given = self._call.builder.input_of(value)
            if given is not None and isinstance(given.source, Length) and bits >= SIZE_BITS:
                continue
            subject = value if given is None else given.source
            statement = next(
                (user.meta["statement"] for user in node.users if user.meta.get("statement")), None
            )
            self._call.guards.note(Look.RANGE, subject, 1 << bits, statement=statement)

    def _is_computed(self, node: Any) -> bool:  # noqa: ANN401
        """Whether interval arithmetic gives the bound of a node."""
        return node.op == "call_function" and node.target in BOUNDS

    def _divides_ints(self, node: Any) -> bool:  # noqa: ANN401
        """Whether a node divides ints: TorchScript makes each a float first, which Python does not."""
        if node.op != "call_function" or node.target is not operator.truediv:
            return False
        return all(one in self._ints or type(one) is int for one in node.args)

    @staticmethod
    def _is_cut(node: Any) -> bool:  # noqa: ANN401
        """Whether a node converts a float to an int."""
        return bool(node.op == "call_function" and node.target in (int, math.floor, math.ceil))

    @staticmethod
    def _is_size(node: Any) -> bool:  # noqa: ANN401
        """Whether a node gives a size, a length or a number of dimensions."""
        return node.target in SIZE_METHODS or node.target is len

    def _excess(self, bits: int) -> Any:  # noqa: ANN401
        """The first node that may overflow if the given ints have so many bits; None if none may."""
        found: dict[Any, int] = {}
        for node in self._ints:
            if not self._is_computed(node):
                found[node] = 1 << (min(bits, SIZE_BITS) if self._is_size(node) else bits)
                continue
            parts = [found.get(one, _bound(one)) for one in node.args]
            found[node] = BOUNDS[node.target](*parts)
            if found[node] > LARGEST_INT or any(part > LARGEST_INT for part in parts):
                return node
        for node in self._quotients:
            if any(found.get(one, _bound(one)) > EXACT for one in node.args):
                return node
        return None

    @staticmethod
    def _refused(node: Any) -> CaptureError:  # noqa: ANN401
        return error_at("an int that does not fit into 64 bits", node.meta.get("statement"))


def _bound(argument: Any) -> int:  # noqa: ANN401
    """The largest absolute value of an operand that is no int of the graph: a constant, or a bool."""
    return abs(argument) if type(argument) is int else 1
