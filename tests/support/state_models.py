"""Scripted modules whose methods change attributes, with the arguments of several calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable

X = torch.tensor([[1.0, 2.0, 3.0]])


class Counted(nn.Module):
    """Changes a buffer in place, by ``+=``."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.count


class Averaged(nn.Module):
    """Rebinds a buffer, and uses its value before and after."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.mean  # type: ignore[has-type]
        self.mean = self.mean * 0.5 + x.mean(0)  # type: ignore[has-type]
        return x + self.mean - before


class Numbers(nn.Module):
    """Numbers and texts, written in branches and loops."""

    def __init__(self) -> None:
        super().__init__()
        self.step = 0
        self.scale = 1.0
        self.said = "a"
        self.odd = False

    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        for _ in range(times):
            self.step += 1
            if self.step % 2 == 1:
                self.scale = self.scale * 1.5
            else:
                self.said = self.said + "b"
            self.odd = not self.odd
        return x * self.scale + len(self.said) + self.step + int(self.odd)


class Remembered(nn.Module):
    """A tensor that is None until the first call, as recurrent modules keep their hidden state."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.jit.Attribute(None, torch.Tensor | None)

    def forward(self, x: torch.Tensor, reset: bool = False) -> torch.Tensor:  # noqa: FBT001, FBT002
        hidden = self.hidden
        if hidden is None or reset:
            hidden = torch.zeros_like(x)
        hidden = torch.tanh(hidden + x)
        self.hidden = None if reset else hidden
        return hidden


class Collected(nn.Module):
    """Lists and dicts that are replaced by new ones."""

    def __init__(self) -> None:
        super().__init__()
        self.history = torch.jit.Attribute([], list[torch.Tensor])
        self.sums = torch.jit.Attribute({}, dict[str, float])

    def forward(self, x: torch.Tensor, key: str) -> torch.Tensor:
        self.history = self.history[-2:] + [x]  # noqa: RUF005 (TorchScript has no `*`)
        sums = dict(self.sums)
        sums[key] = sums.get(key, 0.0) + float(x.sum())
        self.sums = sums
        return torch.stack(self.history).sum() + sums[key]


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


class Shared(nn.Module):
    """Two modules of one class, one of which is called twice and written from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Inner()
        self.second = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(self.second(self.first(x)))
        if self.first.calls > 4:
            self.first.calls = 0
        return y


class Case(NamedTuple):
    """A model, and the arguments of several calls."""

    model: Callable[[], nn.Module]
    calls: list[tuple[Any, ...]]


CASES = {
    "counted": Case(Counted, [(X,)] * 3),
    "averaged": Case(Averaged, [(X,), (2 * X,), (X + 1,)]),
    "numbers": Case(Numbers, [(X, 1), (X, 0), (X, 4)]),
    "remembered": Case(Remembered, [(X,), (X,), (X, True), (X,)]),
    "collected": Case(Collected, [(X, "a"), (X + 1, "b"), (X, "a"), (3 * X, "b")]),
    "shared": Case(Shared, [(X,)] * 5),
}
