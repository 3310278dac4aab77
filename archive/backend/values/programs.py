"""Runs an exported program node by node, and notes the values of each node."""

from __future__ import annotations

from functools import cache
from operator import getitem
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from archive.backend.errors import NO_HANDLE
from archive.backend.programs.delegates import delegate, handle_of
from archive.backend.programs.stepping import Stepper
from archive.backend.values.observing import Recorder, changed_ranges
from archive.debuginfo.profiles.places import UNKNOWN_PLACE
from archive.reader.lookups.nodes import ProgramNode, place_of_node

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
    noting = _Noting(recorder)
    result = Stepper(exported.module(), noting.step).run(*inputs)
    recorder.note_outputs(result)
    sites = {key: site for form in (*program.forms[::-1], program) for key, site in form.sites.items()}

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

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.keys: list[str] = []

    def step(self, stepper: Stepper, n: torch.fx.Node, key: str) -> Any:  # noqa: ANN401 (any value)
        """Run a node, and note what it returns."""
        target: Any = n.target
        if target is delegate:
            return self._lowered(stepper, n, key)
        if isinstance(target, torch._ops.HigherOrderOperator):
            self._recorder.observed.unseen[INNER] += 1
            return stepper.result(n)
        given = stepper.fetch_args_kwargs_from_env(n)
        before = changed_ranges(target._schema, given)
        result = stepper.result(n)
        self._recorder.note(target._schema.name, before, given, result)
        self.keys.append(key)
        return result

    def _lowered(self, stepper: Stepper, n: torch.fx.Node, key: str) -> Any:  # noqa: ANN401 (any value)
        """Run a partition on its backend; what it returns is noted at the nodes that made it."""
        given = stepper.fetch_args_kwargs_from_env(n)
        results = stepper.result(n)
        holder: Any = n.args[0]
        graph = stepper.fetch_attr(holder.target).graph
        for node, result in zip(graph.output_node().args[0], results, strict=True):
            made = node
            while made.target is getitem:
                made = made.args[0]
            self._recorder.note(made.target._schema.name, (), given, result)
            self.keys.append(f"{key}.{holder.target}/{made.name}")
        lowered = sum(handle_of(node) != NO_HANDLE for node in graph.nodes)
        self._recorder.observed.unseen[LOWERED] += lowered - len(results)
        return results
