"""Errors of replay: a place that the state does not have, a failed effect, a guard that does not hold."""

from __future__ import annotations

UNLIKE = "this call is not as the one that was captured"
NONE_FITS = "this call is as none of the {} that were captured; for the nearest"


class StateError(LookupError):
    """The state has no such place, or does not give access to it."""


class ReplayError(RuntimeError):
    """Effects are refused, or one of them failed; the state is as it was before.

    Attributes:
        method: the method's name.
        effect: the effect as Python; "" if the error belongs to no single effect.
        where: the symbolicated debug handle of the effect; "" without handle or symbolicator.
    """

    def __init__(self, problem: str, *, method: str, effect: str = "", where: str = "") -> None:
        self.method = method
        self.effect = effect
        self.where = where
        place = f"{method}: {effect}" if effect else method
        super().__init__(f"{place}: {problem}" + (f"\n{where}" if where else ""))


class GuardError(ReplayError):
    """A call differs from the captured one in something that the model relied on; nothing has changed.

    Attributes:
        guard: the condition that does not hold, as Python.
        problem: what is the case instead, as text.
        number: of the guard, from 0: so many have held before it.
    """

    def __init__(
        self, problem: str, *, method: str, guard: str, where: str = "", number: int = 0, unlike: str = UNLIKE
    ) -> None:
        super().__init__(f"{unlike}: expected {guard}, {problem}", method=method, where=where)
        self.guard = guard
        self.problem = problem
        self.number = number

    def of(self, entries: int) -> GuardError:
        """The same error, of the one of several entries that nearly fits."""
        return GuardError(
            self.problem,
            method=self.method,
            guard=self.guard,
            where=self.where,
            number=self.number,
            unlike=NONE_FITS.format(entries),
        )
