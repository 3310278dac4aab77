"""Gives operations for which PyTorch records no range one of another operation of the same call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.backend.graph.graphs import Block, Graph, Operation

PLACELESS = ("prim::SetAttr", "prim::Enter", "prim::Exit", "prim::ListUnpack", "prim::TupleUnpack")
"""Operations without a range in PyTorch; they belong to the operation that makes their input.

The operation that follows may stand lines below: where unpacking a list fails, its line would be wrong.
"""


def fill_ranges(graph: Graph) -> None:
    """Give a range to the operations of a graph that have none."""
    _take_ranges_of_makers(graph)
    _take_ranges_of_neighbours(graph.body, {})


def _take_ranges_of_makers(graph: Graph) -> None:
    """Give ``PLACELESS`` operations without a range that of the operation that makes their last input."""
    makers = {value: one for one in graph.operations() for value in one.outputs}
    for one in graph.operations():
        maker = makers.get(one.inputs[-1]) if one.kind in PLACELESS and not one.shown else None
        if maker is not None and maker.stack is one.stack:
            one.shown, one.range = maker.shown, maker.range


def _take_ranges_of_neighbours(block: Block, before: dict[int, Operation]) -> None:
    """Give operations without a range that of the next operation in the same call, or else the last one.

    PyTorch records no range for nodes that it adds: dict literals, casts, some attributes of tensors. The
    next operation takes what they make.

    Args:
        block: the block; its inner blocks follow.
        before: for each call stack, by id, the last operation with a range before the block.
    """
    _fill_ranges(reversed(block.operations), {})
    _fill_ranges(block.operations, dict(before))
    for one in block.operations:
        if one.shown:
            before[id(one.stack)] = one
        for inner in one.blocks:
            _take_ranges_of_neighbours(inner, dict(before))


def _fill_ranges(operations: Iterable[Operation], neighbours: dict[int, Operation]) -> None:
    """Give operations without a range that of the operation of the same call that came last."""
    for one in operations:
        if one.shown:
            neighbours[id(one.stack)] = one
        elif id(one.stack) in neighbours:
            neighbour = neighbours[id(one.stack)]
            one.shown, one.range = neighbour.shown, neighbour.range
