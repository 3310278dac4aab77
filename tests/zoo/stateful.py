"""Eager models whose ``forward`` changes them, as decoders and streaming models do."""

from __future__ import annotations

from collections import deque

import torch
from torch import nn
from torch.nn import functional

from tests.zoo.sample import Sample


class KeyValueCache(nn.Module):
    """Attention that appends the keys and values of each step to a cache."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.query_key_value = nn.Linear(width, 3 * width)
        self.cache: dict[str, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key, value = self.query_key_value(x).chunk(3, -1)
        if "key" in self.cache:
            key = torch.cat([self.cache["key"], key], 1)
            value = torch.cat([self.cache["value"], value], 1)
        self.cache["key"], self.cache["value"] = key, value
        return functional.scaled_dot_product_attention(query, key, value)


class StaticCache(nn.Module):
    """The same with a cache of fixed size, which each step writes at the next position."""

    def __init__(self, width: int = 8, most: int = 16) -> None:
        super().__init__()
        self.key, self.value, self.query = (nn.Linear(width, width) for _ in range(3))
        self.register_buffer("keys", torch.zeros(1, most, width))
        self.register_buffer("values", torch.zeros(1, most, width))
        self.position = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        end = self.position + x.size(1)
        self.keys[:, self.position : end] = self.key(x)
        self.values[:, self.position : end] = self.value(x)
        self.position = end
        mask = torch.arange(self.keys.size(1))[None, None] < end
        return functional.scaled_dot_product_attention(self.query(x), self.keys, self.values, mask)


class StreamingConvolution(nn.Module):
    """Causal convolutions that keep the end of each chunk for the next one."""

    def __init__(self, width: int = 6, layers: int = 3) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Conv1d(width, width, 3) for _ in range(layers))
        self.kept = [torch.zeros(1, width, 2) for _ in range(layers)]

    def forward(self, chunk: torch.Tensor) -> torch.Tensor:
        for k, layer in enumerate(self.layers):
            whole = torch.cat([self.kept[k], chunk], 2)
            self.kept[k] = whole[:, :, -2:]
            chunk = torch.relu(layer(whole))
        return chunk


class RunningNormaliser(nn.Module):
    """A policy that normalises what it observes by the mean and the variance of all before."""

    def __init__(self, inputs: int = 5, actions: int = 2) -> None:
        super().__init__()
        self.mean: torch.Tensor
        self.variance: torch.Tensor
        self.register_buffer("mean", torch.zeros(inputs))
        self.register_buffer("variance", torch.ones(inputs))
        self.count = 1e-4
        self.policy = nn.Sequential(nn.Linear(inputs, 8), nn.Tanh(), nn.Linear(8, actions))

    def forward(self, observed: torch.Tensor) -> torch.Tensor:
        total = self.count + observed.size(0)
        delta = observed.mean(0) - self.mean
        variance = observed.var(0, correction=0)
        between = delta**2 * (self.count * observed.size(0) / total)
        self.variance = (self.variance * self.count + variance * observed.size(0) + between) / total
        self.mean += delta * (observed.size(0) / total)
        self.count = total
        return self.policy((observed - self.mean) / torch.sqrt(self.variance + 1e-8))


class Memory(nn.Module):
    """Attends to its last four hidden states, kept in a deque."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.cell = nn.GRUCell(width, width)
        self.past: deque[torch.Tensor] = deque(maxlen=4)
        self.hidden = torch.zeros(1, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.hidden = self.cell(x, self.hidden)
        self.past.append(self.hidden)
        past = torch.stack(list(self.past), 1)
        weights = torch.softmax(past @ self.hidden[:, :, None], 1)
        return (past * weights).sum(1)


KIND = "eager models with state"


def stream(length: int, width: int) -> torch.Tensor:
    return torch.randn(1, length, width)


SAMPLES = [
    Sample(
        KIND,
        "key-value cache",
        lambda: (KeyValueCache(), (stream(1, 8),)),
        lambda: (torch.randn(2, 1, 8),),
        way="effects",
    ),
    Sample(
        KIND,
        "static cache",
        lambda: (StaticCache(), (stream(1, 8),)),
        lambda: (stream(17, 8),),
        way="effects",
    ),
    Sample(
        KIND,
        "streaming convolution",
        lambda: (StreamingConvolution(), (stream(6, 9),)),
        lambda: (torch.randn(2, 6, 9),),
        way="effects",
    ),
    Sample(
        KIND,
        "running normaliser",
        lambda: (RunningNormaliser(), (torch.randn(4, 5),)),
        lambda: (torch.randn(4, 6),),
        way="effects",
    ),
    Sample(
        KIND,
        "memory of states",
        lambda: (Memory(), (torch.randn(1, 8),)),
        lambda: (torch.randn(2, 8),),
        way="effects",
    ),
]
