"""Models whose classes have methods, properties and attributes of every kind."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Base(nn.Module):
    """What a class may hand down."""

    factor = 2.0

    def __init__(self) -> None:
        super().__init__()
        self.n = 0
        self.stored = 1.0

    @property
    def level(self) -> float:
        return self.stored * 2

    @level.setter
    def level(self, value: float) -> None:
        self.stored = value + 1

    @classmethod
    def scaled(cls, x: torch.Tensor) -> torch.Tensor:
        return x * cls.factor

    @staticmethod
    def half(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.n += 1
        return x + self.stored

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return 5 if name == "made_up" else super().__getattr__(name)


class Members(Base):
    """Methods, properties and attributes by ``self``, by ``super()`` and by the class."""

    factor = 3.0

    def step(self, x: torch.Tensor) -> torch.Tensor:
        return super().step(x) * 2

    def forward(self, x: torch.Tensor) -> list[Any]:
        by_self = self.step(x) + self.half(x) + self.scaled(x) + self.level
        by_super = super().step(x) + super().half(x) + super().scaled(x)
        by_class = Base.step(self, x) + Members.half(x) + Members.scaled(x) * Base.factor
        self.level = 4.0
        return [by_self, by_super, by_class, self.made_up, hasattr(self, "missing"), self.n]


class Kinds(nn.Module):
    """Classes that a call asks for, and numbers that it makes by them."""

    def __init__(self) -> None:
        super().__init__()
        self.n, self.kind = 0, int

    def forward(self, x: torch.Tensor) -> list[Any]:
        self.n += 1
        either: Any = int | float
        made: Any = type("Made", (), {"value": 1})
        return [
            x * float(self.n),
            [isinstance(self.n, int), isinstance(self.n, either), isinstance("1", int), isinstance(x, float)],
            [issubclass(bool, int), issubclass(str, float), isinstance(int, type)],
            [int("3"), int("11", 2), int.from_bytes(b"\1\2", "big"), float.fromhex("0x1.8p1"), bool([])],
            [type(self) is Kinds, self.__class__ is Kinds, type(self.n) is int, {int: "a number"}[int]],
            made.value,
            [
                type(self.n) is self.kind,
                type(self.n) in (float, int),
                type(self.n / 2) is float,
                type(x) is int,
            ],
        ]
