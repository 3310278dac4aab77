"""A timeline as stacks: the modules, the line and the operator that run at each time, outermost first.

Times are those of the tables: no stack stands for the time between operations. An operation within another
one has the stack of its own place.

- *Folded* stacks are the input of ``flamegraph.pl``: one line a stack, frames joined by ``;``, and its time.
- *speedscope* files follow https://www.speedscope.app/file-format-schema.json: one ``evented`` profile a
  lane; if memory was recorded, a ``sampled`` one of the bytes that operations allocate.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.debuginfo.profiles.places import NO_SOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.debuginfo.profiles.places import OperationPlace
    from archive.debuginfo.profiles.timeline import Segment, Timeline

SPEEDSCOPE_SCHEMA = "https://www.speedscope.app/file-format-schema.json"
EXPORTER = "debug-archive"


class StackFrame(NamedTuple):
    """A frame of a stack: a module, a line, or an operator.

    Attributes:
        name: what is shown.
        file: the source file of a line; None for others.
        line: its number in the file, from 1; None for others.
    """

    name: str
    file: str | None = None
    line: int | None = None


def stack_of(place: OperationPlace, operator: str) -> tuple[StackFrame, ...]:
    """The frames that lead to an operator, outermost first."""
    source = place.source
    line = (
        StackFrame(NO_SOURCE)
        if source is None
        else StackFrame(f"{source}: {source.text}", source.file, source.number)
    )
    return (*(StackFrame(str(level)) for level in place.levels), line, StackFrame(operator))


def folded_stacks(timeline: Timeline) -> str:
    """A line for each stack, in the order in which stacks first run: its frames, and its self time in ns."""
    times: defaultdict[str, int] = defaultdict(int)
    for start, end, event in (segment for lane in timeline.lanes for segment in lane):
        frames = stack_of(event.place, event.name)  # of a line only its place; ";" separates frames
        names = (frame.name if frame.file is None else f"{frame.file}:{frame.line}" for frame in frames)
        times[";".join(name.replace(";", ":") for name in names)] += end - start
    return "".join(f"{stack} {time}\n" for stack, time in times.items() if time)


def speedscope(timeline: Timeline) -> dict[str, Any]:
    """The timeline as a speedscope file."""
    frames: dict[StackFrame, int] = {}
    profiles: list[dict[str, Any]] = []
    for number, segments in enumerate(timeline.lanes):
        name = "operations" + (f" {number + 1}" if number else "")
        events = [
            {"type": kind, "frame": frames.setdefault(frame, len(frames)), "at": time}
            for kind, frame, time in _changes(segments)
        ]
        start, end = (segments[0][0], segments[-1][1]) if segments else (0, 0)
        times = {"startValue": start, "endValue": end}
        profiles.append({"type": "evented", "name": name, "unit": "nanoseconds", **times, "events": events})
    if timeline.memory:
        profiles.append(_allocated(timeline, frames))
    return {
        "$schema": SPEEDSCOPE_SCHEMA,
        "name": f"backend {timeline.backend}",
        "exporter": EXPORTER,
        "activeProfileIndex": 0,
        "shared": {
            "frames": [
                {key: value for key, value in frame._asdict().items() if value is not None}
                for frame in frames
            ]
        },
        "profiles": profiles,
    }


def _changes(segments: Sequence[Segment]) -> Iterator[tuple[str, StackFrame, int]]:
    """The frames that open (``O``) and close (``C``), each with its time in ns.

    A frame stays open where the next operation follows at once and has it, too. Each operation has a frame of
    its own for its operator.
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


def _allocated(timeline: Timeline, frames: dict[StackFrame, int]) -> dict[str, Any]:
    """A profile of the bytes that are allocated at each stack, in the order of time."""
    names = {event.handle: event.name for event in timeline.events}
    samples, weights = [], []
    for change in timeline.memory:
        if change.bytes > 0:
            stack = stack_of(change.place, names.get(change.handle, change.place.op))
            samples.append([frames.setdefault(frame, len(frames)) for frame in stack])
            weights.append(change.bytes)
    values = {"startValue": 0, "endValue": sum(weights)}
    return {
        "type": "sampled",
        "name": "allocated bytes",
        "unit": "bytes",
        **values,
        "samples": samples,
        "weights": weights,
    }
