"""What operations of lowered modules took -> where in the model: sums, and a trace for Chrome and Perfetto.

- A *module* is the path of the attributes that lead to it, ``layer1.0.conv1``, as in the model before it was
  lowered, with lists of modules: ``SELF``, free functions and PyTorch's ``__loweredModule__`` add nothing.
  (In call stacks that PyTorch has written, lists have no name.)
- *Memory* is that of the results of operations. What an operator takes and gives back inside is not seen.
- The *source* of an operation is the innermost line on the way to it that is not PyTorch's own.
- An operation may run within another one; its time is then not part of the other's *self time*. Those that
  overlap otherwise come from several threads and get a *lane* each.

All times are counted from the first event.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from archive.backend.profile.places import place_of
from archive.backend.profile.text import table
from archive.backend.profile.trace import NOWHERE, chrome_trace
from archive.base.errors import one_line
from archive.base.output import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from archive.backend.profile.places import Place
    from archive.base.output import Target
    from archive.debuginfo.symbolicate import Symbolication

    Segment = tuple[int, int, "Operation"]


@dataclass(slots=True)
class Recording:
    """What was measured while a backend executed; times are those of ``time.perf_counter_ns``.

    Attributes:
        backend: its name.
        operations: of each its start and end (ns), debug handle, and operator's name.
        memory: of each storage of results, when it is made and freed, the time (ns), debug handle, bytes
            (negative when freed), bytes of all results then, and address.
    """

    backend: str
    operations: list[tuple[int, int, int, str]] = field(default_factory=list)
    memory: list[tuple[int, int, int, int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that ran: when (ns), its handle, operator and place, and its lane, from 0."""

    start_ns: int
    end_ns: int
    handle: int
    name: str
    place: Place
    lane: int

    @property
    def start(self) -> float:
        """Start in µs."""
        return self.start_ns / 1000

    @property
    def end(self) -> float:
        """End in µs."""
        return self.end_ns / 1000


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """Results made, or freed (negative bytes): when (ns), by which handle, bytes of all then, address."""

    time_ns: int
    handle: int
    bytes: int
    total: int
    address: int
    place: Place


@dataclass(slots=True)
class Row:
    """A sum.

    Attributes:
        name: path of the module, ``file:line``, or operator.
        text: the module's class, or the line's text.
        self_ns: time of its own operations, in ns.
        total_ns: the same with the modules inside it; lines and operators have nothing inside.
        calls: how many operations of its own ran.
        share: of the self times of all, 0 to 1.
        allocated: bytes of the results that its own operations made; what was freed is not taken off.
    """

    name: str
    text: str
    self_ns: int = 0
    total_ns: int = 0
    calls: int = 0
    share: float = 0.0
    allocated: int = 0


class Profile:
    """A recording at the model's source; ``str()`` gives its sums by module and line as text.

    Args:
        recording: what was measured.
        symbolicate: explains handles, as :meth:`archive.Archive.symbolicate` does; called once each.

    Attributes:
        backend: the backend's name.
        events: the operations, by start.
        memory: the changes of memory, by time.
        lanes: of each the time, cut where the innermost operation changes: start, end (ns), operation.

    Raises:
        ValueError: an operation ends before it starts.
    """

    def __init__(self, recording: Recording, symbolicate: Callable[[Sequence[int]], Symbolication]) -> None:
        self.backend = one_line(recording.backend)
        operations = sorted(recording.operations, key=lambda one: (one[0], -one[1]))
        changes = sorted(recording.memory, key=lambda one: one[0])
        origin = min([one[0] for one in operations[:1]] + [one[0] for one in changes[:1]], default=0)
        handles = {one[2] for one in operations} | {one[1] for one in changes}
        places = {handle: place_of(symbolicate([handle])) for handle in sorted(handles)}
        lanes = _lanes(operations)
        self.events = [
            Operation(start - origin, end - origin, handle, one_line(name), places[handle], lane)
            for (start, end, handle, name), lane in zip(operations, lanes, strict=True)
        ]
        self.memory = [
            MemoryChange(time - origin, handle, size, total, address, places[handle])
            for time, handle, size, total, address in changes
        ]
        self.lanes = [
            [*_segments([event for event in self.events if event.lane == lane])]
            for lane in range(max(lanes, default=0) + 1)
        ]

    def __str__(self) -> str:
        _, _, lines = table(self, by="line").partition("\n\n")
        return f"{table(self, by='module')}\n\n{lines}"

    @property
    def total_ns(self) -> int:
        """All self times together, in ns."""
        return sum(end - start for lane in self.lanes for start, end, _ in lane)

    def by_module(self) -> list[Row]:
        """Sums by module, those without operations of their own included; longest self time first."""
        return self._rows(lambda place, _: [(level.path, level.type) for level in place.levels])

    def by_line(self) -> list[Row]:
        """Sums by line of the model's source; longest self time first."""
        return self._rows(
            lambda place, _: [(str(place.source), place.source.text) if place.source else (NOWHERE, "")]
        )

    def by_operator(self) -> list[Row]:
        """Sums by operator; longest self time first."""
        return self._rows(lambda _, name: [(name, "")])

    def _rows(self, keys: Callable[[Place, str], Sequence[tuple[str, str]]]) -> list[Row]:
        rows: dict[tuple[str, str], Row] = {}

        def way(place: Place, name: str) -> list[Row]:
            return [rows.setdefault(key, Row(*key)) for key in keys(place, name)]

        for event in self.events:
            way(event.place, event.name)[-1].calls += 1
        for start, end, event in (segment for lane in self.lanes for segment in lane):
            entered = way(event.place, event.name)
            entered[-1].self_ns += end - start
            for row in entered:
                row.total_ns += end - start
        names = {event.handle: event.name for event in self.events}
        for change in self.memory:
            last = way(change.place, names.get(change.handle, change.place.op))[-1]
            last.allocated += max(change.bytes, 0)
        whole = self.total_ns or 1
        for row in rows.values():
            row.share = row.self_ns / whole
        return sorted(rows.values(), key=lambda row: (-row.self_ns, -row.total_ns, row.name, row.text))

    def chrome_trace(self) -> dict[str, Any]:
        """The trace: see :mod:`archive.backend.profile.trace`."""
        return chrome_trace(self)

    def save(self, path: Target, *, force: bool = False) -> None:
        """Write the trace as JSON, one event a line.

        Args:
            path: the target; takes its name only when complete.
            force: replace an existing file.

        Raises:
            ArchiveError: the target exists and ``force`` is not given.
            OSError: it cannot be written.
        """
        trace = self.chrome_trace()
        events = ",\n".join(map(json.JSONEncoder(allow_nan=False).encode, trace.pop("traceEvents")))
        with replacing(path, force=force) as file:
            file.write(f'{json.dumps(trace)[:-1]}, "traceEvents": [\n{events}\n]}}\n'.encode())


def _lanes(operations: Sequence[tuple[int, int, int, str]]) -> list[int]:
    """A lane for each operation, sorted by start, such that those of a lane follow one another or nest."""
    running: list[list[int]] = []
    chosen: list[int] = []
    for start, end, _, name in operations:
        if end < start:
            raise ValueError(f"{one_line(name)} ends {start - end} ns before it starts")
        for ends in running:
            while ends and ends[-1] <= start:
                ends.pop()
        free = (lane for lane, ends in enumerate(running) if not ends or end <= ends[-1])
        lane = next(free, len(running))
        running += [[]] * (lane == len(running))
        running[lane].append(end)
        chosen.append(lane)
    return chosen


def _segments(events: Sequence[Operation]) -> Iterator[Segment]:
    """The time of a lane, cut where the innermost operation changes: start and end (ns), operation."""
    running: list[Operation] = []
    at = 0
    for event in (*events, None):
        now = inf if event is None else event.start_ns
        while running and running[-1].end_ns <= now:
            last = running.pop()
            if at < last.end_ns:
                yield at, last.end_ns, last
            at = last.end_ns
        if event is not None:
            if running and at < event.start_ns:
                yield at, event.start_ns, running[-1]
            at = event.start_ns
            running.append(event)
