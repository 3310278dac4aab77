"""The events of ``torch.profiler``: the operations that a model calls, and what PyTorch's allocator did.

An operation of PyTorch calls others: ``aten::linear`` calls ``aten::addmm``. Only the outermost ones are
kept; their times include those inside.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archive.backend.aten.memory import allocations
from archive.base.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FUNCTION_SCOPE, LITE_SCOPE = 0, 6
"""``at::RecordScope``: operators that the dispatcher runs, and those of the lite interpreter."""


@dataclass(frozen=True, slots=True)
class StockOperation:
    """An operation that ran in stock PyTorch.

    Attributes:
        start: when it began, in ns of PyTorch's clock.
        end: when it ended.
        name: the operator's name.
        stack: its call stack in generated code, innermost first; () in the lite interpreter.
    """

    start: int
    end: int
    name: str
    stack: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StockRun:
    """One run of a method.

    Attributes:
        operations: in the order of their starts.
        memory: allocations and, with negative bytes, releases, in the order of time: the time, the bytes, the
            address, and the number of the operation that runs then or ran last.
    """

    operations: list[StockOperation]
    memory: list[tuple[int, int, int, int]]


def runs_of(results: Any, mark: str, scope: int) -> Iterator[StockRun]:  # noqa: ANN401 (PyTorch's own)
    """The runs that a profiler has recorded.

    Args:
        results: the profiler's ``kineto_results``.
        mark: the name of the annotation around each run.
        scope: the scope of the operations to keep.
    """
    events = [one for one in results.events() if not one.is_python_function()]
    changes = sorted(allocations(results))
    for run in (one for one in events if one.name() == mark and one.is_user_annotation()):
        start, end = run.start_ns(), run.end_ns()
        inside = [
            one for one in events if one.scope() == scope and start <= one.start_ns() and one.end_ns() <= end
        ]
        operations = _outermost([one for one in inside if one is not run and one.name() != "[memory]"])
        starts = [one.start for one in operations]
        within = [one for one in changes if start <= one[0] <= end]
        yield StockRun(operations, [(*one, max(0, bisect_right(starts, one[0]) - 1)) for one in within])


def _outermost(events: Sequence[Any]) -> list[StockOperation]:
    """The events that are not within another one of their thread."""
    ends: dict[int, int] = {}
    found = []
    for one in sorted(events, key=lambda one: (one.start_ns(), -one.end_ns())):
        thread = one.start_thread_id()
        if one.end_ns() > ends.get(thread, -1):
            ends[thread] = one.end_ns()
            found.append(
                StockOperation(one.start_ns(), one.end_ns(), one_line(one.name()), tuple(one.stack()))
            )
    return found
