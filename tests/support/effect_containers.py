"""Models that change lists and dicts, and results that hold them."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class History(nn.Module):
    """A list that grows."""

    def __init__(self) -> None:
        super().__init__()
        self.history: list[torch.Tensor] = [torch.zeros(3)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.history[-1]
        self.history.append(x + before)
        return self.history[-1] * 2


class Window(nn.Module):
    """A list that both ends of change."""

    def __init__(self) -> None:
        super().__init__()
        self.window = [torch.full((3,), float(n)) for n in range(3)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        oldest = self.window.pop(0)
        self.window.append(x)
        self.window.insert(0, oldest * 0.5)
        self.window += [x * 2, x * 3]
        del self.window[-1]
        self.window[-1] = x * 4
        return oldest + self.window[0] + self.window.pop() + self.window[1]


class Cache(nn.Module):
    """A dict: numbers, tensors, and what is in it."""

    def __init__(self) -> None:
        super().__init__()
        self.cache: dict[str, Any] = {"calls": 0, "last": torch.zeros(3), "deep": {"list": [1, 2.5]}}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache["calls"] += 1
        y = x + self.cache["last"]
        self.cache["last"] = y
        self.cache["deep"]["list"][0] += 2
        self.cache["deep"]["list"][1] = self.cache["deep"]["list"][1] * 2
        self.cache["new"] = (y, self.cache["calls"])
        return y * self.cache["deep"]["list"][0]


class Aliases(nn.Module):
    """One list by two paths, one tensor twice, a new list twice."""

    def __init__(self) -> None:
        super().__init__()
        self.first: list[Any] = [torch.zeros(3)]
        self.second = self.first
        self.holder = {"third": self.first}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.first.append(x)
        self.second.append(x * 2)
        y = self.holder["third"][-1]
        shared = [x]
        self.left = shared
        self.right = shared
        self.left.append(y)
        return y + self.first[-2]


class Results(nn.Module):
    """Results in tuples, lists and dicts, arguments among them, and constants."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: torch.Tensor, n: int, scale: float = 2.0) -> dict[str, Any]:
        self.count = self.count + n
        return {"x": x, "list": [x * scale, (self.count, None, "text")], "n": n * 2, "half": self.count / 2}
