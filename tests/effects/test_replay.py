"""Replay: each op, values from before the first change, code only by permission, errors with their effect."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given

from archive.base.errors import ArchiveError
from archive.effects.replay.errors import GuardError, ReplayError
from archive.effects.replay.replay import inputs, prepared, replay
from archive.effects.replay.state import State
from archive.formats.effects.model import (
    At,
    Attribute,
    Constant,
    Each,
    Effect,
    GlobalName,
    Guard,
    Local,
    Look,
    Made,
    MethodEffects,
    New,
    Op,
    Output,
    Temporary,
)
from tests.effects.programs import (
    ALLOWED,
    CELL,
    SELF,
    Tensor,
    Thing,
    X,
    at,
    done,
    forward,
    hook,
    interpreted,
    methods,
    outputs,
    picture,
    started,
)
from tests.support.strategies import patient

if TYPE_CHECKING:
    from archive.formats.effects.model import Value


def one(op: Op, place: str, key: Value | None = None, value: Value | None = None) -> Any:  # noqa: ANN401
    """The module of the small program after one effect."""
    return done(Effect(op, at(place), key, value)).module


def test_attributes_are_set_and_deleted() -> None:
    assert one(Op.SET_ATTRIBUTE, "self", Constant("a"), Output(0)).a == 100
    assert one(Op.SET_ATTRIBUTE, "self.child", Constant("n"), Constant(6)).child.n == 6
    assert getattr(one(Op.SET_ATTRIBUTE, "self", Constant("no name"), Constant(6)), "no name") == 6
    assert not hasattr(one(Op.DELETE_ATTRIBUTE, "self", Constant("a")), "a")


def test_items_are_set_and_deleted() -> None:
    assert one(Op.SET_ITEM, "self.items", Constant(-3), Output(0)).items[0] == 100
    assert one(Op.SET_ITEM, "self.cache", Constant("n"), Output(0)).cache == {"k": 1, "l": 2, "n": 100}
    assert one(Op.DELETE_ITEM, "self.cache", Constant("k")).cache == {"l": 2}
    assert one(Op.DELETE_ITEM, "self.items", Constant(0)).items[0] == 11


def test_lists_and_dicts_change_by_their_own_methods() -> None:
    assert one(Op.APPEND, "self.child.log", None, Output(0)).child.log == [100]
    assert one(Op.EXTEND, "self.child.log", None, Made("tuple", (Output(0), Constant(2)))).child.log == [
        100,
        2,
    ]
    assert one(Op.INSERT, "self.items", Constant(1), Constant(5)).items[:3] == [10, 5, 11]
    assert len(one(Op.POP, "self.items").items) == 2
    assert one(Op.POP, "self.items", Constant(0)).items[0] == 11
    assert one(Op.POP, "self.cache", Constant("k")).cache == {"l": 2}
    assert one(Op.CLEAR, "self.items").same == []


def test_globals_and_cells_can_swap_their_values() -> None:
    state = done(
        Effect(Op.SET_GLOBAL, at("m.one:COUNT"), None, At(CELL)),
        Effect(Op.SET_CELL, CELL, None, At(at("m.one:COUNT"))),
    )
    assert state.globals["m.one"]["COUNT"] == 3
    assert state.cell(CELL.function, CELL.name).cell_contents == 7


def test_tensors_change_in_place_so_that_two_can_swap() -> None:
    state = started()
    before: Any = state.module
    mean, var = before.mean, before.var
    done(
        Effect(Op.COPY, at("self.mean"), None, At(at("self.var"))),
        Effect(Op.COPY, at("self.var"), None, At(at("self.mean"))),
        state=state,
    )
    assert (before.mean, before.var) == (mean, var)
    assert (mean.data, var.data) == ([1, 1], [0, 0])


def test_outputs_may_be_the_tensors_that_change() -> None:
    state = started()
    module: Any = state.module
    done(
        Effect(Op.COPY, at("self.mean"), None, Output(0)),
        Effect(Op.COPY, at("self.var"), None, Output(1)),
        state=state,
        out=[module.var, module.mean],
    )
    assert (module.mean.data, module.var.data) == ([1, 1], [0, 0])


def test_new_objects_are_made_without_init() -> None:
    state = done(
        Effect(Op.NEW, Temporary(0), Constant("package.module:Thing")),
        Effect(Op.NEW, Temporary(1), Constant("builtins:list")),
        Effect(Op.SET_ATTRIBUTE, Temporary(0), Constant("held"), New(1)),
        Effect(Op.EXTEND, Temporary(1), None, Made("list", (New(0), Output(0)))),
        Effect(Op.SET_ATTRIBUTE, SELF, Constant("made"), New(0)),
    )
    module: Any = state.module
    made: Any = module.made
    assert isinstance(made, Thing)
    assert vars(made)["held"] == [made, 100]


def test_a_hook_is_registered_by_its_number() -> None:
    state, x = started(), Tensor(1)
    register = forward(Effect(Op.REGISTER_HOOK, X, Constant("package.module:hook"), Constant(4)))
    replay(register, state, outputs(), arguments={"x": x}, allow=ALLOWED)
    assert (list(x.hooks.values()), list(state.hooks)) == ([hook], [4])


def test_a_context_saves_values_for_backward() -> None:
    saving = Effect(Op.SAVE_FOR_BACKWARD, at("self.context"), None, Made("tuple", (Output(0), Constant(1))))
    module: Any = done(saving).module
    assert module.context.saved_tensors == (100, 1)


def test_results_and_values_are_those_before_the_first_change() -> None:
    swap = forward(
        Effect(Op.SET_ATTRIBUTE, SELF, Constant("a"), At(at("self.b"))),
        Effect(Op.SET_ATTRIBUTE, SELF, Constant("b"), At(at("self.a"))),
        result=Made(
            "dict", (Constant("a"), At(at("self.a")), Constant("all"), Made("tuple", (At(at("self.b")),)))
        ),
    )
    state = started()
    assert replay(swap, state, outputs(), arguments={}) == {"a": 1, "all": ("two",)}
    module: Any = state.module
    assert (module.a, module.b) == ("two", 1)


def test_targets_are_those_before_the_first_change() -> None:
    state = started()
    before: Any = state.module
    child = before.child
    done(
        Effect(Op.SET_ATTRIBUTE, SELF, Constant("child"), Constant(None)),
        Effect(Op.SET_ATTRIBUTE, at("self.child"), Constant("n"), Constant(0)),
        state=state,
    )
    assert (before.child, child.n) == (None, 0)


@patient
@given(methods())
def test_replay_equals_a_plain_interpreter_of_the_facts(method: MethodEffects) -> None:
    expected, found = started(method), started(method)
    before = picture(found)
    x, y = Tensor(3, 4), Tensor(3, 4)
    out, other = outputs(), outputs()
    try:
        result = interpreted(method, expected, out, {"x": x})
    except Exception:  # noqa: BLE001 (whichever)
        with pytest.raises(ReplayError):
            replay(method, found, other, arguments={"x": y}, allow=ALLOWED)
        assert picture(found, y, other) == picture(started(method), Tensor(3, 4), outputs())
        assert picture(found) == before
    else:
        replayed = replay(method, found, other, arguments={"x": y}, allow=ALLOWED)
        assert picture(found, replayed, y, other) == picture(expected, result, x, out)


def test_an_error_names_the_effect_and_the_model_s_line() -> None:
    effects = forward(Effect(Op.APPEND, at("self.a"), None, Output(0), 17))
    with pytest.raises(ReplayError) as caught:
        replay(effects, started(), [1], arguments={}, symbolicate=lambda handle: f"models.py:{handle}")
    error = caught.value
    assert (error.method, error.effect, error.where) == ("forward", "self.a.append(out[0])", "models.py:17")
    assert str(error).startswith("forward: self.a.append(out[0]): ")
    assert str(error).endswith("\nmodels.py:17")
    assert error.__cause__ is not None


def test_an_error_has_the_debug_handle_if_it_cannot_be_symbolicated() -> None:
    def unknown(_: int) -> str:
        raise ArchiveError("broken")

    effects = forward(Effect(Op.APPEND, at("self.a"), None, Output(0), 17))
    with pytest.raises(ReplayError, match="debug handle 17: broken"):
        replay(effects, started(), [1], arguments={}, symbolicate=unknown)


@pytest.mark.parametrize(
    ("effect", "problem"),
    [
        (Effect(Op.APPEND, at("self.nowhere"), None, Output(0)), "no attribute 'nowhere'"),
        (Effect(Op.APPEND, at("self.items"), None, Output(7)), "IndexError"),
        (Effect(Op.APPEND, Local("y"), None, Output(0)), "there is no argument 'y'"),
        (
            Effect(Op.APPEND, GlobalName("no.module", "n"), None, Output(0)),
            "there is no Python module 'no.module'",
        ),
        (Effect(Op.APPEND, GlobalName("m.one", "n"), None, Output(0)), "m.one has no global 'n'"),
        (Effect(Op.SET_ITEM, at("self.cache"), Made("list", ()), Output(0)), "unhashable"),
    ],
)
def test_a_missing_place_is_an_error_that_leaves_the_state_alone(effect: Effect, problem: str) -> None:
    state = started()
    before = picture(state)
    with pytest.raises(ReplayError, match="forward: ") as caught:
        done(Effect(Op.CLEAR, at("self.items")), effect, state=state)
    assert problem in str(caught.value)
    assert picture(state) == before


NEW = Effect(Op.NEW, Temporary(0), Constant("collections:OrderedDict"))
HOOK = Effect(Op.REGISTER_HOOK, X, Constant("os:getcwd"), Constant(0))


@pytest.mark.parametrize("effect", [NEW, HOOK])
def test_code_is_refused_without_permission(effect: Effect) -> None:
    assert isinstance(effect.key, Constant)
    name = str(effect.key.value)
    effects = forward(Effect(Op.CLEAR, at("self.items")), effect)
    for allow in ((), ["collections:Ordered"], {"os": 1}):
        with pytest.raises(ReplayError, match=f"'{name}' is not allowed"):
            prepared(effects, allow)
    prepared(effects, [name])
    with pytest.raises(TypeError, match="expected names"):
        prepared(effects, f"{name} ")


@pytest.mark.parametrize("name", ["collections:Nothing", "no.such.module:C"])
def test_a_class_that_does_not_exist_is_an_error_of_its_effect(name: str) -> None:
    with pytest.raises(ReplayError, match="forward: tmp0 = object"):
        prepared(forward(Effect(Op.NEW, Temporary(0), Constant(name))), [name])


@pytest.mark.parametrize(
    "effect",
    [
        Effect(Op.APPEND, at("self.__class__"), None, Output(0)),
        Effect(Op.APPEND, at("self.items"), None, At(at("self.forward.__globals__[os]"))),
        Effect(Op.SET_ATTRIBUTE, SELF, Constant("__class__"), Output(0)),
        Effect(Op.SET_GLOBAL, GlobalName("m", "__builtins__"), None, Output(0)),
    ],
)
def test_special_attributes_are_refused(effect: Effect) -> None:
    with pytest.raises(ReplayError, match="is Python's own"):
        prepared(forward(effect))


def test_effects_that_break_a_rule_are_refused() -> None:
    with pytest.raises(ReplayError, match="expected a text"):
        prepared(forward(Effect(Op.SET_ATTRIBUTE, SELF, Constant(1), Output(0))))


def test_a_guard_for_each_item_names_the_item_that_breaks_it() -> None:
    guard = Guard(Look.TYPE, At(Each(Attribute(Local("self"), "seen"))), Constant("float"))
    method = MethodEffects("forward", (), Constant(None), (), (guard,))
    for held, said in (([0.5, 1.5], ""), ([], ""), ([0.5, 2, 1.5], "found int"), (None, "which is unknown")):
        state = State({"self": SimpleNamespace(seen=held)})
        if not said:
            assert inputs(method, state, {}) == []
            continue
        with pytest.raises(GuardError, match=rf"expected all\(type\(item\) is float .*{said}"):
            inputs(method, state, {})
