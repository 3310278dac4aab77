"""Runs an exported program node by node, and notes the values of each node.

Of a lowered part whose backend gives no values, those that it returns are noted. The others of its nodes are
hidden; a value of it follows from what was not seen if it follows from hidden nodes of another line.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from operator import getitem
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from archive.backend.programs.delegates import delegate, part_of
from archive.backend.programs.stepping import Stepper
from archive.backend.recording import CallValues, recorded
from archive.backend.values.observing import Recorder, changed_ranges
from archive.debuginfo.profiles.places import UNKNOWN_PLACE
from archive.debuginfo.values.families import is_computing
from archive.reader.lookups.nodes import ProgramNode, place_of_node, sites_by_key

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Sequence

    from archive.backend.values.observing import KeptValues
    from archive.debuginfo.profiles.places import OperationPlace
    from archive.debuginfo.source_lines import SourceLine
    from archive.debuginfo.values.observed import Observed
    from archive.formats.exported.program import Program

EXPORTED = "exported program"
INNER, LOWERED = "inner graphs", "lowered operations"


def observe_program(
    exported: torch.export.ExportedProgram,
    program: Program,
    inputs: Sequence[object],
    values: KeptValues | None,
    *,
    identity: str = "",
    sourced: Callable[[ProgramNode], ProgramNode] = lambda node: node,
) -> Observed:
    """Run an exported program once.

    Args:
        exported: as PyTorch loads it.
        program: the same as this library reads it, for the places of its nodes.
        identity: what identifies it.
        sourced: gives a node the place that the program itself does not have.
    """
    recorder = Recorder(EXPORTED, values)
    recorder.observed.program = identity
    recorder.note_inputs(inputs)
    sites = sites_by_key(program)

    @cache
    def place(key: str) -> tuple[OperationPlace, str]:
        site = sites.get(key)
        return (UNKNOWN_PLACE if site is None else place_of_node(sourced(ProgramNode(program, site)))), key

    noting = _Noting(recorder, program, lambda key: place(key)[0].source)
    result = Stepper(exported.module(), noting.step).run(*inputs)
    recorder.note_outputs(result)
    return recorder.finish([place(key) for key in noting.keys])


class _Noting:
    """Notes the results of nodes that call an operator.

    Attributes:
        keys: the key of each noted node.
    """

    def __init__(
        self, recorder: Recorder, program: Program, line_of: Callable[[str], SourceLine | None]
    ) -> None:
        self._recorder, self._line_of = recorder, line_of
        self._lowered = defaultdict[str, dict[int, str]](dict)  # keys of nodes by handle, of each partition
        for key, site in program.sites.items():
            if site.handle is not None:
                self._lowered[key.rpartition("/")[0]][int(site.handle)] = key
        self.keys: list[str] = []

    def step(self, stepper: Stepper, n: torch.fx.Node, key: str) -> Any:  # noqa: ANN401 (any value)
        """Run a node, and note what it returns."""
        target: Any = n.target
        if target is delegate:
            return self._run_lowered(stepper, n, key)
        if isinstance(target, torch._ops.HigherOrderOperator):
            self._recorder.observed.unseen[INNER] += 1
            result = stepper.result(n)
            self._recorder.note_unseen(result)
            return result
        given = stepper.fetch_args_kwargs_from_env(n)
        before = changed_ranges(target._schema, given)
        result = stepper.result(n)
        self._recorder.note(target._schema.name, before, given, result)
        self.keys.append(key)
        return result

    def _run_lowered(self, stepper: Stepper, n: torch.fx.Node, key: str) -> Any:  # noqa: ANN401 (any value)
        """Run a partition, and note what its backend records; if it cannot, what the partition returns."""
        (module, *operands), named = stepper.fetch_args_kwargs_from_env(n)
        holder: Any = n.args[0]
        scope, part = f"{key}.{holder.target}", part_of(module, operands, **named)
        lowered = self._lowered[scope]
        if hasattr(part.runtime, "profiling") and hasattr(part.runtime, "values"):
            handles = self._recorder.run.handles
            handles.clear()
            with recorded(part.runtime, [], values=CallValues(self._recorder)):
                results = part.run(operands)
            keys = [lowered.get(handle, key) for handle in handles]
            hidden = self._note_hidden(module.graph, scope, {*lowered.values()}.difference(keys))
            self.keys += keys + hidden
        else:
            results = part.run(operands)
            self._note_returned(module.graph, scope, operands, results)
        return results

    def _note_returned(
        self, graph: torch.fx.Graph, scope: str, operands: Sequence[object], results: Sequence[object]
    ) -> None:
        """Note what a partition returns, in the order of its nodes, and that its other nodes are hidden."""
        values: dict[torch.fx.Node, object] = dict(
            zip(graph.find_nodes(op="placeholder"), operands, strict=False)
        )
        returned = dict(zip(_returned(graph), results, strict=True))
        seen = {f"{scope}/{node.name}" for node in returned}
        self.keys += self._note_hidden(graph, scope, {*self._lowered[scope].values()} - seen)
        for node in [each for each in graph.nodes if each in returned]:
            taken, hidden = _nearest(node, values)
            line = self._line_of(f"{scope}/{node.name}")
            lines = {self._line_of(f"{scope}/{each.name}") for each in hidden}
            given, hides = (
                [values[each] for each in taken],
                bool(lines and (None in lines or lines != {line})),
            )
            self._recorder.note(node.target._schema.name, (), given, returned[node], hides=hides)
            self.keys.append(f"{scope}/{node.name}")
            values[node] = returned[node]

    def _note_hidden(self, graph: torch.fx.Graph, scope: str, keys: Container[str]) -> list[str]:
        """Note the nodes of a partition that ran without being seen; the keys of these."""
        hidden: list[Any] = [node for node in graph.nodes if f"{scope}/{node.name}" in keys]
        for node in hidden:
            self._recorder.note_hidden(node.target._schema.name)
        if hidden:
            self._recorder.observed.unseen[LOWERED] += len(hidden)
        return [f"{scope}/{node.name}" for node in hidden]


def _nearest(
    last: torch.fx.Node, known: Container[torch.fx.Node]
) -> tuple[list[torch.fx.Node], list[torch.fx.Node]]:
    """The nodes of known values that a node follows from, and those that compute between them and it."""
    taken, between = dict[torch.fx.Node, None](), list[torch.fx.Node]()
    rest = [*last.all_input_nodes][::-1]
    found = {*rest}
    while rest:
        node = rest.pop()
        if node in known:
            taken[node] = None
        elif node.op == "call_function":
            if isinstance(node.target, torch._ops.OpOverload) and is_computing(node.target._schema.name):
                between.append(node)
            more = [each for each in node.all_input_nodes if each not in found][::-1]
            found |= {*more}
            rest += more
    return [*taken], between


def _returned(graph: torch.fx.Graph) -> list[Any]:
    """The nodes that make the values which a partition returns."""
    results: Any = graph.output_node().args[0]
    made = []
    for node in results:
        maker = node
        while maker.target is getitem:
            (maker, _) = maker.args
        made.append(maker)
    return made
