"""A profile: a timeline that can be shown as text, and saved for viewers of traces and flame graphs.

As a *table* whose last row sums up the rows that are not shown. Only modules have a total time besides their
self time: it includes the modules inside them. Memory is shown if it was recorded: that of results, if a
backend records these, which may be a small part of what operators allocate and free inside; or all of
PyTorch's allocator. As plain text, a table is 100 columns wide, numbers first as in ``perf report``: a name
that is too long loses its beginning, a text its end.

As a *listing*: the model's source with the times of each line, like that of ``line_profiler``.

As a *trace* in the Trace Event Format, for Chrome and Perfetto. Names and arguments are those of kineto,
PyTorch's own profiler. Times are in µs and counted from the first event. Each lane of operations has a second
track for the modules that the operations belong to. Memory is a counter. Operations of TorchScript have no
debug handle.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.amounts import human_amount
from archive.base.errors import ArchiveError, one_line
from archive.base.notebooks import shown_by
from archive.base.source_files import is_pytorchs
from archive.base.strings import decoded
from archive.debuginfo.profiles.places import NO_SOURCE
from archive.debuginfo.profiles.stacks import folded_stacks, speedscope
from archive.debuginfo.profiles.timeline import VIEWS, Timeline
from archive.io.output import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from archive.debuginfo.model import Source
    from archive.debuginfo.profiles.places import ModuleLevel, OperationPlace
    from archive.debuginfo.profiles.timeline import MemoryChange, ProfileRow, Recording, Segment, View
    from archive.io.output import Target

    Event = dict[str, Any]

# --- table

TABLE_WIDTH = 100
NAME_WIDTH = 26
WIDTHS = {"self": 10, "share": 6, "total": 10, "calls": 8, "allocated": 11, "results": 11, "at peak": 10}
"""Widths of number columns in plain text, by heading."""
HEADINGS = {
    "module": ("module", "class"),
    "line": ("line", "source"),
    "operator": ("operator", ""),
    "instruction": ("instruction", "operator"),
    "delegate": ("backend", ""),
}


class TableFacts(NamedTuple):
    """What a table shows.

    Attributes:
        head: a line about the whole run.
        numbers: headings of its numbers.
        names: headings of what a row stands for, and of a text beside it; "" if there is none.
        rows: numbers, name and text of each row.
    """

    head: str
    numbers: list[str]
    names: tuple[str, str]
    rows: list[tuple[list[str], str, str]]


def table_facts(timeline: Timeline, by: View, most: int) -> TableFacts:
    """The rows with the longest self times; arguments and errors as those of :meth:`Profile.table`."""
    rows = timeline.rows_by(by)
    shown = [True, True, by == "module", True, *[bool(timeline.memory)] * 2]
    memory = "allocated" if timeline.of_allocator else "results"
    headings = "self", "share", "total", "calls", memory, "at peak"
    lines = [(_numbers([row], duration(row.total_ns)), row.name, row.text) for row in rows[:most]]
    if rest := rows[most:]:
        lines.append((_numbers(rest, ""), f"[{len(rest):,} others]", ""))
    return TableFacts(
        _head(timeline),
        [*compress(headings, shown)],
        HEADINGS[by],
        [([*compress(numbers, shown)], name, text) for numbers, name, text in lines],
    )


def duration(ns: int) -> str:
    """A time in the unit that suits it: ``17 ns``, ``1.234 µs``, ``1.234 ms``, ``1.234 s``."""
    if ns < 1000:  # noqa: PLR2004 (ns in a µs)
        return f"{ns} ns"
    for unit, size in (("µs", 1e3), ("ms", 1e6)):
        if round(ns / size, 3) < 1000:  # noqa: PLR2004
            return f"{ns / size:.3f} {unit}"
    return f"{ns / 1e9:.3f} s"


def size(count: int) -> str:
    """Bytes in the unit that suits them: ``17 B``, ``1.2 KiB``, ``1.2 MiB``, ``1.2 GiB``, ``1.2 TiB``."""
    return human_amount(count).replace(",", "")  # columns are narrow


def _head(timeline: Timeline) -> str:
    calls = len(timeline.events)
    head = f"backend {timeline.backend}: {calls:,} operation{'' if calls == 1 else 's'}"
    head += f" in {duration(timeline.total_ns)}"
    if timeline.memory:
        what = "memory" if timeline.of_allocator else "results"
        head += f", {what} of up to {size(timeline.peak)} at a time"
    return head


def _numbers(rows: Sequence[ProfileRow], total: str) -> tuple[str, ...]:
    """The numbers of one row, or of several together.

    Self times add up. Total times overlap, so the caller says what to show for them.
    """
    share, calls = sum(row.share for row in rows), sum(row.calls for row in rows)
    own, allocated = sum(row.self_ns for row in rows), sum(row.allocated for row in rows)
    at_peak = sum(row.at_peak for row in rows)
    return duration(own), f"{share:.1%}", total, f"{calls:,}", size(allocated), size(at_peak)


def _line(numbers: Sequence[str], widths: Sequence[int], name: str, text: str) -> str:
    columns = zip(numbers, widths, strict=True)
    line = " ".join(f"{number:>{width}}" for number, width in columns) + "  "
    if not text:
        return line + _end(name, TABLE_WIDTH - len(line))
    line += f"{_end(name, NAME_WIDTH):<{NAME_WIDTH}} "
    width = TABLE_WIDTH - len(line)
    return line + (text if len(text) <= width else f"{text[: width - 1]}…")


def _end(text: str, width: int) -> str:
    return text if len(text) <= width else f"…{text[1 - width :]}"


# --- trace


def _names(timeline: Timeline) -> Iterator[Event]:
    """The events that name the process and its tracks: for each lane one of operations, one of modules."""
    yield _event("M", "process_name", 1, {"name": f"backend {timeline.backend}"})
    for thread in range(2 * len(timeline.lanes)):
        lane, modules = divmod(thread, 2)
        name = ("modules" if modules else "operations") + (f" {lane + 1}" if lane else "")
        yield _event("M", "thread_name", thread + 1, {"name": name})
        yield _event("M", "thread_sort_index", thread + 1, {"sort_index": thread})


def _memory_events(timeline: Timeline, change: MemoryChange) -> Iterator[Event]:
    """A change of memory: kineto's instant event, and the new value of the counter."""
    arguments = {"Bytes": change.bytes, "Total Allocated": change.total, "Addr": change.address}
    instant = _event("i", "[memory]", 1, arguments | _arguments(timeline, change.handle, change.place))
    yield instant | {"cat": "cpu_instant_event", "s": "t", "ts": change.time_ns / 1000}
    counter = "bytes allocated" if timeline.of_allocator else "bytes of results"
    yield _event("C", counter, 1, {"bytes": change.total}) | {"ts": change.time_ns / 1000}


def _arguments(timeline: Timeline, handle: int, place: OperationPlace) -> Event:
    arguments: Event = {"Module Hierarchy": place.hierarchy, "Backend": timeline.backend}
    if place.instruction:
        arguments["Instruction"] = place.instruction
    elif handle >= 0:
        arguments["Debug Handle"] = handle
    lines = {"Source": place.source}
    if place.innermost != place.source:
        lines["Innermost Source"] = place.innermost
    return arguments | {key: f"{line}: {line.words}" if line else NO_SOURCE for key, line in lines.items()}


def _slices(segments: Sequence[Segment]) -> Iterator[tuple[int, int, ModuleLevel]]:
    """The modules of a lane, each from its entry until an operation of another module runs.

    Yields:
        Start, end (ns) and module; inner modules before those around them.
    """
    entered: list[tuple[int, ModuleLevel]] = []
    last = 0
    for start, end, levels in [
        *((start, end, event.place.levels) for start, end, event in segments),
        (0, 0, ()),
    ]:
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


# --- listing

HEADING = f"{'line':>5} {'calls':>7} {'self':>10} {'share':>6}  source"


class _Part:
    """A source from its first line's number on, with the rows of its lines out of all, by ``file:line``."""

    def __init__(self, file: str, first: int, text: str, rows: dict[str, ProfileRow]) -> None:
        self._file = file
        self._first = first
        self._text = text.splitlines()
        self._rows = {
            number: row
            for number, line in enumerate(self._text, first)
            if (row := rows.get(f"{file}:{number}")) is not None and row.text == one_line(line.strip())
        }
        self.time = sum(row.self_ns for row in self._rows.values())

    def lines(self) -> Iterator[str]:
        """A heading, and each line with its times."""
        yield f"{self._file}: {duration(self.time)}"
        yield HEADING
        for number, text in enumerate(self._text, self._first):
            row = self._rows.get(number)
            numbers = f"{row.calls:>7,} {duration(row.self_ns):>10} {row.share:>6.1%}" if row else " " * 25
            yield f"{number:>5} {numbers}  {one_line(text)[: TABLE_WIDTH - 33]}".rstrip()


# --- profile


class Profile(Timeline):
    """A recording at the model's source; ``str()`` shows its sums by its first two views.

    Args:
        recording: the events.
        place: the place in the model that a debug handle stands for; called once for each.
        sources: the texts of the archive's debug info, for :meth:`listing`.

    Raises:
        ValueError: an operation ends before it starts.
    """

    def __init__(
        self, recording: Recording, place: Callable[[int], OperationPlace], sources: Sequence[Source] = ()
    ) -> None:
        super().__init__(recording, place)
        self._sources = sources

    _repr_html_ = shown_by("of_profile")

    def __str__(self) -> str:
        first, second = self.views[:2]
        _, _, rows = self.table(by=second).partition("\n\n")
        return f"{self.table(by=first)}\n\n{rows}"

    def table(self, *, by: View = "module", most: int = 20) -> str:
        """The rows with the longest self times, as plain text.

        Args:
            by: what a row stands for.
            most: rows to show; the others are summed up in one.

        Raises:
            ValueError: ``by`` isn't one of these.
        """
        facts = table_facts(self, by, most)
        widths = [WIDTHS[heading] for heading in facts.numbers]
        lines = [(facts.numbers, *facts.names), *facts.rows]
        return "\n".join([facts.head, "", *(_line(numbers, widths, *names) for numbers, *names in lines)])

    def listing(self) -> str:
        """The functions in which time was spent, those with most first; "" if no source has their lines.

        Sources of traced models are call stacks, in which no line is as in the model.
        """
        rows = {row.name: row for row in self.by_line()}
        texts = dict.fromkeys(
            (one_line(str(source.filename)), source.starting_line, decoded(bytes(source.text)))
            for source in self._sources
            if source.filename is not None and not is_pytorchs(str(source.filename))
        )
        parts = [part for file, first, text in texts if (part := _Part(file, first, text, rows)).time]
        return "\n\n".join("\n".join(part.lines()) for part in sorted(parts, key=lambda part: -part.time))

    def facts(self) -> dict[str, Any]:
        """The sums for JSON: what ran, its times in ns, the peak of memory, and the rows of each view."""
        return {
            "backend": self.backend,
            "operations": len(self.events),
            "total_ns": self.total_ns,
            "peak_bytes": self.peak if self.memory else None,
            "of_allocator": self.of_allocator,
            **dict.fromkeys(VIEWS, ()),
            **{view: [asdict(row) for row in self.rows_by(view)] for view in self.views},
        }

    def chrome_trace(self) -> dict[str, Any]:
        """The trace, in the JSON Object Format: operations, the modules they belong to, and memory."""
        timed = []
        for operation in self.events:
            arguments = _arguments(self, operation.handle, operation.place)
            event = _complete(
                operation.name,
                "cpu_op",
                2 * operation.lane + 1,
                (operation.start_ns, operation.end_ns),
                arguments,
            )
            timed.append((operation.start_ns, operation.end_ns, event))
        for lane, segments in enumerate(self.lanes):
            for start, end, level in reversed([*_slices(segments)]):  # of equal times, the outer module first
                event = _complete(str(level), "module", 2 * lane + 2, (start, end), {"Module": level.path})
                timed.append((start, end, event))
        for change in self.memory:
            timed += [(change.time_ns, change.time_ns, event) for event in _memory_events(self, change)]
        timed.sort(key=lambda entry: (entry[0], -entry[1]))
        return {"displayTimeUnit": "ms", "traceEvents": [*_names(self), *(event for *_, event in timed)]}

    def folded(self) -> str:
        """Folded stacks: see :mod:`archive.debuginfo.profiles.stacks`."""
        return folded_stacks(self)

    def speedscope(self) -> dict[str, Any]:
        """The file for speedscope: see :mod:`archive.debuginfo.profiles.stacks`."""
        return speedscope(self)

    def save(self, path: Target, *, force: bool = False) -> None:
        """Write the profile in the format implied by the file's name.

        Args:
            path: the target; takes its name only when complete. ``x.speedscope.json`` is for speedscope,
                ``x.folded`` holds folded stacks for ``flamegraph.pl``, and any other ``x.json`` a trace for
                Chrome and Perfetto.
            force: replace an existing file.
        """
        write = writer_of(path)
        with replacing(path, force=force) as file:
            file.write(write(self).encode())


def writer_of(path: Target) -> Callable[[Profile], str]:
    """The function that makes the text of a file, by the file's name."""
    name = os.fspath(path)
    kind = next((ending for ending in WRITERS if name.endswith(ending)), None)
    if kind is None:
        raise ArchiveError(expected=f"a name that ends in {', '.join(WRITERS)}", found=name)
    return WRITERS[kind]


def _trace_text(profile: Profile) -> str:
    """The trace as JSON, one event a line."""
    trace = profile.chrome_trace()
    events = ",\n".join(map(json.JSONEncoder(allow_nan=False).encode, trace.pop("traceEvents")))
    return f'{json.dumps(trace)[:-1]}, "traceEvents": [\n{events}\n]}}\n'


WRITERS: dict[str, Callable[[Profile], str]] = {
    ".speedscope.json": lambda profile: json.dumps(profile.speedscope(), allow_nan=False) + "\n",
    ".folded": Profile.folded,
    ".json": _trace_text,
}
"""The text of a file by its name's ending; the first ending that fits counts."""
