"""Models that change things: each with what it changes, and what else shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import torch
from torch import nn

from tests.effects.container_models import Aliases, Cache, History, Keyed, Looked, Refilled, Results, Window

if TYPE_CHECKING:
    from collections.abc import Callable


# --- Models whose classes have methods, properties and attributes of every kind


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


# --- models


CALLS = 0
SEEN: list[torch.Tensor] = []
SCALE = 2.0


class Counter(nn.Module):
    """An int attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        self.count += 1
        return x * self.count, self.count


class MovingAverage(nn.Module):
    """A float attribute, read and set; one that the tensor itself decides."""

    def __init__(self) -> None:
        super().__init__()
        self.average = 1.0
        self.seen = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.average = 0.9 * self.average + 0.1 * SCALE
        self.seen = max(self.seen, float(x.sum()))
        return x / self.average


class Twice(nn.Module):
    """A submodule's counter, called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Counter()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.inner(self.linear(x))
        z, _ = self.inner(y)
        return z


class Rebound(nn.Module):
    """A buffer that is bound anew, and a plain attribute."""

    state: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(3))
        self.previous = torch.ones(3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.state = self.state * 0.5 + x
        y = self.previous + self.state
        self.previous = x
        return y


class InPlace(nn.Module):
    """Tensors that are changed in place: a buffer, a part of one, a view, an argument."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("sums", torch.zeros(3))
        self.register_buffer("parts", torch.zeros(2, 3))
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.sums += x
        self.parts[0] = x
        self.parts[1, 1:].mul_(2).add_(1.0)
        self.seen.data.copy_(x)
        x.mul_(2)
        return self.sums + self.parts.sum(0)


class Norm(nn.Module):
    """Batch norm in training, dropout of nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(torch.stack([x, x * 2, x - 1]))


def counted(x: torch.Tensor) -> torch.Tensor:
    global CALLS  # noqa: PLW0603 (that is what is captured)
    CALLS += 1
    return x * CALLS


class Globals(nn.Module):
    """A global number and a global list."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = counted(x)
        SEEN.append(y)
        return counted(y) * SCALE


def _stepped() -> tuple[Callable[[torch.Tensor], torch.Tensor], Callable[[], int]]:
    steps = 0

    def step(x: torch.Tensor) -> torch.Tensor:
        nonlocal steps
        steps += 1
        return x + steps

    return step, lambda: steps


class Cells(nn.Module):
    """A variable that two functions share."""

    def __init__(self) -> None:
        super().__init__()
        self.step, self.steps = _stepped()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return self.step(self.step(x)), self.steps()


class Deleting(nn.Module):
    """An attribute that comes and goes, one that goes and comes."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.temporary = x * self.scale
        y = self.temporary + 1
        del self.temporary
        scale = self.scale
        del self.scale
        self.scale = scale + 1.0
        return y


class Note:
    """What is kept of a call."""

    kind: ClassVar[str] = "note"

    def __init__(self, value: torch.Tensor, number: int) -> None:
        self.value = value
        self.number = number

    def doubled(self) -> torch.Tensor:
        return self.value * 2


@dataclass
class Entry:
    """The same as a dataclass."""

    note: Note
    values: list[torch.Tensor]


class Objects(nn.Module):
    """New objects, in state and dropped; an old one."""

    def __init__(self) -> None:
        super().__init__()
        self.note = Note(torch.ones(3), 0)
        self.entries: list[Entry] = []
        self.count = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        dropped = Note(x, 5)
        self.note.number += dropped.number
        note = Note(dropped.doubled(), self.count)
        self.entries.append(Entry(note, [x]))
        self.entries[-1].values.append(x * 2)
        self.latest = note
        assert isinstance(self.latest, Note)
        assert type(note) is Note
        return note.doubled() + self.note.value


class Inherited(Counter):
    """``super()``, a property, a static and a class method."""

    factor: ClassVar[int] = 3

    @property
    def double(self) -> int:
        return self.count * 2

    @double.setter
    def double(self, value: int) -> None:
        self.count = value // 2

    @staticmethod
    def plus(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    @classmethod
    def scaled(cls, x: torch.Tensor) -> torch.Tensor:
        return x * cls.factor

    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        y, _ = super().forward(self.plus(self.scaled(x)))
        self.double = self.double + 4
        return y, self.double


class Mixed(nn.Module):
    """Many of these at once."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(2)])
        self.counter = Counter()
        self.losses: dict[str, list[torch.Tensor]] = {"all": []}
        self.register_buffer("total", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for place, layer in enumerate(self.layers):
            x = torch.relu(layer(x))
            self.losses["all"].append(x.mean())
            if place:
                self.total.add_(self.losses["all"][-1].detach())
        x, count = self.counter(x)
        SEEN.append(x.detach())
        y, *_ = (x + one for one in (count, 1))
        return y


class Growing(nn.Module):
    """A tensor that grows with each call; its size is a number like any other."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = torch.zeros(1, 3)
        self.shape: tuple[int, ...] = (1, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache = torch.cat([self.cache, x[None]])
        before = self.shape[0]
        self.shape = self.cache.shape
        return self.cache * self.cache.shape[0] / before


class Case(NamedTuple):
    """A model, how it is made, and its arguments."""

    make: Callable[[], nn.Module]
    arguments: tuple[Any, ...]


X = torch.tensor([1.0, -2.0, 3.0])
CASES = {
    one.__name__: Case(one, (X,))
    for one in (
        Counter,
        MovingAverage,
        Twice,
        History,
        Window,
        Cache,
        Rebound,
        InPlace,
        Norm,
        Globals,
        Cells,
        Deleting,
        Objects,
        Aliases,
        Inherited,
        Mixed,
        Growing,
        Looked,
        Refilled,
        Keyed,
        Members,
        Kinds,
    )
} | {"Results": Case(Results, (X, 2))}
