"""A timeline as stacks: the modules, the line and the operator that run at each time, outermost first.

Times are those of the tables: no stack represents the time between operations. An operation within another
one has the stack of its own place.

Folded stacks have self times in ns. A speedscope file has an ``evented`` profile per lane; if memory was
recorded, a ``sampled`` one of the bytes that operations allocate. Both formats: :mod:`archive.base.stacks`.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any

from archive.base.stacks import Speedscope, StackFrame, folded
from archive.debuginfo.profiles.places import NO_SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.debuginfo.profiles.places import OperationPlace
    from archive.debuginfo.profiles.timeline import Segment, Timeline


def stack_of(place: OperationPlace, operator: str) -> tuple[StackFrame, ...]:
    """The frames that lead to an operator, outermost first."""
    source = place.source
    line = (
        StackFrame(NO_SOURCE)
        if source is None
        else StackFrame(f"{source}: {source.words}", source.file, source.number)
    )
    return (*(StackFrame(str(level)) for level in place.levels), line, StackFrame(operator))


def folded_stacks(timeline: Timeline) -> str:
    """A line for each stack, in the order in which stacks first run: its frames, and its self time in ns."""
    return "".join(
        folded(
            (map(_folded_name, stack_of(event.place, event.name)), [end - start])
            for lane in timeline.lanes
            for start, end, event in lane
        )
    )


def _folded_name(frame: StackFrame) -> str:
    """How folded stacks name a frame: a line only by its place."""
    return frame.name if frame.file is None else f"{frame.file}:{frame.line}"


def speedscope(timeline: Timeline) -> dict[str, Any]:
    """The timeline as a speedscope file."""
    file = Speedscope()
    for lane, segments in enumerate(timeline.lanes):
        name = "operations" + (f" {lane + 1}" if lane else "")
        events = [
            {"type": kind, "frame": file.number(frame), "at": time}
            for kind, frame, time in _changes(segments)
        ]
        start, end = (segments[0][0], segments[-1][1]) if segments else (0, 0)
        file.add("evented", name, "nanoseconds", end, start, events=events)
    if timeline.memory:
        names = {event.handle: event.name for event in timeline.events}
        file.add_bytes(
            "allocated bytes",
            (
                (stack_of(change.place, names.get(change.handle, change.place.op)), change.bytes)
                for change in timeline.memory
                if change.bytes > 0
            ),
        )
    return file.facts(f"backend {timeline.backend}")


def _changes(segments: Sequence[Segment]) -> Iterator[tuple[str, StackFrame, int]]:
    """The frames that open (``O``) and close (``C``), each with its time in ns.

    A frame stays open if the next operation follows at once and has it, too. Each operation has its own frame
    for its operator.
    """
    entered: list[tuple[StackFrame, int]] = []
    last = 0
    for start, end, event in segments:
        stack = stack_of(event.place, event.name)
        wanted = [*((frame, 0) for frame in stack[:-1]), (stack[-1], id(event))]
        open_frames = takewhile(lambda pair: pair[0] == pair[1], zip(entered, wanted, strict=False))
        common = len(list(open_frames)) if start == last else 0
        yield from (("C", frame, last) for frame, _ in reversed(entered[common:]))
        yield from (("O", frame, start) for frame, _ in wanted[common:])
        entered, last = wanted, end
    yield from (("C", frame, last) for frame, _ in reversed(entered))
