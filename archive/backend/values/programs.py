"""Runs an exported program node by node, and notes the values of each node."""

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
from archive.reader.lookups.nodes import ProgramNode, place_of_node, sites_by_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.backend.values.observing import KeptValues
    from archive.debuginfo.profiles.places import OperationPlace
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
    noting = _Noting(recorder, program)
    result = Stepper(exported.module(), noting.step).run(*inputs)
    recorder.note_outputs(result)
    sites = sites_by_key(program)

    @cache
    def place(key: str) -> tuple[OperationPlace, str]:
        site = sites.get(key)
        return (UNKNOWN_PLACE if site is None else place_of_node(sourced(ProgramNode(program, site)))), key

    return recorder.finish([place(key) for key in noting.keys])


class _Noting:
    """Notes the results of nodes that call an operator.

    Attributes:
        keys: the key of each noted node.
    """

    def __init__(self, recorder: Recorder, program: Program) -> None:
        self._recorder = recorder
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
            self._recorder.forget(result)
            return result
        given = stepper.fetch_args_kwargs_from_env(n)
        before = changed_ranges(target._schema, given)
        result = stepper.result(n)
        self._recorder.note(target._schema.name, before, given, result)
        self.keys.append(key)
        return result

    def _run_lowered(self, stepper: Stepper, n: torch.fx.Node, key: str) -> Any:  # noqa: ANN401 (any value)
        """Run a partition, and note what its backend records; if it cannot, what the partition returns."""
        (module, *operands), named = given = stepper.fetch_args_kwargs_from_env(n)
        holder: Any = n.args[0]
        scope, part = f"{key}.{holder.target}", part_of(module, operands, **named)
        lowered = self._lowered[scope]
        if hasattr(part.runtime, "profiling") and hasattr(part.runtime, "values"):
            handles = self._recorder.run.handles
            handles.clear()
            with recorded(part.runtime, [], values=CallValues(self._recorder)):
                results = part.run(operands)
            keys = [lowered.get(handle, key) for handle in handles]
        else:
            results = part.run(operands)
            keys = [f"{scope}/{name}" for name in self._note_results(module.graph, given, results)]
        self.keys += keys
        if unseen := {*lowered.values()}.difference(keys):
            self._recorder.observed.unseen[LOWERED] += len(unseen)
        return results

    def _note_results(self, graph: torch.fx.Graph, given: object, results: Sequence[object]) -> list[str]:
        """Note what a partition returns; the names of the nodes that made it."""
        names = []
        returned: Any = graph.output_node().args[0]
        for node, result in zip(returned, results, strict=True):
            made = node
            while made.target is getitem:
                (made, _) = made.args
            self._recorder.note(made.target._schema.name, (), given, result)
            names.append(made.name)
        return names
