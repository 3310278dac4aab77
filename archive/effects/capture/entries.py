"""Finds the entries of a method: calls that differ by what they find, each captured with guards.

The first entries are those of the example calls, each from the state that the one before leaves; then the
same calls again, until they bring nothing new. So the first call, which fills a cache, is one entry, and all
others are another. Then, where an entry has decided by a number or a length, a state is sought in which it
decides otherwise, and played from there.

Two entries never fit together: their guards tell them apart, or the model is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.attempt import Attempt, attempt
from archive.effects.capture.comparing import difference, excluding
from archive.effects.capture.inputs import copied
from archive.effects.capture.next_snapshot import snapshot_after
from archive.effects.capture.other_arms import decides_by_results, decisions_of, state_for_other
from archive.effects.capture.snapshot import Snapshot
from archive.effects.errors import CaptureError, ModelFailedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from archive.debuginfo.sites import Site
    from archive.effects.capture.call import Found

AGAIN = "a second call, from where the first one ends, does something else"
MORE_ROUNDS = 16
"""Rounds of one call after the steady state, where sizes of results may still lead to another arm."""
Arguments = tuple[Any, ...]


class GrownError(Exception):
    """A call has shown changes that earlier calls did not know of."""


class TooManyError(CaptureError):
    """A method needs more entries than allowed."""


class UnclearError(CaptureError):
    """Two calls differ, and no guard tells them apart."""


@dataclass(slots=True)
class Entry:
    """One way through a method.

    Attributes:
        first: the call that showed it first.
        latest: the latest such call.
        arguments: of the latest call.
    """

    first: Attempt
    latest: Attempt
    arguments: Arguments


class Entries:
    """Finds the entries of a method.

    Args:
        module: the model, which stays as it is.
        method: its method.
        calls: arguments of the example calls.
        most: entries.
        found: changes that calls make, as far as known.
    """

    def __init__(
        self,
        module: Any,  # noqa: ANN401
        method: str,
        calls: Sequence[Arguments],
        most: int,
        found: Found,
    ) -> None:
        self._module, self._method, self._calls = module, method, calls
        self._most, self._found = most, found
        self._entries: list[Entry] = []
        self._tried: set[tuple[Any, ...]] = set()
        self._snapshot = Snapshot()

    def find(self) -> list[Attempt]:
        """The first call of each entry.

        Raises:
            CaptureError: the method cannot be captured, or not with so many entries.
        """
        while True:
            self._entries, self._tried, self._snapshot = [], set(), Snapshot()
            try:
                self._play_examples()
                if self._found.deciding:
                    self._play_from_start()
                    self._play_other_arms()
                    self._play_on()
            except GrownError:
                continue
            return [entry.first for entry in self._entries]

    # --- ways to call ------------------------------------------------------------------------------

    def _play_examples(self) -> None:
        """The example calls one after the other, and again until they show nothing new."""
        snapshot = Snapshot()
        for number, arguments in enumerate(self._calls):
            given = arguments if number == 0 else fresh(arguments)
            snapshot = self._after(given, snapshot, again=number > 0)
        count = len(self._entries)
        try:
            snapshot = self._round(snapshot)
        except ModelFailedError as error:
            raise _again(error) from error
        if len(self._entries) > count:
            try:
                snapshot = self._repeat(snapshot)
            except ModelFailedError:
                return  # as the model itself would; a call from there fits no entry
        self._snapshot = snapshot

    def _play_from_start(self) -> None:
        """The example calls but for the first, each from the state at first."""
        for arguments in self._calls[1:]:
            self._try(arguments, Snapshot())

    def _play_other_arms(self) -> None:
        """Calls from states in which entries decide otherwise."""
        while len(self._entries) < self._most:
            found = self._other_arm()
            if found is None:
                return
            self._try(*found)

    def _other_arm(self) -> tuple[Arguments, Snapshot] | None:
        """Arguments and state for an arm that no entry has taken; None if none is found."""
        for entry in self._entries:
            decisions = decisions_of(entry.latest)
            for number, (subject, value) in enumerate(decisions):
                path = (*decisions[:number], (subject, not value))
                if path in self._tried or any(self._takes(one, path) for one in self._entries):
                    continue
                snapshot = state_for_other(entry.latest, number)
                if snapshot is not None:
                    self._tried.add(path)
                    return entry.arguments, snapshot
        return None

    @staticmethod
    def _takes(entry: Entry, path: tuple[Any, ...]) -> bool:
        return tuple(decisions_of(entry.first)[: len(path)]) == path

    def _try(self, arguments: Arguments, snapshot: Snapshot) -> None:
        """Play from a state that later calls may meet; an arm that cannot be captured is left out.

        A call that takes such an arm fits no entry.
        """
        try:
            self._repeat(self._after(fresh(arguments), snapshot))
        except UnclearError:
            raise
        except CaptureError:
            return

    def _repeat(self, snapshot: Snapshot) -> Snapshot:
        """Rounds of the example calls until they show nothing new."""
        count = -1
        while count < len(self._entries):
            count = len(self._entries)
            snapshot = self._round(snapshot)
        return snapshot

    def _round(self, snapshot: Snapshot) -> Snapshot:
        for arguments in self._calls:
            snapshot = self._after(fresh(arguments), snapshot, again=True)
        return snapshot

    def _play_on(self) -> None:
        """More rounds where entries decide by sizes of results: no single number leads to the other arm."""
        if not any(decides_by_results(entry.first) for entry in self._entries):
            return
        try:
            for _ in range(max(1, MORE_ROUNDS // len(self._calls))):
                self._snapshot = self._round(self._snapshot)
        except UnclearError:
            raise
        except CaptureError:
            return

    # --- one call ----------------------------------------------------------------------------------

    def _after(self, arguments: Arguments, snapshot: Snapshot, *, again: bool = False) -> Snapshot:
        """The state after a call, whose entry is noted."""
        size = self._found.size()
        try:
            one = attempt(self._module, self._method, arguments, snapshot, self._found)
        except CaptureError as error:
            self._found.copies.check()
            if isinstance(error, ModelFailedError) or not again:
                raise
            raise _again(error) from error
        finally:
            if self._found.size() > size:
                raise GrownError
        self._note(one, arguments)
        return snapshot_after(one.call)

    def _note(self, one: Attempt, arguments: Arguments) -> None:
        """Note the entry of a call.

        Raises:
            UnclearError: it is like no entry, and an entry's guards may hold as well.
            TooManyError: it is one too many.
        """
        for entry in self._entries:
            if difference(entry.first, one) is None:
                entry.latest, entry.arguments = one, arguments
                return
        telling: list[Site] = []
        for entry in self._entries:
            sites = excluding(one, entry.first)
            if sites is None or self._most == 1:
                raise _at(UnclearError, AGAIN, difference(entry.first, one) or [])
            telling = sites
        if len(self._entries) == self._most:
            raise _at(TooManyError, f"{AGAIN}; {self._most} tables are not enough", telling)
        self._entries.append(Entry(one, one, arguments))


def _again(error: CaptureError) -> CaptureError:
    """The error of a call that is not the first."""
    kind = type(error)
    if error.message.startswith(AGAIN):
        return error
    return kind(f"{AGAIN}: {error.message}", error.filename, error.line)


def _at(kind: type[CaptureError], message: str, sites: Iterable[Site]) -> CaptureError:
    """An error at the first of some sites that has a line."""
    span = next((site.span for site in sites if site.span is not None), None)
    if span is None:
        return kind(message)
    return kind(message, span.filename.decode("utf-8", "surrogateescape"), span.first_line)


def fresh(value: Any, known: dict[int, Any] | None = None) -> Any:  # noqa: ANN401
    """A copy with tensors of its own; equal identities stay equal."""
    known = {} if known is None else known
    if id(value) not in known:
        made = value
        if isinstance(value, torch.Tensor):
            made = copied(value)
        elif type(value) in (tuple, list):
            made = type(value)(fresh(one, known) for one in value)
        elif type(value) is dict:
            made = {key: fresh(one, known) for key, one in value.items()}
        known[id(value)] = made
    return known[id(value)]
