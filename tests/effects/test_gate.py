"""Nothing in a record of effects runs: hostile names and values in each field, seen by audit hooks."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

import torch

import archive
from archive.backend import Effectful
from archive.base.errors import ArchiveError
from archive.check.verify import verify
from archive.effects import ReplayError, State, StateError
from archive.effects.looking import SETTINGS
from archive.effects.replay.replay import prepared
from archive.formats.effects import EFFECTS
from archive.formats.effects.gate import MODULE_NAMES, SETTING_NAMES
from archive.formats.effects.model import (
    At,
    Attribute,
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
    Output,
    Stored,
    Temporary,
)
from archive.formats.effects.rules import check_table
from tests.support.commands import run
from tests.support.corpus import FIXTURES
from tests.support.effect_tables import read, tables
from tests.support.forged import (
    HOSTILE_CODE,
    HOSTILE_NAMES,
    LATE_ATTACKS,
    SELF,
    STATE_ATTACKS,
    forged,
    path_of,
    renamed,
    watched,
    with_forged,
    with_state,
)
from tests.support.live_state import live_state
from tests.support.sampling import crossed
from tests.support.strategies import patient

if TYPE_CHECKING:
    from pathlib import Path

    from archive.formats.effects.model import Source, Value

pytestmark = pytest.mark.torch

FOLDER = FIXTURES / "effects"
NAMES = ("counting", "caching", "reporting")
X = torch.ones(2, 3)


@cache
def table_of(name: str) -> EffectTable:
    with archive.open(FOLDER / f"{name}.pt") as opened:
        assert opened.effects is not None
        return opened.effects


# --- rows of the state


@pytest.mark.parametrize(("name", "attack"), crossed(NAMES, STATE_ATTACKS))
def test_no_reader_lets_a_hostile_row_pass(name: str, attack: str, tmp_path: Path) -> None:
    path = tmp_path / "m.pt"
    path.write_bytes(with_forged(FOLDER / f"{name}.pt", with_state(table_of(name), STATE_ATTACKS[attack])))
    with watched() as events:
        with pytest.raises(ArchiveError, match="is Python's own"):
            Effectful.load(path)
        found = [(one.severity, one.record) for one in verify(path)]
    assert ("error", EFFECTS) in found
    assert not [event for event in events if event[0].startswith(("os.system", "subprocess"))]
    assert run("verify", str(path)).returncode == 1
    shown = run("inspect", "--effects", str(path))
    assert (shown.returncode, shown.stdout) == (2, b"")
    assert b"is Python's own" in shown.stderr


@pytest.mark.parametrize("rows", LATE_ATTACKS.values(), ids=LATE_ATTACKS)
def test_a_row_is_put_into_what_the_table_makes_and_nowhere_else(
    rows: tuple[tuple[Source, Value], ...],
) -> None:
    table = read(forged(EffectTable((), rows)))
    with watched() as events, pytest.raises(StateError):
        State.fresh(table, [torch.zeros(2)])
    assert events == []


# --- every other place in which a record may name something

BAD = "__class__"
PLACES: dict[str, EffectTable] = {}


def _method(*effects: Effect, **fields: Any) -> EffectTable:  # noqa: ANN401
    return EffectTable(
        (replace(MethodEffects("forward", (Local("x"),), Output(0), tuple(effects)), **fields),), ()
    )


def _hook(name: str) -> Value:
    empty = (Made("tuple", ()), Made("dict", ()), Made("tuple", ()), Made("tuple", ()))
    return Made("function", (Constant(name), Constant("0" * 32), *empty))


BENEATH = Attribute(SELF, BAD)
CODE = "models:Model.forward.__globals__.update"
HOSTILE_TABLES = {
    "an input": _method(inputs=(BENEATH,)),
    "a result": _method(result=At(BENEATH)),
    "a result in a container": _method(result=Made("list", (At(Item(BENEATH, 0)),))),
    "an effect's source": _method(Effect(Op.APPEND, BENEATH, None, Output(0))),
    "an effect's key": _method(Effect(Op.SET_ITEM, SELF, At(BENEATH), Output(0))),
    "an effect's value": _method(Effect(Op.APPEND, path_of("items"), None, At(BENEATH))),
    "a global": _method(Effect(Op.SET_GLOBAL, GlobalName("models", "__builtins__"), None, Output(0))),
    "a variable of a function": _method(Effect(Op.SET_CELL, ClosureCell("m:f", BAD), None, Output(0))),
    "a guard's subject": _method(guards=(Guard(Look.LENGTH, At(BENEATH), Constant(1)),)),
    "a guard's other subject": _method(guards=(Guard(Look.SAME, At(SELF), At(BENEATH)),)),
    "an attribute that a guard asks for": _method(
        guards=(Guard(Look.ATTRIBUTE, At(SELF), Constant(value=True), Constant(BAD)),)
    ),
    "hooks that a guard asks for": _method(
        guards=(Guard(Look.HOOKS, At(SELF), Constant(()), Constant("__dict__")),)
    ),
    "a setting that a guard asks for": _method(
        guards=(Guard(Look.SETTING, Constant(None), Constant(1), Constant("os.getcwd")),)
    ),
    "a class": _method(Effect(Op.NEW, Temporary(0), Constant(CODE))),
    "a hook": _method(Effect(Op.REGISTER_HOOK, Local("x"), Constant(CODE), Constant(0))),
    "a recipe of a hook": _method(Effect(Op.REGISTER_HOOK, Local("x"), _hook(CODE), Constant(0))),
    "a hook on the way back": _method(
        Effect(
            Op.REGISTER_BACKWARD_HOOKS,
            SELF,
            Made("tuple", (Made("tuple", (Constant(CODE),)), Made("tuple", ()))),
            Made("tuple", (Made("tuple", ()), Made("tuple", ()))),
        )
    ),
    "a number in the place of such a hook": _method(
        Effect(
            Op.REGISTER_BACKWARD_HOOKS,
            SELF,
            Made("tuple", (Made("tuple", (Constant(5),)), Made("tuple", ()))),
            Made("tuple", (Made("tuple", ()), Made("tuple", ()))),
        )
    ),
    "a factory": EffectTable((), ((path_of("a"), Made("defaultdict", (Constant(CODE),))),)),
    "a class that derives from a container": EffectTable(
        (), ((path_of("a"), Made("subclass", (Constant(CODE), Made("list", ())))),)
    ),
    "a named tuple": EffectTable((), ((path_of("a"), Made("namedtuple", (Constant(CODE), Constant(())))),)),
    "a call": _method(
        Effect(Op.CALL, GlobalName("os", "system"), Constant(("", "")), Made("tuple", (Constant("true"),)))
    ),
    "what a module keeps for itself": _method(
        Effect(Op.SET_ITEM, path_of("_forward_hooks"), Constant(0), Output(0))
    ),
    "hooks that are set": _method(Effect(Op.SET_ATTRIBUTE, SELF, Constant("_forward_hooks"), Output(0))),
    "a row at a length": EffectTable((), ((archive.formats.effects.model.Length(SELF), Constant(1)),)),
}
"""Tables with something hostile in one place, by that place."""


@pytest.mark.parametrize("table", HOSTILE_TABLES.values(), ids=HOSTILE_TABLES)
def test_each_place_is_checked_before_anything_is_made(table: EffectTable) -> None:
    with pytest.raises(ArchiveError):
        check_table(table)
    with pytest.raises(ArchiveError):
        read(forged(table))
    with watched() as events:
        with pytest.raises(StateError):
            State.fresh(table, [])
        for method in table.methods:
            with pytest.raises(ReplayError):
                prepared(method)
    assert events == []


def test_what_a_module_of_pytorch_keeps_for_itself_is_no_place() -> None:
    kept = set(vars(torch.nn.Module())) - {"training"}
    assert kept <= MODULE_NAMES


def test_settings_are_those_of_the_gate() -> None:
    assert tuple(SETTINGS) == SETTING_NAMES


# --- all ops, looks and kinds, with hostile names

REFUSALS = (ArchiveError, ReplayError, StateError)
ROWS: tuple[tuple[Source, Value], ...] = (
    (path_of("items"), Made("list", (Constant(1), Constant("two")))),
    (path_of("table"), Made("dict", (Constant("os"), Constant(1)))),
    (path_of("kept"), Stored(0)),
    (path_of("output"), Made("subclass", (Constant("m:Output"), Made("dict", ())))),
    (path_of("pair"), Made("namedtuple", (Constant("m:Pair"), Constant(("a", "b")), Stored(0), Constant(2)))),
)
KNOWN_NAMES = ("self", "x", "items", "table", "kept", "output", "pair", "a")


def picked(data: st.DataObject) -> Any:  # noqa: ANN401
    """A function that draws names of a kind."""
    names = st.sampled_from((*KNOWN_NAMES, *HOSTILE_NAMES))
    code = st.sampled_from(HOSTILE_CODE)

    def pick(kind: str, old: str) -> str:
        return data.draw({"name": names, "code": code, "text": names | st.just(old)}[kind])

    return pick


def attempted(table: EffectTable, state: State | None = None) -> None:
    """Read a table from its record, make its state, and make each method's changes, or refuse to."""
    try:
        found = read(forged(table))
        state = State.fresh(found, [torch.zeros(2)] * 4) if state is None else state
    except REFUSALS:
        return
    for method in found.methods:
        try:
            ready = prepared(method)
            arguments = dict.fromkeys((*KNOWN_NAMES, *HOSTILE_NAMES), X)
            ready.replay(state, [X.clone() for _ in range(4)], arguments)
        except REFUSALS:
            continue


class Live(torch.nn.Module):
    """A live module, whose own code tells when it runs."""

    ran: list[str] = []  # noqa: RUF012 (all objects together)
    limit = 3

    def __init__(self) -> None:
        super().__init__()
        self.items = [1, "two"]
        self.table = {"os": 1}
        self.register_buffer("kept", torch.zeros(2))
        self.function = subprocess.getoutput

    def __len__(self) -> int:
        self.ran.append("__len__")
        return 0

    def __getitem__(self, key: object) -> object:
        self.ran.append("__getitem__")
        return self

    @property
    def output(self) -> object:
        self.ran.append("output")
        return self

    @output.setter
    def output(self, _: object) -> None:
        self.ran.append("output is set")

    def append(self, _: object) -> None:
        self.ran.append("append")

    pop = update = clear = remove = save = append


@patient
@given(tables, st.data())
def test_no_table_runs_anything_nor_code_of_a_live_module(table: EffectTable, data: st.DataObject) -> None:
    live = Live()
    before = dict(vars(Live))
    hostile = renamed(table, picked(data))
    with watched() as events:
        attempted(replace(hostile, state=(*ROWS, *hostile.state)))
        attempted(hostile, live_state(live))
    assert events == []
    assert Live.ran == []
    assert dict(vars(Live)) == before
    assert not set(vars(live)) & {"forward", "append", "pop", "register_buffer", "load_state_dict"}


def test_a_live_module_gives_out_data_of_its_class_and_no_code() -> None:
    live = Live()

    def taken(name: str) -> object:
        taking = MethodEffects("forward", (), At(Attribute(SELF, name)), ())
        return prepared(taking).replay(live_state(live), [], {})

    assert taken("limit") == 3
    for name in ("function", "append", "output", "forward", "missing"):
        with pytest.raises(ReplayError):
            taken(name)
    assert Live.ran == []
