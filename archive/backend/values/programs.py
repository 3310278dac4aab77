"""Runs an exported program node by node, and notes the values of each node."""

from __future__ import annotations

from functools import cache
from operator import getitem
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from archive.backend.errors import NO_HANDLE
from archive.backend.programs.delegates import delegate, handle_of
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
COND, WHILE = "cond", "while_loop"


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
    nodes = _Nodes(exported.module(), recorder)
    result = nodes.run(*inputs)
    recorder.note_outputs(result)
    sites = {key: site for form in (*program.forms[::-1], program) for key, site in form.sites.items()}

    @cache
    def place(key: str) -> tuple[OperationPlace, str]:
        site = sites.get(key)
        return (UNKNOWN_PLACE if site is None else place_of_node(sourced(ProgramNode(program, site)))), key

    return recorder.finish([place(key) for key in nodes.keys])


class _Nodes(torch.fx.Interpreter):  # type: ignore[misc]  # PyTorch has no types of it
    """Notes the results of nodes that call an operator.

    Attributes:
        keys: the key of each noted node, as ``archive.reader.lookups.nodes`` has it.
    """

    def __init__(
        self, module: torch.nn.Module, recorder: Recorder, keys: list[str] | None = None, scope: str = ""
    ) -> None:
        super().__init__(module)
        self._recorder, self._scope = recorder, scope
        self.keys: list[str] = [] if keys is None else keys

    def run_node(self, n: torch.fx.Node) -> Any:  # noqa: ANN401 (any value)
        """Run a node, and note what it returns."""
        if n.op != "call_function":
            return super().run_node(n)
        target: Any = n.target
        if target is delegate:
            return self._lowered(n)
        if isinstance(target, torch._ops.HigherOrderOperator):
            return self._higher_order(n, target.name())
        schema = getattr(target, "_schema", None)
        if schema is None:
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        given = (args, kwargs)
        before = changed_ranges(schema, given)
        result = super().run_node(n)
        self._recorder.note(schema.name, before, given, result)
        self.keys.append(self._scope + n.name)
        return result

    def _higher_order(self, n: torch.fx.Node, name: str) -> Any:  # noqa: ANN401 (any value)
        """Run a node that calls inner graphs, and follow these where it is known which it calls."""
        args, _ = self.fetch_args_kwargs_from_env(n)
        if name == COND:
            which = 1 if args[0] else 2
            return self._inner(n, which, args[3])
        if name == WHILE:
            carried, more = tuple(args[2]), tuple(args[3])
            while self._inner(n, 0, (*carried, *more)):
                carried = tuple(self._inner(n, 1, (*carried, *more)))
            return carried
        self._recorder.observed.unseen[INNER] += 1
        return super().run_node(n)

    def _lowered(self, n: torch.fx.Node) -> Any:  # noqa: ANN401 (any value)
        """Run a partition on its backend; what it returns is noted at the nodes that made it."""
        given = self.fetch_args_kwargs_from_env(n)
        results = super().run_node(n)
        holder: Any = n.args[0]
        graph = self.fetch_attr(holder.target).graph
        for node, result in zip(graph.output_node().args[0], results, strict=True):
            made = node
            while made.target is getitem:
                made = made.args[0]
            self._recorder.note(made.target._schema.name, (), given, result)
            self.keys.append(f"{self._scope}{n.name}.{holder.target}/{made.name}")
        lowered = sum(handle_of(node) != NO_HANDLE for node in graph.nodes)
        self._recorder.observed.unseen[LOWERED] += lowered - len(results)
        return results

    def _inner(self, n: torch.fx.Node, which: int, given: Sequence[object]) -> Any:  # noqa: ANN401 (any value)
        """Run an inner graph of a node."""
        graph: Any = n.args[which]
        scope = f"{self._scope}{n.name}.{graph.target}/"
        inner = _Nodes(self.fetch_attr(graph.target), self._recorder, self.keys, scope)
        return inner.run(*given)
