"""Tries a capture: the captured form against the eager module, both from the same states."""

from __future__ import annotations

import copy
import sys
import time
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.overrides import TorchFunctionMode

from archive.effects.capture.graph.guards import copied
from archive.effects.capture.graph.sites import line_of
from archive.effects.capture.initial import initial_state, originals_now, sources_in
from archive.effects.errors import CaptureError
from archive.effects.nested import with_items
from archive.effects.replay.choosing import Entry
from archive.effects.replay.errors import GuardError
from archive.effects.trial.child import SECONDS, UntriedError, in_child
from archive.effects.trial.comparing import Comparing, DifferentError
from archive.effects.trial.lines import (
    NOWHERE,
    Changes,
    Operations,
    Sited,
    effects_on,
    first_other_operation,
    line_here,
)
from archive.effects.trial.parts import IMMUTABLE, Before, Step
from archive.effects.trial.shows import noted
from archive.effects.trial.twin import Eager, Twin, known_classes
from archive.formats.effects.model import GlobalName
from archive.formats.effects.parts import root_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from archive.effects.capture.attempt import Attempt
    from archive.effects.capture.table.pending import InitialState
    from archive.effects.capture.table.snapshot import Snapshot
    from archive.effects.trial.lines import Line
    from archive.effects.trial.parts import Path

ROUNDS = 3
"""How often the example calls are made."""
TIMES = 20
"""A trial may take this many times as long as the capture, plus ``SECONDS``."""
EMPTY = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
"""Functions of PyTorch that return uninitialised memory."""
NOT_THE_SAME = "what was captured does something else than the module"
Arguments = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Start:
    """A state, and the calls that are tried from there.

    Attributes:
        snapshot: the state; None for the one at the capture.
    """

    snapshot: Snapshot | None
    calls: tuple[Arguments, ...]


@dataclass(frozen=True, slots=True)
class Capture:
    """The capture of a method.

    Attributes:
        aliases: further sources of a value, each with the first one.
        starts: the states from which calls are tried.
    """

    module: Any
    method: str
    attempts: Sequence[Attempt]
    initial: InitialState
    aliases: Any
    starts: Sequence[Start]


def starts_of(calls: Sequence[Arguments], others: Sequence[tuple[Arguments, Snapshot]]) -> Iterator[Start]:
    """The states and calls that are tried.

    Args:
        others: arguments, and states in which entries decide otherwise.
    """
    yield Start(None, tuple(calls) * ROUNDS)
    for arguments in calls[1:]:
        yield Start(None, (arguments, arguments))
    for arguments, snapshot in others:
        yield Start(snapshot, (arguments, arguments))


def try_out(capture: Capture, seconds: float, also: Callable[[], Any] | None = None) -> tuple[Any, int]:
    """Try what was captured.

    Args:
        also: called in the child that tries the first state, before the module is: a fork takes longer than
            most calls do.

    Returns:
        What ``also`` returns, and how many calls from the first state the module made.
    """
    limit = SECONDS + TIMES * seconds
    made, calls = None, 0
    for which, start in enumerate(capture.starts):
        if which == 0 and also is not None:
            made, calls, found = in_child(partial(_with, also, capture, start), limit)
        else:
            found = in_child(partial(_difference, capture, start), limit)
        if found is None:
            continue
        number, path, said, place = found
        line = tuple(place)
        if line == NOWHERE:
            with suppress(UntriedError):
                steps = tuple(Step(*step) for step in path)
                line = tuple(in_child(partial(_line, capture, start, number, steps), limit))
        filename, first = line
        if not filename and capture.attempts[0].call.side_effects.result_statement is not None:
            statement = capture.attempts[0].call.side_effects.result_statement
            filename, first = statement.filename, statement.line
        raise CaptureError(f"{NOT_THE_SAME}: {said}", filename, first)
    return made, calls


def runs(module: Any, method: str, calls: Sequence[Arguments]) -> bool:
    """Whether the eager module makes the example calls, twice; False if it cannot be tried."""

    def played() -> bool:
        called = Eager(module, method, ()).called
        for number, arguments in enumerate(tuple(calls) * ROUNDS):
            with noted([]):
                called(*(arguments if number == 0 else _fresh(arguments, {})))
        return True

    try:
        return bool(in_child(played))
    except UntriedError:
        return False


def is_lacking(refusal: GuardError) -> bool:
    """Whether a guard looks at what the state lacks; others refuse what no captured call was like."""
    return refusal.__cause__ is not None


def _difference(capture: Capture, start: Start) -> list[Any] | None:
    return _Playing(capture, start).difference()


def _with(also: Callable[[], Any], capture: Capture, start: Start) -> list[Any]:
    random = torch.get_rng_state()
    made = also()
    torch.set_rng_state(random)
    playing = _Playing(capture, start)
    found = playing.difference()
    return [made, playing.calls_made, found]


def _line(capture: Capture, start: Start, number: int, path: Path) -> Line:
    return _Playing(capture, start).line(number, path)


class Filled(TorchFunctionMode):  # type: ignore[misc]
    """Fills tensors whose elements nobody has set with zeros."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function of PyTorch."""
        made = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") in EMPTY and isinstance(made, torch.Tensor):
            with torch.no_grad():
                made.zero_()
        return made


class _Playing:
    """Calls from one state, in a child process."""

    def __init__(self, capture: Capture, start: Start) -> None:
        self._capture, self._start = capture, start
        self.calls_made = 0
        module, method, attempts = capture.module, capture.method, capture.attempts
        initial = capture.initial
        if start.snapshot is not None:
            start.snapshot.put()
            originals = originals_now(module, [attempt.call for attempt in attempts])
            tables = [attempt.flat.effects for attempt in attempts]
            initial = initial_state(originals, capture.aliases, tables)
        self._eager = Eager(module, method, attempts)
        self._eager.look_at(_globals_in(attempts))
        self._before = Before(self._eager.state())
        self._identities = self._eager.identities()
        self._comparing = Comparing(self._before)
        self._initial = initial

    def _twin(self) -> Twin:
        """The captured form."""
        capture = self._capture
        try:
            known = dict(known_classes(capture.attempts))
            return Twin(
                capture.module,
                capture.method,
                capture.attempts,
                self._initial,
                known,
                at_capture=self._start.snapshot is None,
            )
        except Exception as error:
            raise DifferentError((), f"it cannot be loaded: {error}") from error

    def difference(self) -> list[Any] | None:
        """The number of the first call that isn't the same, where, and what differs; None without one."""
        number = 0
        try:
            twin = self._twin()
            self._comparing.same(self._eager.state(), twin.names(), ())
            for number, arguments in enumerate(self._start.calls):
                if not self._call(twin, number, arguments):
                    break
            self._comparing.check_missing()
            self._check_globals(twin)
        except DifferentError as error:
            return [number, _json_path(error.path), str(error).strip(), error.line]
        return None

    def _check_globals(self, twin: Twin) -> None:
        """Make sure that no global was set without being captured."""
        now = self._eager.identities()
        for (module, name), identity in now.items():
            if self._identities.get((module, name)) != identity and name not in twin.state.globals.get(
                module, {}
            ):
                path = (Step("attribute", "globals"), Step("attribute", module), Step("attribute", name))
                raise DifferentError(path, "is set, and no effect was captured that sets it")

    def _filling(self) -> AbstractContextManager[Any]:
        """A context in which new memory holds zeros, if a graph asks for some."""
        nodes = (node for attempt in self._capture.attempts for node in attempt.graph.graph.nodes)
        is_asked = any(getattr(node.target, "__name__", node.target) in EMPTY for node in nodes)
        return Filled() if is_asked else nullcontext()

    def _arguments(self, number: int, arguments: Arguments) -> tuple[Any, Any]:
        """The arguments of a call, for the module and for the captured form."""
        ours = arguments if number == 0 and self._start.snapshot is None else _fresh(arguments, {})
        known: dict[int, Any] = {}
        self._note_counterparts(ours, known)
        return ours, _fresh(ours, known)

    def _note_counterparts(self, value: Any, known: dict[int, Any]) -> None:
        other = self._comparing.counterpart(value)
        if other is not None and not isinstance(value, IMMUTABLE):
            known[id(value)] = other
        for item in value.values() if type(value) is dict else value if type(value) in (tuple, list) else ():
            self._note_counterparts(item, known)

    def _call(self, twin: Twin, number: int, arguments: Arguments) -> bool:
        """Make a call on both sides; False if there cannot be another one."""
        ours, theirs = self._arguments(number, arguments)
        shows: tuple[list[Any], list[Any]] = ([], [])
        failure: Exception | None = None
        random, wanted = torch.get_rng_state(), None
        with noted(shows[0]), self._filling():
            try:
                wanted = self._eager.called(*ours)
                self.calls_made += 1
            except Exception as error:  # noqa: BLE001 (whatever the model raises)
                failure = error
        torch.set_rng_state(random)
        try:
            with noted(shows[1]), self._filling():
                found = twin(theirs)
        except GuardError as error:
            if failure is None and (number == 0 or is_lacking(error)) and self._start.snapshot is None:
                line = self._line_of_guard(error.entry, error.number)
                which = f"example call {number + 1}" if number else "the example call"
                raise DifferentError((), f"{which} is refused: {error}", line) from error
            return False
        except Exception as error:
            if failure is not None:
                return False
            raise DifferentError((), f"a call fails: {type(error).__name__}: {error}") from error
        if failure is not None:
            said = f"a call gives a result; the module raises {type(failure).__name__}: {failure}"
            raise DifferentError((), said)
        given = (Step("attribute", "result"),)
        self._comparing.same(wanted, found, given)
        self._comparing.same(tuple(ours), tuple(theirs), (Step("attribute", "arguments"),))
        self._comparing.same(self._eager.state(), twin.names(), ())
        if shows[0] != shows[1]:
            pairs = zip(shows[0], shows[1], strict=False)
            one = next(((mine, its) for mine, its in pairs if mine != its), (shows[0], shows[1]))
            raise DifferentError((), f"it prints, logs or warns {one[1]!r}; the module {one[0]!r}")
        return True

    def _line_of_guard(self, entry: int, number: int) -> Line:
        flat = self._capture.attempts[entry].flat
        handle = flat.effects.guards[number].handle if number < len(flat.effects.guards) else -1
        return (line_of(flat.guard_sites[handle]) if handle >= 0 else None) or NOWHERE

    # --- the line ----------------------------------------------------------------------------------

    def line(self, number: int, path: Path) -> Line:
        """The first line that differs in a call, given the place of the difference."""
        twin = self._twin()
        with suppress(DifferentError):
            self._comparing.same(self._eager.state(), twin.names(), ())
        for earlier in range(number):
            with suppress(DifferentError):
                self._call(twin, earlier, self._start.calls[earlier])
        ours, theirs = self._arguments(number, self._start.calls[number])
        root = str(path[0].name) if path else "result"
        if root in ("result", "arguments"):
            return self._line_of_result(twin, ours, theirs)
        changes = Changes(self._eager.state, path)
        sys.settrace(changes.trace)
        try:
            with noted([]), suppress(Exception):
                self._eager.called(*ours)
        finally:
            sys.settrace(None)
        if changes.line != NOWHERE:
            return changes.line
        lines = (line for attempt in self._capture.attempts for line in effects_on(attempt.flat, path))
        return next(lines, NOWHERE)

    def _line_of_result(self, twin: Twin, ours: Any, theirs: Any) -> Line:
        random = torch.get_rng_state()
        mine = Operations(line_here)
        with noted([]), suppress(Exception), mine:
            self._eager.called(*ours)
        torch.set_rng_state(random)
        its = Operations(lambda: NOWHERE)
        sided = []
        for graph, (_, effects) in zip(twin.graphs, twin.entries, strict=True):
            runner = Sited(graph)
            sided.append(Entry(lambda *given, runner=runner: self._sited(its, runner, given), effects))
        twin.entries = sided
        with noted([]), suppress(Exception):
            twin(theirs)
        return first_other_operation(mine, its)

    @staticmethod
    def _sited(operations: Operations, runner: Sited, given: Any) -> Any:
        operations._here = runner.here
        with operations:
            return runner.run(*given)


def _globals_in(attempts: Sequence[Attempt]) -> dict[str, set[str]]:
    """The globals that tables name, by Python module."""
    found: dict[str, set[str]] = {}
    for attempt in attempts:
        for source in map(root_of, sources_in(attempt.flat.effects)):
            if isinstance(source, GlobalName):
                found.setdefault(source.module, set()).add(source.name)
    return found


def _json_path(path: Path) -> list[Any]:
    """A path as in JSON, cut off before keys that JSON lacks."""
    steps: list[Any] = []
    for step in path:
        if not isinstance(step.name, str | int | type(None)):
            break
        steps.append(list(step))
    return steps


def _fresh(value: Any, known: dict[int, Any]) -> Any:
    """A copy of arguments; what was the same object stays so."""
    if isinstance(value, IMMUTABLE):
        return value
    if id(value) not in known:
        made = (
            copied(value)
            if isinstance(value, torch.Tensor)
            else with_items(value, partial(_fresh, known=known))
        )
        if made is value:
            with suppress(Exception):  # what cannot be copied is shared
                made = copy.deepcopy(value)
        known[id(value)] = made
    return known[id(value)]


def fresh_arguments(arguments: Sequence[Any]) -> tuple[Any, ...]:
    """Copies of arguments."""
    known: dict[int, Any] = {}
    return tuple(_fresh(argument, known) for argument in arguments)


def clock() -> float:
    """Seconds, for measuring."""
    return time.monotonic()
