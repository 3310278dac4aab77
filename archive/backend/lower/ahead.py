"""What preprocessing makes for the link ``ahead of time``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import torch

    from archive.backend.graph.graphs import Graph, Operation


@dataclass(frozen=True, slots=True)
class Ahead:
    """Graphs to be written as TorchScript, and what the backend's own runtime executes.

    The state that the archive keeps is ``(blob, tensors)``.

    Attributes:
        graphs: for each method what its statements do.
        handles: the debug handles of the graphs' operations.
        blob: for the runtime.
        tensors: for the runtime and for the statements, which may add some.
        unsupported: operations that the runtime cannot execute; lowering refuses them, together with those
            for which there is no statement.
    """

    graphs: Mapping[str, Graph]
    handles: Mapping[Operation, int]
    blob: str
    tensors: list[torch.Tensor]
    unsupported: list[Operation] = field(default_factory=list)
