"""Models whose programs have other nodes once PyTorch has loaded them, or run them as modules."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch._higher_order_ops.while_loop import while_loop
from torch._library.effects import EffectType


class Solve(nn.Module):
    """Decomposed, a check stands under a token."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        found: Tensor = torch.linalg.solve(a + 0, b) * 2
        return found


class Factor(nn.Module):
    """The same behind a parameter, twice."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(3, 3)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        mixed = self.mix(b)
        first: Tensor = torch.linalg.cholesky(b @ b.mT + torch.eye(3))
        return first @ torch.linalg.cholesky(a) @ mixed


class Effects(nn.Module):
    """Operators with effects whose results are one tensor, several, or a list."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        one = torch.ops.loaded_programs.one(a)
        _, two = torch.ops.loaded_programs.two(one)
        _, three = torch.ops.loaded_programs.listed(two)
        last: Tensor = torch.ops.loaded_programs.one(one - 2 + three * 0)
        return last + b


class Results(nn.Module):
    """Results that are lists, that nothing uses, and names that Python has taken."""

    def forward(self, input: Tensor, max: Tensor) -> tuple[Tensor, ...]:  # noqa: A002 (the names matter)
        value, (_, second, _) = torch.ops.loaded_programs.mixed(input, 3)
        (_, other), third = torch.ops.loaded_programs.first_listed(max)
        only, _ = torch.ops.loaded_programs.mixed(max, 2)
        place = torch.max(input, 0)[1]
        rows: Tensor = torch.embedding(max, input.long())
        return value + second, third + other, only, place, rows


class Branches(nn.Module):
    """Graphs inside of the program's own, with results that nothing uses."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        def ordered(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
            _, second, _ = b.split(1)
            return a.sort()[0] + second, torch.embedding(a, b.long()).sum(1)

        def added(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
            return a + b, b * 2

        first, _ = torch.cond(a.sum() > 0, ordered, added, (a, b))
        start = torch.zeros((), dtype=torch.int64)
        _, last = while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x.sort()[0] + 1), (start, first))
        return last + torch.func.vmap(lambda row: row.sort()[0])(a)


class Regions(nn.Module):
    """Graphs that set a mode, which gives nothing."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        with torch.no_grad():
            ordered = a.sort()[0]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return ordered + torch.embedding(a, b.long()).sum(1)


GOOD = torch.eye(3) + 0.1, torch.eye(3) + 0.5
BAD = {
    Solve: (torch.zeros(3, 3), torch.zeros(3, 3)),
    Factor: (-torch.eye(3), torch.eye(3)),
    Effects: (torch.zeros(3, 3), torch.zeros(3, 3)),
    Results: (torch.full((3, 3), 9.0), torch.ones(3, 3)),
    Branches: (torch.ones(3, 3), torch.full((3, 3), 9.0)),
    Regions: (torch.ones(3, 3), torch.full((3, 3), 9.0)),
}
"""The models, with inputs for which they fail; :data:`GOOD` are some for which none does."""


def _one(x: Tensor) -> Tensor:
    is_real = type(x) is Tensor and x.device.type == "cpu"
    if is_real and float(x.reshape(-1)[0]) < -0.5:
        raise ValueError("below")
    return x + 1


_LIBRARY = torch.library.Library("loaded_programs", "DEF")
for _schema, _function in {
    "one(Tensor x) -> Tensor": _one,
    "two(Tensor x) -> (Tensor, Tensor)": lambda x: (x + 1, x + 2),
    "listed(Tensor x) -> Tensor[]": lambda x: [x + 1, x + 2],
    "mixed(Tensor x, int n) -> (Tensor, Tensor[])": lambda x, n: (x + 1, [x * i for i in range(n)]),
    "first_listed(Tensor x) -> (Tensor[], Tensor)": lambda x: ([x + 1, x + 2], x + 3),
}.items():
    _LIBRARY.define(_schema)
    _LIBRARY.impl(_schema.partition("(")[0], _function, "CompositeExplicitAutograd")
for _name in ("one", "two", "listed"):
    torch.library._register_effectful_op(f"loaded_programs::{_name}", EffectType.ORDERED)
