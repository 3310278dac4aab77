"""The table of side effects: what it tells apart, what it forgets, and how it numbers hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

from archive.effects import CaptureError, SideEffects
from archive.effects.capture.graph.variables import DELETED, MutationType
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
    variable = table.track_object_existing(thing, SELF)
    assert thing in table
    assert table[thing] is variable
    assert items not in table
    assert [1] not in table
    table.track_list(items, attribute("items"))
    with pytest.raises(ValueError, match="already tracked"):
        table.track_list(items, attribute("others"))


def test_what_is_tracked_is_kept_alive(table: SideEffects) -> None:
    for number in range(100):
        table.track_list([number], attribute(f"list{number}"))
    assert len(table.id_to_variable) == 100


def test_mutation_types(table: SideEffects) -> None:
    types = {
        table.track_list([], SELF).mutation_type: MutationType.VALUE_EXISTING,
        table.track_object_existing(Thing(), SELF).mutation_type: MutationType.ATTRIBUTE_EXISTING,
        table.track_object_new(Thing(), "tests:Thing").mutation_type: MutationType.ATTRIBUTE_NEW,
        table.track_other(len, None).mutation_type: None,
    }
    assert all(found is wanted for found, wanted in types.items())


def test_attributes(table: SideEffects) -> None:
    thing = table.track_object_existing(Thing(), SELF)
    assert not table.is_modified(thing)
    assert table.is_empty()
    table.store_attr(thing, "a", 1)
    table.store_attr(thing, "a", 2)
    assert table.load_attr(thing, "a") == 2
    assert table.is_modified(thing)
    assert table.has_pending_mutation(thing)
    assert not table.has_pending_mutation_of_attr(thing, "b")
    assert not table.is_empty()
    assert table.table().effects == (Effect(Op.SET_ATTRIBUTE, SELF, Constant("a"), Constant(2)),)


def test_deleted_attributes(table: SideEffects) -> None:
    thing = table.track_object_existing(Thing(), SELF)
    table.store_attr(thing, "a", DELETED)
    assert table.load_attr(thing, "a", deleted_ok=True) is DELETED
    with pytest.raises(AttributeError):
        table.load_attr(thing, "a")
    assert table.table().effects == (Effect(Op.DELETE_ATTRIBUTE, SELF, Constant("a")),)


def test_what_came_and_went_leaves_nothing(table: SideEffects) -> None:
    thing = table.track_object_existing(Thing(), SELF)
    table.store_attr(thing, "a", 1, existed=False)
    table.store_attr(thing, "a", DELETED, existed=False)
    assert table.is_empty()
    assert not table.is_modified(thing)


def test_an_attribute_set_to_what_it_was_is_no_effect(table: SideEffects) -> None:
    items: list[int] = []
    thing = table.track_object_existing(Thing(), SELF)
    table.track_list(items, attribute("items"))
    table.store_attr(thing, "items", items)
    assert table.table().effects == ()


def test_cells(table: SideEffects) -> None:
    source = ClosureCell("m:f", "n")
    cell = table.track_cell_existing(source, object(), 3)
    assert table.load_cell(cell) == 3
    table.store_cell(cell, 4)
    assert table.load_cell(cell) == 4
    new = table.track_cell_new()
    with pytest.raises(ValueError, match="empty"):
        table.load_cell(new)
    table.store_cell(new, 1)
    assert table.load_cell(new) == 1
    with pytest.raises(TypeError, match="not a cell"):
        table.load_cell(table.track_object_existing(Thing(), SELF))
    table.prune_dead_object_new()
    assert table.table().effects == (Effect(Op.SET_CELL, source, None, Constant(4)),)


def test_globals(table: SideEffects) -> None:
    source = GlobalName("m", "n")
    variable = table.track_global_existing(source, object())
    table.store_global(variable, "n", 4)
    assert table.load_global(variable, "n") == 4
    assert table.table().effects == (Effect(Op.SET_GLOBAL, source, None, Constant(4)),)


def test_lists_keep_what_is_done_to_them(table: SideEffects) -> None:
    source = attribute("items")
    items = table.track_list([], source)
    assert not table.is_modified(items)
    table.mutation(items, Op.APPEND, value=Output(0))
    table.mutation(items, Op.POP, 0)
    assert table.is_modified(items)
    effects = (Effect(Op.APPEND, source, None, Output(0)), Effect(Op.POP, source, Constant(0)))
    assert table.table().effects == effects
    with pytest.raises(TypeError):
        table.store_attr(items, "a", 1)
    with pytest.raises(TypeError):
        table.mutation(table.track_object_existing(Thing(), SELF), Op.CLEAR)


def test_the_order_of_effects(table: SideEffects) -> None:
    thing = table.track_object_existing(Thing(), SELF)
    items = table.track_list([], attribute("items"))
    made = Thing()
    table.mutation(items, Op.APPEND, value=1)
    table.store_attr(thing, "a", made)
    table.register_hook(At(Local("x")), "m:f")
    table.mutation(Local("x"), Op.COPY, value=Output(0))
    new = table.track_object_new(made, "m:C")
    table.track_save_for_backward(new, [Output(1)])
    assert [effect.op for effect in table.table().effects] == [
        Op.NEW,
        Op.SAVE_FOR_BACKWARD,
        Op.REGISTER_HOOK,
        Op.COPY,
        Op.APPEND,
        Op.SET_ATTRIBUTE,
    ]


def test_a_new_list_in_two_places_is_one(table: SideEffects) -> None:
    thing = table.track_object_existing(Thing(), SELF)
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
    thing = table.track_object_existing(Thing(), SELF)
    table.store_attr(thing, "a", {Thing()})
    with pytest.raises(CaptureError, match="a set whose elements are no constants cannot be kept in a table"):
        table.table()


# --- hooks ---------------------------------------------------------------------------------------------


def test_a_hook_never_takes_a_live_one_s_number(table: SideEffects) -> None:
    first, second = (table.register_hook(At(Local("x")), f"m:f{n}") for n in range(2))
    table.remove_hook(first)
    third = table.register_hook(At(Local("x")), "m:f2")  # the original's number, len(), is the second's
    assert third not in (first, second)
    assert {hook.function for hook in table.tensor_hooks.values()} == {"m:f1", "m:f2"}
    with pytest.raises(KeyError):
        table.remove_hook(first)


@given(st.lists(st.one_of(st.none(), st.integers(0, 9))))
def test_hooks_are_what_was_registered_and_not_removed(steps: list[int | None]) -> None:
    table, live = SideEffects(), {}
    for step, which in enumerate(steps):
        if which is None:
            live[table.register_hook(At(Local("x")), f"m:f{step}")] = f"m:f{step}"
        elif live:
            number = sorted(live)[which % len(live)]
            table.remove_hook(number)
            del live[number]
    assert {number: hook.function for number, hook in table.tensor_hooks.items()} == live


def test_a_hook_on_what_the_graph_makes() -> None:
    table = SideEffects(graph_value=lambda value: value if isinstance(value, str) else None)
    number = table.register_hook("node", "m:f")
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
    module = table.track_object_existing(Thing(), SELF)
    variables = [table.track_object_new(thing, "m:C") for thing in things]
    for place, (one, other) in enumerate(edges):
        table.store_attr(variables[one], f"a{place}", [(things[other],)])
    wrap: list[Callable[[int], object]] = [
        lambda root: table.store_attr(module, f"root{root}", things[root]),
        lambda root: setattr(table, "result", [table.result, things[root]]),
        lambda root: table.mutation(
            table.track_list([], attribute(f"list{root}")), Op.APPEND, value={"key": things[root]}
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
