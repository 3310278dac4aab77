"""Lowers partitions of a program; see :mod:`archive.backend.programs`."""

from __future__ import annotations

import copy
import warnings
from dataclasses import replace
from itertools import count
from operator import getitem
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch._guards import detect_fake_mode
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export.exported_program import ExportedProgram
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputSpec,
    TensorArgument,
)
from torch.fx.passes.tools_common import stable_topological_sort

from archive.backend.errors import NO_HANDLE, BackendError
from archive.backend.exported.program import METHOD
from archive.backend.exported.program import partition as original_of
from archive.backend.lower import codegen
from archive.backend.lower.codegen import compile_error
from archive.backend.lower.links import Ahead
from archive.backend.programs import states
from archive.backend.programs.choosing import partitions_of, preprocessed_alone
from archive.backend.programs.cutting import Cutting
from archive.backend.programs.delegates import HANDLE, Part, delegate, handle_of
from archive.base.errors import ArchiveError, LoweringError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.backend.graph.graphs import Graph, Operation
    from archive.backend.programs.cutting import Partition
    from archive.backend.registry import Backend

SIZES = (torch.sym_not, torch.sym_int, torch.sym_float, torch.sym_max, torch.sym_min, torch.sym_ite)
"""PyTorch's operators on sizes, besides those of Python."""
LOWERED = "lowered_{}"
"""The name of a partition's graph, with its number."""


def lower_program(
    program: ExportedProgram,
    backend: Backend,
    options: Mapping[str, Any],
    paths: Sequence[str] | None = None,
) -> ExportedProgram:
    """Lower what a backend supports of a program; see :func:`archive.backend.lower`.

    Args:
        options: of ``forward``, as in a compile spec.
    """
    lowering = _Lowering(functional(program), backend, options)
    partitions = lowering.choose(paths)
    if not partitions:
        why = lowering.refusal
        refused = "" if why is None else f"; it refuses the first: {why}"
        said = f"the backend {backend.name} supports no operation of the program{refused}"
        raise LoweringError(said) from why
    for nodes in partitions:
        lowering.lower(nodes)
    if not backend.runtime().is_available():
        warnings.warn(codegen.UNAVAILABLE_WARNING.format(backend.name), stacklevel=3)
    return lowering.finish()


def functional(program: ExportedProgram) -> ExportedProgram:
    """A copy of a program whose operators change nothing: what changes is in its signature."""
    graphs = (module.graph for module in program.graph_module.modules() if hasattr(module, "graph"))
    targets = {node.target for graph in graphs for node in graph.nodes if node.op == "call_function"}
    if not all(map(_changes_nothing, targets)):
        return program.run_decompositions({})
    module, signature = copy.deepcopy(program.graph_module), program.graph_signature
    return program_like(program, module, named(module.graph, signature.input_specs, signature.output_specs))


def _changes_nothing(target: Any) -> bool:  # noqa: ANN401
    """Whether an operator of a program changes neither tensors nor modes, as the entry of a ``vmap`` does."""
    if isinstance(target, torch._ops.OpOverload):
        return not target._schema.is_mutable
    return isinstance(target, torch._ops.HigherOrderOperator | BuiltinFunctionType) or target in SIZES


def named(
    graph: torch.fx.Graph, inputs: Sequence[InputSpec], outputs: Sequence[OutputSpec]
) -> ExportGraphSignature:
    """A signature with the names that the inputs and results of a graph have."""
    (results,) = graph.output_node().args

    def renamed(spec: Any, node: Any) -> Any:  # noqa: ANN401
        is_named = isinstance(node, torch.fx.Node)
        return replace(spec, arg=replace(spec.arg, name=node.name)) if is_named else spec

    return ExportGraphSignature(
        [*map(renamed, inputs, graph.find_nodes(op="placeholder"))], [*map(renamed, outputs, results)]
    )


def program_like(
    program: ExportedProgram,
    graph_module: torch.fx.GraphModule,
    signature: ExportGraphSignature,
    **tensors: dict[str, Any],
) -> ExportedProgram:
    """A program of another graph with the parameters and results of a program."""
    return ExportedProgram(
        graph_module,
        graph_module.graph,
        signature,
        tensors.get("state_dict", program.state_dict),
        program.range_constraints,
        program.module_call_graph,
        program.example_inputs,
        tensors.get("constants", program.constants),
        verifiers=program.verifiers,
    )


class _Lowering:
    """Lowers partitions of one program, which it changes."""

    def __init__(self, program: ExportedProgram, backend: Backend, options: Mapping[str, Any]) -> None:
        self._program, self._backend = program, backend
        self._spec = {METHOD: dict(options) or {"": ""}}
        self._cutting = Cutting(program)
        self._graph = program.graph_module.graph
        self._held = {
            _identity(self._cutting.tensor(node)): node
            for node in self._graph.find_nodes(op="placeholder")
            if self._cutting.is_own(node)
        }
        self._new: dict[str, torch.Tensor] = {}
        self._refusals: dict[torch.fx.Node, LoweringError] = {}
        self._taken: dict[torch.fx.Node, None] = {}  # the program's tensors that lowered nodes took
        inner = (module.graph for module in program.graph_module.modules() if hasattr(module, "graph"))
        handles = [handle_of(node) for graph in inner for node in graph.nodes]
        self._handles = count(max(handles, default=NO_HANDLE) + 1)

    def choose(self, paths: Sequence[str] | None) -> list[list[torch.fx.Node]]:
        """The partitions that the backend takes."""
        tried = preprocessed_alone(self._cutting, lambda part: self._processed(part, count()), self._refusals)
        return partitions_of(self._program.graph_module, self._backend.supports or tried, paths)

    @property
    def refusal(self) -> LoweringError | None:
        """The backend's reason against the first node of those that its preprocess refused."""
        return next((self._refusals[node] for node in self._graph.nodes if node in self._refusals), None)

    def lower(self, nodes: Sequence[torch.fx.Node]) -> None:
        """Put a call of the backend in the place of nodes."""
        part, module = self._cutting.partition(nodes), self._program.graph_module
        kept, processed = self._processed(part, self._handles)
        state = states.written((self._spec, processed))
        name = next(name for name in map(LOWERED.format, count()) if not hasattr(module, name))
        inner = torch.fx.GraphModule({}, kept, name)
        self._check(inner, [*part.inputs, *state])
        module.add_module(name, inner)
        held_state = [self._placeholder(tensor, f"{name}_state") for tensor in state]
        with self._graph.inserting_after(nodes[-1]):
            held = self._graph.get_attr(name)
        with self._graph.inserting_after(held):
            operands = held, *part.inputs, *held_state
            call = self._graph.call_function(delegate, operands, {"backend": self._backend.name})
        call.meta["val"] = tuple(node.meta["val"] for node in part.results)
        with self._graph.inserting_before(call.next):
            for number, node in enumerate(part.results):
                item = self._graph.call_function(getitem, (call, number))
                node.replace_all_uses_with(item, propagate_meta=True)
        self._taken |= dict.fromkeys(
            each for node in nodes for each in node.all_input_nodes if self._cutting.is_own(each)
        )
        for node in reversed(nodes):
            self._graph.erase_node(node)

    def _processed(self, part: Partition, handles: Iterator[int]) -> tuple[torch.fx.Graph, Any]:
        """The graph of a partition without tensors, and the state that the backend makes of it."""
        graph = part.program.graph
        for node in graph.nodes:
            if node.op == "call_function":
                node.meta[HANDLE] = next(handles)
        by_name = {node.name: node.meta.get(HANDLE, NO_HANDLE) for node in graph.nodes}
        kept = _without_tensors(graph, len(part.inputs))

        def generated(graph: Graph) -> dict[Operation, int]:
            return {operation: by_name.get(operation.node, NO_HANDLE) for operation in graph.operations()}

        original = original_of(part.program)
        try:
            made = self._backend.preprocess(original, self._spec, generated)
        except LoweringError:
            raise
        except Exception as error:
            name = self._backend.name
            error.add_note(f"in preprocess of the backend {name}, which was given {original.type_name}")
            raise
        if not isinstance(made, Ahead):
            return kept, made
        if made.unsupported:
            raise LoweringError("\n".join(map(compile_error, made.unsupported)))
        return kept, (made.blob, made.tensors)

    def _check(self, graph: torch.fx.GraphModule, operands: Sequence[Any]) -> None:
        """Make sure that the backend compiles what it has made, if it is available."""
        try:
            Part.of(graph, operands, self._backend.name)
        except BackendError:  # it is not available
            return
        except ArchiveError as error:
            raise LoweringError(str(error)) from error

    def _placeholder(self, tensor: torch.Tensor, name: str) -> torch.fx.Node:
        """The input of the program that is a tensor of a state: one that it has, or a new constant."""
        known = self._held.get(_identity(tensor))
        if known is not None:
            return known
        first = next(node for node in self._graph.nodes if not self._cutting.is_own(node))
        with self._graph.inserting_before(first):
            made = self._graph.placeholder(f"{name}_{len(self._new)}")
        mode = detect_fake_mode([node.meta.get("val") for node in self._graph.nodes]) or FakeTensorMode()
        made.meta["val"] = mode.from_tensor(tensor.detach(), static_shapes=True)
        self._new[made.name] = tensor.detach()
        self._held[_identity(tensor)] = made
        return made

    def finish(self) -> ExportedProgram:
        """The program, without tensors that only lowered nodes took."""
        for node in self._taken:
            if not node.users:
                self._graph.erase_node(node)
        module, old = self._program.graph_module, self._program.graph_signature
        stable_topological_sort(module)
        module.recompile()
        specs = {spec.arg.name: spec for spec in old.input_specs}
        inputs = [
            specs.get(node.name) or InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(node.name), node.name)
            for node in self._graph.find_nodes(op="placeholder")
        ]
        gone = {spec.target for spec in old.input_specs} - {spec.target for spec in inputs}
        return program_like(
            self._program,
            module,
            named(self._graph, inputs, old.output_specs),
            state_dict=_without(self._program.state_dict, gone),
            constants=_without(self._program.constants, gone) | self._new,
        )


def _without(tensors: Mapping[str, Any], gone: set[str | None]) -> dict[str, Any]:
    return {name: tensor for name, tensor in tensors.items() if name not in gone}


def _identity(tensor: torch.Tensor) -> object:
    """Equal for tensors that are the same elements in memory, while these exist."""
    if tensor.layout is not torch.strided or type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return object()
    flags = tensor.is_conj(), tensor.is_neg()
    return tensor.data_ptr(), tensor.dtype, tensor.device, tensor.shape, tensor.stride(), flags


def _without_tensors(graph: torch.fx.Graph, inputs: int) -> torch.fx.Graph:
    """A copy of a partition's graph with empty tensors in place of the program's; it takes the inputs."""
    made, copies = torch.fx.Graph(), {}
    nodes = graph.find_nodes(op="placeholder")
    given = nodes[len(nodes) - inputs :]
    for node in (*given, *(node for node in graph.nodes if node not in given)):
        if node.op == "placeholder" and node not in given:
            value = node.meta["val"]
            copies[node] = made.create_node(
                "call_function",
                torch.ops.aten.empty_strided.default,
                (list(value.shape), list(value.stride())),
                {"dtype": value.dtype, "device": value.device},
                node.name,
            )
            copies[node].meta = copy.copy(node.meta)
        else:
            copies[node] = made.node_copy(node, copies.__getitem__)
        if HANDLE in node.meta:
            copies[node].meta["custom"] = {**(node.meta.get("custom") or {}), HANDLE: node.meta[HANDLE]}
    return made
