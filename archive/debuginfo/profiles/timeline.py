"""A recording at the model's source: operations in lanes, and sums by module, line and operator.

- A *module* is named by the attribute path that leads to it, ``layer1.0.conv1``, as in the model before it
  was lowered, with lists of modules. ``SELF``, free functions and PyTorch's ``__loweredModule__`` add no
  step. (Call stacks written by PyTorch do not name lists.)
- *Memory* is that of operations' results, or all that PyTorch's allocator allocated: see ``Recording``.
- The *source* of an operation is the innermost line leading to it that isn't PyTorch's own.
- An operation may run within another one; its time is then not part of the other's *self time*. Operations
  that overlap in another way come from several threads; each *lane* holds operations that follow one another
  or nest.

All times are counted from the first event.
"""

from __future__ import annotations

from dataclasses import field
from math import inf
from typing import TYPE_CHECKING, Literal, TypeAlias

from archive.base.errors import one_line
from archive.base.quick_dataclass import dataclass
from archive.debuginfo.profiles.places import NO_DELEGATE, NO_SOURCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from archive.debuginfo.profiles.places import OperationPlace
    from archive.debuginfo.values.observed import NotedRun

    Segment = tuple[int, int, "TimedOperation"]
    """A part of a lane's time: start and end (ns), and the innermost operation that runs then."""

View: TypeAlias = Literal["module", "line", "operator", "instruction", "delegate"]
VIEWS: tuple[View, ...] = ("module", "line", "operator")
"""What a row stands for, in any run."""
RUNTIME_VIEWS: tuple[View, ...] = ("instruction", "delegate")
"""What else it may stand for, in a run in ExecuTorch."""

# --- events


@dataclass(slots=True)
class Recording:
    """The events of a backend's runs; times are those of ``time.perf_counter_ns``.

    Attributes:
        backend: the backend's name.
        operations: for each operation its start and end (ns), debug handle, and operator's name.
        memory: for each storage of a result, once when it is made and once when it is freed, the time (ns),
            debug handle, bytes (negative when freed), bytes of all results then, and address.
        of_allocator: whether ``memory`` instead has everything that PyTorch's allocator allocates and frees,
            even inside operators.
        values: what the operations of each call computed.
    """

    backend: str
    operations: list[tuple[int, int, int, str]] = field(default_factory=list)
    memory: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    of_allocator: bool = False
    values: list[NotedRun] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class TimedOperation:
    """An operation that ran.

    Attributes:
        start_ns: when it began, in ns after the profile's first event.
        end_ns: when it ended, in the same way.
        handle: its debug handle.
        name: the operator's name.
        place: its module and source lines.
        lane: number of its lane, from 0; see :mod:`archive.debuginfo.profiles.timeline`.
    """

    start_ns: int
    end_ns: int
    handle: int
    name: str
    place: OperationPlace
    lane: int


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """A storage of a result that was made, or freed.

    Attributes:
        time_ns: when, in ns after the profile's first event.
        handle: debug handle of the operation that made it, or after which it was freed.
        bytes: its size; negative if it was freed.
        total: bytes of all results then.
        address: its address.
        place: module and source lines of the operation.
    """

    time_ns: int
    handle: int
    bytes: int
    total: int
    address: int
    place: OperationPlace


# --- timeline


@dataclass(slots=True)
class ProfileRow:
    """The sums of one module, line or operator.

    Attributes:
        name: path of the module, ``file:line``, or operator.
        text: the module's class, or the line's text.
        self_ns: time of its own operations, in ns.
        total_ns: for a module, the same with the modules inside it; otherwise the same as ``self_ns``.
        calls: how many operations of its own ran.
        share: its part of the self times of all rows, 0 to 1.
        allocated: bytes that its own operations made; freed bytes are not subtracted.
        at_peak: those of them that are in use when most bytes are.
    """

    name: str
    text: str
    self_ns: int
    total_ns: int
    calls: int
    share: float
    allocated: int
    at_peak: int


class Timeline:
    """A recording at the model's source.

    Args:
        recording: the events.
        place: the place in the model that a debug handle stands for; called once for each.

    Attributes:
        views: what a row of a table may stand for.
        backend: the backend's name.
        events: the operations, by start.
        memory: the changes of memory, by time.
        of_allocator: whether these are all of PyTorch's allocator, not only those of results.
        lanes: for each lane its time, cut where the innermost operation changes: start, end (ns), operation.

    Raises:
        ValueError: an operation ends before it starts.
    """

    views: tuple[View, ...] = VIEWS

    def __init__(self, recording: Recording, place: Callable[[int], OperationPlace]) -> None:
        self.backend = one_line(recording.backend)
        self.of_allocator = recording.of_allocator
        operations = sorted(recording.operations, key=lambda operation: (operation[0], -operation[1]))
        changes = sorted(recording.memory, key=lambda change: change[0])
        origin = min(
            [operation[0] for operation in operations[:1]] + [change[0] for change in changes[:1]], default=0
        )
        handles = {operation[2] for operation in operations} | {change[1] for change in changes}
        places = {handle: place(handle) for handle in sorted(handles)}
        lanes = _lanes(operations)
        self.events = [
            TimedOperation(start - origin, end - origin, handle, one_line(name), places[handle], lane)
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

    @property
    def total_ns(self) -> int:
        """All self times together, in ns."""
        return sum(end - start for lane in self.lanes for start, end, _ in lane)

    @property
    def unknown(self) -> int:
        """How many operations have no known place."""
        return sum(event.place.is_unknown for event in self.events)

    @property
    def ambiguous(self) -> int:
        """How many operations may be of several lines."""
        return sum(event.place.among > 0 for event in self.events)

    @property
    def without_line(self) -> int:
        """How many operations have a module, and no line."""
        lacking = sum(event.place.source is None for event in self.events)
        return lacking - self.ambiguous - self.unknown

    @property
    def peak(self) -> int:
        """The most bytes at a time, beyond those before a run."""
        return max((change.total for change in self.memory), default=0)

    def _in_use_at_peak(self) -> list[MemoryChange]:
        """The allocations that are in use when, for the first time, most bytes are.

        The bytes of each run are counted from 0 on, so an allocation equal to the total begins a run.
        """
        last = max(range(len(self.memory)), key=lambda at: self.memory[at].total, default=-1)
        in_use: dict[int, MemoryChange] = {}
        for change in self.memory[: last + 1]:
            if change.total == change.bytes:
                in_use.clear()
            if change.bytes > 0:
                in_use[change.address] = change
            else:
                in_use.pop(change.address, None)
        return [*in_use.values()]

    def rows_by(self, view: View) -> list[ProfileRow]:
        """Sums by a view; longest self time first.

        Raises:
            ValueError: it isn't one of ``views``.
        """
        if view not in self.views:
            raise ValueError(f"by {view!r}: expected one of {', '.join(self.views)}")
        rows: list[ProfileRow] = getattr(self, f"by_{view}")()
        return rows

    def by_module(self) -> list[ProfileRow]:
        """Sums by module, those without operations of their own included; longest self time first."""
        return self._rows(lambda place, _: [(level.path, level.type) for level in place.levels])

    def by_line(self) -> list[ProfileRow]:
        """Sums by line of the model's source; longest self time first."""
        return self._rows(
            lambda place, _: [(str(place.source), place.source.words) if place.source else (NO_SOURCE, "")]
        )

    def by_operator(self) -> list[ProfileRow]:
        """Sums by operator; longest self time first."""
        return self._rows(lambda _, name: [(name, "")])

    def by_instruction(self) -> list[ProfileRow]:
        """Sums by instruction of ExecuTorch and its operator; longest self time first."""
        return self._rows(lambda place, name: [(place.instruction, name)])

    def by_delegate(self) -> list[ProfileRow]:
        """Sums by backend that ExecuTorch calls, and by what that reports; longest self time first."""
        return self._rows(
            lambda place, name: [(f"{place.delegate}: {name}" if place.delegate else NO_DELEGATE, "")]
        )

    def _rows(self, keys: Callable[[OperationPlace, str], Sequence[tuple[str, str]]]) -> list[ProfileRow]:
        """Sums by keys: an operation counts for its last key, and in the total time of all its keys.

        Args:
            keys: of an operation's place and operator, ``(name, text)`` of each row, outermost first.
        """
        rows: dict[tuple[str, str], ProfileRow] = {}

        def rows_of(place: OperationPlace, name: str) -> list[ProfileRow]:
            return [rows.setdefault(key, ProfileRow(*key, 0, 0, 0, 0.0, 0, 0)) for key in keys(place, name)]

        for event in self.events:
            rows_of(event.place, event.name)[-1].calls += 1
        for start, end, event in (segment for lane in self.lanes for segment in lane):
            entered = rows_of(event.place, event.name)
            entered[-1].self_ns += end - start
            for row in entered:
                row.total_ns += end - start
        names = {event.handle: event.name for event in self.events}
        for change in self.memory:
            last = rows_of(change.place, names.get(change.handle, change.place.op))[-1]
            last.allocated += max(change.bytes, 0)
        for change in self._in_use_at_peak():
            rows_of(change.place, names.get(change.handle, change.place.op))[-1].at_peak += change.bytes
        whole = self.total_ns or 1
        for row in rows.values():
            row.share = row.self_ns / whole
        return sorted(rows.values(), key=lambda row: (-row.self_ns, -row.total_ns, row.name, row.text))


def _lanes(operations: Sequence[tuple[int, int, int, str]]) -> list[int]:
    """For each operation the number of its lane: the first one in which it follows or nests.

    Args:
        operations: start and end (ns), handle and name, sorted by start; if two start together, the
            longer one first.

    Raises:
        ValueError: an operation ends before it starts.
    """
    running: list[list[int]] = []  # for each lane the ends of the operations that run, innermost last
    chosen: list[int] = []
    for start, end, _, name in operations:
        if end < start:
            raise ValueError(f"{one_line(name)} ends {start - end} ns before it starts")
        for ends in running:
            while ends and ends[-1] <= start:
                ends.pop()
        free = (lane for lane, ends in enumerate(running) if not ends or end <= ends[-1])
        lane = next(free, len(running))
        if lane == len(running):
            running.append([])
        running[lane].append(end)
        chosen.append(lane)
    return chosen


def _segments(events: Sequence[TimedOperation]) -> Iterator[Segment]:
    """The time of a lane, cut where the innermost operation changes."""
    running: list[TimedOperation] = []
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
