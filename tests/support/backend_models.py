"""Models to lower, with arguments that they take and arguments that they fail with."""

from __future__ import annotations

import importlib.util
import sys
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import nn

from tests.support.corpus import ORACLES


class Block(nn.Module):
    """A residual block."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.second = nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.norm(self.first(x)))
        return torch.relu(x + self.second(y))


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    return x * factor


class Branching(nn.Module):
    """Control flow, a method of its own, a free function, a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def helper(self, x: torch.Tensor) -> torch.Tensor:
        return scaled(self.inner(x), 0.5)

    def forward(self, x: torch.Tensor, double: bool = False) -> tuple[torch.Tensor, int]:  # noqa: FBT001, FBT002
        y = self.helper(x)
        if double:
            y = y + y
        elif bool(y.sum() > 100):
            y = y - 1
        return y, y.dim()


class Host(nn.Module):
    """What holds a lowered module."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + 1


class Case(NamedTuple):
    """A model, arguments that it takes, and some that it fails with."""

    model: nn.Module
    good: torch.Tensor
    bad: torch.Tensor


def cases() -> dict[str, Case]:
    """Models by name; their weights are drawn with a seed."""
    torch.manual_seed(0)
    mlp = nn.Sequential(
        nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Dropout(), nn.Linear(16, 4), nn.Softmax(-1)
    )
    pooled = nn.Sequential(Block(), nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return {
        "mlp": Case(mlp.eval(), torch.randn(3, 8), torch.randn(3, 9)),
        "resnet": Case(pooled.eval(), torch.randn(2, 4, 8, 8), torch.randn(2, 3, 8, 8)),
        "encoder": Case(encoder.eval(), torch.randn(2, 5, 16), torch.randn(2, 5, 17)),
    }


# --- models of fixtures

MODELS = ORACLES / "models" / "lowered.py"


@cache
def oracle_models() -> Any:  # noqa: ANN401 (a module of models)
    """The module of lowered models."""
    spec = importlib.util.spec_from_file_location("oracle_models_lowered", MODELS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
