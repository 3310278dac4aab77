"""Models that need several tables: each with the number of its entries, and a line that decides."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Note:
    """An object that the first call makes."""

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value
        self.reads = 0


class First(nn.Module):
    """The first call has no last result."""

    def __init__(self) -> None:
        super().__init__()
        self.last: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x * 2 if self.last is None else self.last + x
        return self.last


class Toggle(nn.Module):
    """Every other call is turned around."""

    def __init__(self) -> None:
        super().__init__()
        self.is_on = False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.is_on = not self.is_on
        return x * 2 if self.is_on else -x


class Steps(nn.Module):
    """A counter decides twice; its second threshold is far away."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        if self.n > 1000:
            return x + self.n
        if self.n % 3 == 1:
            return x * 3
        return x * 2


class Window(nn.Module):
    """The last results; the first one leaves when the window is full."""

    def __init__(self, length: int = 3) -> None:
        super().__init__()
        self.length = length
        self.history: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.history.append(x)
        if len(self.history) > self.length:
            self.history.pop(0)
        return x + self.history[0] / len(self.history)


class Stacked(Window):
    """The same, read as a whole by the graph."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.history.append(x)
        if len(self.history) > self.length:
            self.history.pop(0)
        return torch.stack(self.history).mean(0)


class Listed(Window):
    """The same, read item by item: each length is an entry."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.history.append(x)
        if len(self.history) > self.length:
            self.history.pop(0)
        for one in self.history:
            x = x + one
        return x


class Tables(nn.Module):
    """Keys that the first call adds, and then all keys."""

    def __init__(self) -> None:
        super().__init__()
        self.table: dict[str, torch.Tensor] = {}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for key in ("a", "b"):
            self.table[key] = self.table.get(key, 0) + x
        return torch.stack(list(self.table.values())).sum(0)


class Lazy(nn.Module):
    """An attribute that the first call makes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not hasattr(self, "calls"):
            self.calls = 0
        self.calls += 1
        return x * self.calls


class Turning(nn.Module):
    """A number that turns from an int into a float."""

    def __init__(self) -> None:
        super().__init__()
        self.n: float = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n = self.n + 0.5 if self.n else 1
        return x * self.n


class Noting(nn.Module):
    """An object that the first call makes, and later calls change."""

    def __init__(self) -> None:
        super().__init__()
        self.note: Any = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.note is None:
            self.note = Note(x)
        else:
            self.note.reads += 1
            self.note.value = self.note.value + x
        return self.note.value * self.note.reads


class Keys(nn.Module):
    """A key-value cache of a limited size, which only the graph tells."""

    def __init__(self, most: int = 4) -> None:
        super().__init__()
        self.project = nn.Linear(3, 3)
        self.keys: Any = None
        self.most = most

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keys = self.project(x)
        if self.keys is not None:
            keys = torch.cat([self.keys, keys])
        if keys.size(0) > self.most:
            keys = keys[-self.most :]
        self.keys = keys
        return torch.softmax(x @ keys.T, -1) @ keys


TOTAL = 0


class Globally(nn.Module):
    """A global counter decides."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        global TOTAL  # noqa: PLW0603
        TOTAL += 1
        return x * TOTAL if TOTAL < 3 else x


class Growing(nn.Module):
    """Each call does one step more: no number of entries is enough."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        for _ in range(self.n):  # here
            x = x + 1
        return x


class Phases(nn.Module):
    """Eight ways through one layer, whose running statistics only the last one changes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm, self.n = nn.Linear(3, 3), nn.BatchNorm1d(3), 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        for phase in range(7):
            if self.n % 8 == phase:
                return self.layer(x) * (phase + 2)
        return self.norm(self.layer(x))


class Ranks(nn.Module):
    """The example tells one rank; the second argument may be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0

    def forward(self, x: torch.Tensor, y: torch.Tensor | None = None) -> torch.Tensor:
        self.n += 1
        if y is not None:
            x = x + y
        return x.sum(0) if x.dim() > 1 else x * self.n  # here


class Leaving(nn.Module):
    """An arm that no table can hold."""

    def __init__(self) -> None:
        super().__init__()
        self.n = 0
        self.seen: list[int] = []

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        self.seen.append(self.n)
        if self.n > 3:  # here
            input(str(self.n))
        return x * self.n


ENTRIES: dict[type[nn.Module], int] = {
    First: 2,
    Toggle: 2,
    Steps: 3,
    Window: 3,
    Stacked: 3,
    Listed: 4,
    Tables: 2,
    Lazy: 2,
    Turning: 3,
    Noting: 2,
    Keys: 3,
    Globally: 2,
}
"""Models, and the number of their entries."""
