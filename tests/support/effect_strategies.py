"""Strategies for methods with effects on the small program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from archive.effects.placeholders import Plain
from archive.formats.effects.model import (
    At,
    Constant,
    Effect,
    Item,
    Made,
    MethodEffects,
    New,
    Op,
    Output,
    Temporary,
)
from tests.support.effect_programs import CELL, SELF, Tensor, X, at

if TYPE_CHECKING:
    from hypothesis.strategies import DrawFn, SearchStrategy

    from archive.formats.effects.model import Source, Value


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
    st.builds(Effect, st.just(Op.REMOVE_HOOK), tensor_places, st.none(), st.integers(0, 2).map(Constant)),
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
