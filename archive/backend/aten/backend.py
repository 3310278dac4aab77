"""The backend ``aten``: PyTorch's own operators, on a register machine.

Its link is ``ahead of time``: stock PyTorch runs one TorchScript statement for each operation. With this
library, the register machine runs the same operations, and reports errors, times and memory by debug handle.
Use the register machine to profile and debug, TorchScript to deploy. The archive keeps both: the machine's
programs are the text of the state, see :mod:`archive.formats.blob_programs`.
"""

from __future__ import annotations

from threading import get_ident
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.aten.blob import decoded, encoded
from archive.backend.aten.constants import copied
from archive.backend.aten.machine import Machine
from archive.backend.aten.program import MachineProgram, program_of
from archive.backend.errors import NO_HANDLE
from archive.backend.graph.attributes import folded_with_state, held_attributes, with_plain_contexts
from archive.backend.graph.graphs import Block, Graph, Operation
from archive.backend.lower.codegen import results
from archive.backend.lower.links import Ahead
from archive.backend.registry import Backend, Link
from archive.base.errors import ArchiveError

if TYPE_CHECKING:
    from archive.backend.recording import CallValues
    from archive.backend.registry import GenerateDebugHandles, Original


def preprocess(
    original: Original,
    method_compile_spec: dict[str, Any],
    generate_debug_handles: GenerateDebugHandles,
) -> Ahead:
    """The folded graph of each method, its program as text, and the tensors that both use."""
    own = {method: with_plain_contexts(original.graphs[method]) for method in method_compile_spec}
    graphs = folded_with_state(own)
    held = held_attributes(graphs.values())
    handles: dict[Operation, int] = {}
    tensors: list[torch.Tensor] = []
    programs: dict[str, MachineProgram] = {}
    unsupported: list[Operation] = []
    for method, graph in graphs.items():
        handles |= generate_debug_handles(graph)
        _, is_tuple = results(original.schemas[method])
        whole = graph if is_tuple else _as_tuple(graph)
        programs[method], refused = program_of(whole, handles, tensors, list(held))
        unsupported += refused
    return Ahead(graphs, handles, "" if unsupported else encoded(programs), tensors, unsupported, held)


def _as_tuple(graph: Graph) -> Graph:
    """A copy of a graph that returns its one result as a tuple, as graphs of several results do."""
    value = max(graph.types, default=-1) + 1
    tuple_of = Operation("prim::TupleConstruct", list(graph.body.results), [value])
    body = Block(graph.body.parameters, [*graph.body.operations, tuple_of], [value])
    (result,) = graph.body.results
    return Graph(graph.name, body, graph.types | {value: f"Tuple[{graph.types[result]}]"})


class Aten:
    """The runtime: makes a :class:`Machine` of each method's program, and runs it.

    Attributes:
        last_handle: always -1, as errors carry the handles of the operations that failed.
        operations: the recorded operations: start and end (ns), debug handle, kind.
        memory: the recorded changes of memory; None if they are not recorded.
        of_allocator: always true, as these are all that PyTorch's allocator makes.
        values: what notes the values of operations; None if they are not recorded.
    """

    def __init__(self) -> None:
        self.last_handle = NO_HANDLE
        self._recorded_thread = 0
        self.operations: list[tuple[int, int, int, str]] = []
        self.memory: list[tuple[int, int, int, int, int]] | None = None
        self.of_allocator = True
        self.values: CallValues | None = None

    @property
    def profiling(self) -> bool:
        """Whether calls of this thread are recorded; other threads may call at the same time."""
        return self._recorded_thread == get_ident()

    @profiling.setter
    def profiling(self, is_on: bool) -> None:
        self._recorded_thread = get_ident() if is_on else 0

    def is_available(self) -> bool:
        """PyTorch's operators are wherever PyTorch is."""  # part of lowered modules, to the byte
        return True

    def compile(self, processed: Any, method_compile_spec: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401
        """The machine of each method. State that the methods write is this runtime's own."""
        if not _is_state(processed):
            raise ArchiveError(expected="a text and tensors as state", found=type(processed).__name__)
        text, tensors, *more = processed
        held = [_copied(value) for values in more for value in values]
        programs = decoded(text, len(tensors), len(held))
        for method in method_compile_spec:
            if method not in programs:
                raise ArchiveError(place=f"method {method}", expected="a program", found="none")
        return {method: Machine(programs[method], tensors, held) for method in method_compile_spec}

    def execute(self, handle: Machine, inputs: list[Any]) -> list[Any]:
        """Run a method."""
        return list(
            handle.run_observed(inputs, self.operations, self.memory, self.values)
            if self.profiling
            else handle.run(inputs)
        )


def _is_state(processed: object) -> bool:
    """Whether a value is a text and tensors, and perhaps the attributes that the lowered module holds."""
    if not isinstance(processed, tuple):
        return False
    first, more = processed[:2], processed[2:]
    is_plain = torch.jit.isinstance(first, tuple[str, list[torch.Tensor]])
    return is_plain and (not more or (len(more) == 1 and isinstance(more[0], tuple)))


def _copied(value: Any) -> Any:  # noqa: ANN401
    """The value of an attribute, for a runtime that may change it in place."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    return copied(value)


ATEN = Backend("aten", preprocess, Aten, Link.AHEAD_OF_TIME)
