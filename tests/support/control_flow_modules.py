"""Modules with control flow: what they fail with, change, copy, wait for and name."""

# ruff: noqa: ANN201
# mypy: disable-error-code="no-untyped-def, no-untyped-call"

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[[Tensor, int], Any]


class Failing(nn.Module):
    """Fails in the second round of a loop, each number in another way."""

    def forward(self, x: Tensor, n: int) -> Tensor:
        parts = [x]
        for i in range(3):
            if i == 1 and n == 9:
                raise ValueError(f"too many: {n}")
            weight = torch.ones(3, 3 if n == 1 or i == 0 else n)
            x = x @ weight
            if n == 4:
                while len(parts) < 3:
                    parts.append(torch.cat([x, weight[:, :2]]))
        return x


class Changing(nn.Module):
    """Changes what the module keeps, under another name."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = [1, 2]

    def forward(self, x: Tensor, n: int) -> Tensor:
        same = self.sizes
        for _ in range(n):
            same.append(n)
        return x + len(self.sizes)


class Copying(nn.Module):
    """Holds values of all types, and changes copies of its lists."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = [1, 2]
        self.table = {"a": 1, "b": 2}
        self.parts = [torch.ones(2), torch.zeros(2)]
        self.named = {"ones": torch.ones(2)}
        self.mixed = (1, "it's\x01", torch.ones(2), [[0.5], [1.5, 2.0]])
        self.device = torch.device("cpu")
        self.layers = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])
        self.kept = nn.ParameterList([torch.ones(2)])

    def forward(self, x: Tensor, n: int):
        copy = list(self.sizes)
        longer = self.sizes + [n]  # noqa: RUF005 (TorchScript adds lists)
        for size in self.sizes:
            copy.append(size)
            longer[0] = size
        for layer in self.layers:
            x = layer(x)
        for part in self.parts:
            x = x + part
        for value in self.kept:
            x = (x * value + self.named["ones"]).to(self.device)
        return x, copy, longer, self.sizes, self.table, self.table["b"], self.mixed


class Seeding(nn.Module):
    """What cannot be written, in a loop and in branches."""

    def forward(self, x: Tensor | int, n: int) -> Tensor:
        y = torch.ones(2)
        for _ in range(n):
            torch.manual_seed(n)
        if n > 2:
            torch.manual_seed(2)
        return y + x if isinstance(x, int) else y


class Shadowing(nn.Module):
    """Parameters with names of operators and of generated values."""

    def forward(self, insane: bool, isolated: bool, r8: int) -> tuple[bool, bool, int]:  # noqa: FBT001
        rounds = 0
        for i in range(r8):
            if not insane and (isolated or i > 1):
                rounds += r8
        return not insane, insane is isolated or not isolated, rounds


class Doubled(nn.Module):
    """Numbers that a trace keeps as tensors."""

    def forward(self, x: Tensor) -> Tensor:
        return x * 2.5 + x.size(0) * 3.5
