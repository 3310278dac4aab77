"""The table of side effects: what it tells apart, what it forgets, and how it numbers hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

from archive.effects import CaptureError, SideEffects
from archive.effects.capture.graph.variables import (
    DELETED,
    VariableKind,
)
from archive.effects.capture.table.pending import Hook
from archive.effects.placeholders import ABSENT
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Constant,
    Effect,
    GlobalName,
    Item,
    Local,
    Made,
    New,
    Op,
    Output,
    Temporary,
)
from archive.formats.effects.rules import check_method

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.formats.effects.model import Source

pytestmark = pytest.mark.torch

SELF = Local("self")


class Thing:
    """Something to follow."""


def attribute(name: str) -> Attribute:
    return Attribute(SELF, name)


@pytest.fixture
def table() -> SideEffects:
    return SideEffects()


# --- single entries ------------------------------------------------------------------------------------


def test_one_variable_per_object(table: SideEffects) -> None:
    thing, items = Thing(), [1]
    variable = table.track(VariableKind.OBJECT, SELF, thing)
    assert thing in table
    assert table[thing] is variable
    assert items not in table
    assert [1] not in table
    table.track(VariableKind.LIST, attribute("items"), items)
    with pytest.raises(ValueError, match="already tracked"):
        table.track(VariableKind.LIST, attribute("others"), items)


def test_what_is_tracked_is_kept_alive(table: SideEffects) -> None:
    for number in range(100):
        table.track(VariableKind.LIST, attribute(f"list{number}"), [number])
    assert len(table.id_to_variable) == 100


def test_what_the_call_has_made_is_new(table: SideEffects) -> None:
    assert table.track(VariableKind.OBJECT, None, Thing(), class_name="tests:Thing").is_new
    assert not table.track(VariableKind.OBJECT, SELF, Thing()).is_new
    assert not table.track(VariableKind.OTHER, None, len).is_new


def test_attributes(table: SideEffects) -> None:
    thing = table.track(VariableKind.OBJECT, SELF, Thing())
    assert not table.is_modified(thing)
    table.store_attr(thing, "a", 1)
    table.store_attr(thing, "a", 2)
    assert table.pending(thing, "a") == 2
    assert table.is_modified(thing)
    assert table.pending(thing, "b") is ABSENT
    assert table.table().effects == (Effect(Op.SET_ATTRIBUTE, SELF, Constant("a"), Constant(2)),)


def test_deleted_attributes(table: SideEffects) -> None:
    thing = table.track(VariableKind.OBJECT, SELF, Thing())
    table.store_attr(thing, "a", DELETED)
    assert table.pending(thing, "a") is DELETED
    assert table.table().effects == (Effect(Op.DELETE_ATTRIBUTE, SELF, Constant("a")),)


def test_what_came_and_went_leaves_nothing(table: SideEffects) -> None:
    thing = table.track(VariableKind.OBJECT, SELF, Thing())
    table.store_attr(thing, "a", 1, existed=False)
    table.store_attr(thing, "a", DELETED, existed=False)
    assert table.table().effects == ()
    assert not table.is_modified(thing)


def test_an_attribute_set_to_what_it_was_is_no_effect(table: SideEffects) -> None:
    items: list[int] = []
    thing = table.track(VariableKind.OBJECT, SELF, Thing())
    table.track(VariableKind.LIST, attribute("items"), items)
    table.store_attr(thing, "items", items)
    assert table.table().effects == ()


@pytest.mark.parametrize(
    ("kind", "source", "op"),
    [
        (VariableKind.CELL, ClosureCell("m:f", "n"), Op.SET_CELL),
        (VariableKind.GLOBAL, GlobalName("m", "n"), Op.SET_GLOBAL),
    ],
)
def test_cells_and_globals(table: SideEffects, kind: VariableKind, source: Source, op: Op) -> None:
    variable = table.track(kind, source, object())
    table.store_attr(variable, "n", 3)
    table.store_attr(variable, "n", 4)
    assert table.pending(variable, "n") == 4
    assert table.table().effects == (Effect(op, source, None, Constant(4)),)


def test_lists_keep_what_is_done_to_them(table: SideEffects) -> None:
    source = attribute("items")
    items = table.track(VariableKind.LIST, source, [])
    assert not table.is_modified(items)
    table.mutation(items, Op.APPEND, value=Output(0))
    table.mutation(items, Op.POP, 0)
    assert table.is_modified(items)
    effects = (Effect(Op.APPEND, source, None, Output(0)), Effect(Op.POP, source, Constant(0)))
    assert table.table().effects == effects
    with pytest.raises(TypeError):
        table.store_attr(items, "a", 1)
    with pytest.raises(TypeError):
        table.mutation(table.track(VariableKind.OBJECT, SELF, Thing()), Op.CLEAR)


def test_the_order_of_effects(table: SideEffects) -> None:
    thing = table.track(VariableKind.OBJECT, SELF, Thing())
    items = table.track(VariableKind.LIST, attribute("items"), [])
    made = Thing()
    table.mutation(items, Op.APPEND, value=1)
    table.store_attr(thing, "a", made)
    table.register_hook(Hook(At(Local("x")), "m:f"))
    table.mutation(Local("x"), Op.COPY, value=Output(0))
    new = table.track(VariableKind.OBJECT, None, made, class_name="m:C")
    table.save_for_backward.append((new, (Output(1),), None))
    assert [effect.op for effect in table.table().effects] == [
        Op.NEW,
        Op.SAVE_FOR_BACKWARD,
        Op.REGISTER_HOOK,
        Op.COPY,
        Op.APPEND,
        Op.SET_ATTRIBUTE,
    ]


def test_a_new_list_in_two_places_is_one(table: SideEffects) -> None:
    thing = table.track(VariableKind.OBJECT, SELF, Thing())
    shared = [1]
    table.store_attr(thing, "a", shared)
    table.store_attr(thing, "b", {"in": shared})
    table.result = (shared, [2])
    method = table.table()
    check_method(method)
    assert method.effects[:2] == (
        Effect(Op.NEW, Temporary(0), Constant("builtins:list")),
        Effect(Op.EXTEND, Temporary(0), None, Made("list", (Constant(1),))),
    )
    assert method.result == Made("tuple", (New(0), Made("list", (Constant(2),))))
    assert method.effects[3].value == Made("dict", (Constant("in"), New(0)))


def test_a_list_that_holds_itself(table: SideEffects) -> None:
    own: list[object] = []
    own.append(own)
    table.result = own
    check_method(table.table())
    assert table.table().result == New(0)


def test_values_that_no_table_holds(table: SideEffects) -> None:
    thing = table.track(VariableKind.OBJECT, SELF, Thing())
    table.store_attr(thing, "a", {Thing()})
    with pytest.raises(CaptureError, match="a set whose elements aren't constants cannot be kept in a table"):
        table.table()


# --- hooks ---------------------------------------------------------------------------------------------


def test_a_hook_never_takes_a_live_one_s_number(table: SideEffects) -> None:
    first, second = (table.register_hook(Hook(At(Local("x")), f"m:f{n}")) for n in range(2))
    del table.tensor_hooks[first]
    third = table.register_hook(Hook(At(Local("x")), "m:f2"))  # the original's number, len(), is the second's
    assert third not in (first, second)
    assert {hook.function for hook in table.tensor_hooks.values()} == {"m:f1", "m:f2"}


@given(st.lists(st.one_of(st.none(), st.integers(0, 9))))
def test_hooks_are_what_was_registered_and_not_removed(steps: list[int | None]) -> None:
    table, live = SideEffects(), {}
    for step, which in enumerate(steps):
        if which is None:
            live[table.register_hook(Hook(At(Local("x")), f"m:f{step}"))] = f"m:f{step}"
        elif live:
            number = sorted(live)[which % len(live)]
            del table.tensor_hooks[number]
            del live[number]
    assert {number: hook.function for number, hook in table.tensor_hooks.items()} == live


def test_a_hook_on_what_the_graph_makes() -> None:
    table = SideEffects(graph_value=lambda value: value if isinstance(value, str) else None)
    number = table.register_hook(Hook("node", "m:f"))
    method = table.table()
    check_method(method)
    assert [effect.op for effect in method.effects] == [Op.NEW, Op.APPEND, Op.REGISTER_HOOK]
    assert method.effects[-1].source == Item(Temporary(0), 0)
    assert method.effects[-1].value == Constant(number)


# --- new objects ---------------------------------------------------------------------------------------


@given(st.data())
def test_pruning_keeps_exactly_what_is_reached(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 7))
    edges = data.draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))))
    roots = data.draw(st.sets(st.integers(0, count - 1)))
    table, things = SideEffects(), [Thing() for _ in range(count)]
    module = table.track(VariableKind.OBJECT, SELF, Thing())
    variables = [table.track(VariableKind.OBJECT, None, thing, class_name="m:C") for thing in things]
    for place, (one, other) in enumerate(edges):
        table.store_attr(variables[one], f"a{place}", [(things[other],)])
    wrap: list[Callable[[int], object]] = [
        lambda root: table.store_attr(module, f"root{root}", things[root]),
        lambda root: setattr(table, "result", [table.result, things[root]]),
        lambda root: table.mutation(
            table.track(VariableKind.LIST, attribute(f"list{root}"), []),
            Op.APPEND,
            value={"key": things[root]},
        ),
    ]
    for root in roots:
        wrap[root % 3](root)
    live = set(roots)
    while True:
        more = live | {other for one, other in edges if one in live}
        if more == live:
            break
        live = more
    table.prune_dead_object_new()
    assert {number for number, thing in enumerate(things) if thing in table} == live
    assert {one for one in table.store_attr_mutations if one is not module} <= {variables[n] for n in live}
    method = table.table()
    check_method(method)
    assert sum(effect.op is Op.NEW for effect in method.effects) == len(live)
