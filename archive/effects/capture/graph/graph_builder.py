"""Builds the graph of a call: a node for each operation, and the node that makes each tensor and number.

Numbers that Python needs for decisions are computed as Python does, from state and arguments before the call.
"""

from __future__ import annotations

import builtins
import keyword
import operator
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import fx

from archive.effects.capture.graph.guards import GraphInput, copied, is_reachable
from archive.effects.capture.graph.scalars import (
    DIFFERS,
    NUMBERS,
    Scalar,
    concrete,
    is_free,
    is_scalar,
    scalar,
    value_of,
)
from archive.effects.capture.graph.variables import identifier_of
from archive.effects.looking import WITHOUT_MODES
from archive.effects.nested import with_items
from archive.formats.effects.model import At, Computed, Constant, Look
from archive.formats.effects.words import COMPUTED

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from archive.effects.capture.graph.guards import Guards
    from archive.effects.capture.graph.sites import ModelStatement
    from archive.formats.effects.model import Source, Value


# --- decisions

WORD_BY_FUNCTION: dict[Any, str] = {
    **{getattr(operator, op): op for op in COMPUTED if hasattr(operator, op)},
    abs: "abs",
    int: "int",
    float: "float",
    min: "min",
    max: "max",
}
"""The operations, by the functions that nodes call."""
WORD_BY_METHOD = {"size": "size_of", "numel": "numel"}


class Decisions:
    """Finds the expressions of numbers; the graph's inputs grow with the call."""

    def __init__(self, inputs: list[GraphInput]) -> None:
        self._inputs = inputs
        self._known: dict[Any, Value | None] = {}

    def subject(self, node: Any) -> Source | Computed | None:
        """A number's place or expression; None if it depends on more than numbers, sizes and lengths."""
        value = self._value(node)
        return value.source if isinstance(value, At) else value  # type: ignore[return-value]

    def is_of_sizes(self, node: Any) -> bool:
        """Whether a number depends on other numbers and on sizes, not on tensors' elements."""
        given = self._input(node)
        if given is not None:
            return is_scalar(given.proxy)
        if node.op == "call_method":
            return node.target in WORD_BY_METHOD
        is_known = node.op == "call_function" and node.target in WORD_BY_FUNCTION
        return is_known and all(map(self.is_of_sizes, node.all_input_nodes))

    def _input(self, node: Any) -> GraphInput | None:
        return next((given for given in self._inputs if given.node is node), None)

    def _value(self, node: Any) -> Value | None:
        if node not in self._known:
            self._known[node] = self._of_node(node)
        return self._known[node]

    def _of_node(self, node: Any) -> Value | None:
        given = self._input(node)
        if given is not None:
            return At(given.source) if is_scalar(given.proxy) and is_reachable(given.source) else None
        if node.op == "call_method" and node.target in WORD_BY_METHOD:
            return self._size(node)
        if "python" in node.meta:
            op, args = node.meta["python"]
        else:
            op = WORD_BY_FUNCTION.get(node.target) if node.op == "call_function" and not node.kwargs else None
            args = node.args
        operands: list[Value | None] = []
        for argument in args:
            if type(argument) in NUMBERS:
                operands.append(Constant(argument))
            else:
                operands.append(self._value(argument) if isinstance(argument, fx.Node) else None)
        return None if op is None or None in operands else Computed(op, tuple(operands))  # type: ignore[arg-type]

    def _size(self, node: Any) -> Value | None:
        """A size of a tensor that the call has not changed."""
        tensor, *dims = node.args
        given = self._input(tensor)
        with WITHOUT_MODES():
            if given is None or given.changed or not is_reachable(given.source):
                return None
        if not all(type(dim) is int for dim in dims):
            return None
        return Computed(WORD_BY_METHOD[node.target], (At(given.source), *map(Constant, dims)))


# --- graph builder

SQUEEZED = ("squeeze", "squeeze_", "flatten")
"""Operators whose result's number of dimensions depends on sizes, not only on the operands' dimensions."""
RESERVED = frozenset({*dir(builtins), "torch", "device", "inf", "nan"}) - {"input"}
"""Names that mean something else in a graph's text."""


class GraphBuilder:
    """Builds the graph of one call.

    Attributes:
        constants: tensors that are the same in every call, by their names in the graph.
        last: the last placeholder, after which the next one goes; at first the graph's root.
        text_of: returns a mark in place of a value's text, if a table can hold the text; else None.
    """

    def __init__(
        self,
        guards: Guards,
        here: Callable[[], ModelStatement | None],
        refuse: Callable[[str], NoReturn],
    ) -> None:
        self._guards, self._here, self.refuse = guards, here, refuse
        self.text_of: Callable[[object, str], str | None] = lambda _, __: None
        self.graph = fx.Graph()
        self.inputs: list[GraphInput] = []
        self._decisions = Decisions(self.inputs)
        self.constants: dict[str, Any] = {}
        self._nodes: dict[int, Any] = {}
        self._by_identity: dict[int, GraphInput] = {}
        self._alive: list[object] = []
        self._names: set[str] = {"self"}
        self.last: Any = self.graph._root

    def node_of(self, value: object) -> Any:
        """The node that makes a value; None if the graph does not know the value."""
        return self._nodes.get(id(value))

    def input_of(self, value: object) -> GraphInput | None:
        """The input whose proxy a value is; None for other values."""
        return self._by_identity.get(id(value))

    def known_as(self, value: object) -> Any:
        """An input's source, or the node that makes a value; None if the graph does not know the value."""
        given = self.input_of(value)
        return self.node_of(value) if given is None else given.source

    def bind(self, value: object, node: Any) -> None:
        """Note that a node makes a value."""
        self._nodes[id(value)] = node
        self._alive.append(value)

    def tensor_input(
        self,
        source: Source,
        original: Any,
        data: Any,
        copy: Callable[[Any], Any] = copied,
    ) -> Any:
        """Make a tensor of the model an input, by its contents before the call; return its proxy."""
        with WITHOUT_MODES():
            proxy = copy(data)
            version = proxy._version
        return self._add_input(source, torch.Tensor, original, proxy, version)

    def scalar_input(self, source: Source, value: float, *, free: bool = False) -> Scalar:
        """Make a number an input, ``free`` if it is an argument; return its proxy."""
        proxy = scalar(self, value, free=free, origin=(source, None))
        self._add_input(source, type(value), value, proxy)
        return proxy

    def list_input(self, source: Source, originals: list[Any], data: list[Any], kind: type) -> list[Any]:
        """Make a list of tensors, floats or ints an input, by its items before the call; return its proxy."""
        with WITHOUT_MODES():
            proxy = [copied(item) if isinstance(item, torch.Tensor) else item for item in data]
        self._add_input(source, list[kind], originals, proxy)  # type: ignore[valid-type]
        return proxy

    def _add_input(
        self,
        source: Source,
        kind: Any,
        original: Any,
        proxy: Any,
        version: int = 0,
    ) -> Any:
        """Add an input, whose placeholder has a unique name in the graph's text; return its proxy."""
        first = name = identifier_of(source)
        number = 1
        while name in self._names or keyword.iskeyword(name) or name in RESERVED:
            name, number = f"{first}_{number}", number + 1
        self._names.add(name)
        with self.graph.inserting_after(self.last):
            node = self.last = self.graph.placeholder(name, type_expr=kind)
        node.meta["roots"] = frozenset([len(self.inputs)])
        given = GraphInput(source, node, original, proxy, version)
        self.inputs.append(given)
        self._by_identity[id(proxy)] = given
        self.bind(proxy, node)
        return proxy

    def constant(self, tensor: Any) -> Any:
        """Make a tensor a constant of the graph, and return its proxy."""
        with WITHOUT_MODES():
            proxy = copied(tensor)
        name = f"constant_{len(self.constants)}"
        self.constants[name] = tensor
        with self.graph.inserting_after(self.last):
            self.bind(proxy, self.graph.get_attr(name))
        return proxy

    def emit(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Add a node; its arguments are the values that the call works with."""
        node = self.graph.create_node(kind, target, self.argument(args), self.argument(kwargs))
        operands = node.all_input_nodes
        node.meta["roots"] = frozenset().union(*map(roots_of, operands))
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        node.meta["squeezed"] = name in SQUEEZED or any(operand.meta.get("squeezed") for operand in operands)
        statement = self._here()
        if statement is not None:
            shown = target if isinstance(target, str) else target.__name__
            node.meta["site"], node.meta["statement"] = statement.site(f"aten::{shown}"), statement
        return node

    def argument(self, value: Any) -> Any:
        """An argument of a node, for a value of the call."""
        node = self._nodes.get(id(value))
        if node is not None:
            return node
        if isinstance(value, torch.Tensor):
            self.refuse("a tensor that no recorded operation has made")
        if is_scalar(value):
            return value
        if isinstance(value, tuple | list):
            return (tuple if isinstance(value, tuple) else list)(map(self.argument, value))
        return with_items(value, self.argument)

    def emit_on(self, kind: str, target: Any, *nodes: Any) -> Any:
        """Add a node whose arguments are nodes."""
        node = self.graph.create_node(kind, target, nodes)
        node.meta["roots"] = frozenset().union(*map(roots_of, nodes))
        return node

    def results(self, value: Any, node: Any) -> Any:
        """Bind the result of a node, item by item; numbers become numbers of the graph."""
        if isinstance(value, torch.Tensor):
            if id(value) not in self._nodes:
                self.bind(value, node)
            return value
        if type(value) in NUMBERS:
            return self.number(value, node)
        if isinstance(value, tuple | list):
            for index, item in enumerate(value):
                if isinstance(item, torch.Tensor) and id(item) in self._nodes:
                    continue
                if isinstance(item, torch.Tensor | tuple | list):
                    getting = self.graph.call_function(operator.getitem, (node, index))
                    getting.meta["roots"] = roots_of(node)
                    self.results(item, getting)
        return value

    def number(
        self,
        value: float,
        node: Any,
        *,
        free: bool = False,
        origin: tuple[Source, int | None] | None = None,
    ) -> Scalar:
        """A number of the graph, made by a node."""
        proxy = scalar(self, value, free=free, origin=origin)
        node.meta["free"] = free
        self.bind(proxy, node)
        return proxy

    def compute(self, function: Any, *args: Any) -> Any:
        """The number of the graph that a Python operator or function returns for numbers of the graph."""
        value = function(*concrete(args))
        node = self.emit("call_function", function, args, {})
        if type(value) not in NUMBERS:
            self.refuse(f"{function.__name__} of numbers that differ from call to call")
        return self.number(value, node, free=is_free(*args))

    def fixed(self, value: Any, reason: str = DIFFERS, statement: ModelStatement | None = None) -> Any:
        """The Python number of a number of the graph, guarded from now on; other values as they are.

        Args:
            reason: why Python needs it, as errors say it.
        """
        if not is_scalar(value):
            return value
        if not self.can_fix(value):
            self.refuse(reason)
        node = self.node_of(value)
        subject = None if value._origin is not None and value._free else self._decisions.subject(node)
        reason = "" if value._free else reason
        source, dim = value._origin or (None, None)
        if subject is None and dim is not None:
            self._guards.note(Look.SIZE, source, value_of(value), dim, statement, reason=reason)
        else:
            where = subject or source or value
            self._guards.note(Look.EQUAL, where, value_of(value), None, statement, reason=reason)
        return value_of(value)

    def stands_for(self, number: Any, op: str, *operands: Any) -> None:
        """Note that a number, which several nodes make, is the result of one of Python's operators."""
        self.node_of(number).meta["python"] = op, self.argument(operands)

    def assume(self, condition: Any, *, before: bool = False) -> None:
        """Guard that a bool of the graph is True in later calls, as it is in this one.

        Args:
            before: whether the graph must not run unless it is True.
        """
        node = self.node_of(condition)
        subject = self._decisions.subject(node) if before else None
        if subject is None and before:
            self.refuse("a division by an int that may be 0")
        node.meta["free"] = node.meta["free"] or subject is not None
        self._guards.note(Look.EQUAL, condition if subject is None else subject, value=True)

    def can_fix(self, value: Any) -> bool:
        """Whether a guard can determine the Python number of a number of the graph."""
        return value._free or self._decisions.is_of_sizes(self.node_of(value))

    def values(self) -> list[object]:
        """All values that nodes make, in order."""
        return self._alive

    def drop_unused(self, outputs: Collection[object]) -> None:
        """Erase nodes that make unused free numbers."""
        for node in reversed(self.graph.nodes):
            if node.meta.get("free") and not node.users and node not in outputs:
                self.graph.erase_node(node)

    def roots(self, *tensors: object) -> list[GraphInput]:
        """The inputs that some values are computed from, in order."""
        numbers = frozenset().union(*(roots_of(self.node_of(tensor)) for tensor in tensors))
        return [self.inputs[number] for number in sorted(numbers)]

    def changed(self) -> list[GraphInput]:
        """Inputs that have been changed in place."""
        return [given for given in self.inputs if given.changed]


def roots_of(node: Any) -> frozenset[int]:
    """The indices of the inputs that a node is computed from."""
    roots: frozenset[int] = frozenset() if node is None else node.meta.get("roots", frozenset())
    return roots
