"""Profiles runs of an exported program: operators that PyTorch runs, and operations of backends."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from archive.backend.programs.delegates import delegate, profiled
from archive.backend.pytorch import message_of
from archive.backend.values.running import exported_program
from archive.base.errors import ArchiveError, one_line
from archive.debuginfo.profiles.places import UNKNOWN_PLACE
from archive.debuginfo.profiles.profile import Profile
from archive.debuginfo.profiles.timeline import Recording
from archive.reader.lookups.nodes import found_nodes, place_of_node
from archive.reader.opening import open as open_archive
from archive.reader.recognition import FileKind

if TYPE_CHECKING:
    from archive.debuginfo.profiles.places import OperationPlace
    from archive.io.mapped import Source

EXPORTED = "exported program"


def profile_program(
    source: Source,
    *inputs: object,
    companion: Source | None = None,
    method: str = "forward",
    runs: int = 1,
    warmup: int = 2,
) -> Profile:
    """Profile runs of an exported program, lowered in parts or not, without gradients.

    PyTorch loads and runs it, so its code must be trusted. Each node that calls an operator is an event; an
    inner graph, as of ``torch.cond``, is one. Of a lowered part, the events are the operations that its
    backend records; the part itself if it records none, or has not run before. Memory is not recorded.

    Args:
        source: the program: a path, a bytes-like object, or a binary file.
        inputs: its arguments.
        companion: its debug info, if that was split off.
        method: the name of the program, if there are several.
        runs: how often it runs; times add up.
        warmup: how often it runs before, unobserved.

    Raises:
        ArchiveError: the file holds no program that runs with these inputs.
    """
    with open_archive(source, companion=companion, kinds={FileKind.EXPORTED}) as opened:
        program, loaded = exported_program(source, opened, method)
        timed = _Timed(loaded.module())
        try:
            with torch.no_grad():
                for _ in range(warmup):
                    timed.module(*inputs)
                for _ in range(runs):
                    timed.run(*inputs)
        except Exception as error:  # a model may raise any
            raise ArchiveError(f"{method} fails: {one_line(message_of(error))}", file=opened.file) from error

        def place(number: int) -> OperationPlace:
            name = str(number) if number >= 0 else timed.names[-2 - number]
            nodes = found_nodes({program.name: program}, name)
            return place_of_node(nodes[0]) if nodes else UNKNOWN_PLACE

        places = {number: place(number) for _, _, number, _ in timed.recording.operations}
        return Profile(timed.recording, places.__getitem__, [])


class _Timed(torch.fx.Interpreter):  # type: ignore[misc]  # PyTorch has no types of it
    """Times the nodes of a program.

    Attributes:
        recording: operations of backends have their debug handles, nodes numbers from -2 downwards.
        names: of the nodes, in the order of these numbers.
    """

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module)
        self.recording = Recording(EXPORTED)
        self.names: list[str] = []
        self._numbers: dict[torch.fx.Node, int] = {}

    def run_node(self, n: torch.fx.Node) -> Any:  # noqa: ANN401 (any value)
        """Run a node, and note its time."""
        target: Any = n.target
        is_operator = isinstance(target, torch._ops.OpOverload | torch._ops.HigherOrderOperator)
        if n.op != "call_function" or not is_operator:
            return super().run_node(n)
        holder: Any = n.args[0] if target is delegate else None
        before = len(self.recording.operations)
        if holder is not None:
            with profiled(self.fetch_attr(holder.target), self.recording.operations):
                start, result, end = self._timed(n)
        else:
            start, result, end = self._timed(n)
        if len(self.recording.operations) == before:
            if n not in self._numbers:
                self._numbers[n] = -2 - len(self.names)
                self.names.append(n.name)
            name = target._schema.name if isinstance(target, torch._ops.OpOverload) else target.name()
            self.recording.operations.append((start, end, self._numbers[n], name))
        return result

    def _timed(self, n: torch.fx.Node) -> tuple[int, Any, int]:
        start = perf_counter_ns()
        result = super().run_node(n)
        return start, result, perf_counter_ns()
