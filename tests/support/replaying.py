"""Replay of effects on the state of the small program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.effects.replay.replay import replay
from archive.formats.effects.model import Effect, MethodEffects, Output
from tests.support.effect_programs import ALLOWED, Tensor, X, started
from tests.support.effect_strategies import outputs

if TYPE_CHECKING:
    from archive.effects.replay.state import State
    from archive.formats.effects.model import Value


def forward(*effects: Effect, result: Value = Output(0)) -> MethodEffects:  # noqa: B008 (a fact)
    return MethodEffects("forward", (X,), result, effects)


def done(*effects: Effect, state: State | None = None, out: list[Any] | None = None) -> State:
    """The state after some effects."""
    method = forward(*effects)
    state = started(method) if state is None else state
    replay(method, state, outputs() if out is None else out, arguments={"x": Tensor(3, 4)}, allow=ALLOWED)
    return state
