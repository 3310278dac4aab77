"""A profile in the Trace Event Format, for Chrome and Perfetto.

Names and arguments are those of kineto, PyTorch's own profiler; times are counted from the first event. Each
lane of operations has a second track, of the modules that they belong to. Memory (of results) is a counter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.backend.profile.places import Level, Place
    from archive.backend.profile.profile import MemoryChange, Operation, Profile, Segment

    Event = dict[str, Any]

NOWHERE = "(no source)"


def chrome_trace(profile: Profile) -> dict[str, Any]:
    """The trace, in the JSON Object Format: operations, the modules they belong to, and memory."""
    timed = [(one.start_ns, one.end_ns, _operation(profile, one)) for one in profile.events]
    for lane, segments in enumerate(profile.lanes):
        for start, end, level in [*_slices(segments)][::-1]:  # outer ones first
            event = _complete(str(level), "module", 2 * lane + 2, (start, end), {"Module": level.path})
            timed.append((start, end, event))
    timed += [(one.time_ns, one.time_ns, event) for one in profile.memory for event in _change(profile, one)]
    timed.sort(key=lambda one: (one[0], -one[1]))
    return {"displayTimeUnit": "ms", "traceEvents": [*_names(profile), *(event for *_, event in timed)]}


def _names(profile: Profile) -> Iterator[Event]:
    yield _event("M", "process_name", 1, {"name": f"backend {profile.backend}"})
    for thread in range(2 * len(profile.lanes)):
        lane, modules = divmod(thread, 2)
        name = ("modules" if modules else "operations") + (f" {lane + 1}" if lane else "")
        yield _event("M", "thread_name", thread + 1, {"name": name})
        yield _event("M", "thread_sort_index", thread + 1, {"sort_index": thread})


def _operation(profile: Profile, one: Operation) -> Event:
    args = _args(profile, one.handle, one.place)
    return _complete(one.name, "cpu_op", 2 * one.lane + 1, (one.start_ns, one.end_ns), args)


def _change(profile: Profile, one: MemoryChange) -> Iterator[Event]:
    args = {"Bytes": one.bytes, "Total Allocated": one.total, "Addr": one.address}
    instant = _event("i", "[memory]", 1, args | _args(profile, one.handle, one.place))
    yield instant | {"cat": "cpu_instant_event", "s": "t", "ts": one.time_ns / 1000}
    yield _event("C", "bytes of results", 1, {"bytes": one.total}) | {"ts": one.time_ns / 1000}


def _args(profile: Profile, handle: int, place: Place) -> Event:
    args = {"Module Hierarchy": place.hierarchy, "Backend": profile.backend, "Debug Handle": handle}
    lines = {"Source": place.source, "Innermost Source": place.innermost}
    if place.innermost == place.source:
        del lines["Innermost Source"]
    return args | {key: f"{line}: {line.text}" if line else NOWHERE for key, line in lines.items()}


def _slices(segments: Sequence[Segment]) -> Iterator[tuple[int, int, Level]]:
    """The modules of a lane, each as long as nothing else runs: start, end (ns); inner ones first."""
    entered: list[tuple[int, Level]] = []
    last = 0
    for start, end, levels in [*((start, end, one.place.levels) for start, end, one in segments), (0, 0, ())]:
        while [level for _, level in entered] != [*levels[: len(entered)]]:
            since, level = entered.pop()
            yield since, last, level
        entered += [(start, level) for level in levels[len(entered) :]]
        last = end


def _complete(name: str, category: str, thread: int, span: tuple[int, int], args: Event) -> Event:
    times = {"ts": span[0] / 1000, "dur": (span[1] - span[0]) / 1000}
    return _event("X", name, thread, args) | times | {"cat": category}


def _event(phase: str, name: str, thread: int, args: Event) -> Event:
    return {"ph": phase, "name": name, "pid": 1, "tid": thread, "args": args}
