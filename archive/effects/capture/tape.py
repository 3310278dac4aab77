"""The graph while it is being recorded: which tensor is made by which node."""

from __future__ import annotations

import builtins
import keyword
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from archive.effects.capture.scalars import Scalar, is_scalar, scalar, value_of
from archive.effects.capture.shape import Shape
from archive.formats.effects.model import Attribute, ClosureCell, GlobalName, Item, Local

if TYPE_CHECKING:
    from collections.abc import Collection

    from archive.effects.capture.recorder import Recorder
    from archive.effects.capture.sites import Place
    from archive.formats.effects.model import Source

WITHOUT_MODES = torch._C.DisableTorchFunction
TYPES = (bool, int, float)
SQUEEZED = ("squeeze", "squeeze_", "flatten")
"""Operators whose results have a number of dimensions that follows from more than those of what they take."""
TAKEN = frozenset({*dir(builtins), "torch", "device", "inf", "nan"}) - {"input"}
"""Names that the text of a graph has for other things."""


@dataclass(slots=True)
class Input:
    """What the graph takes.

    Attributes:
        source: where it lives.
        node: its placeholder.
        original: a tensor itself, which stays as it is; or a number.
        stand_in: what the call works with.
        version: of the stand-in, before the call.
        place: where a tensor was last changed.
        latest: version of the stand-in then.
        silently: whether it has been changed past its version, as by batch norm.
    """

    source: Source
    node: Any
    original: Any
    stand_in: Any
    version: int = 0
    place: Place | None = None
    latest: int = 0
    silently: bool = False

    @property
    def changed(self) -> bool:
        """Whether a tensor has been changed in place."""
        if is_scalar(self.stand_in):
            return False
        return self.silently or self.stand_in._version != self.version


class Tape:
    """Nodes, and the tensors and numbers that they make.

    Args:
        recorder: of the call.

    Attributes:
        graph: the nodes.
        inputs: what the graph takes.
        constants: tensors that are always the same, by their names in the graph.
        last: the last placeholder; before there is one, where it will stand.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.graph = fx.Graph()
        self.inputs: list[Input] = []
        self.constants: dict[str, Any] = {}
        self._nodes: dict[int, Any] = {}
        self._by_identity: dict[int, Input] = {}
        self._alive: list[object] = []
        self._names: set[str] = {"self"}
        self.last: Any = self.graph._root

    def node_of(self, value: object) -> Any:  # noqa: ANN401 (a node)
        """What makes a value; None if no node is known to."""
        return self._nodes.get(id(value))

    def input_of(self, value: object) -> Input | None:
        """The input that a value stands in for."""
        return self._by_identity.get(id(value))

    def bind(self, value: object, node: Any) -> None:  # noqa: ANN401
        """Note what makes a value."""
        self._nodes[id(value)] = node
        self._alive.append(value)

    def tensor_input(self, source: Source, original: Any, data: Any) -> Any:  # noqa: ANN401
        """A tensor that is there before the call; what stands in for it."""
        with WITHOUT_MODES():
            stand_in = copied(data)
            version = stand_in._version
        self._input(Input(source, self._placeholder(source, torch.Tensor), original, stand_in, version))
        return stand_in

    def scalar_input(self, source: Source, value: float, *, free: bool = False) -> Scalar:
        """A number that differs from call to call; a free one where it is an argument."""
        stand_in = scalar(self._recorder, value, free=free, origin=(source, None))
        self._input(Input(source, self._placeholder(source, type(value)), value, stand_in))
        return stand_in

    def _input(self, new: Input) -> None:
        new.node.meta["roots"] = frozenset([len(self.inputs)])
        self.inputs.append(new)
        self._by_identity[id(new.stand_in)] = new
        self.bind(new.stand_in, new.node)

    def _placeholder(self, source: Source, kind: Any) -> Any:  # noqa: ANN401
        with self.graph.inserting_after(self.last):
            node = self.graph.placeholder(self._unique(named(source)), type_expr=kind)
        self.last = node
        return node

    def _unique(self, name: str) -> str:
        number, unique = 1, name
        while unique in self._names or keyword.iskeyword(unique) or unique in TAKEN:
            unique, number = f"{name}_{number}", number + 1
        self._names.add(unique)
        return unique

    def constant(self, tensor: Any) -> Any:  # noqa: ANN401
        """A tensor that is always the same; what stands in for it."""
        with WITHOUT_MODES():
            stand_in = copied(tensor)
        name = f"constant_{len(self.constants)}"
        self.constants[name] = tensor
        with self.graph.inserting_after(self.last):
            self.bind(stand_in, self.graph.get_attr(name))
        return stand_in

    def emit(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        """Add a node; its arguments are what the call works with."""
        node = self.graph.create_node(kind, target, self.argument(args), self.argument(kwargs))
        taken = node.all_input_nodes
        node.meta["roots"] = frozenset().union(*map(roots_of, taken))
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        node.meta["squeezed"] = name in SQUEEZED or any(one.meta.get("squeezed") for one in taken)
        place = self._recorder.here()
        if place is not None:
            shown = target if isinstance(target, str) else target.__name__
            node.meta["site"], node.meta["place"] = place.site(f"aten::{shown}"), place
        return node

    def argument(self, value: Any) -> Any:  # noqa: ANN401, PLR0911
        """What a node takes for a value."""
        node = self._nodes.get(id(value))
        if node is not None:
            return node
        if isinstance(value, torch.Tensor):
            self._recorder.refuse("a tensor that no recorded operation has made")
        if is_scalar(value):
            return value
        if isinstance(value, tuple):
            return tuple(map(self.argument, value))
        if isinstance(value, list):
            return list(map(self.argument, value))
        if isinstance(value, dict):
            return {key: self.argument(one) for key, one in value.items()}
        if isinstance(value, slice):
            return slice(*map(self.argument, (value.start, value.stop, value.step)))
        return value

    def emit_on(self, kind: str, target: Any, *nodes: Any) -> Any:  # noqa: ANN401
        """Add a node that takes other nodes."""
        node = self.graph.create_node(kind, target, nodes)
        node.meta["roots"] = frozenset().union(*map(roots_of, nodes))
        return node

    def results(self, value: Any, node: Any) -> Any:  # noqa: ANN401
        """Bind what a node has given, item by item; numbers become ones of the graph."""
        if isinstance(value, torch.Tensor):
            if id(value) not in self._nodes:
                self.bind(value, node)
            return value
        if type(value) in TYPES:
            return self.number(value, node)
        if isinstance(value, tuple | list):
            for place, one in enumerate(value):
                if isinstance(one, torch.Tensor) and id(one) in self._nodes:
                    continue
                if isinstance(one, torch.Tensor | tuple | list):
                    item = self.graph.call_function(operator.getitem, (node, place))
                    item.meta["roots"] = roots_of(node)
                    self.results(one, item)
        return value

    def number(
        self,
        value: float,
        node: Any,  # noqa: ANN401
        *,
        free: bool = False,
        origin: tuple[Source, int | None] | None = None,
    ) -> Scalar:
        """A number that a node makes."""
        stand_in = scalar(self._recorder, value, free=free, origin=origin)
        node.meta["free"] = free
        self.bind(stand_in, node)
        return stand_in

    def values(self) -> list[object]:
        """All values that nodes make."""
        return self._alive

    def drop_unused(self, outputs: Collection[object]) -> None:
        """Take out free numbers that nobody asks for."""
        for node in reversed(self.graph.nodes):
            if node.meta.get("free") and not node.users and node not in outputs:
                self.graph.erase_node(node)

    def roots(self, *tensors: object) -> list[Input]:
        """The inputs that some values are made of, in their order."""
        numbers = frozenset().union(*(roots_of(self.node_of(one)) for one in tensors))
        return [self.inputs[number] for number in sorted(numbers)]

    def changed(self) -> list[Input]:
        """Inputs that have been changed in place."""
        return [one for one in self.inputs if one.changed]


def roots_of(node: Any) -> frozenset[int]:  # noqa: ANN401
    """The numbers of the inputs that a node is made of."""
    found: frozenset[int] = frozenset() if node is None else node.meta.get("roots", frozenset())
    return found


def copied(tensor: Any) -> Any:  # noqa: ANN401
    """A tensor like another one, with nothing in common."""
    with torch.no_grad():
        copy = tensor.detach().clone()
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(copy, requires_grad=tensor.requires_grad)
    return copy.requires_grad_(tensor.requires_grad)


def concrete(value: Any) -> Any:  # noqa: ANN401
    """Arguments with numbers in place of what stands in for them."""
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


def named(source: Source) -> str:
    """A source as an identifier."""
    match source:
        case Local(name):
            text = name
        case Attribute(base, name):
            text = f"{named(base)}_{name}"
        case Item(base, key):
            text = f"{named(base)}_{key!s}" if not isinstance(key, bytes) else named(base)
        case GlobalName(module, name):
            text = f"{module.rpartition('.')[2]}_{name}"
        case ClosureCell(_, name):
            text = name
        case _:
            text = "value"
    text = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in text)
    return text if not text[:1].isdigit() else f"_{text}"
