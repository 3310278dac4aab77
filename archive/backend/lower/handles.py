"""Debug handles: numbers by which a backend names the operations of the model.

A backend keeps only the number of each operation; when the operation fails or is timed, the number leads back
to the model's source. Numbers come from a :class:`DebugHandles` with a start value, never from a counter of
the process, so that a model lowered twice gives the same archive.
"""

from __future__ import annotations

import hashlib
from itertools import chain, count
from typing import TYPE_CHECKING

from archive.backend.lower.tables import write_table

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.backend.graph.graphs import Graph, Operation

MODULE_BITS = 16
"""Bits below a start that is chosen by the content of a module: 65,536 handles until the next start."""


class DebugHandles:
    """Gives each operation its debug handle, and remembers the operation.

    Modules that are lowered for one archive may share one object, as ``recorder`` of
    :func:`~archive.backend.lower`; their handles then follow each other.

    Args:
        start: the first handle.

    Attributes:
        operations: the operations by handle.
    """

    def __init__(self, start: int = 0) -> None:
        self.operations: dict[int, Operation] = {}
        self._numbers = count(start)

    @classmethod
    def of(cls, graphs: Iterable[Graph]) -> DebugHandles:
        """An object whose start is a hash of graphs, so that handles of different modules do not collide.

        Names, source ranges and call stacks of the operations are hashed.
        """
        operations = chain.from_iterable(graph.operations() for graph in graphs)
        table = write_table(dict(enumerate(operations)))
        digest = hashlib.blake2b(table.encode(), digest_size=4)
        return cls(int.from_bytes(digest.digest()) + 1 << MODULE_BITS)

    def record(self, operation: Operation) -> int:
        """Give an operation its handle."""
        handle = next(self._numbers)
        self.operations[handle] = operation
        return handle


def generate_debug_handles(recorder: DebugHandles, graph: Graph) -> dict[Operation, int]:
    """Give each operation of a graph its handle, in PyTorch's order.

    All operations of a block come first, then those of its inner blocks, the last inner block first.
    """
    return {operation: recorder.record(operation) for operation in graph.operations()}
