"""Records the memory of a run: what PyTorch's allocator gives to operations, and takes back.

``torch.autograd.profiler`` records the allocator's events, those inside operators too. A mark around each
operation tells to which one an event belongs; what is freed behind an operation belongs to this one. What
libraries such as oneDNN allocate by themselves is not seen.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Protocol, Self

import torch
from torch._C._profiler import _RecordFunctionFast

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Operation = tuple[int, int, int, str]
    """Start (ns), end (ns), debug handle, kind."""

MARK = "debug-archive: an operation"


class EventSink(Protocol):
    """Takes the events of an observed run: the runtime itself."""

    @property
    def operations(self) -> list[tuple[int, int, int, str]]:
        """Takes (start in ns, end in ns, debug handle, kind) for each operation that has run."""

    @property
    def memory(self) -> list[tuple[int, int, int, int, int]] | None:
        """Takes the events of the allocator; None if they are not wanted.

        An event is (time in ns, debug handle, bytes, bytes in use then, address). Bytes that are freed are
        negative. Memory from before the run does not count.
        """


class Memory:
    """The allocator's events in a ``with`` block, within which operations run in ``mark``.

    Attributes:
        mark: a context for each operation.

    Raises:
        RuntimeError: PyTorch's profiler runs already; there is one in a process.
    """

    def __init__(self) -> None:
        if torch._C._autograd._profiler_enabled():
            raise RuntimeError("memory is recorded by torch.profiler, which runs already")
        self.mark = _RecordFunctionFast(MARK)
        self._profiler = torch.autograd.profiler.profile(profile_memory=True)

    def __enter__(self) -> Self:
        self._profiler.__enter__()
        return self

    def __exit__(self, *failure: object) -> None:
        self._profiler.__exit__(*failure)

    def events(self, operations: Sequence[Operation]) -> Iterator[tuple[int, int, int, int, int]]:
        """The events, as :class:`EventSink` takes them.

        Args:
            operations: those that have run in ``mark``, in their order.
        """
        results: Any = self._profiler.kineto_results
        marks = [(one.start_ns(), one.end_ns()) for one in results.events() if one.name() == MARK]
        starts = [start for start, _ in marks][: len(operations)]
        live: dict[int, int] = {}
        total = 0
        for time, size, address in sorted(allocations(results)):
            if size < 0 and address not in live:
                continue  # it was allocated before
            live[address] = size
            if size < 0:
                del live[address]
            total += size
            at = max(0, bisect_right(starts, time) - 1)
            if starts:
                start, end, handle, _ = operations[at]
                inside = min(max(time - marks[at][0], 0), end - start)
                yield start + inside + max(0, time - marks[at][1]), handle, size, total, address


def allocations(results: Any) -> Iterator[tuple[int, int, int]]:  # noqa: ANN401 (PyTorch's own)
    """The events of the CPU's allocator that a profiler has recorded: time in its own ns, bytes, address."""
    left = [*results.experimental_event_tree()]
    while left:
        one = left.pop()
        left += one.children
        if one.tag.name == "Allocation" and one.extra_fields.device.type == "cpu":
            yield one.start_time_ns, one.extra_fields.alloc_size, one.extra_fields.ptr
