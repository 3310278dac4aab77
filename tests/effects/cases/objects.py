"""Objects: attributes of old ones and of new ones that are kept; deleted attributes; properties."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Self

import torch

from tests.effects.effect_cases import OURS, Cases, Model, tensor

CASES = Cases("misc")
SCALE: ContextVar[int] = ContextVar("scale", default=5)
UNSET: ContextVar[int] = ContextVar("unset")


class Pair:
    """Two values, and maybe a third."""

    c: Any

    def __init__(self, a: Any, b: Any) -> None:
        self.a, self.b = a, b


class Level:
    """A property with a setter."""

    def __init__(self) -> None:
        self.stored = 1.0

    @property
    def level(self) -> float:
        return self.stored * 2

    @level.setter
    def level(self, value: float) -> None:
        self.stored = value + 1


class MadeUp:
    """Attributes that nobody has set."""

    def __init__(self) -> None:
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        if name == "factor":
            self.asked += 1
            return 3.0
        raise AttributeError(name)


class Keeping:
    """An attribute that cannot be deleted."""

    def __init__(self, value: int) -> None:
        self.value, self.attempted = value, False

    def __delattr__(self, name: str) -> None:
        if name == "value":
            self.attempted = True
        else:
            super().__delattr__(name)


class Slotted:
    """Attributes without a ``__dict__``."""

    __slots__ = ("count", "last")

    def __init__(self) -> None:
        self.count, self.last = 0, None


class Value:
    """A value that can be computed with."""

    def __init__(self, value: torch.Tensor) -> None:
        self.value = value

    def __add__(self, other: Value) -> Value:
        return Value(self.value + other.value)

    def __mul__(self, other: Value) -> Value:
        return Value(self.value * other.value)


class Tracker:
    """Attributes of a class, which all of its objects share."""

    total = 0.0
    names: list[str] = []  # noqa: RUF012 (shared, as the case wants it)

    @classmethod
    def count(cls) -> float:
        cls.total += 1.0
        return cls.total


class Context:
    """A context with a table."""

    def __init__(self) -> None:
        self.tensors: dict[str, torch.Tensor] = {}
        self.entered = 0

    def __enter__(self) -> Self:
        self.entered += 1
        return self

    def __exit__(self, *_: object) -> None:
        self.entered -= 1


@CASES.add(pair=Pair(tensor(1), tensor(2)))
def setattr_mutation1(self: Model, _: torch.Tensor) -> Any:
    pair = self.pair
    pair.c = pair.a * pair.b + 1
    pair.b = pair.a * pair.c + 2
    pair.a = pair.b * pair.c + 3
    pair.c = pair.a * pair.b + 4
    return pair.c


@CASES.add()
def setattr_mutation2(self: Model, x: torch.Tensor) -> torch.Tensor:
    pair = Pair(x / 3 + 1, x / 3 + 2)
    pair.c = pair.a * pair.b + 1
    pair.b = pair.a * pair.c + 2
    self.pair = pair
    return pair.c


@CASES.add()
def setattr_mutation3(_: Model, x: torch.Tensor) -> Any:
    pair = Pair(x + 1, x + 2)
    pair.c = pair.a * pair.b + 1
    pair.b = pair.a * pair.c + 2
    return pair.a, pair.b, pair.c


@CASES.add()
def delattr(self: Model, x: torch.Tensor) -> torch.Tensor:  # noqa: A001
    self.pair = Pair(x, x)
    self.pair.c = x + 1
    del self.pair.c
    made = Pair(x + 2, x + 3)
    del made.b
    self.made = made
    return x + 1 if hasattr(self.pair, "c") else made.a


@CASES.add(OURS, pair=Pair(1, 2))
def delattr_of_old_attributes(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.pair.c = x
    del self.pair.a  # here
    self.pair.a = 3
    return x * self.pair.a


@CASES.add()
def delattr_return(_: Model, x: torch.Tensor) -> Any:
    made = Keeping(1)
    del made.value
    return x + 1, hasattr(made, "value"), made.attempted


@CASES.add(level=Level())
def user_property(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.level.level = self.level.level + 1
    return x + self.level.level


@CASES.add(held=MadeUp())
def user_getattr1(self: Model, x: torch.Tensor) -> torch.Tensor:
    return x * self.held.factor + self.held.asked


@CASES.add()
def dunder_methods(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = Value(x) + Value(x * 2) * Value(x + 1)
    self.made = made
    return made.value


@CASES.add(config=Pair(0.5, 3))
def config_obj(self: Model, x: torch.Tensor) -> torch.Tensor:
    for _ in range(self.config.b):
        x = x + self.config.a
    self.config.a += 0.25
    return x


@CASES.add()
def dynamo_side_effect(self: Model, x: torch.Tensor) -> torch.Tensor:
    with Context() as context:
        z = x + 1
        context.tensors["6"] = x + 2
    self.context = context
    return z


@CASES.add()
def object_classmethod(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x + Tracker.count()


@CASES.add(OURS, pair=Pair(0, 0))
def object_setattr(self: Model, x: torch.Tensor) -> torch.Tensor:
    object.__setattr__(self.pair, "a", self.pair.a + 1)
    setattr(self.pair, "b", x)  # noqa: B010
    return self.pair.b * self.pair.a


@CASES.add(OURS, slotted=Slotted())
def user_defined_slots(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.slotted.count += 1
    self.slotted.last = x
    return x * self.slotted.count


@CASES.add(OURS, pair=Pair([], {}))
def containers_in_objects(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.pair.a.append(x)
    self.pair.b["last"] = x
    return x + 1


@CASES.add("dicts", pair=Pair(3, 5))
def contains_dunder_dict(self: Model, x: torch.Tensor) -> torch.Tensor:
    if "a" in self.pair.__dict__:
        x = x * self.pair.a
    self.pair.c = 7
    if "c" in self.pair.__dict__:
        x = x * self.pair.c
    return x * self.pair.__dict__.get("z", 2)


@CASES.add("dicts", pair=Pair(1, 2))
def update_dunder_dict(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.pair.__dict__["a"] = 10
    return x * self.pair.a + self.pair.__dict__["a"]


@CASES.add("dicts", pair=Pair(3, 5))
def len_dunder_dict_after_delete(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.pair.c = 1
    del self.pair.c
    return x * len(self.pair.__dict__)


@CASES.add("dicts", level=Level())
def property_backed_by_dunder_dict_mutated(self: Model, x: torch.Tensor) -> torch.Tensor:
    before = self.level.__dict__["stored"]
    self.level.level = before + 1
    return x + self.level.level


@CASES.add()
def user_defined_class_name(self: Model, x: torch.Tensor) -> torch.Tensor:
    made = Pair(x, 1)
    self.name = made.__class__.__name__
    return made.a * 2


def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


KNOWN = {Context, Pair, doubled}


@CASES.add(OURS, config=Pair(1, 2))
def registry_of_classes(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.known = type(self.config) in KNOWN and Level not in KNOWN
    return doubled(x) + self.known if doubled in KNOWN else x


@CASES.add(OURS, texts=[])
def texts_of_classes(self: Model, x: torch.Tensor) -> torch.Tensor:
    kinds: tuple[type, ...] = (Level, int, list, object, type, type(self), int, type([]), type(x.shape))
    self.texts = [*map(str, kinds), *map(repr, kinds), f"{Level}", "%s" % Level]  # noqa: UP031
    return x + len(str(Level))


@CASES.add(OURS, steps=0)
def context_variable(self: Model, x: torch.Tensor) -> torch.Tensor:
    outer = SCALE.set(self.steps + 1)
    inner = SCALE.set(3)
    x = x * SCALE.get()
    SCALE.reset(inner)
    self.steps = SCALE.get()
    SCALE.reset(outer)
    return x + SCALE.get() + UNSET.get(2)
