"""A profile in the Trace Event Format, for Chrome and Perfetto.

Names and arguments are those of kineto, PyTorch's own profiler. Times are in µs and counted from the first
event. Each lane of operations has a second track for the modules that the operations belong to. Memory is a
counter. Operations of TorchScript have no debug handle.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.backend.errors import NO_HANDLE
from archive.backend.profile.places import NO_SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.backend.profile.events import MemoryChange, TimedOperation
    from archive.backend.profile.places import ModuleLevel, OperationPlace
    from archive.backend.profile.timeline import Segment, Timeline

    Event = dict[str, Any]


def chrome_trace(timeline: Timeline) -> dict[str, Any]:
    """The trace, in the JSON Object Format: operations, the modules they belong to, and memory."""
    timed = [(one.start_ns, one.end_ns, _operation(timeline, one)) for one in timeline.events]
    for lane, segments in enumerate(timeline.lanes):
        for start, end, level in reversed([*_slices(segments)]):  # of equal times, the outer module first
            event = _complete(str(level), "module", 2 * lane + 2, (start, end), {"Module": level.path})
            timed.append((start, end, event))
    for change in timeline.memory:
        timed += [(change.time_ns, change.time_ns, event) for event in _memory_events(timeline, change)]
    timed.sort(key=lambda one: (one[0], -one[1]))
    return {"displayTimeUnit": "ms", "traceEvents": [*_names(timeline), *(event for *_, event in timed)]}


def _names(timeline: Timeline) -> Iterator[Event]:
    """The events that name the process and its tracks: for each lane one of operations, one of modules."""
    yield _event("M", "process_name", 1, {"name": f"backend {timeline.backend}"})
    for thread in range(2 * len(timeline.lanes)):
        lane, modules = divmod(thread, 2)
        name = ("modules" if modules else "operations") + (f" {lane + 1}" if lane else "")
        yield _event("M", "thread_name", thread + 1, {"name": name})
        yield _event("M", "thread_sort_index", thread + 1, {"sort_index": thread})


def _operation(timeline: Timeline, one: TimedOperation) -> Event:
    arguments = _arguments(timeline, one.handle, one.place)
    return _complete(one.name, "cpu_op", 2 * one.lane + 1, (one.start_ns, one.end_ns), arguments)


def _memory_events(timeline: Timeline, one: MemoryChange) -> Iterator[Event]:
    """A change of memory: kineto's instant event, and the new value of the counter."""
    arguments = {"Bytes": one.bytes, "Total Allocated": one.total, "Addr": one.address}
    instant = _event("i", "[memory]", 1, arguments | _arguments(timeline, one.handle, one.place))
    yield instant | {"cat": "cpu_instant_event", "s": "t", "ts": one.time_ns / 1000}
    counter = "bytes allocated" if timeline.of_allocator else "bytes of results"
    yield _event("C", counter, 1, {"bytes": one.total}) | {"ts": one.time_ns / 1000}


def _arguments(timeline: Timeline, handle: int, place: OperationPlace) -> Event:
    arguments: Event = {"Module Hierarchy": place.hierarchy, "Backend": timeline.backend}
    if handle > NO_HANDLE:
        arguments["Debug Handle"] = handle
    lines = {"Source": place.source}
    if place.innermost != place.source:
        lines["Innermost Source"] = place.innermost
    return arguments | {key: f"{line}: {line.text}" if line else NO_SOURCE for key, line in lines.items()}


def _slices(segments: Sequence[Segment]) -> Iterator[tuple[int, int, ModuleLevel]]:
    """The modules of a lane, each from its entry until an operation of another module runs.

    Yields:
        Start, end (ns) and module; inner modules before those around them.
    """
    entered: list[tuple[int, ModuleLevel]] = []
    last = 0
    for start, end, levels in [*((start, end, one.place.levels) for start, end, one in segments), (0, 0, ())]:
        while [level for _, level in entered] != [*levels[: len(entered)]]:
            since, level = entered.pop()
            yield since, last, level
        entered += [(start, level) for level in levels[len(entered) :]]
        last = end


def _complete(name: str, category: str, thread: int, span: tuple[int, int], arguments: Event) -> Event:
    times = {"ts": span[0] / 1000, "dur": (span[1] - span[0]) / 1000}
    return _event("X", name, thread, arguments) | times | {"cat": category}


def _event(phase: str, name: str, thread: int, arguments: Event) -> Event:
    return {"ph": phase, "name": name, "pid": 1, "tid": thread, "args": arguments}
