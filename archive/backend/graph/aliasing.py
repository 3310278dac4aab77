"""Which values may be one and the same list or dict, under several names.

A list that is changed somewhere must not be taken for a constant anywhere. So values are followed: each may
come from what its operation takes, from either branch, from what a loop is given and what it carries on.
Changed is whatever a changed value may come from, and all that may come from that.
"""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from archive.backend.graph.graphs import Graph, Operation

    Ways = Mapping[int, set[int]]

WRITE_MARK = "!"
"""What stands in an operator's schema where it changes an argument."""
MUTABLE_TYPE = re.compile(r"\b(List|Dict|Any|Union)\b|__torch__")
COPYING = ("aten::add", "aten::copy", "aten::dict", "aten::keys", "aten::list", "aten::mul", "aten::slice")
"""Operators that make a list or dict of their own; what it holds may still be shared."""


class Sharing:
    """The values of a graph by what they may share.

    Attributes:
        changed: values whose list or dict is changed after it was made.
        fixed: values by which a constant or what a module keeps is changed.
    """

    def __init__(self, graph: Graph) -> None:
        self._types = graph.types
        self._from: dict[int, set[int]] = defaultdict(set)
        operations = list(graph.operations())
        self._makers = {output: one for one in operations for output in one.outputs}
        for operation in operations:
            for target, source in self._passed(operation):
                self._add(target, source)
        writing = [(value, one) for one in operations for value in changes(one)]
        self._put(writing)
        into: dict[int, set[int]] = defaultdict(set)
        for target, sources in self._from.items():
            for source in sources:
                into[source].add(target)
        origins = {value: _reached(self._from, [value]) for value, _ in writing}
        self.changed = _reached(into, set().union(*origins.values()))
        self.fixed = {value for value, reached in origins.items() if any(map(self._constant, reached))}

    def _put(self, writing: list[tuple[int, Operation]]) -> None:
        """What is put into a list is in it under all its names."""
        before = -1
        while before < (before := sum(map(len, self._from.values()))):
            for value, operation in writing:
                held = [one for one in operation.inputs if one != value and self._holds(one)]
                for name in _reached(self._from, [value]) if held else ():
                    for one in held:
                        self._add(name, one)

    def _add(self, target: int, source: int) -> None:
        if target != source and self._holds(target) and self._holds(source):
            self._from[target].add(source)

    def _holds(self, value: int) -> bool:
        return MUTABLE_TYPE.search(self._types[value]) is not None

    def _constant(self, value: int) -> bool:
        return value in self._makers and self._makers[value].kind == "prim::Constant"

    def _passed(self, operation: Operation) -> Iterator[tuple[int, int]]:
        """What may come from what, by pairs."""
        (first, *_) = operation.inputs or [-1]
        if operation.kind == "prim::Loop":
            (body,) = operation.blocks
            for carried, given in ((body.parameters, operation.inputs[1:]), (body.parameters, body.results)):
                yield from zip(carried[1:], given[1:], strict=True)
            yield from zip(operation.outputs, body.parameters[1:], strict=True)
        elif operation.kind == "prim::If":
            for block in operation.blocks:
                yield from zip(operation.outputs, block.results, strict=True)
        elif operation.kind == "prim::TupleUnpack" and self._made_here(first):
            yield from zip(operation.outputs, self._makers[first].inputs, strict=True)
        else:
            for output in operation.outputs:
                own = operation.kind in COPYING and len(MUTABLE_TYPE.findall(self._types[output])) == 1
                yield from ((output, value) for value in operation.inputs if not own)

    def _made_here(self, value: int) -> bool:
        return value in self._makers and self._makers[value].kind == "prim::TupleConstruct"


def _reached(ways: Ways, starts: Iterable[int]) -> set[int]:
    """Where the ways lead to from some values, with these."""
    reached: set[int] = set()
    left = list(starts)
    while left:
        value = left.pop()
        if value not in reached:
            reached.add(value)
            left.extend(ways.get(value, ()))
    return reached


def changes(operation: Operation) -> list[int]:
    """The values that an operation changes, but for tensors."""
    if WRITE_MARK not in operation.schema:
        return []
    schema = torch._C.parse_schema(operation.schema)
    return [
        value
        for argument, value in zip(schema.arguments, operation.inputs, strict=False)
        if argument.alias_info is not None
        and argument.alias_info.is_write
        and argument.type.kind() != "TensorType"
    ]
