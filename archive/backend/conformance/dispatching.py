"""Watches the operators that PyTorch's dispatcher runs, and makes them fail."""

from __future__ import annotations

from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, NamedTuple

from torch.utils._python_dispatch import TorchDispatchMode

from archive.backend.delegate import Delegate
from archive.effects.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.backend.conformance.subject import Subject
    from archive.backend.profile.events import Recording


class InjectedError(RuntimeError):
    """The error of an operator that is made to fail."""


class Dispatches(TorchDispatchMode):  # type: ignore[misc]
    """Notes each operator that PyTorch's dispatcher runs.

    Args:
        failing: the number, from 1, of the operator to make fail; None for none.

    Attributes:
        seen: start, by ``time.perf_counter_ns``, and name with overload of each operator.
    """

    def __init__(self, failing: int | None = None) -> None:
        super().__init__()
        self.failing = failing
        self.seen: list[tuple[int, str]] = []

    def __torch_dispatch__(
        self,
        function: Any,  # noqa: ANN401
        types: object,
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:  # noqa: ANN401
        """Run an operator."""
        self.seen.append((perf_counter_ns(), function.name()))
        if len(self.seen) == self.failing:
            raise InjectedError(f"operator {self.failing}, {function.name()}, was made to fail")
        return function(*args, **(kwargs or {}))

    @property
    def names(self) -> list[str]:
        """The operators' names, with overloads."""
        return [name for _, name in self.seen]


class Event(NamedTuple):
    """An operation in a recording: start and end (ns), debug handle, operator's name."""

    start: int
    end: int
    handle: int
    name: str

    def __str__(self) -> str:
        return f"{self.name} of handle {self.handle}"


class Observed(NamedTuple):
    """A run that was recorded.

    Attributes:
        recording: the events of the runtime.
        seen: start (ns) and name of each operator that PyTorch's dispatcher ran.
        start: start of the run, in ns.
        end: end of the run, in ns.
    """

    recording: Recording
    seen: Sequence[tuple[int, str]]
    start: int
    end: int

    @property
    def events(self) -> list[Event]:
        """The operations in the recording."""
        return [Event(*one) for one in self.recording.operations]

    @property
    def same_clock(self) -> bool:
        """Whether the events' times can be those of ``time.perf_counter_ns``: all lie within the run."""
        return all(self.start <= one.start <= one.end <= self.end for one in self.events)

    def around(self, time: int) -> Event | None:
        """The shortest event that a time lies in."""
        found = [one for one in self.events if one.start <= time <= one.end]
        return min(found, key=lambda one: one.end - one.start, default=None)


def observed(subject: Subject) -> Observed | None:
    """A recorded run with the good inputs; None if the backend records nothing."""
    delegate = Delegate.of(subject.lowered.module)
    mode = Dispatches()
    subject.delegated(delegate)  # warms up: operators of the first run alone are not noted
    try:
        with delegate.recording() as recording:
            start = perf_counter_ns()
            subject.delegated(delegate, within=mode)
            end = perf_counter_ns()
    except LoweringError:
        return None
    return Observed(recording, mode.seen, start, end)


def of_model(subject: Subject) -> list[str]:
    """The operators that PyTorch's dispatcher runs for the model itself."""
    mode = Dispatches()
    subject.called(getattr(subject.model, subject.method), within=mode)
    return mode.names
