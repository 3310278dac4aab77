"""Dataclasses and named tuples: made, changed, kept, with defaults made by functions."""

from __future__ import annotations

import dataclasses
from collections import namedtuple
from typing import Any, NamedTuple

import torch

from tests.effects.effect_cases import OURS, Cases, Model, tensor

CASES = Cases("misc")
Pair = namedtuple("Pair", ["first", "second"])  # noqa: PYI024 (the upstream test's)


class Entry(NamedTuple):
    """A named tuple with types and a method."""

    value: Any
    number: int = 1

    def scaled(self) -> Any:
        return self.value * self.number


@dataclasses.dataclass
class Output:
    """Defaults that functions make."""

    scalar: int = 2
    named: dict[str, Any] = dataclasses.field(default_factory=dict)
    items: list[Any] = dataclasses.field(default_factory=list)

    def scaled(self) -> int:
        return self.scalar * 2


@dataclasses.dataclass
class Plain:
    """Values alone."""

    value: Any
    number: int = 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    """Values that cannot be set."""

    value: Any
    number: int = 1


@dataclasses.dataclass
class Checked:
    """A value that is computed after the others."""

    value: Any
    double: Any = None

    def __post_init__(self) -> None:
        self.double = self.value * 2


@dataclasses.dataclass(slots=True)
class Slotted:
    """Values in slots."""

    value: Any
    number: int = 1


@CASES.add()
def dataclass_factory(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = Output(1)
    other = Output()
    other.scalar = 6
    other.named["x"] = x
    self.made, self.other = made, other
    return x * made.scaled() + other.named["x"]


@CASES.add(items=[1, 2, 3])
def dataclass_init_with_default_factory_with_inputs(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = Output(1, {}, self.items)
    made.items.append(x.sin() + made.scalar)
    self.made = made
    return made.items[-1]


@CASES.add()
def dataclass_fields(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = Plain(x, 3)
    self.names = [one.name for one in dataclasses.fields(made)]
    return made.value * made.number


@CASES.add(held=Plain(tensor(1), 0))
def dataclass_in_module(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.held.number += 1
    self.held.value = x
    self.both = Plain(Plain(x, 2), 3)
    return x * self.held.number


@CASES.add(OURS)
def dataclass_kept(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.made = Plain(x)
    return self.made.value + self.made.number


@CASES.add("dicts")
def frozen_dataclass_as_dict_key(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.made = Frozen(x, 4)
    return x * self.made.number


@CASES.add(OURS)
def post_init(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.made = Checked(x)
    return self.made.double


@CASES.add(OURS)
def dataclass_with_slots(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.made = Slotted(x, 2)
    return self.made.value * self.made.number


@CASES.add(OURS, held=Plain(tensor(1), 0))
def dataclass_replaced(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.held = dataclasses.replace(self.held, value=x)
    return self.held.value


@CASES.add()
def namedtuple1(self: Model, x: torch.Tensor) -> Any:
    made = Pair(x - 1, x * 2)
    self.last = made.first
    return made.first * made.second


@CASES.add()
def namedtuple2(self: Model, x: torch.Tensor) -> torch.Tensor:
    first, second = Pair(x, x + 1)
    self.last = second
    return first * second


@CASES.add(OURS)
def namedtuple_kept(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.pair = Pair(x, x + 1)
    return self.pair.second


@CASES.add(OURS)
def namedtuple_returned(_: Model, x: torch.Tensor) -> Any:
    return Pair(x, x + 1)


@CASES.add(OURS, history=[])
def namedtuples_in_a_list(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.history.append(Entry(x, 2))
    return self.history[-1].scaled()


@CASES.add(OURS, pair=Pair(tensor(1), tensor(2)))
def namedtuple_replaced(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.pair = self.pair._replace(first=x)
    return self.pair.first + self.pair.second
