"""Numbers that Python needs to decide, as Python computes them from state and arguments before the call."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.guards import is_reachable
from archive.effects.capture.python_numbers import NUMBERS
from archive.effects.capture.scalars import is_scalar
from archive.effects.looking import WITHOUT_MODES
from archive.formats.effects.computed import COMPUTED
from archive.formats.effects.model import At, Computed, Constant

if TYPE_CHECKING:
    from archive.effects.capture.inputs import Input
    from archive.formats.effects.model import Source, Value

OPERATIONS: dict[Any, str] = {
    **{getattr(operator, op): op for op in COMPUTED if hasattr(operator, op)},
    abs: "abs",
    int: "int",
    float: "float",
    min: "min",
    max: "max",
}
"""The operations by the functions that nodes call."""
SIZE_METHODS = {"size": "size_of", "numel": "numel"}


class Decisions:
    """Finds the expressions of numbers.

    Args:
        inputs: of the graph, which grow with the call.
    """

    def __init__(self, inputs: list[Input]) -> None:
        self._inputs = inputs
        self._known: dict[Any, Value | None] = {}

    def subject(self, node: Any) -> Source | Computed | None:  # noqa: ANN401
        """A number's place or expression; None if it follows from more than numbers, sizes and lengths."""
        value = self._value(node)
        return value.source if isinstance(value, At) else value  # type: ignore[return-value]

    def is_of_sizes(self, node: Any) -> bool:  # noqa: ANN401
        """Whether a number follows from other numbers and from sizes, not from tensors' elements."""
        given = self._input(node)
        if given is not None:
            return is_scalar(given.proxy)
        if node.op == "call_method":
            return node.target in SIZE_METHODS
        is_known = node.op == "call_function" and node.target in OPERATIONS
        return is_known and all(map(self.is_of_sizes, node.all_input_nodes))

    def _input(self, node: Any) -> Input | None:  # noqa: ANN401
        return next((one for one in self._inputs if one.node is node), None)

    def _value(self, node: Any) -> Value | None:  # noqa: ANN401
        if node not in self._known:
            self._known[node] = self._of_node(node)
        return self._known[node]

    def _of_node(self, node: Any) -> Value | None:  # noqa: ANN401
        given = self._input(node)
        if given is not None:
            return At(given.source) if is_scalar(given.proxy) and is_reachable(given.source) else None
        if node.op == "call_method" and node.target in SIZE_METHODS:
            return self._size(node)
        if "python" in node.meta:
            op, args = node.meta["python"]
        else:
            op = OPERATIONS.get(node.target) if node.op == "call_function" and not node.kwargs else None
            args = node.args
        items = [self._operand(one) for one in args]
        return None if op is None or None in items else Computed(op, tuple(items))  # type: ignore[arg-type]

    def _operand(self, argument: Any) -> Value | None:  # noqa: ANN401
        if type(argument) in NUMBERS:
            return Constant(argument)
        return self._value(argument) if isinstance(argument, torch.fx.Node) else None

    def _size(self, node: Any) -> Value | None:  # noqa: ANN401
        """A size of a tensor that the call has not changed."""
        tensor, *dims = node.args
        given = self._input(tensor)
        with WITHOUT_MODES():
            if given is None or given.changed or not is_reachable(given.source):
                return None
        if not all(type(one) is int for one in dims):
            return None
        return Computed(SIZE_METHODS[node.target], (At(given.source), *map(Constant, dims)))
