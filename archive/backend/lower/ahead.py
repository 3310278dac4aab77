"""The result of preprocessing for the link ``ahead of time``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from archive.backend.graph.attributes import HeldAttribute
    from archive.backend.graph.graphs import Graph, Operation


@dataclass(frozen=True, slots=True)
class Ahead:
    """Graphs to write as TorchScript, and a program for the backend's own runtime.

    The state that the archive keeps is ``(blob, tensors)``, or ``(blob, tensors, held)``; ``held`` is the
    tuple of the values of :attr:`held`.

    Attributes:
        graphs: the graph of each method; each of its operations becomes a statement.
        handles: the debug handles of the graphs' operations.
        blob: the program for the runtime, as text.
        tensors: tensors that the runtime and the statements use; writing statements may add some.
        unsupported: operations that the runtime cannot execute. Lowering refuses them, together with those
            that TorchScript has no statement for.
        held: attributes of the original that the lowered module holds, by their paths: those that its methods
            write, and objects of C++ classes. None by default: then they are refused.
    """

    graphs: Mapping[str, Graph]
    handles: Mapping[Operation, int]
    blob: str
    tensors: list[torch.Tensor]
    unsupported: list[Operation] = field(default_factory=list)
    held: Mapping[str, HeldAttribute] = field(default_factory=dict)
