"""Errors of replay: a failed effect, a guard that does not hold."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

UNLIKE = "this call is not as the one that was captured"
NONE_FITS = "this call is as none of the {} that were captured; for the nearest"


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
    """A call differs from the captured one in something that the model relied on; nothing was changed.

    Errors of entries that are tried in turn are mostly not shown, so their texts are made late.

    Args:
        problem: what holds instead.
        method: the method's name.
        number: of the guard, from 0: this many held before it.
        texts: returns the guard as Python, and its symbolicated debug handle.
        unlike: what the call is not like.

    Attributes:
        problem: what holds instead, as text.
        number: of the guard.
        entry: the number of the entry with the guard, where several were tried.
    """

    entry = 0

    def __init__(
        self,
        problem: str,
        *,
        method: str,
        number: int,
        texts: Callable[[], tuple[str, str]],
        unlike: str = UNLIKE,
    ) -> None:
        RuntimeError.__init__(self, problem)
        self.method, self.effect = method, ""
        self.problem, self.number = problem, number
        self._texts, self._unlike = texts, unlike

    def __str__(self) -> str:
        text = f"{self.method}: {self._unlike}: expected {self.guard}, {self.problem}"
        return f"{text}\n{self.where}" if self.where else text

    @cached_property
    def _method_and_effect(self) -> tuple[str, str]:
        return self._texts()

    @property
    def guard(self) -> str:
        """The condition that does not hold, as Python."""
        return self._method_and_effect[0]

    @property
    def where(self) -> str:  # type: ignore[override]
        """The symbolicated debug handle of the guard; "" without handle or symbolicator."""
        return self._method_and_effect[1]

    def of(self, entries: int) -> GuardError:
        """The same error, for the nearest of several entries."""
        error = GuardError(
            self.problem,
            method=self.method,
            number=self.number,
            texts=lambda: self._method_and_effect,
            unlike=NONE_FITS.format(entries),
        )
        error.entry = self.entry
        return error
