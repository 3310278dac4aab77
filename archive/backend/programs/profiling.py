"""Profiles runs of an exported program: operators that PyTorch runs, and operations of backends."""

from __future__ import annotations

from contextlib import nullcontext
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.programs.delegates import delegate, part_of
from archive.backend.programs.stepping import Stepper
from archive.backend.recording import recorded
from archive.backend.values.inputs import Inputs
from archive.backend.values.running import exported_program, running_program
from archive.debuginfo.profiles.places import UNKNOWN_PLACE
from archive.debuginfo.profiles.profile import Profile
from archive.debuginfo.profiles.timeline import Recording
from archive.reader.lookups.nodes import ProgramNode, place_of_node, sites_by_key
from archive.reader.opening import open as open_archive
from archive.reader.recognition import FileKind

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

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

    PyTorch loads and runs it, so its code must be trusted. Each node that calls an operator is an event, also
    in the graphs of ``cond`` and ``while_loop``; a node that holds other graphs is one. Of a lowered part,
    the events are the operations that its backend records; the part itself if it records none. Memory is not
    recorded.

    Args:
        source: the program: a path, a bytes-like object, or a binary file.
        inputs: its arguments, those by name last, in the order of its signature; by default the sample inputs
            that it has.
        companion: its debug info, if that was split off.
        method: the name of the program, if there are several.
        runs: how often it runs; times add up.
        warmup: how often it runs before, unobserved.

    Raises:
        ArchiveError: the file holds no program that runs with these inputs.
    """
    with open_archive(source, companion=companion, kinds={FileKind.EXPORTED}) as opened:
        program, loaded = exported_program(source, opened, method)
        timing, module = _Timing(), loaded.module()
        stepper = Stepper(module, timing.step)
        with running_program(opened, program, loaded, Inputs(inputs, {})) as given, torch.no_grad():
            args = given.copied().args
            by_place, by_name = loaded.call_spec.in_spec.children()
            first, last = by_place.num_children, by_place.num_children + by_name.num_children
            named = dict(zip(by_name.context, args[first:last], strict=False))
            for _ in range(warmup):
                module(*args[:first], *args[last:], **named)
            for _ in range(runs):
                stepper.run(*args)

        by_key = sites_by_key(program)
        by_handle = {int(site.handle): site for site in program.sites.values() if site.handle is not None}

        def place(number: int) -> OperationPlace:
            site = by_handle.get(number) if number >= 0 else by_key.get(timing.keys[-2 - number])
            return UNKNOWN_PLACE if site is None else place_of_node(ProgramNode(program, site))

        places = {number: place(number) for _, _, number, _ in timing.recording.operations}
        return Profile(timing.recording, places.__getitem__, [])


class _Timing:
    """Times the nodes of a program.

    Attributes:
        recording: operations of backends have their debug handles, nodes numbers from -2 downwards.
        keys: of the nodes, in the order of these numbers.
    """

    def __init__(self) -> None:
        self.recording = Recording(EXPORTED)
        self.keys: list[str] = []
        self._numbers: dict[str, int] = {}

    def step(self, stepper: Stepper, n: torch.fx.Node, key: str) -> Any:  # noqa: ANN401 (any value)
        """Run a node, and note its time, or those of a partition's operations."""
        target: Any = n.target
        operations = self.recording.operations
        before = len(operations)
        with self._profiled(stepper, n) if target is delegate else nullcontext():
            start = perf_counter_ns()
            result = stepper.result(n)
            end = perf_counter_ns()
        if len(operations) == before:
            if key not in self._numbers:
                self._numbers[key] = -2 - len(self.keys)
                self.keys.append(key)
            name = target._schema.name if isinstance(target, torch._ops.OpOverload) else target.name()
            operations.append((start, end, self._numbers[key], name))
        return result

    def _profiled(self, stepper: Stepper, n: torch.fx.Node) -> AbstractContextManager[None]:
        """Records a partition's operations, if its runtime can."""
        (graph, *operands), named = stepper.fetch_args_kwargs_from_env(n)
        runtime = part_of(graph, operands, **named).runtime
        can_record = hasattr(runtime, "profiling")
        return recorded(runtime, self.recording.operations) if can_record else nullcontext()
