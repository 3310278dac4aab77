"""What a profiled run records: operations by debug handle, and the same events at the model's source."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archive.backend.profile.places import OperationPlace


@dataclass(slots=True)
class Recording:
    """The events of a backend's runs; times are those of ``time.perf_counter_ns``.

    Attributes:
        backend: the backend's name.
        operations: for each operation its start and end (ns), debug handle, and operator's name.
        memory: for each storage of a result, once when it is made and once when it is freed, the time (ns),
            debug handle, bytes (negative when freed), bytes of all results then, and address.
        of_allocator: whether ``memory`` has, instead, all that PyTorch's allocator gives and takes back,
            inside operators too.
    """

    backend: str
    operations: list[tuple[int, int, int, str]] = field(default_factory=list)
    memory: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    of_allocator: bool = False


@dataclass(frozen=True, slots=True)
class TimedOperation:
    """An operation that ran.

    Attributes:
        start_ns: when it began, in ns after the profile's first event.
        end_ns: when it ended, in the same way.
        handle: its debug handle.
        name: the operator's name.
        place: its module and source lines.
        lane: number of its lane, from 0; see :mod:`archive.backend.profile.timeline`.
    """

    start_ns: int
    end_ns: int
    handle: int
    name: str
    place: OperationPlace
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
    """A storage of a result that was made, or freed.

    Attributes:
        time_ns: when, in ns after the profile's first event.
        handle: debug handle of the operation that made it, or behind which it was freed.
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
