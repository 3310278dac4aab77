"""State that the first call makes: caches, positions, masks, key-value caches, lazily made parameters."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.effects.effect_cases import OURS, Cases, Model, tensor

CASES = Cases("modules")


@CASES.add(OURS, position=None)
def position_made_once(self: Model, x: torch.Tensor) -> torch.Tensor:
    if self.position is None:
        self.position = torch.arange(x.size(1)).to(x.dtype)
    return x + self.position


@CASES.add(OURS)
def attribute_made_once(self: Model, x: torch.Tensor) -> torch.Tensor:
    if not hasattr(self, "scale"):
        self.scale = x.abs().max()
    return x / self.scale


@CASES.add(OURS, cache={})
def cache_filled_once(self: Model, x: torch.Tensor) -> torch.Tensor:
    if "mask" not in self.cache:
        self.cache["mask"] = torch.ones_like(x).tril()
    return x * self.cache["mask"]


@CASES.add(OURS, cache={})
def cache_filled_by_get(self: Model, x: torch.Tensor) -> torch.Tensor:
    found = self.cache.get("scale")
    if found is None:
        found = self.cache["scale"] = x.mean()
    return x * found


@CASES.add(OURS, initialized=False, mean=torch.zeros(3))
def flag_set_once(self: Model, x: torch.Tensor) -> torch.Tensor:
    if not self.initialized:
        self.mean = x.mean(0)
        self.initialized = True
    return x - self.mean


@CASES.add(OURS, keys=None)
def key_value_cache(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.keys = x if self.keys is None else torch.cat([self.keys, x])
    return x @ self.keys.T


@CASES.add(OURS, last=None)
def difference_from_the_last(self: Model, x: torch.Tensor) -> torch.Tensor:
    result = x if self.last is None else x - self.last
    self.last = x
    return result


@CASES.add(OURS, average=None)
def moving_average(self: Model, x: torch.Tensor) -> torch.Tensor:
    mean = x.mean().detach()
    self.average = mean if self.average is None else 0.9 * self.average + 0.1 * mean
    return x - self.average


@CASES.add(OURS)
def buffer_registered_once(self: Model, x: torch.Tensor) -> torch.Tensor:
    if not hasattr(self, "seen"):
        self.register_buffer("seen", torch.zeros(2, 3))
    self.seen += x
    return self.seen * 2


@CASES.add(says="a LazyLinear, whose first call makes its parameters: call the model once before")
class lazy_module_no_cls_to_become(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LazyLinear(4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)  # here


@CASES.add(OURS, cache={})
def cache_by_size(self: Model, x: torch.Tensor) -> torch.Tensor:
    key = x.size(0)
    if key not in self.cache:
        self.cache[key] = torch.full((key, 1), 0.5)
    return x * self.cache[key]


@CASES.add(OURS, seen=[], table={})
def list_started_in_the_first_call(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.table.setdefault("seen", []).append(x)
    return x + 1


@CASES.add(OURS, state={"h": None})
def recurrent_state(self: Model, x: torch.Tensor) -> torch.Tensor:
    hidden = self.state["h"]
    if hidden is None:
        hidden = torch.zeros(2, 3)
    self.state["h"] = torch.tanh(hidden + x)
    return self.state["h"] * 1


@CASES.add(OURS, weight=tensor(1), normalized=None)
def computed_from_a_weight(self: Model, x: torch.Tensor) -> Any:
    if self.normalized is None:
        self.normalized = self.weight / self.weight.norm()
    return x * self.normalized
