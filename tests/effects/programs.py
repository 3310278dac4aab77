"""A small program without PyTorch: its state, strategies for effects on it, and a plain interpreter."""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import dataclass
from types import CellType
from typing import TYPE_CHECKING, Any, Self

import torch
from hypothesis import strategies as st

from archive.effects.placeholders import Plain
from archive.effects.replay.custom_backward import BackwardContext
from archive.effects.replay.replay import replay
from archive.effects.replay.state import State
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Constant,
    Effect,
    EffectTable,
    GlobalName,
    Item,
    Local,
    Made,
    MethodEffects,
    New,
    Op,
    Output,
    Stored,
    Temporary,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.strategies import DrawFn, SearchStrategy

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


# --- strategies

LISTS = ["self.items", "self.same", "self.child.log", "m.one:LIST", "self.items[2].log"]


DICTS = ["self.cache"]


OBJECTS = ["self", "self.child", "self.items[2]"]


TENSORS = ["self.mean", "self.var", "x"]


HELD = ["self.a", "self.b", "self.pair", "self.pair[1][0]", "self.items[-1]", "self.cache[k]", "self.child.n"]


READ = [*LISTS, *DICTS, *OBJECTS, *HELD, "m.one:COUNT", "self.child.log[0]", "self.none", "x"]


GLOBALS = ["m.one:COUNT", "m.one:NEW"]


sources = st.sampled_from(READ).map(at) | st.just(CELL)


plain: SearchStrategy[Value] = st.one_of(
    st.builds(Constant, st.sampled_from([0, "s", None, 1.5, (1, "t")])),
    st.builds(Output, st.integers(0, 2)),
    sources.map(At),
)


keys = st.builds(Constant, st.sampled_from([0, 1, -1, 5, "k", "new", "l"])) | plain


values: SearchStrategy[Value] = plain | st.builds(
    Made, st.sampled_from(["list", "tuple"]), st.lists(plain, max_size=2).map(tuple)
)


names = st.builds(Constant, st.sampled_from(["a", "b", "fresh", "child", "items", "n", "log", "no name"]))


def among(paths: list[str]) -> SearchStrategy[Source]:
    return st.sampled_from(paths).map(at)


lists, containers, objects = among(LISTS), among(LISTS + DICTS), among(OBJECTS)


tensor_places = among(TENSORS)


tensor_values: SearchStrategy[Value] = tensor_places.map(At) | st.just(Output(2))


kinds: list[SearchStrategy[Effect]] = [
    st.builds(Effect, st.just(Op.SET_ATTRIBUTE), objects, names, values),
    st.builds(Effect, st.just(Op.SET_ATTRIBUTE), objects, names, values),
    st.builds(Effect, st.just(Op.DELETE_ATTRIBUTE), objects, names),
    st.builds(Effect, st.just(Op.REGISTER_BUFFER), objects, names, tensor_values),
    st.builds(Effect, st.just(Op.REGISTER_TRANSIENT), objects, names, tensor_values),
    st.builds(Effect, st.just(Op.SET_ITEM), containers, keys, values),
    st.builds(Effect, st.just(Op.DELETE_ITEM), containers, keys),
    st.builds(Effect, st.just(Op.APPEND), lists, st.none(), values),
    st.builds(Effect, st.just(Op.EXTEND), lists, st.none(), values),
    st.builds(Effect, st.just(Op.INSERT), lists, keys, values),
    st.builds(Effect, st.just(Op.POP), containers, st.none() | keys),
    st.builds(Effect, st.just(Op.CLEAR), containers),
    st.builds(Effect, st.just(Op.SET_GLOBAL), among(GLOBALS), st.none(), values),
    st.builds(Effect, st.just(Op.SET_CELL), st.just(CELL), st.none(), values),
    st.builds(Effect, st.just(Op.COPY), tensor_places, st.none(), tensor_values),
    st.builds(Effect, st.just(Op.SAVE_FOR_BACKWARD), st.just(at("self.context")), st.none(), values),
    st.builds(Effect, st.just(Op.REGISTER_HOOK), tensor_places, st.just(Constant("package.module:hook")),
              st.integers(0, 2).map(Constant)),
]  # fmt: skip


@st.composite
def methods(draw: DrawFn) -> MethodEffects:
    """A method whose effects mostly succeed."""
    effects = draw(st.lists(st.one_of(kinds), max_size=7))
    if draw(st.booleans()):
        target, held = Temporary(0), Temporary(1)
        effects = [
            Effect(Op.NEW, target, Constant("package.module:Thing")),
            Effect(Op.NEW, held, Constant("builtins:list")),
            Effect(Op.SET_ATTRIBUTE, target, Constant("value"), draw(values)),
            Effect(Op.APPEND, held, None, draw(tensor_values)),
            Effect(Op.REGISTER_HOOK, Item(held, 0), Constant("package.module:hook"), Constant(3)),
            *effects,
            Effect(Op.SET_ATTRIBUTE, SELF, Constant("made"), New(0)),
        ]
    inputs = (X, *draw(st.lists(sources, max_size=2)))
    return MethodEffects("forward", inputs, draw(values), tuple(effects))


def outputs() -> list[Any]:
    return [100, Plain(), Tensor(8, 9)]


# --- interpreter


def interpreted(effects: MethodEffects, state: State, out: list[Any], arguments: dict[str, Any]) -> Any:  # noqa: ANN401
    """Make effects one after the other, after everything is read; gives the method's result."""
    made: dict[int, Any] = {}

    def found(source: Source) -> Any:  # noqa: ANN401 (one a kind)
        match source:
            case Local("self"):
                return state.module
            case Local(name):
                return arguments[name]
            case Attribute(base, name):
                return getattr(found(base), name)
            case Item(base, key):
                return found(base)[key]
            case GlobalName(module, name):
                return state.globals[module][name]
            case ClosureCell(function, name):
                return state.cells[function, name].cell_contents  # type: ignore[union-attr]
            case Temporary(number):
                return made[number]

    def computed(value: Value) -> Any:  # noqa: ANN401
        match value:
            case Output(index):
                return out[index]
            case Constant(literal):
                return literal
            case At(source):
                return found(source)
            case New(number):
                return made[number]
            case Made("dict", items):
                return {
                    computed(key): computed(item) for key, item in zip(items[::2], items[1::2], strict=True)
                }
            case Made(kind, items):
                return {"list": list, "tuple": tuple}[kind](computed(item) for item in items)
        raise AssertionError(value)

    def is_late(source: Source) -> bool:
        while isinstance(source, Attribute | Item):
            source = source.base
        return isinstance(source, Temporary)

    steps = []
    for effect in effects.effects:
        if isinstance(effect.source, Temporary) and effect.op is Op.NEW:
            new = effect.key == Constant("builtins:list")
            made[effect.source.number] = [] if new else Thing.__new__(Thing)
            continue
        late = is_late(effect.source)
        place = None if late or effect.op in (Op.SET_GLOBAL, Op.SET_CELL) else found(effect.source)
        key = None if effect.key is None else computed(effect.key)
        value = None if effect.value is None else computed(effect.value)
        if effect.op is Op.COPY:
            value = copy.deepcopy(value)
        steps.append((effect, late, place, key, value))
    result = computed(effects.result)
    for effect, late, place, key, value in steps:
        change(state, effect, found(effect.source) if late else place, key, value)
    return result


def change(state: State, effect: Effect, place: Any, key: Any, value: Any) -> None:  # noqa: ANN401
    match effect.op:
        case Op.SET_ATTRIBUTE:
            setattr(place, key, value)
        case Op.REGISTER_BUFFER | Op.REGISTER_TRANSIENT:
            setattr(place, key, value)
        case Op.DELETE_ATTRIBUTE:
            delattr(place, key)
        case Op.SET_ITEM:
            place[key] = value
        case Op.DELETE_ITEM:
            del place[key]
        case Op.INSERT:
            place.insert(key, value)
        case Op.POP:
            place.pop(*([] if effect.key is None else [key]))
        case Op.CLEAR:
            place.clear()
        case Op.SET_GLOBAL:
            assert isinstance(effect.source, GlobalName)
            state.globals[effect.source.module][effect.source.name] = value
        case Op.SET_CELL:
            assert isinstance(effect.source, ClosureCell)
            state.cells[effect.source.function, effect.source.name].cell_contents = value  # type: ignore[union-attr]
        case Op.COPY:
            place.copy_(value)
        case Op.SAVE_FOR_BACKWARD:
            place.save_for_backward(*value)
        case Op.REGISTER_HOOK:
            state.hooks[value] = place.register_hook(ALLOWED[key])
        case _:
            getattr(place, str(effect.op))(value)


# --- replaying


def forward(*effects: Effect, result: Value = Output(0)) -> MethodEffects:  # noqa: B008 (a fact)
    return MethodEffects("forward", (X,), result, effects)


def done(*effects: Effect, state: State | None = None, out: list[Any] | None = None) -> State:
    """The state after some effects."""
    method = forward(*effects)
    state = started(method) if state is None else state
    replay(method, state, outputs() if out is None else out, arguments={"x": Tensor(3, 4)}, allow=ALLOWED)
    return state
