"""Backends of this library in ExecuTorch: the classes by which it lowers parts of a program to them.

In: the name of a backend. Out: ExecuTorch's ``BackendDetails`` and ``Partitioner``, made of it::

    delegation = details("chain")
    edge = to_edge_transform_and_lower(program, partitioner=[delegation.partitioner], generate_etrecord=True)

1. The partitioner asks of each node of the program whether the backend takes it, and PyTorch's
   ``CapabilityBasedPartitioner`` joins these nodes to partitions.
2. ExecuTorch gives each partition to ``preprocess``, as a program of its own. The backend gets it as it gets
   any exported program, with sizes that may vary, and makes a state of it: what ExecuTorch's runtime gives to
   the backend's own.
3. The debug handles that the backend was given, or those in ``node.meta`` if it asked for none, are those by
   which its runtime in C++ logs its events. They lead to the debug handles of ExecuTorch's nodes, which the
   ETRecord keeps.

Needs PyTorch and ExecuTorch.
"""

from __future__ import annotations

import io
from functools import cache, partial
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from executorch.exir.graph_module import get_control_flow_submodules

from archive.backend.exported.program import METHOD, partition
from archive.backend.lower.codegen import compile_error
from archive.backend.lower.handles import DebugHandles
from archive.backend.lower.links import Ahead
from archive.backend.lower.lowering import preprocessed
from archive.backend.programs.choosing import partitions_of, preprocessed_alone
from archive.backend.programs.cutting import Cutting
from archive.backend.registry import find_backend
from archive.base.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import TypeAlias

    Program: TypeAlias = Any
    """A ``torch.export.ExportedProgram``, in ExecuTorch's edge dialect."""

FIRST_HANDLE = 100_000_000
"""All handles have nine digits, so that none is part of another, as ExecuTorch's Inspector confuses those."""
DEBUG_HANDLE = "debug_handle"
DELEGATION_TAG = "delegation_tag"


class Delegation(NamedTuple):
    """What ExecuTorch lowers to a backend by.

    Attributes:
        details: the class by which ExecuTorch finds the backend by its name.
        partitioner: chooses the nodes to lower.
    """

    details: type[BackendDetails]
    partitioner: Partitioner


def details(backend: str, options: Mapping[str, str] | None = None) -> Delegation:
    """ExecuTorch's ``BackendDetails`` and ``Partitioner``, made of a backend of this library.

    The blob of a partition is the state that the backend makes of its method ``forward``: bytes as they are,
    a text in UTF-8, anything else as ``torch.save`` writes it.

    Args:
        backend: name of a registered backend. In ExecuTorch, its runtime in C++ registers the same name.
        options: the backend's own, which it gets for ``forward``; ExecuTorch keeps them as compile specs.

    Returns:
        Both. ``to_edge_transform_and_lower`` and ``to_backend`` take the partitioner, and raise a
        :class:`LoweringError` for operations that the backend refuses, with their source ranges.

    Raises:
        LoweringError: the backend does not exist, or ExecuTorch has another one by its name.
    """
    find_backend(backend)
    specs = [CompileSpec(key, value.encode()) for key, value in (options or {}).items()]
    return Delegation(_details_of(backend), BackendPartitioner(backend, specs))


@cache
def _details_of(name: str) -> type[BackendDetails]:
    """The class of a backend; ExecuTorch looks among all classes for one of the name, and takes the first."""
    if any(other.__name__ == name for other in BackendDetails.__subclasses__()):
        raise LoweringError(f"ExecuTorch has another backend by the name {name}")
    made: type[BackendDetails] = type(
        name, (BackendDetails,), {"preprocess": staticmethod(partial(_preprocess, name))}
    )
    return made


# --- preprocessing


def _preprocess(
    backend: str, edge_program: Program, compile_specs: Sequence[CompileSpec]
) -> PreprocessResult:
    """The blob of a partition, and the handles of its nodes by those that the backend was given."""
    recorder = DebugHandles(FIRST_HANDLE)
    nodes = [node for node in edge_program.graph.nodes if DEBUG_HANDLE in node.meta]
    noted = {node.name: node.meta[DEBUG_HANDLE] for node in nodes}
    for handle, node in enumerate(nodes, FIRST_HANDLE):
        node.meta[DEBUG_HANDLE] = handle
    state = _state(backend, edge_program, compile_specs, recorder)
    asked = {handle: operation.node for handle, operation in recorder.operations.items()}
    given = asked or {node.meta[DEBUG_HANDLE]: node.name for node in nodes}
    for node in nodes:
        node.meta[DEBUG_HANDLE] = noted[node.name]
    handles = {handle: (noted[name],) for handle, name in given.items() if name in noted}
    return PreprocessResult(_blob(state), handles)


def _state(
    backend: str, program: Program, compile_specs: Sequence[CompileSpec], recorder: DebugHandles
) -> Any:  # noqa: ANN401
    """What a backend makes of a program."""
    options = {spec.key: spec.value.decode() for spec in compile_specs} or {"": ""}
    processed = preprocessed(find_backend(backend), partition(program), {METHOD: options}, recorder)
    if not isinstance(processed, Ahead):
        return processed
    if processed.unsupported:
        raise LoweringError("\n".join(map(compile_error, processed.unsupported)))
    return processed.blob, processed.tensors


def _blob(state: Any) -> bytes:  # noqa: ANN401
    """A state as bytes."""
    if isinstance(state, bytes):
        return state
    if isinstance(state, str):
        return state.encode()
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


# --- partitions


class BackendPartitioner(Partitioner):
    """Chooses the nodes that a backend takes, in the graphs of branches too."""

    def __init__(self, backend: str, specs: Sequence[CompileSpec]) -> None:
        super().__init__()
        self._backend = backend
        self._specs = list(specs)

    def partition(self, exported_program: Program) -> PartitionResult:
        """Tag the nodes of each partition, and the program's tensors that only partitions take."""
        backend, cutting = find_backend(self._backend), Cutting(exported_program)
        supports = backend.supports or preprocessed_alone(
            cutting, lambda part: _state(self._backend, part.program, self._specs, DebugHandles()), {}
        )
        delegation = DelegationSpec(self._backend, self._specs)
        tags: dict[str, DelegationSpec] = {}
        graphs, numbers = [exported_program.graph_module], count()
        while graphs:
            module = graphs.pop()
            for nodes in partitions_of(module, supports):
                tag = f"{self._backend}_{next(numbers)}"
                tags[tag] = delegation
                for node in nodes:
                    node.meta[DELEGATION_TAG] = tag
            graphs += [held for _, held, _ in get_control_flow_submodules(module)]
        tag_constant_data(exported_program)
        for node in exported_program.graph.find_nodes(op="placeholder"):
            if any(DELEGATION_TAG not in user.meta for user in node.users):
                node.meta.pop(DELEGATION_TAG, None)  # others take it too, which ExecuTorch refuses
        return PartitionResult(exported_program, tags)
