"""Models whose modules have equal names: in lists, called in turns, on branches and in loops."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from archive.backend.profile.profile import Profile


class Listed(nn.Module):
    """Modules of the same names in several lists, and one that is called as a whole, too."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([nn.Linear(4, 4), nn.Linear(4, 4)])
        self.up = nn.ModuleList([nn.Linear(4, 4)])
        self.by_name = nn.ModuleDict({"inner": nn.Sequential(nn.Linear(4, 4))})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.down:
            x = layer(x)
        for layer in self.up:
            x = layer(x)
        return self.by_name["inner"](x)


class InTurns(nn.Module):
    """Two lists of equal modules, called on one line."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.b = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for a, b in zip(self.a, self.b):  # noqa: B905 (TorchScript knows no strict)
            x = a(x) + b(x)
        return x


class Deciding(nn.Module):
    """A loop with two branches of the same operators, and a method of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.left = nn.Linear(4, 4)
        self.right = nn.Linear(4, 4)

    def doubled(self, x: torch.Tensor) -> torch.Tensor:
        return self.right(x) * 2

    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        for number in range(times):
            x = self.left(x) - 3 if number % 2 == 0 else self.doubled(x)
        return torch.relu(x)


def counts(profile: Profile) -> Counter[tuple[str, str, str]]:
    """How often each operator of PyTorch's dispatcher ran, by module and line."""
    return Counter((one.place.module, str(one.place.source), one.name) for one in profile.events)
