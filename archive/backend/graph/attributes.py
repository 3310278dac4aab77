"""Attributes of modules that aren't plain constants: state, which methods write, and objects of C++ classes.

Objects are those of ``torch.classes``, such as the packed weights of quantised layers. Neither has a literal,
so a lowered module holds them as attributes of its own.

Nor do backends know the object of the class ``no_grad`` that TorchScript enters and leaves for ``with
torch.no_grad():``. Entering becomes an operation that gives whether gradients were enabled, leaving one that
takes this value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from archive.backend.graph.folding import folded
from archive.backend.graph.graphs import Block, Graph

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from archive.backend.graph.graphs import Operation

# --- ``with torch.no_grad():``

ENTER, EXIT = "prim::Enter", "prim::Exit"
NO_GRAD_TYPE = "__torch__.torch.autograd.grad_mode.no_grad"


def with_plain_contexts(graph: Graph) -> Graph:
    """A copy of a graph in which ``prim::Enter`` and ``prim::Exit`` of ``no_grad`` take no objects.

    Those that are not consecutive in one block stay as they are, and backends refuse them.
    """
    if not any(operation.kind == ENTER for operation in graph.operations()):
        return graph
    types = dict(graph.types)
    return Graph(graph.name, _without_objects(graph.body, types), types)


def _without_objects(block: Block, types: dict[int, str]) -> Block:
    """A copy of a block; see :func:`with_plain_contexts`."""
    left = [operation.inputs[0] for operation in block.operations if operation.kind == EXIT]
    entered: dict[int, int] = {}
    operations: list[Operation] = []
    for operation in block.operations:
        made = replace(operation, blocks=[_without_objects(inner, types) for inner in operation.blocks])
        if (
            operation.kind == ENTER
            and types[operation.inputs[0]] == NO_GRAD_TYPE
            and left.count(operation.inputs[0]) == 1
        ):
            (entered[operation.inputs[0]],) = operation.outputs
            types[operation.outputs[0]] = "bool"
            made.inputs = []
        elif operation.kind == EXIT and operation.inputs[0] in entered:
            made.inputs, made.outputs = [entered.pop(operation.inputs[0])], []
        operations.append(made)
    return Block(block.parameters, operations, block.results)


# --- attributes

READ, WRITE = "prim::GetAttr", "prim::SetAttr"
OBJECT_TYPE = "__torch__.torch.classes."
"""Start of the types of C++ objects."""
OWN_TYPE = "__torch__"
"""Part of the types of the model's own classes."""


@dataclass(frozen=True, slots=True)
class HeldAttribute:
    """An attribute of a module that a lowered module holds, too.

    Attributes:
        type: its type, as TorchScript writes it.
        value: its value when the module is lowered.
    """

    type: str
    value: Any


def folded_with_state(graphs: Mapping[str, Graph]) -> dict[str, Graph]:
    """The folded graphs of methods, with attributes that a method writes read where the model reads them.

    The constants of these attributes become ``prim::GetAttr``. An attribute stays a constant, and writing it
    an operation that backends refuse, if no method reads it, or its type is a class of the model's own.

    Code may be there only as long as an attribute lacks its value: ``if self.scale is None: self.scale = …``.
    So every attribute counts as a constant at first. Those that the folded graphs still write are state, and
    the graphs are folded again, until they write no others.
    """
    constants = {
        operation.path
        for graph in graphs.values()
        for operation in graph.operations()
        if operation.kind == "prim::Constant"
        and operation.path
        and OWN_TYPE not in graph.types[operation.outputs[0]]
    }
    state: set[str | None] = set()
    while True:
        made = {name: folded(_reading(graph, state)) for name, graph in graphs.items()}
        written = {
            operation.path
            for graph in made.values()
            for operation in graph.operations()
            if operation.kind == WRITE
        }
        if written & constants <= state:
            return made
        state |= written & constants


def _reading(graph: Graph, state: set[str | None]) -> Graph:
    """A graph that reads these attributes."""
    return Graph(graph.name, _read_again(graph.body, state), graph.types) if state else graph


def _read_again(block: Block, state: set[str | None]) -> Block:
    """A copy of a block in which constants of these paths become ``prim::GetAttr``."""
    operations = [
        replace(
            operation,
            kind=READ if operation.kind == "prim::Constant" and operation.path in state else operation.kind,
            blocks=[_read_again(inner, state) for inner in operation.blocks],
        )
        for operation in block.operations
    ]
    return Block(block.parameters, operations, block.results)


def held_attributes(graphs: Iterable[Graph]) -> dict[str, HeldAttribute]:
    """What a lowered module of these graphs must hold, by the paths of the original's attributes."""
    held: dict[str, HeldAttribute] = {}
    for graph in graphs:
        for operation in graph.operations():
            kind = graph.types[operation.outputs[0]] if operation.outputs else ""
            if operation.path is not None and (operation.kind == READ or is_object(operation, kind)):
                held.setdefault(operation.path, HeldAttribute(kind, operation.value))
    return held


def is_object(operation: Operation, kind: str) -> bool:
    """Whether an operation with a result of a type is a constant that is a C++ object."""
    return operation.kind == "prim::Constant" and kind.startswith(OBJECT_TYPE)
