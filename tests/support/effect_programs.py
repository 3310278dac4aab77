"""A small program without PyTorch: its state, strategies for effects on it, and a plain interpreter."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from types import CellType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import torch

from archive.effects.placeholders import Plain
from archive.effects.replay.custom_backward import BackwardContext
from archive.effects.replay.state import State
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Constant,
    EffectTable,
    GlobalName,
    Item,
    Local,
    Made,
    MethodEffects,
    Stored,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.formats.effects.model import Source, Value

SELF, X = Local("self"), Local("x")


class Tensor(torch.Tensor):
    """A tensor with elements in a list, and the methods that effects call."""

    requires_grad = False
    data: Any = None
    __eq__, __hash__ = object.__eq__, object.__hash__

    def __new__(cls, *_: int, of: list[int] | None = None) -> Self:
        del of
        made: Self = torch.Tensor._make_subclass(cls, torch.empty(0))
        return made

    def __init__(self, *data: int, of: list[int] | None = None) -> None:
        self.data = list(data) if of is None else of
        self.hooks: dict[int, Callable[..., object]] = OrderedDict()

    def clone(self) -> Tensor:
        return Tensor(*self.data)

    def detach(self) -> Tensor:
        return Tensor(of=self.data)

    def copy_(self, other: Tensor) -> None:
        if len(self.data) != len(other.data):
            raise RuntimeError("shapes don't match")
        self.data[:] = other.data

    def register_hook(self, function: Callable[..., object]) -> Handle:
        if not callable(function):
            raise TypeError("no function")
        number = max(self.hooks, default=-1) + 1
        self.hooks[number] = function
        return Handle(self, number)

    def __repr__(self) -> str:
        return f"Tensor{self.data}"


@dataclass
class Handle:
    """The handle of a registered hook."""

    tensor: Tensor
    number: int

    def hooks_dict_ref(self) -> dict[int, Callable[..., object]]:
        return self.tensor.hooks

    def remove(self) -> None:
        del self.tensor.hooks[self.number]


class Thing:
    """A class of which effects make objects, without calling it."""

    def __init__(self) -> None:
        raise AssertionError("never called")


def hook(gradient: object) -> object:
    return gradient


ALLOWED = {"package.module:Thing": Thing, "package.module:hook": hook}


def at(path: str) -> Source:
    """The source of a path: ``self.child.log``, ``self.items[0]``, ``m.one:COUNT``."""
    if ":" in path:
        return GlobalName(*path.split(":"))
    first, *rest = path.split(".")
    found: Source = Local(first)
    for name in rest:
        name, *keys = name.split("[")  # noqa: PLW2901 (its first part)
        found = Attribute(found, name)
        for key in keys:
            text = key.removesuffix("]")
            found = Item(found, int(text) if text.lstrip("-").isdigit() else text)
    return found


CELL = ClosureCell("m.one:outer.<locals>.inner", "kept")
START: tuple[tuple[Source, Value], ...] = (
    (at("self.a"), Constant(1)),
    (at("self.b"), Constant("two")),
    (at("self.items"), Made("list", (Constant(10), Constant(11), At(at("self.child"))))),
    (at("self.same"), At(at("self.items"))),
    (at("self.cache"), Made("dict", (Constant("k"), Constant(1), Constant("l"), Constant(2)))),
    (at("self.pair"), Made("tuple", (Constant(1), At(at("self.items"))))),
    (at("self.mean"), Stored(0)),
    (at("self.var"), Stored(1)),
    (at("self.child.n"), Constant(5)),
    (at("self.child.log"), Made("list", ())),
    (at("m.one:COUNT"), Constant(7)),
    (at("m.one:LIST"), Made("list", (Constant(0),))),
    (CELL, Constant(3)),
)


def tensors() -> list[Tensor]:
    return [Tensor(0, 0), Tensor(1, 1)]


def started(*methods: MethodEffects) -> State:
    """The state of the small program."""
    state = State.fresh(EffectTable(methods, START), tensors())
    state.module.context = BackwardContext()
    return state


def picture(state: State, *others: object) -> object:
    """Everything in a state, in order; a number stands for an object seen before."""
    seen: dict[int, int] = {}

    def shown(value: Any) -> object:  # noqa: ANN401 (one a type)
        if isinstance(value, int | str | float | None) or callable(value):
            return value
        if id(value) in seen:
            return "same", seen[id(value)]
        if isinstance(value, tuple):
            return "tuple", *map(shown, value)
        seen[id(value)] = len(seen)
        if isinstance(value, CellType):
            try:
                return "cell", shown(value.cell_contents)
            except ValueError:
                return "empty cell"
        if isinstance(value, dict):
            return type(value).__name__, *((shown(key), shown(item)) for key, item in value.items())
        if isinstance(value, list):
            return "list", *map(shown, value)
        return (
            type(value).__name__,
            shown(vars(value)),
            shown(value.hooks) if isinstance(value, Tensor) else None,
        )

    whole = [state.roots, state.globals, state.cells, state.hooks]
    return shown([*whole, *others])


def namespace(state: State) -> dict[str, Any]:
    """The globals of a printed program: Python modules, and the dicts that it looks names up in."""
    spaces: dict[str, Plain] = {}
    for module, names in state.globals.items():
        space = Plain()
        space.__dict__ = names  # type: ignore[assignment]
        spaces[module] = space
    package = SimpleNamespace(module=SimpleNamespace(Thing=Thing, hook=hook))
    return {
        "m": SimpleNamespace(one=spaces.get("m.one")),
        "package": package,
        "hooks": state.hooks,
        "modules": spaces,
    }
