"""Turns an exported program into what a backend lowers."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from archive.backend.exported.graphs import ProgramGraphBuilder
from archive.backend.exported.signature import (
    PLAIN_TYPES,
    SYMBOLS,
    TENSOR,
    Parameter,
    checks_of,
    parameters_of,
    result_of,
    schema_of,
)
from archive.backend.exported.traces import module_stack
from archive.backend.registry import Original
from archive.base.errors import LoweringError
from archive.debuginfo.sites import torchscript_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.backend.graph.graphs import Graph, Schema

METHOD = "forward"
UNNAMED = "ExportedProgram"
"""The class of a program if its nodes do not name the model's."""
NUMBERS = {torch.SymInt: 0, torch.SymFloat: 0.0, torch.SymBool: False}
"""A number of each class of those that are known only when a program runs."""


def exported(program: Any) -> tuple[Original, dict[str, list[str]]]:  # noqa: ANN401 (an ExportedProgram)
    """An exported program as a backend gets it.

    Returns:
        Its class, graph and schema; and for each method that has parameters, statements of TorchScript that
        raise where an argument is not like that of the export.
    """
    nodes = list(program.graph.nodes)
    signature = program.graph_signature
    inputs = zip((node for node in nodes if node.op == "placeholder"), signature.input_specs, strict=True)
    given = [_leaf(node, spec.arg) for node, spec in inputs if spec.kind is InputKind.USER_INPUT]
    outputs = zip(nodes[-1].args[0], signature.output_specs, strict=True)
    results = [_leaf(node, spec.arg) for node, spec in outputs if spec.kind is OutputKind.USER_OUTPUT]
    parameters = parameters_of(program, given)
    tree, result = result_of(program, results)
    builder = ProgramGraphBuilder(program)
    graph = builder.build(parameters, tree, result.annotation_str)
    if builder.refused:
        raise LoweringError("\n".join(builder.refused))
    schema = schema_of(METHOD, parameters, result)
    checks = {METHOD: checks_of(parameters, given)} if parameters else {}
    return Original(type_name_of(nodes), {METHOD: graph}, {METHOD: schema}), checks


def _leaf(node: Any, argument: Any) -> object:  # noqa: ANN401
    """The value of an input or result: a tensor of its size and type, or what it always is.

    Any number stands for one that is known only in a run.
    """
    if isinstance(argument, ConstantArgument) or not isinstance(node, torch.fx.Node):
        return argument.value
    value = node.meta["val"]
    return NUMBERS[type(value)] if isinstance(value, SYMBOLS) else value


class PartitionGraphs(Mapping[str, "Graph"]):
    """The graph of a partition of a program, made when it is first asked for.

    Args:
        program: the partition, whose inputs and results are tensors and sizes, without structure.
    """

    def __init__(self, program: Any) -> None:  # noqa: ANN401 (an ExportedProgram)
        self._program = program
        signature = program.graph_signature
        inputs = [node for node in program.graph.nodes if node.op == "placeholder"]
        kinds = {
            node.name: PLAIN_TYPES.get(type(_leaf(node, spec.arg)), TENSOR)
            for node, spec in zip(inputs, signature.input_specs, strict=True)
            if spec.kind is InputKind.USER_INPUT
        }
        self._parameters = [
            Parameter(name, number, kind, by_name=False) for number, (name, kind) in enumerate(kinds.items())
        ]
        count = len(signature.output_specs)
        self._tree = 0 if count == 1 else tuple(range(count))
        self._result = TENSOR if count == 1 else torch._C.TupleType([TENSOR] * count)

    @property
    def schema(self) -> Schema:
        """The schema of its method."""
        return schema_of(METHOD, self._parameters, self._result)

    @cached_property
    def _graph(self) -> Graph:
        builder = ProgramGraphBuilder(self._program, is_dynamic=True)
        graph = builder.build(self._parameters, self._tree, self._result.annotation_str)
        if builder.refused:
            raise LoweringError("\n".join(builder.refused))
        return graph

    def __getitem__(self, method: str) -> Graph:
        if method != METHOD:
            raise KeyError(method)
        return self._graph

    def __iter__(self) -> Iterator[str]:
        return iter((METHOD,))

    def __len__(self) -> int:
        return 1


def partition(program: Any) -> Original:  # noqa: ANN401 (an ExportedProgram)
    """A partition of a program as a backend gets it.

    Its one result is returned as it is, several as a tuple.
    """
    graphs = PartitionGraphs(program)
    return Original(type_name_of(program.graph.nodes), graphs, {METHOD: graphs.schema}, program)


def type_name_of(nodes: Iterable[Any]) -> str:
    """The class of the model that nodes were made of, as TorchScript names it."""
    classes = (modules[0].class_name for modules in map(module_stack, nodes) if modules)
    return torchscript_name(next(classes, UNNAMED))


def check_overloads(lowered: Any, graphs: Mapping[str, Graph]) -> None:  # noqa: ANN401
    """Make sure that TorchScript runs the overloads that the program has, which no statement can name.

    Args:
        graphs: the graphs of its methods, whose operations are statements in this order.
    """
    for method, graph in graphs.items():
        nodes = reversed(list(lowered._get_method(method).graph.nodes()))
        for operation in reversed([each for each in graph.operations() if each.schema]):
            same_kind = (node.schema() for node in nodes if node.kind() == operation.kind)
            taken, own = (text.partition("(")[0] for text in (next(same_kind, "nothing"), operation.schema))
            if taken != own:
                said = f"TorchScript takes {taken} for these arguments, and not {own}"
                raise LoweringError(f"{said}. Source code: {operation.shown}".rstrip())
