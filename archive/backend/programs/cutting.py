"""Cuts partitions out of a program: each is a program of its own."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymBoolArgument,
    SymFloatArgument,
    SymIntArgument,
    TensorArgument,
)
from torch.utils import _pytree as pytree

from archive.backend.exported.graphs import OWN_TENSORS

if TYPE_CHECKING:
    from collections.abc import Sequence

ARGUMENTS = {
    torch.SymInt: SymIntArgument,
    torch.SymFloat: SymFloatArgument,
    torch.SymBool: SymBoolArgument,
}
CHANGED = (OutputKind.BUFFER_MUTATION, OutputKind.PARAMETER_MUTATION)


@dataclass(frozen=True, slots=True)
class Partition:
    """Nodes of a program that are lowered together.

    Attributes:
        nodes: in their order.
        program: a program of copies of them, by the same names. It has the parameters, buffers and constants
            of the whole program that never change; all else that the nodes take is its input.
        inputs: the nodes of the whole program that it takes, besides these tensors.
        results: the nodes whose results are used outside.
    """

    nodes: Sequence[torch.fx.Node]
    program: ExportedProgram
    inputs: Sequence[torch.fx.Node]
    results: Sequence[torch.fx.Node]


class Cutting:
    """Cuts partitions out of one program."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._tensors = {**program.state_dict, **program.constants}
        signature = program.graph_signature
        changed = {spec.target for spec in signature.output_specs if spec.kind in CHANGED}
        self._own = {
            spec.arg.name: spec
            for spec in signature.input_specs
            if spec.kind in OWN_TENSORS and spec.target not in changed
        }

    def is_own(self, node: torch.fx.Node) -> bool:
        """Whether a node is a tensor of the program that never changes."""
        is_input = node.op == "placeholder" and node.graph is self._program.graph_module.graph
        return is_input and node.name in self._own

    def tensor(self, node: torch.fx.Node) -> torch.Tensor:
        """The tensor of the program that a node is."""
        return self._tensors[self._own[node.name].target]

    def partition(self, nodes: Sequence[torch.fx.Node]) -> Partition:
        """The partition of nodes, which stand in their order."""
        inside = set(nodes)
        outer = dict.fromkeys(each for node in nodes for each in node.all_input_nodes if each not in inside)
        own = [node for node in outer if self.is_own(node)]
        inputs = [node for node in outer if not self.is_own(node)]
        results = [node for node in nodes if any(user not in inside for user in node.users)]
        graph = torch.fx.Graph()
        copies: dict[torch.fx.Node, torch.fx.Node] = {}
        for node in (*own, *inputs):
            copies[node] = graph.placeholder(node.name)
            copies[node].meta = copy.copy(node.meta)
        for node in nodes:
            copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(tuple(copies[node] for node in results))
        specs = [self._own[node.name] for node in own]
        return Partition(nodes, self._made(graph, specs, len(inputs)), inputs, results)

    def _made(self, graph: torch.fx.Graph, own: Sequence[InputSpec], inputs: int) -> ExportedProgram:
        """A program of a graph, which takes the program's own tensors first."""
        placeholders = graph.find_nodes(op="placeholder")
        given = [InputSpec(InputKind.USER_INPUT, _argument(node), None) for node in placeholders[len(own) :]]
        taken = [
            InputSpec(spec.kind, TensorArgument(node.name), spec.target, spec.persistent)
            for node, spec in zip(placeholders, own, strict=False)
        ]
        (results,) = graph.output_node().args
        made = [OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None) for node in results]
        arguments: tuple[object, ...] = ((*range(inputs),), {})
        call = ModuleCallSignature(
            [],
            [],
            pytree.tree_structure(arguments),
            pytree.tree_structure(tuple(range(len(made)))),
        )
        program, targets = self._program, [spec.target for spec in own]
        return ExportedProgram(
            torch.fx.GraphModule({}, graph),
            graph,
            ExportGraphSignature([*taken, *given], made),
            {name: self._tensors[name] for name in targets if name in program.state_dict},
            program.range_constraints,
            [ModuleCallEntry("", call)],
            constants={name: self._tensors[name] for name in targets if name not in program.state_dict},
            verifiers=program.verifiers,
        )


def _argument(node: torch.fx.Node) -> Any:  # noqa: ANN401
    """The argument of a signature that a node is."""
    return ARGUMENTS.get(type(node.meta["val"]), TensorArgument)(node.name)
