"""Models to export, which TorchScript takes none of: a residual network, a transformer, a recurrent one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Config:
    width: int = 8
    heads: int = 2
    layers: int = 2


class ConvNormAct(nn.Sequential):
    """As in torchvision: its ``forward`` is that of ``Sequential``."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__(
            nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
        )


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = ConvNormAct(width, width)
        self.second = ConvNormAct(width, width)

    def forward(self, x: torch.Tensor, **options: Any) -> torch.Tensor:  # noqa: ANN401
        found = self.second(self.first(x))
        return found + x * options.get("skip", 1)


class ResidualNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = ConvNormAct(3, 4)
        self.blocks = nn.ModuleList([Residual(4), Residual(4)])
        self.head = nn.Linear(4, 5)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(self.stem(image), 2)
        for block in self.blocks:
            x = block(x, skip=0.5)
        x = functional.adaptive_avg_pool2d(x, 1).flatten(1)
        return self.head(x)


def heads_of(x: torch.Tensor, heads: int) -> torch.Tensor:
    batch, length, width = x.shape
    return x.view(batch, length, heads, width // heads).transpose(1, 2)


class Attention(nn.Module):
    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.norm = nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 16), nn.GELU(), nn.Dropout(0.1), nn.Linear(16, config.width)
        )

    def forward(self, x: torch.Tensor, **options: Any) -> torch.Tensor:  # noqa: ANN401
        query, key, value = (
            heads_of(part, self.config.heads) for part in self.qkv(self.norm(x)).chunk(3, dim=-1)
        )
        scores = query @ key.transpose(-2, -1) / (self.config.width // self.config.heads) ** 0.5
        if (mask := options.get("mask")) is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        mixed = (scores.softmax(-1) @ value).transpose(1, 2).flatten(2)
        x = x + self.out(mixed)
        return x + self.mlp(x)


class Transformer(nn.Module):
    def __init__(self, config: Config | None = None) -> None:
        super().__init__()
        self.config = config or Config()
        self.embedding = nn.Embedding(11, self.config.width)
        self.blocks = nn.ModuleList(Attention(self.config) for _ in range(self.config.layers))
        self.register_buffer("positions", torch.arange(5), persistent=False)

    def forward(self, words: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.embedding(words) + self.positions[:, None] / 10
        for block in self.blocks:
            x = block(x, mask=mask)
        best = x.max(dim=-1)
        return {"last": x, "best": best.values}


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)
        self.scales = nn.ParameterDict({"out": nn.Parameter(torch.ones(4))})

    def forward(self, *sequences: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        found = [self.lstm(sequence)[0] * self.scales["out"] for sequence in sequences]
        return torch.cat(found, dim=1), found


MODELS: dict[str, tuple[type[nn.Module], tuple[torch.Tensor, ...]]] = {
    "residual network": (ResidualNet, (torch.linspace(-1, 1, 192).view(1, 3, 8, 8),)),
    "transformer": (Transformer, (torch.arange(5)[None] * 2, torch.ones(1, 1, 5, 5).tril())),
    "recurrent": (Recurrent, (torch.linspace(-1, 1, 12).view(2, 2, 3), torch.ones(2, 3, 3))),
}
"""Models by name, each with arguments."""


def made(name: str) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """A model in eval mode, the same each time, and its arguments."""
    torch.manual_seed(0)
    kind, arguments = MODELS[name]
    return kind().eval(), arguments
