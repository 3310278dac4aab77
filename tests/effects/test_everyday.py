"""What models of every day use: equal to the eager module, or refused at its line with the true reason."""

from __future__ import annotations

import inspect
import math
from collections import deque
from functools import cache, lru_cache
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import Effectful, GuardError, lower, lowered_archive
from archive.effects import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch

Value: TypeAlias = Any
CONFIG = SimpleNamespace(scale=3.0)


class Model(nn.Module):
    """A module around a function of itself and a tensor."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.count, self.mode, self.table = 0, ("s", 2), {"k": 2.5}
        self.config = SimpleNamespace(scale=2.0, inner=SimpleNamespace(steps=3))
        self.kept = SimpleNamespace(count=0, last=None)
        self.last = deque[Any](maxlen=3)
        self.named: dict[str, Any] = {}
        self.norm = nn.BatchNorm1d(3, momentum=None)
        self._function = function

    def forward(self, x: torch.Tensor) -> Value:
        self.count += 1
        return self._function(self, x)


def doubled(number: float) -> float:
    return number * 2


@cache
def factor(number: int, power: float = 0.5) -> float:
    return doubled(sum(math.pow(one, power) for one in range(number)))


@lru_cache
def configured(number: int) -> float:
    return float(number * CONFIG.scale)


@lru_cache
def listed(number: int) -> list[int]:
    return [number]


@lru_cache
def mask(number: int) -> torch.Tensor:
    return torch.ones(number)


def matches_a_tuple(self: Value, x: Value) -> Value:
    match self.mode:
        case ("s", int(number)):
            return x * number
        case _:
            return x


def matches_a_dict(self: Value, x: Value) -> Value:
    match self.table:
        case {"k": bool()}:
            return x
        case {"k": float(number)}:
            return x * number


def matches_a_count(self: Value, x: Value) -> Value:
    match self.count:
        case 1:
            return x
        case int(number):
            return x * number


def configures(self: Value, x: Value) -> Value:
    return x * self.config.scale + self.config.inner.steps * CONFIG.scale


def lists_a_namespace(self: Value, x: Value) -> Value:
    return x * len(vars(self.config)) * getattr(self.config, "gain", 1.5)


def keeps_in_a_namespace(self: Value, x: Value) -> Value:
    self.kept.count += 1
    y = x if self.kept.last is None else x + self.kept.last
    self.kept.last = x * self.kept.count
    return y


def uses_a_cache(_: Value, x: Value) -> Value:
    return x * factor(3) + factor(4, power=1.5)


def averages(self: Value, x: Value) -> Value:
    return self.norm(x)


@pytest.mark.parametrize(
    "function",
    [
        matches_a_tuple,
        matches_a_dict,
        matches_a_count,
        configures,
        lists_a_namespace,
        keeps_in_a_namespace,
        uses_a_cache,
        averages,
    ],
)
def test_calls_are_the_eager_ones(function: Value) -> None:
    calls = [torch.randn(4, 3, generator=torch.Generator().manual_seed(number)) for number in range(4)]
    lowered = lower(Model(function), "aten", effects=True, example_inputs=(calls[0],))
    eager, loaded = Model(function), Effectful.load(lowered_archive(lowered))
    for x in calls:
        assert torch.equal(loaded(x), eager(x))
    assert loaded.state.module.count == eager.count
    if function is averages:
        assert torch.equal(loaded.state.module.norm.running_var, eager.norm.running_var)
    if function is keeps_in_a_namespace:
        assert torch.equal(loaded.state.module.kept.last, eager.kept.last)


def rounds(_: Value, x: Value) -> Value:
    print(round(x.mean().item(), 3))  # noqa: T201
    return x


def names_by_a_count(self: Value, x: Value) -> Value:
    self.last.append(x)
    self.named[f"step {self.count}"] = x  # here
    return x


def compares_namespaces(self: Value, x: Value) -> Value:
    return x if self.config == self.kept else x + 1


def caches_by_a_global(_: Value, x: Value) -> Value:
    return x * configured(3)


def caches_a_list(_: Value, x: Value) -> Value:
    return x * len(listed(3))


def caches_a_tensor(_: Value, x: Value) -> Value:
    return x * mask(3)


def caches_by_a_tensor(_: Value, x: Value) -> Value:
    return x * factor(x)


def caches_by_a_bool(_: Value, x: Value) -> Value:
    return x * factor(True)  # noqa: FBT003


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (rounds, "round(…, 3) of a number that differs from call to call"),
        (
            names_by_a_count,
            "a text: the number it depends on differs from call to call; 8 tables are not enough",
        ),
        (compares_namespaces, "__eq__ of a SimpleNamespace, which cannot be followed"),
        (caches_by_a_global, "a cached function, configured, that may not be pure"),
        (caches_a_list, "a cached function that gives a list, which all calls share"),
        (caches_a_tensor, "a cached function, mask, that may not be pure"),
        (caches_by_a_tensor, "a key that differs from call to call"),
        (caches_by_a_bool, "a cached function of more than ints, texts and fractions"),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_the_true_reason_is_said_at_its_line(function: Value, says: str) -> None:
    with pytest.raises(CaptureError) as caught:
        lower(Model(function), "aten", effects=True, example_inputs=(torch.ones(4, 3),))
    lines, first = inspect.getsourcelines(function)
    here = [number for number, line in enumerate(lines) if "# here" in line] or [1]
    assert (caught.value.message, caught.value.filename) == (says, __file__)
    assert caught.value.line == first + here[0]


def test_a_broken_guard_shows_no_elements_of_tensors() -> None:
    def walks(self: Value, x: Value) -> Value:
        for name, value in self.table.items():
            x = x * value if name == "k" else x
        return x

    lowered = lower(Model(walks), "aten", effects=True, example_inputs=(torch.ones(4, 3),))
    loaded = Effectful.load(lowered_archive(lowered))
    weights = torch.full((2,), 0.125)
    loaded.state.module.table[weights] = {1: weights, "b": [weights]}
    with pytest.raises(
        GuardError, match=r"expected tuple\(self.table\) == \('k',\), found \('k', a tensor\)\n"
    ):
        loaded(torch.ones(4, 3))
    del loaded.state.module.table[weights]
    loaded.state.module.table["k"] = {1: weights, "b": [weights]}
    with pytest.raises(GuardError, match=r"expected self.table\['k'\] == 2.5, found a dict of 2\n"):
        loaded(torch.ones(4, 3))
