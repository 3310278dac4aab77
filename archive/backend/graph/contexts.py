"""``with torch.no_grad():`` in graphs, without the object that TorchScript makes for it.

TorchScript has an object of the class ``no_grad``, which it enters and leaves. Backends know no such objects:
entering becomes an operation that gives whether gradients were enabled, leaving one that takes this value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from archive.backend.graph.graphs import Block, Graph

if TYPE_CHECKING:
    from archive.backend.graph.graphs import Operation

ENTER, EXIT = "prim::Enter", "prim::Exit"
NO_GRAD_TYPE = "__torch__.torch.autograd.grad_mode.no_grad"


def with_plain_contexts(graph: Graph) -> Graph:
    """A copy of a graph in which ``prim::Enter`` and ``prim::Exit`` of ``no_grad`` take no objects.

    Those that do not stand in one block, one behind the other, stay as they are, and backends refuse them.
    """
    if not any(one.kind == ENTER for one in graph.operations()):
        return graph
    types = dict(graph.types)
    return Graph(graph.name, _plain(graph.body, types), types)


def _plain(block: Block, types: dict[int, str]) -> Block:
    """A copy of a block; see :func:`with_plain_contexts`."""
    left = [one.inputs[0] for one in block.operations if one.kind == EXIT]
    entered: dict[int, int] = {}
    operations: list[Operation] = []
    for one in block.operations:
        made = replace(one, blocks=[_plain(inner, types) for inner in one.blocks])
        if one.kind == ENTER and types[one.inputs[0]] == NO_GRAD_TYPE and left.count(one.inputs[0]) == 1:
            (entered[one.inputs[0]],) = one.outputs
            types[one.outputs[0]] = "bool"
            made.inputs = []
        elif one.kind == EXIT and one.inputs[0] in entered:
            made.inputs, made.outputs = [entered.pop(one.inputs[0])], []
        operations.append(made)
    return Block(block.parameters, operations, block.results)
