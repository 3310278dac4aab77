"""Numbers that calls write: what a captured graph computes of them is what Python computes, or refused."""

from __future__ import annotations

import itertools
import math
import operator
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.effects import GuardError, ReplayError, State, capture
from archive.effects.capture import entries
from archive.effects.replay.replay import prepared
from archive.formats.effects.model import EffectTable
from tests.effects.comparison import scripted
from tests.support.sampling import sampled

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch

X = torch.ones(1)
FLOATS = [0.0, -0.0, 0.1, 2.5, 3.5, -0.5, -1.0, 7.3, -1e-20, -1e300, math.inf]
INTS = [0, 1, 3, 7, 40, -2, -7, 2**53 + 1, -(2**61)]
LONGEST_SHIFT = 32
HUGE = ("a ** b", "a << b", "2 ** a")
"""Operators of which Python makes ints that fill the memory."""
TWO: dict[str, Callable[..., Any]] = {
    "a / b": operator.truediv,
    "a // b": operator.floordiv,
    "a % b": operator.mod,
    "a ** b": operator.pow,
    "divmod": lambda a, b: list(divmod(a, b)),
    "pow": math.pow,
    "log": math.log,
    "fmod": math.fmod,
    "atan2": math.atan2,
}
SHIFTS: dict[str, Callable[..., Any]] = {"a << b": operator.lshift, "a >> b": operator.rshift}
ONE: dict[str, Callable[..., Any]] = {
    "round": lambda a, _: round(a),
    "floor": lambda a, _: math.floor(a),
    "ceil": lambda a, _: math.ceil(a),
    "trunc": lambda a, _: math.trunc(a),
    "a ** 3": lambda a, _: a**3,
    "a ** -2": lambda a, _: a**-2,
    "a ** 0.5": lambda a, _: a**0.5,
    "2 ** a": lambda a, _: 2**a,
    "a % 0.3": lambda a, _: a % 0.3,
    "a // -0.1": lambda a, _: a // -0.1,
    "7 // a": lambda a, _: 7 // a,
    "a >> 70": lambda a, _: a >> 70 if isinstance(a, int) else 0,
    "exp": lambda a, _: math.exp(a),
    "log": lambda a, _: math.log(a),
    "sqrt": lambda a, _: math.sqrt(a),
    "cos": lambda a, _: math.cos(a),
    "isfinite": lambda a, _: math.isfinite(a),
}
CASES = [
    *(
        (name, function, pair)
        for name, function in TWO.items()
        for pair in itertools.product((3, 2.5), (2, 0.7))
    ),
    *((name, function, (3, 2)) for name, function in SHIFTS.items()),
    *((name, function, (number, 0)) for name, function in ONE.items() for number in (3, 2.5)),
]


class Computing(nn.Module):
    """Writes its operands, so that they are numbers of the graph, and a result."""

    def __init__(self, function: Callable[..., Any], a: float, b: float) -> None:
        super().__init__()
        self.function, self.a, self.b, self.result = function, a, b, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result = self.function(self.a, self.b)
        self.a, self.b = self.a + 0, self.b + 0
        self.result = result
        return x


def numbers(kind: type) -> list[Any]:
    return INTS if kind is int else FLOATS


def is_ordinary(*values: Any) -> bool:  # noqa: ANN401
    """Whether numbers are finite and small; what is computed of others may be refused."""
    flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
    return all(math.isfinite(one) and abs(one) < 2**30 for one in flat)


RUN = sampled(CASES, most=20, by=[itemgetter(0)])


@pytest.mark.parametrize(("name", "function", "pair"), RUN, ids=[f"{one[0]} {one[2]}" for one in RUN])
def test_a_graph_computes_what_python_does_or_it_is_refused(
    name: str, function: Callable[..., Any], pair: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "MORE_ROUNDS", 1)  # they look for entries, and this is about one
    graph, side_effects = capture(Computing(function, *pair), X)
    method, run = side_effects.table(), scripted(graph)
    ready = prepared(method)
    state = State.fresh(EffectTable((method,), side_effects.state.entries), side_effects.state.tensors)
    reached, kind = 0, type(function(*pair))
    for a, b in itertools.product(
        numbers(type(pair[0])), numbers(type(pair[1])) if name in TWO | SHIFTS else [0]
    ):
        if name in HUGE and max(a if name == "2 ** a" else b, 0) > 2 * LONGEST_SHIFT:
            continue
        state.module.a, state.module.b, state.module.result = a, b, "before"
        try:
            wanted = function(a, b)
        except (ArithmeticError, ValueError):
            wanted = None
        try:
            given = ready.inputs(state, {"x": X})
            ready.replay(state, run(*given), {"x": X})
        except (GuardError, ReplayError, RuntimeError):  # TorchScript's own error
            assert state.module.result == "before"
            unlike = (
                wanted is None or type(wanted) is not kind or (name in SHIFTS and max(a, b) > LONGEST_SHIFT)
            )
            assert unlike or not is_ordinary(a, b, wanted), (a, b, wanted)
            continue
        assert repr(state.module.result) == repr(wanted), (a, b)
        reached += 1
    assert reached > 2
