"""TorchScript's graphs as plain values, each read once.

A graph is inlined once for each call: functions of ``torch.nn.functional`` and methods of equal layers as
often as there are layers. PyTorch is asked for values by number: each of its iterators takes 12 µs, and each
node has three.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archive.backend.graph.range_finder import RangeFinder
    from archive.debuginfo.model import SourceRange


FUTURE = "Future["
WITHOUT_BLOCKS = ("prim::Constant", "prim::GetAttr", "prim::ListConstruct", "prim::CallFunction")
"""The most frequent nodes without a schema that have no blocks either."""


def without_futures(kind: str) -> str:
    """A type, with what a ``Future[...]`` gives in its place."""
    while FUTURE in kind:
        before, _, rest = kind.partition(FUTURE)
        depth, end = 1, 0
        while depth:
            depth += (rest[end] == "[") - (rest[end] == "]")
            end += 1
        kind = f"{before}{rest[: end - 1]}{rest[end:]}"
    return kind


class GraphValue:
    """A value of a graph.

    Attributes:
        name: PyTorch's name for it, unique in its graph.
        type: its type, a ``torch._C.Type``.
        type_text: the type as TorchScript writes it; a ``Future`` is the type that it gives.
    """

    __slots__ = ("_value", "name", "type", "type_text")

    def __init__(self, value: Any) -> None:  # noqa: ANN401 (a torch._C.Value)
        self._value = value
        self.name: str = value.debugName()
        self.type = value.type()
        self.type_text: str = without_futures(self.type.annotation_str)

    @property
    def shown(self) -> str:
        """The text by which PyTorch shows the range of the node that makes it; "" if unknown."""
        shown: str = self._value.node().sourceRange()
        return shown

    def constant(self) -> Any:  # noqa: ANN401
        """The value, if a node of PyTorch's makes it as a constant."""
        return self._value.toIValue()


class GraphNode:
    """A node of a graph."""

    def __init__(self, node: Any, places: RangeFinder) -> None:  # noqa: ANN401
        self._node = node
        self._places = places
        self.kind: str = node.kind()
        self.inputs = [GraphValue(node.inputsAt(place)) for place in range(node.inputsSize())]
        self.outputs = [GraphValue(node.outputsAt(place)) for place in range(node.outputsSize())]
        self.blocks = [NodeBlock(block, places) for block in node.blocks()] if self._may_have_blocks() else []
        self.shown: str = node.sourceRange()

    def _may_have_blocks(self) -> bool:
        return self.kind not in WITHOUT_BLOCKS and not self.schema

    @cached_property
    def schema(self) -> str:
        """The operator's schema as text; "" if the node has none. Operators have no blocks."""
        schema: str = self._node.schema()
        return "" if schema == "(no schema)" else schema

    @cached_property
    def range(self) -> SourceRange | None:
        """Its range in the model's source; None if unknown."""
        return self._places.find(self.shown) if self.shown else None

    @cached_property
    def name(self) -> str:
        """The attribute that it reads or writes, or the method that it calls."""
        name: str = self._node.s("name")
        return name

    @property
    def near(self) -> str:
        """Its own ``shown``; that of a node that takes its results, where PyTorch has none."""
        uses = (use.user for value in self._node.outputs() for use in value.uses())
        return self.shown or next((use.sourceRange() for use in uses), "")

    @property
    def forked(self) -> Any:  # noqa: ANN401
        """The graph that a ``prim::fork`` runs, a ``torch._C.Graph``."""
        return self._node.g("Subgraph")

    @cached_property
    def is_function(self) -> bool:
        """Whether it is a constant that stands for a function."""
        return self.kind == "prim::Constant" and "name" in self._node.attributeNames()

    @property
    def types(self) -> list[str]:
        """The types that a ``prim::isinstance`` tests for."""
        return [kind.annotation_str for kind in self._node.tys("types")]


class NodeBlock:
    """The nodes of a graph or block.

    Args:
        block: a ``torch._C.Graph`` or ``torch._C.Block``.
    """

    def __init__(self, block: Any, places: RangeFinder) -> None:  # noqa: ANN401
        self.inputs = [GraphValue(value) for value in block.inputs()]
        self.outputs = [GraphValue(output) for output in block.outputs()]
        self.nodes = [GraphNode(node, places) for node in block.nodes()]


class Graphs:
    """The graphs that were read, each once."""

    def __init__(self, places: RangeFinder) -> None:
        self._places = places
        self._read: dict[Any, NodeBlock] = {}

    def read(self, graph: Any) -> NodeBlock:  # noqa: ANN401
        """The nodes of a ``torch._C.Graph``. While the object is kept, PyTorch returns the same one."""
        if graph not in self._read:
            self._read[graph] = NodeBlock(graph, self._places)
        return self._read[graph]
