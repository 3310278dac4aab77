"""Branches that state decides: counters and thresholds, toggles, lengths of histories, modes."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.effects.effect_cases import OURS, Cases, Model, tensor

CASES = Cases("misc")


@CASES.add(OURS, calls=5, n=0)
def warm_up(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.n += 1
    if self.n <= 2:
        return x * 0.1
    return x * 1.5


@CASES.add(OURS, calls=5, on=False)
def alternating(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.on = not self.on
    return x * 2 if self.on else x - 1


@CASES.add(OURS, calls=6, n=0, seen=torch.zeros(2, 3))
def every_second_call(self: Model, x: torch.Tensor) -> torch.Tensor:
    if self.n % 2 == 0:
        self.seen = self.seen + x
    self.n += 1
    return self.seen * 2


@CASES.add(OURS, calls=5, history=[])
def bounded_history(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    if len(self.history) > 2:
        self.history.pop(0)
    return self.history[-1] * 2


@CASES.add(OURS, calls=5, history=[])
def mean_of_a_full_history(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    if len(self.history) >= 3:
        return torch.stack(self.history[-3:]).mean(0)
    return x


@CASES.add(OURS, calls=4, step=0, layers=nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)]))
def layer_by_turn(self: Model, x: torch.Tensor) -> torch.Tensor:
    layer = self.layers[self.step % 2]
    self.step += 1
    return layer(x)


@CASES.add(OURS, calls=4, mode="warm", n=0)
def mode_by_name(self: Model, x: torch.Tensor) -> torch.Tensor:
    if self.mode == "warm":
        self.mode = "cold"
        return x * 2
    return x * 3


@CASES.add(
    OURS,
    says="an int that a function needs: the number it depends on differs from call to call; "
    "8 tables are not enough",
    calls=4,
    n=0,
)
def loop_over_a_counter(self: Model, x: torch.Tensor) -> torch.Tensor:
    for _ in range(self.n):  # here
        x = x + 1
    self.n += 1
    return x


@CASES.add(OURS, calls=4, n=0, seen={})
def key_of_a_counter(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.seen[self.n % 2] = x
    self.n += 1
    return x * 2


@CASES.add("misc", flag=True)
def boolarg(self: Model, x: torch.Tensor) -> torch.Tensor:
    result = x - 1 if self.flag else x + 1
    self.flag = False
    return result


@CASES.add(
    OURS,
    says=(
        "a second call, from where the first one ends, does something else: "
        "control flow: the number it depends on differs from call to call"
    ),
    calls=4,
    best=None,
)
def patience(self: Model, x: torch.Tensor) -> torch.Tensor:
    value = float(x.sum())
    if self.best is None or value > self.best:  # here
        self.best = value
    return x * 2


@CASES.add("unspec", calls=4, left=3)
def random_call_with_while_loop(self: Model, x: torch.Tensor) -> torch.Tensor:
    count = self.left
    while count > 0:
        x = x + 1
        count -= 1
    self.left = max(self.left - 1, 0)
    return x


@CASES.add(OURS, queue=[tensor(1), tensor(2), tensor(3)], calls=5)
def queue_until_empty(self: Model, x: torch.Tensor) -> Any:
    if self.queue:
        return x + self.queue.pop()
    return x
