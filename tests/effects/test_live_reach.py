"""What a record reaches in a live module: no code of its objects, no class, no Python module."""

from __future__ import annotations

import functools
import logging
import os
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import numpy as np
import torch

from archive.effects import ReplayError, State, StateError
from archive.effects.code import digest_of
from archive.effects.placeholders import Plain
from archive.effects.replay.hooks import allowed_code
from archive.effects.replay.replay import prepared
from archive.formats.effects.known_calls import LOG, PRINT, WARN
from archive.formats.effects.model import (
    At,
    ClosureCell,
    Constant,
    Effect,
    EffectTable,
    GlobalName,
    Guard,
    Item,
    Local,
    Look,
    Made,
    MethodEffects,
    Op,
    Source,
    Temporary,
    Value,
)
from tests.support.forged import SELF, path_of, watched
from tests.support.live_state import live_state

pytestmark = pytest.mark.torch

HERE = __name__
ran: list[str] = []


class Teller:
    """An object whose methods tell when they run; some have the names of tensors' methods."""

    def _tell(self, *_: object) -> Any:  # noqa: ANN401
        ran.append("a method")
        return self

    detach = clone = copy_ = save_for_backward = register_hook = register_prehook = __call__ = _tell
    grad_fn = property(_tell)

    def __repr__(self) -> str:
        ran.append("a text")
        return "a text"

    def __format__(self, _: str) -> str:
        ran.append("a format")
        return "a text"

    def __index__(self) -> int:
        ran.append("an index")
        return 1

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        ran.append(name)
        raise AttributeError(name)


class Kind:
    """A class that a module holds."""

    limit = 3
    opened = subprocess.getoutput
    Process = subprocess.Popen
    kept = staticmethod(os.getenv)

    def own(self) -> object:
        return self


@functools.lru_cache
def cached() -> int:
    return 1


class Live(torch.nn.Module):
    """A live module with objects of many kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.teller = Teller()
        self.tellers = {"one": [Teller()]}
        self.kind = Kind
        self.kinds = {"relu": torch.nn.ReLU}
        self.lib = os
        self.function = cached.__wrapped__
        self.parameter_dict = torch.nn.ParameterDict({"one": torch.zeros(2)})
        self.register_buffer("kept", torch.zeros(2))

    @torch.no_grad()
    def forward(self, x: object) -> object:
        return x


def at(path: str) -> At:
    return At(path_of(path))


def pair(*items: Value) -> Made:
    return Made("tuple", items)


def set_item(target: Source, key: Value, value: Value) -> tuple[Effect, ...]:
    return (Effect(Op.SET_ITEM, target, key, value),)


def set_attribute(target: Source, name: str, value: Value = Constant(99)) -> tuple[Effect, ...]:  # noqa: B008
    return (Effect(Op.SET_ATTRIBUTE, target, Constant(name), value),)


HANDLE = Constant("torch.utils.hooks:RemovableHandle")
PARAMETERS = path_of("parameter_dict")
LOGGED = Constant(("gate", 50, "", 0, ""))
ATTACKS: dict[str, tuple[Effect, ...]] = {
    "an object in the place of a tensor that changes": (
        Effect(Op.COPY, path_of("teller"), None, at("kept")),
    ),
    "an object that is copied from": (Effect(Op.COPY, path_of("kept"), None, at("teller")),),
    "an object that is copied from, later": (
        Effect(Op.COPY, path_of("kept"), None, at("kept")),
        Effect(Op.COPY, path_of("kept"), None, at("teller")),
    ),
    "an object in the place of a context": (
        Effect(Op.SAVE_FOR_BACKWARD, path_of("teller"), None, pair(at("kept"))),
    ),
    "an object on the way back": (
        Effect(Op.REGISTER_BACKWARD_HOOKS, SELF, pair(pair(), pair()), pair(pair(at("teller")), pair())),
    ),
    "an object that a handle calls": (
        Effect(Op.NEW, Temporary(0), HANDLE),
        *set_attribute(Temporary(0), "hooks_dict_ref", at("teller")),
        Effect(Op.TAKE_OFF, Temporary(0)),
    ),
    "an attribute of a class that is held": set_attribute(path_of("kind"), "limit"),
    "a new attribute of PyTorch's class": set_attribute(path_of("kinds[relu]"), "poison"),
    "an attribute of a function that is held": set_attribute(path_of("function"), "poison"),
    "what a Python module holds": set_item(
        path_of("lib.environ._data"), Constant(b"ARCHIVE_POISON"), Constant(b"x")
    ),
    "hooks by the name of a parameter": set_item(
        path_of("parameter_dict[__dict__][_forward_hooks]"), Constant(0), at("teller")
    ),
    "the class by the name of a parameter": set_attribute(path_of("parameter_dict[__class__]"), "poison"),
    "a method by the name of a parameter": set_item(PARAMETERS, Constant("update"), Constant(1)),
    "a special name as that of a parameter": set_item(PARAMETERS, Constant("__class__"), at("kept")),
    "names of parameters that are no text": set_item(PARAMETERS, at("teller"), at("kept")),
    "hooks by a name that was put among the parameters": (
        *set_item(path_of("parameter_dict._keys"), Constant("__dict__"), Constant(None)),
        *set_item(path_of("parameter_dict[__dict__]"), Constant("poison"), Constant(1)),
    ),
    "what a module calls in the place of forward": set_attribute(SELF, "_compiled_call_impl", at("teller")),
    "a function in the variable of another": (
        Effect(Op.SET_CELL, ClosureCell(f"{HERE}:Live.forward", "func"), None, at("teller")),
    ),
    "a function that keeps its results": (
        Effect(Op.SET_GLOBAL, GlobalName(HERE, "cached"), None, Constant(1)),
    ),
    "the text of an object": (Effect(Op.CALL, PRINT, Constant((" ", "\n")), pair(at("tellers"))),),
    "the text of an object in a log": (Effect(Op.CALL, LOG, LOGGED, pair(Constant("%s"), at("teller"))),),
    "the text of an object as a warning": (
        Effect(Op.CALL, WARN, Constant(("UserWarning", "", 1, "m")), pair(at("teller"))),
    ),
    "an object in a text": set_attribute(SELF, "text", Made("format", (Constant("{0}"), at("teller")))),
    "an object in a size": set_attribute(SELF, "size", Made("size", (at("teller"),))),
}
"""Effects on a live module by what they try."""


def made(method: MethodEffects, state: State) -> None:
    """Check a method's guards, and make its changes."""
    ready = prepared(method)
    ready.inputs(state, {})
    ready.replay(state, [], {})


def attempted(*effects: Effect, guards: tuple[Guard, ...] = ()) -> Live:
    """Make changes in a live module, all of which are refused."""
    live = Live()
    before, inside = dict(vars(live)), dict(vars(live.parameter_dict))
    ran.clear()
    method = MethodEffects("forward", (), Constant(None), effects, guards)
    with watched() as events, pytest.raises(ReplayError):
        made(method, live_state(live))
    assert (ran, events) == ([], [])
    assert vars(live) == before
    assert vars(live.parameter_dict) == inside
    return live


@pytest.mark.parametrize("effects", ATTACKS.values(), ids=ATTACKS)
def test_no_effect_runs_or_replaces_code_of_a_live_module(effects: tuple[Effect, ...]) -> None:
    function = cached
    live = attempted(*effects)
    assert cached is function
    assert Kind.limit == 3
    assert not any("poison" in vars(one) for one in (Kind, torch.nn.ReLU, torch.nn.ParameterDict))
    assert "ARCHIVE_POISON" not in os.environ
    assert live("x") == "x"
    assert ran == []


@pytest.mark.parametrize("given", [Kind, cached.__wrapped__, os])
def test_an_argument_that_is_code_is_no_place(given: Any) -> None:  # noqa: ANN401
    before = dict(vars(given))
    method = MethodEffects("forward", (), Constant(None), set_attribute(Local("x"), "limit"))
    with pytest.raises(ReplayError, match=r"no place|expected data"):
        prepared(method).replay(State({}), [], {"x": given})
    assert dict(vars(given)) == before


@pytest.mark.parametrize(
    "place", [GlobalName("numpy", "nan"), GlobalName("archive.formats.effects.gate", "MODULE_NAMES")]
)
def test_a_held_object_brings_no_globals_of_its_package_along(place: GlobalName) -> None:
    live = Live()
    live.held = [np.zeros(2), Plain()]
    live.array, live.plain = live.held
    held = vars(sys.modules[place.module])
    before = held[place.name]
    method = MethodEffects("forward", (), Constant(None), (Effect(Op.SET_GLOBAL, place, None, Constant(5)),))
    with pytest.raises(ReplayError, match="is not the model's own"):
        prepared(method).replay(live_state(live), [], {})
    assert held[place.name] is before


def test_a_row_of_the_state_beyond_all_indices_is_refused() -> None:
    rows = (
        (path_of("held"), Made("deque", (Constant(None),))),
        (Item(path_of("held"), 1 << 70), Constant(1)),
    )
    with pytest.raises(StateError, match="OverflowError"):
        State.fresh(EffectTable((), rows))


def test_no_guard_asks_an_object_for_its_text() -> None:
    subject = At(path_of("tellers[one]"))
    attempted(guards=(Guard(Look.TEXT, subject, Constant("")),))


def test_honest_effects_on_the_same_module_are_made() -> None:
    live = Live()
    effects = (
        *set_attribute(path_of("teller"), "count", Constant(1)),
        *set_item(PARAMETERS, Constant("two"), at("kept")),
        Effect(Op.COPY, Item(PARAMETERS, "one"), None, At(Local("x"))),
    )
    method = MethodEffects("forward", (), at("parameter_dict[one]"), effects)
    one = prepared(method).replay(live_state(live), [], {"x": torch.ones(2)})
    assert one is live.parameter_dict["one"]
    assert one.tolist() == [1, 1]
    assert live.parameter_dict["two"].data_ptr() == live.kept.data_ptr()
    assert vars(live.teller)["count"] == 1


@pytest.mark.parametrize("name", ["opened", "Process", "kept"])
def test_permission_for_a_class_covers_nothing_that_it_took_from_elsewhere(name: str) -> None:
    allow = [f"{HERE}:Kind"]
    assert allowed_code(f"{HERE}:Kind.own", allow) is Kind.own
    with pytest.raises(LookupError, match="is not allowed"):
        allowed_code(f"{HERE}:Kind.{name}", allow)


@pytest.mark.parametrize("text", ["%(one)99999d", "%((one))99999d", "%(%)99999d", "%%%(one)099999d"])
def test_a_field_by_name_has_no_width_without_end(text: str) -> None:
    logging.getLogger("gate").setLevel(logging.INFO)
    key = text.partition("(")[2].rpartition(")")[0]
    names = Made("dict", (Constant(key), Constant(1)))
    with pytest.raises(ReplayError, match="more than 999 characters wide"):
        prepared(
            MethodEffects(
                "forward", (), Constant(None), (Effect(Op.CALL, LOG, LOGGED, pair(Constant(text), names)),)
            )
        ).replay(State({}), [], {})


def test_a_usual_field_by_name_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    names = Made("dict", (Constant("one"), Constant(1)))
    call = Effect(Op.CALL, LOG, LOGGED, pair(Constant("%(one)05d (of 20000)"), names))
    prepared(MethodEffects("forward", (), Constant(None), (call,))).replay(State({}), [], {})
    assert caplog.messages == ["00001 (of 20000)"]


SEEN: list[int] = []


def noting(gradient: object) -> object:
    SEEN.append(1)
    return gradient


@pytest.mark.parametrize("kept", [True, False])
def test_an_allowed_hook_has_the_state_s_globals_and_the_module_s_own_where_a_record_leaves_them_out(
    kept: bool,  # noqa: FBT001
) -> None:
    SEEN.clear()
    held: dict[str, Any] = {HERE: {"SEEN": []}} if kept else {}
    recipe = (Constant(f"{HERE}:noting"), Constant(digest_of(noting.__code__)))
    hook = Made("function", (*recipe, pair(), Made("dict", ()), pair(), pair()))
    registering = Effect(Op.REGISTER_HOOK, Local("x"), hook, Constant(0))
    method = MethodEffects("forward", (), Constant(None), (registering,))
    x = torch.ones(2, requires_grad=True)
    prepared(method, [f"{HERE}:noting"]).replay(State({}, held), [], {"x": x})
    x.sum().backward()
    assert (held[HERE]["SEEN"] if kept else SEEN) == [1]
    assert not (kept and SEEN)
