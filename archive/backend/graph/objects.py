"""Dissolves objects of the model's own TorchScript classes: their attributes become values of the graph.

A backend knows no classes. Most objects live between two calls: a function makes one, others read it, perhaps
from a tuple. The graph of all calls together then needs no object: reading an attribute gives what was
assigned to it. This holds as long as attributes are assigned in the block that makes the object, where they
are in the order of the source. An object that is an attribute of a module is dissolved as the module is.

The operations that make objects stay in the graph. Folding drops those whose results are unused; backends
refuse the others, as they refuse to assign attributes in other blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from archive.base.errors import LoweringError

if TYPE_CHECKING:
    from archive.backend.graph.graphs import Block, Operation
    from archive.backend.graph.nodes import GraphNode

SAME_OBJECT = ("prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional")
"""Operations that return the object that they are given."""


@dataclass(slots=True)
class MadeObject:
    """An object that the graph makes.

    Attributes:
        attributes: the value of each attribute, by name.
    """

    block: Block
    attributes: dict[str, int] = field(default_factory=dict)

    def results(self, name: str, values: list[int], block: Block) -> list[int] | None:
        """The value of an attribute, or nothing if a block assigns one; None if that has to run."""
        if not values:
            return [self.attributes[name]] if name in self.attributes else None
        if self.block is not block:
            return None
        (self.attributes[name],) = values
        return []


@dataclass(frozen=True, slots=True)
class HeldObject:
    """An object that is an attribute of a module.

    Attributes:
        path: the attributes that lead from the top module to it, joined by dots.
    """

    value: Any
    path: str


class OwnObjects:
    """The objects among the values of a graph.

    Attributes:
        held: those that are attributes of a module, or of such an object.
    """

    def __init__(self) -> None:
        self.held: dict[int, HeldObject] = {}
        self._made: dict[int, MadeObject] = {}
        self._tuples: dict[int, list[int]] = {}
        self._uninitialized: set[int] = set()

    def __contains__(self, value: int) -> bool:
        """Whether a value is such an object, or a tuple that holds one."""
        return value in self.held or value in self._made or value in self._tuples

    def add(self, operation: Operation, block: Block) -> None:
        """Note an operation that was added to a block, if it makes an object or a tuple with one."""
        if operation.kind == "prim::CreateObject":
            self._made[operation.outputs[0]] = MadeObject(block)
        elif operation.kind == "prim::TupleConstruct" and any(value in self for value in operation.inputs):
            self._tuples[operation.outputs[0]] = operation.inputs
        elif operation.kind == "prim::Uninitialized":
            self._uninitialized.add(operation.outputs[0])

    def take_out(self, branch: Operation) -> dict[int, int]:
        """Take those results out of an ``if`` that are the same object whichever branch runs.

        A branch that raises an error gives an uninitialized value.
        """
        inside = {value for value, made in self._made.items() if made.block in branch.blocks}
        known = (self.held.keys() | self._made.keys()) - inside
        objects: dict[int, int] = {}
        for output, *results in zip(branch.outputs, *(block.results for block in branch.blocks), strict=True):
            given = set(results) - self._uninitialized
            if len(given) == 1 and given <= known:
                (objects[output],) = given
        places = [place for place, output in enumerate(branch.outputs) if output not in objects]
        for block in branch.blocks:
            block.results = [block.results[place] for place in places]
        branch.outputs = [branch.outputs[place] for place in places]
        return objects

    def results(self, node: GraphNode, inputs: list[int], block: Block) -> list[int] | None:
        """The values that a node gives; None if only running it gives them.

        An object is the first of the values that the node takes.
        """
        kind, first = node.kind, inputs[0]
        if kind in SAME_OBJECT:
            return [first]
        if first in self._tuples:
            items = self._tuples[first]
            if kind == "prim::TupleIndex":
                return [items[node.inputs[-1].constant()]]
            return items if kind == "prim::TupleUnpack" else None
        if first in self._made and kind in ("prim::GetAttr", "prim::SetAttr"):
            return self._made[first].results(node.name, inputs[1:], block)
        return None


def attribute_of(module: Any, node: GraphNode) -> Any:  # noqa: ANN401 (a torch._C.ScriptModule; any value)
    """The attribute of a module that a node reads."""
    try:
        return module.getattr(node.name)
    except RuntimeError as error:
        said = f"attribute {node.name} is an object of {node.outputs[0].type_text}, "
        said += "which TorchScript has not compiled in this process"
        raise LoweringError(f"{said}. Source code: {node.shown}" if node.shown else said) from error


def class_of(kind: Any, value: object) -> str:  # noqa: ANN401
    """The class of an object that can be dissolved; "" if a value is something else.

    Args:
        value: the value. PyTorch gives an object of a model's own class as one of its Python class.
    """
    if kind.kind() == "OptionalType":
        kind = kind.getElementType()
    is_other = value is None or isinstance(value, torch._C.ScriptModule | torch._C.ScriptObject)
    return "" if is_other or kind.kind() != "ClassType" else str(kind.annotation_str)
