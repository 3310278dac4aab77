"""Debug handles: numbers by which a backend names the operations of the model it was made from.

A backend keeps the number of each operation and nothing else; when the operation fails or is timed, the
number leads back. Numbers come from a recorder with a start value, never from a counter of the process, so
that a model lowered twice gives the same archive.
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
"""Bits for the numbers of one lowered module, where its content chooses the start."""


class DebugHandles:
    """A recorder: gives each operation its handle, and remembers which operation it was.

    Modules that are lowered for one archive may share a recorder; its numbers then follow each other.

    Args:
        start: the first handle.

    Attributes:
        operations: what was recorded, by handle.
    """

    def __init__(self, start: int = 0) -> None:
        self.operations: dict[int, Operation] = {}
        self._numbers = count(start)

    @classmethod
    def of(cls, graphs: Iterable[Graph]) -> DebugHandles:
        """A recorder whose start is chosen by some graphs, so that different ones do not meet.

        What is kept of operations decides: their names, places, and the calls that lead there.
        """
        operations = chain.from_iterable(graph.operations() for graph in graphs)
        table = write_table(dict(enumerate(operations)))
        digest = hashlib.blake2b(table.encode(), digest_size=4)
        return cls(int.from_bytes(digest.digest()) + 1 << MODULE_BITS)

    def record(self, operation: Operation) -> int:
        """The handle of an operation, given now."""
        handle = next(self._numbers)
        self.operations[handle] = operation
        return handle


def generate_debug_handles(recorder: DebugHandles, graph: Graph) -> dict[Operation, int]:
    """Give each operation of a graph its handle, in PyTorch's order.

    First all of a block; then, of the blocks inside, the last one first.
    """
    return {operation: recorder.record(operation) for operation in graph.operations()}
