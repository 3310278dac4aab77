"""Alias analysis of a graph: which values may be the same list or dict.

A list that is mutated anywhere must not be folded into a constant. A value may alias the inputs of the
operation that makes it, the results of either branch of an ``if``, and the values that a loop starts with or
carries on. If a value is mutated, so is everything it may alias.
"""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache, lru_cache
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from archive.backend.graph.graphs import Graph, Operation

    Edges = Mapping[int, set[int]]
    """For each value the values that it leads to."""

WRITE_MARK = "!"
"""The mark in an operator's schema of an argument that the operator mutates: ``Tensor(a!)``."""
MUTABLE_TYPE = re.compile(r"\b(List|Dict|Any|Union)\b|__torch__(?!\.torch\.classes\.)")
"""Matches in types whose values may be, or may hold, a list, a dict or an object of the model's own class."""
COPYING = ("aten::add", "aten::copy", "aten::dict", "aten::keys", "aten::list", "aten::mul", "aten::slice")
"""Operators that make a new list or dict; its items may still be shared with another one."""
CONSTANT_KINDS = ("prim::Constant", "prim::GetAttr")


class Sharing:
    """The values of a graph that are mutated.

    Attributes:
        changed: values whose list or dict may be mutated after it was made.
        fixed: values that an operation mutates and that may alias a constant, or an attribute of a module;
            other attributes may be the same list or dict.
    """

    def __init__(self, graph: Graph) -> None:
        self._types = graph.types
        self._holding = {value for value, kind in graph.types.items() if _is_mutable(kind)}
        self._from: dict[int, set[int]] = defaultdict(set)
        operations = list(graph.operations())
        self._makers = {output: operation for operation in operations for output in operation.outputs}
        for operation in operations:
            if operation.blocks or not self._holding.isdisjoint(operation.outputs):
                for target, source in self._passed(operation):
                    self._add(target, source)
        writing = [(value, operation) for operation in operations for value in changes(operation)]
        grows = True
        while grows:  # what operations insert into lists and dicts goes to all aliases of these
            before = sum(map(len, self._from.values()))
            for value, operation in writing:
                inserted = [item for item in operation.inputs if item != value and item in self._holding]
                for alias in _reached(self._from, [value]) if inserted else ():
                    for item in inserted:
                        self._add(alias, item)
            grows = sum(map(len, self._from.values())) > before
        into: dict[int, set[int]] = defaultdict(set)  # the edges of ``_from``, turned around
        for target, sources in self._from.items():
            for source in sources:
                into[source].add(target)
        origins = {value: _reached(self._from, [value]) for value, _ in writing}
        self.changed = _reached(into, set().union(*origins.values()))
        makers = self._makers
        constants = {value for value, maker in makers.items() if maker.kind in CONSTANT_KINDS}
        self.fixed = {value for value, reached in origins.items() if not constants.isdisjoint(reached)}

    def _add(self, target: int, source: int) -> None:
        """Note that a value may alias another, if both may hold a list or dict."""
        if target != source and target in self._holding and source in self._holding:
            self._from[target].add(source)

    def _passed(self, operation: Operation) -> Iterator[tuple[int, int]]:
        """Pairs of values: the first may alias the second."""
        (first, *_) = operation.inputs or [-1]
        if operation.kind == "prim::Loop":
            (body,) = operation.blocks
            _, *carried = body.parameters  # the first one counts
            _, _, *initial = operation.inputs  # the trip count and the condition
            _, *results = body.results  # the condition
            yield from zip(carried, initial, strict=True)
            yield from zip(carried, results, strict=True)
            yield from zip(operation.outputs, carried, strict=True)
        elif operation.kind == "prim::If":
            for block in operation.blocks:
                yield from zip(operation.outputs, block.results, strict=True)
        elif (
            operation.kind == "prim::TupleUnpack"
            and first in self._makers
            and self._makers[first].kind == "prim::TupleConstruct"
        ):
            yield from zip(operation.outputs, self._makers[first].inputs, strict=True)
        else:
            for output in self._holding.intersection(operation.outputs):
                is_new = operation.kind in COPYING and len(MUTABLE_TYPE.findall(self._types[output])) == 1
                if not is_new:
                    yield from ((output, value) for value in operation.inputs)


@lru_cache(1 << 12)
def _is_mutable(kind: str) -> bool:
    """Whether values of a type may be, or may hold, something that is mutated."""
    return MUTABLE_TYPE.search(kind) is not None


def _reached(edges: Edges, starts: Iterable[int]) -> set[int]:
    """The values that edges lead to from some values, including these."""
    reached: set[int] = set()
    left = list(starts)
    while left:
        value = left.pop()
        if value not in reached:
            reached.add(value)
            left.extend(edges.get(value, ()))
    return reached


def changes(operation: Operation) -> list[int]:
    """The values that an operation mutates, except tensors."""
    if WRITE_MARK not in operation.schema:
        return []
    return [
        value
        for value, is_written in zip(operation.inputs, _writes(operation.schema), strict=False)
        if is_written
    ]


@cache
def _writes(schema: str) -> tuple[bool, ...]:
    """For each argument of an operator whether the operator mutates it and it isn't a tensor."""
    return tuple(
        argument.alias_info is not None
        and argument.alias_info.is_write
        and argument.type.kind() != "TensorType"
        for argument in torch._C.parse_schema(schema).arguments
    )
