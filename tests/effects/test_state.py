"""States: inputs read from them, fresh ones made from a table, live modules and what they give access to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from archive.effects.replay.errors import ReplayError
from archive.effects.replay.replay import inputs, prepared, replay
from archive.effects.replay.state import State
from archive.formats.effects.model import (
    At,
    Attribute,
    Constant,
    Effect,
    EffectTable,
    GlobalName,
    Item,
    Made,
    MethodEffects,
    Op,
    Output,
    Stored,
)
from tests.effects.programs import CELL, SELF, START, Thing, X, at, started, tensors
from tests.support.live_state import live_state

if TYPE_CHECKING:
    from collections.abc import Callable


def forward(*effects: Effect) -> MethodEffects:
    return MethodEffects("forward", (X,), Output(0), effects)


def test_inputs_are_read_from_arguments_and_state() -> None:
    state = started()
    module: Any = state.module
    method = MethodEffects(
        "forward", (X, at("self.a"), at("self.items[0]"), CELL, at("m.one:COUNT")), Output(0), ()
    )
    assert inputs(method, state, {"x": 5}) == [5, module.a, 10, 3, 7]
    assert prepared(method).inputs(state, {"x": 6})[0] == 6
    with pytest.raises(ReplayError, match="there is no argument 'x'"):
        inputs(method, state, {})


def test_a_fresh_state_holds_the_values_of_the_table() -> None:
    own = tensors()
    state = State.fresh(EffectTable((), START), own)
    module: Any = state.module
    assert module.items == [10, 11, module.child]
    assert module.same is module.items is module.pair[1]
    assert module.items[2] is module.child
    assert (module.child.n, module.child.log, module.cache) == (5, [], {"k": 1, "l": 2})
    assert module.mean is own[0]
    assert module.var is own[1]
    assert state.globals["m.one"]["LIST"] == [0]


def test_containers_of_a_fresh_state_may_contain_themselves() -> None:
    rows = (
        (
            at("self.loop"),
            Made("list", (At(at("self.loop")), Made("dict", (Constant(1), At(at("self.loop")))))),
        ),
    )
    module: Any = State.fresh(EffectTable((), rows)).module
    assert module.loop[0] is module.loop[1][1] is module.loop


def test_a_fresh_state_has_the_targets_of_effects() -> None:
    effects = forward(
        Effect(Op.SET_ATTRIBUTE, at("self.inner.part"), Constant("n"), Output(0)),
        Effect(Op.SET_ITEM, Item(at("self.layers"), 0), Constant("n"), Output(0)),
        Effect(Op.SET_GLOBAL, GlobalName("other", "N"), None, Output(0)),
        Effect(Op.SET_CELL, CELL, None, Output(0)),
    )
    state = State.fresh(EffectTable((effects,), ()))
    replay(effects, state, [4], arguments={})
    module: Any = state.module
    assert (module.inner.part.n, module.layers[0]["n"]) == (4, 4)
    assert state.globals["other"] == {"N": 4}


@pytest.mark.parametrize(
    ("rows", "problem"),
    [
        (((at("self.t"), Stored(3)),), "self.t: tensor 3 is missing"),
        (((at("self.a"), At(at("self.b"))), (at("self.b"), At(at("self.a")))), "in a circle"),
        (((at("self.a"), Constant(1)), (at("self.a.b"), Constant(1))), "can't hold 'b'"),
        (((at("self.a"), Made("dict", (Made("list", ()), Constant(1)))),), "unhashable"),
        (
            ((at("self.a"), Made("tuple", ())), (at("self.a[0]"), Constant(1))),
            "can change, found a tuple",
        ),
        (((at("self.a"), Output(1)),), "output 1, which does not exist"),
    ],
)
def test_a_contradictory_state_is_refused_with_its_place(rows: tuple[Any, ...], problem: str) -> None:
    with pytest.raises(LookupError, match=problem):
        State.fresh(EffectTable((), rows))


def test_a_long_chain_of_places_is_refused_as_too_deep() -> None:
    rows = [(at(f"self.a{i}"), At(at(f"self.a{i + 1}"))) for i in range(5000)]
    with pytest.raises(LookupError, match="too deep"):
        State.fresh(EffectTable((), tuple(rows)))


def test_keys_of_shared_parts_cost_no_more_steps_than_allowed() -> None:
    """Python hashes a part as often as a key has it: a key of 60 rows, pairs of the last, never ends."""
    rows = [(at("self.a0"), Made("tuple", (Constant(0),)))]
    rows += [(at(f"self.a{i}"), Made("tuple", (At(at(f"self.a{i - 1}")),) * 2)) for i in range(1, 60)]

    def keyed(count: int) -> tuple[Any, ...]:
        return (*rows[:count], (at("self.d"), Made("dict", (At(at(f"self.a{count - 1}")), Constant(1)))))

    State.fresh(EffectTable((), keyed(15)))
    with pytest.raises(LookupError, match="more than 1,000,000 parts"):
        State.fresh(EffectTable((), keyed(60)))


COUNT = 0


def test_globals_of_a_live_module_s_own_packages_change() -> None:
    state = live_state(Thing.__new__(Thing))
    here = GlobalName(__name__, "COUNT")
    replay(forward(Effect(Op.SET_GLOBAL, here, None, Output(0))), state, [5], arguments={})
    assert COUNT == 5
    replay(forward(Effect(Op.SET_GLOBAL, here, None, Constant(0))), state, [5], arguments={})


@pytest.mark.parametrize(
    ("effect", "problem"),
    [
        (
            Effect(Op.SET_ITEM, GlobalName("os", "environ"), Constant("PATH"), Constant("")),
            "is not the model's own",
        ),
        (Effect(Op.SET_GLOBAL, GlobalName("builtins", "len"), None, Constant(0)), "is not the model's own"),
        (Effect(Op.SET_GLOBAL, GlobalName(__name__, "forward"), None, Constant(0)), "is code, and"),
        (Effect(Op.SET_ATTRIBUTE, SELF, Constant("a"), At(GlobalName(__name__, "forward"))), "is code, and"),
    ],
)
def test_a_live_module_gives_access_only_to_its_own_data(effect: Effect, problem: str) -> None:
    with pytest.raises(ReplayError, match=problem):
        replay(forward(effect), live_state(Thing.__new__(Thing)), [5], arguments={})


def test_other_modules_and_code_need_permission() -> None:
    state = live_state(Thing.__new__(Thing), modules=["string"])
    take = Effect(Op.SET_ATTRIBUTE, SELF, Constant("a"), At(GlobalName("string", "Template")))
    module: Any = state.module
    replay(forward(take), state, [5], arguments={}, allow=["string:Template"])
    assert module.a.__name__ == "Template"


def test_cells_of_a_live_module_s_functions_change() -> None:
    kept, shared = 1, 2

    def inner() -> tuple[int, int]:
        return kept, shared

    module: Any = Thing.__new__(Thing)
    module.step = inner
    where = f"{inner.__module__}:{inner.__qualname__}"
    state = live_state(module)
    cell = type(CELL)(where, "kept")
    replay(forward(Effect(Op.SET_CELL, cell, None, Output(0))), state, [5], arguments={})
    assert (inner(), kept) == ((5, 2), 5)
    with pytest.raises(ReplayError, match="there is no function"):
        replay(forward(Effect(Op.SET_CELL, CELL, None, Output(0))), state, [5], arguments={})


def test_cells_of_two_functions_of_one_name_are_refused() -> None:
    def made(kept: int) -> Callable[[], int]:
        return lambda: kept

    module: Any = Thing.__new__(Thing)
    module.first, module.second = made(1), made(2)
    cell = type(CELL)(f"{__name__}:{module.first.__qualname__}", "kept")
    with pytest.raises(ReplayError, match="there is more than one function"):
        replay(forward(Effect(Op.SET_CELL, cell, None, Output(0))), live_state(module), [5], arguments={})


def test_a_path_is_a_chain_of_attributes() -> None:
    assert Attribute(SELF, "a") == at("self.a")
