"""Histories that grow with each call: read as a whole by the graph, cut, joined, rebound, kept in parts."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.effects.effect_cases import OURS, Cases, Model, tensor

CASES = Cases("list")
CALLS = 12
"""More than a method has tables."""


@CASES.add(OURS, calls=CALLS, history=[])
def concatenated(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    return torch.cat(self.history).sum(0)


@CASES.add(OURS, calls=CALLS, history=[])
def summed(self: Model, x: torch.Tensor) -> Any:
    self.history.append(x)
    return sum(self.history)


@CASES.add(OURS, calls=CALLS, history=[])
def mean_of_the_last(self: Model, x: torch.Tensor) -> Any:
    self.history.append(x)
    last = self.history[-4:]
    return sum(last) / len(last)


@CASES.add(OURS, calls=CALLS, losses=[])
def mean_of_numbers(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.losses.append(float(x.sum()))
    return x * (sum(self.losses) / len(self.losses))


@CASES.add(OURS, calls=CALLS, losses=[0.25, -1.5])
def best_and_worst(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.losses.append(x.mean().item())
    return x * max(self.losses) - min(self.losses[-3:])


@CASES.add(OURS, calls=CALLS, sizes=[])
def total_of_sizes(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.sizes.append(x.size(0))
    return x * sum(self.sizes) + max(self.sizes)


@CASES.add(OURS, calls=CALLS, losses=[])
def tensor_of_numbers(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.losses.append(float(x[0, 0]))
    return x + torch.tensor(self.losses).std(correction=0)


@CASES.add(OURS, calls=CALLS, window=4, history=[])
def window(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    if len(self.history) > self.window:
        self.history.pop(0)
    return torch.stack(self.history).mean(0)


@CASES.add(OURS, calls=CALLS, history=[])
def rebound(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history = [x] + self.history  # noqa: RUF005 (a sum is a list of the graph)
    return torch.stack(self.history).sum(0)


@CASES.add(OURS, calls=CALLS, history=[])
def trimmed(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history = (self.history + [x])[-5:]  # noqa: RUF005 (a sum is a list of the graph)
    return torch.stack(self.history).sum(0)


@CASES.add(OURS, calls=CALLS, history=[])
def trimmed_in_place(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    if len(self.history) > 3:
        del self.history[0]
    return torch.cat(self.history, 1).amax(1)


@CASES.add(OURS, calls=CALLS, history=[])
def trimmed_by_a_slice(self: Model, x: torch.Tensor) -> Any:
    self.history.append(x)
    del self.history[:-5]
    return torch.cat(self.history, 1).amax(1), self.history[-1], len(self.history)


@CASES.add(OURS, calls=CALLS, history=[])
def replaced_by_a_part(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history[:] = self.history[-4:] + [x]  # noqa: RUF005 (a sum is a list of the graph)
    return torch.stack(self.history).sum(0)


@CASES.add(OURS, calls=CALLS, cache={"a": [], "b": [tensor(7)]})
def lists_in_a_dict(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.cache["a"].append(x)
    self.cache["b"].append(x * 2)
    return torch.cat(self.cache["a"] + self.cache["b"]).sum(0)


@CASES.add(OURS, calls=CALLS, history=[], last=None)
def part_kept_and_returned(self: Model, x: torch.Tensor) -> Any:
    self.history.append(x)
    self.last = self.history[-3:]
    return self.last, torch.stack(self.last).sum()


@CASES.add(OURS, calls=CALLS, history=[], kept=[])
def copies_kept(self: Model, x: torch.Tensor) -> Any:
    self.history.append(x)
    self.kept.append([list(self.history), self.history.copy()])
    return x * len(self.kept)


@CASES.add(OURS, calls=CALLS, history=[])
def lengths_of_parts(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    return x * len(self.history[-4:]) + len(self.history[:3]) - len(self.history[2:-1])


@CASES.add(OURS, calls=CALLS, history=[])
def copy_that_grows(self: Model, x: torch.Tensor) -> torch.Tensor:
    several = list(self.history)
    several.append(x)
    self.history.append(x * 2)
    return torch.stack(several).sum(0)


@CASES.add(OURS, calls=CALLS)
class without_gradient(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 3)
        self.history: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.history.append(self.layer(x))
        with torch.no_grad():
            mean = torch.stack(self.history).mean(0)
        return torch.stack(self.history).sum(0) - mean


@CASES.add(OURS, calls=CALLS, history=[])
def shape_of_the_whole(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    whole = torch.stack(self.history)
    return whole.sum(0) * whole.size(0) if whole.dim() == 3 else whole


@CASES.add(OURS, calls=CALLS, history=[])
def emptied_when_full(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(x)
    if len(self.history) == 4:
        mean = torch.stack(self.history).mean(0)
        self.history.clear()
        return mean
    return x


@CASES.add(
    OURS,
    says=(
        "a second call, from where the first one ends, does something else: "
        "a tensor that is changed in place shares its memory with another one"
    ),
    hidden=torch.zeros(2, 3),
    history=None,
)
def item_under_another_name(self: Model, x: torch.Tensor) -> torch.Tensor:
    if self.history is None:
        self.history = [self.hidden, x]
        return x
    self.hidden.add_(x)  # here
    self.history.append(x)
    return torch.stack(self.history).sum(0)


@CASES.add(OURS, calls=CALLS, keys=None, values=None)
def key_value_cache_of_tensors(self: Model, x: torch.Tensor) -> torch.Tensor:
    if self.keys is None:
        self.keys, self.values = x, x * 2
    else:
        self.keys, self.values = torch.cat([self.keys, x]), torch.cat([self.values, x * 2])
    return torch.softmax(x @ self.keys.T, -1) @ self.values


@CASES.add(OURS, calls=CALLS, cache={})
def key_value_cache_by_layer(self: Model, x: torch.Tensor) -> torch.Tensor:
    for layer in range(2):
        if layer in self.cache:
            self.cache[layer] = torch.cat([self.cache[layer], x])
        else:
            self.cache[layer] = x
        x = x + self.cache[layer].mean(0)
    return x


@CASES.add(OURS, calls=CALLS, keys=torch.zeros(40, 3), position=0)
def preallocated_cache(self: Model, x: torch.Tensor) -> torch.Tensor:
    count = x.size(0)
    self.keys[self.position : self.position + count] = x
    self.position += count
    return x @ self.keys[: self.position].T
