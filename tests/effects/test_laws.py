"""Laws of the table of side effects: clones, equal tables, differences, what is applied to all of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

from archive.effects import SideEffects
from archive.effects.capture.graph.variables import DELETED, Variable, VariableKind
from archive.formats.effects.model import At, Attribute, ClosureCell, GlobalName, Local, Op, Output

pytestmark = pytest.mark.torch

SELF = Local("self")


class Thing:
    """Something to follow."""


def attribute(name: str) -> Attribute:
    return Attribute(SELF, name)


@pytest.fixture
def table() -> SideEffects:
    return SideEffects()


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["attr", "list", "dict", "cell", "global", "hook", "new", "delete", "result"]),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=8,
)


class Walk:
    """A table on which steps are done."""

    def __init__(self) -> None:
        self.table = SideEffects()
        self.objects = [self.table.track_object_existing(Thing(), attribute(f"o{n}")) for n in range(3)]
        self.lists = [self.table.track_list([], attribute(f"l{n}")) for n in range(3)]
        self.dicts = [self.table.track_dict({}, attribute(f"d{n}")) for n in range(3)]
        self.cells = [self.table.track_cell_existing(ClosureCell("m:f", str(n)), object()) for n in range(3)]
        names = (GlobalName("m", str(n)) for n in range(3))
        self.names = [self.table.track_global_existing(name, object()) for name in names]

    def step(self, table: SideEffects, what: str, which: int, value: int) -> None:
        match what:
            case "attr":
                table.store_attr(self.objects[which], f"a{value}", value)
            case "delete":
                table.store_attr(self.objects[which], f"a{value}", DELETED)
            case "list":
                table.mutation(self.lists[which], Op.APPEND, value=self.lists[value % 3])
            case "dict":
                table.mutation(self.dicts[which], Op.SET_ITEM, value, Output(value))
            case "cell":
                table.store_cell(self.cells[which], value)
            case "global":
                table.store_global(self.names[which], str(which), [value])
            case "hook":
                table.register_hook(At(Local("x")), f"m:f{value}")
            case "new":
                new = table.track_object_new(Thing(), f"m:C{value}")
                table.store_attr(self.objects[which], "new", new)
            case "result":
                table.result = (value, self.lists[which])


@given(STEPS, STEPS)
def test_a_clone_is_equal_and_goes_its_own_way(
    before: list[tuple[str, int, int]], after: list[tuple[str, int, int]]
) -> None:
    walk = Walk()
    for step in before:
        walk.step(walk.table, *step)
    clone, seen = walk.table.clone(), walk.table.table()
    assert clone == walk.table
    assert clone.diff(walk.table) is None
    for step in after:
        walk.step(clone, *step)
    assert walk.table.table() == seen
    assert (clone == walk.table) == (clone.diff(walk.table) is None) == (walk.table.diff(clone) is None)
    if clone.table() != seen:
        assert clone != walk.table


@given(STEPS)
def test_equal_steps_make_equal_tables(steps: list[tuple[str, int, int]]) -> None:
    one, other = Walk(), Walk()
    for step in steps:
        one.step(one.table, *step)
        other.step(other.table, *step)
    assert one.table == other.table


@given(STEPS)
def test_apply(steps: list[tuple[str, int, int]]) -> None:
    walk = Walk()
    for step in steps:
        walk.step(walk.table, *step)
    same = walk.table.clone()
    same.apply(lambda variable: variable)
    assert same == walk.table

    def renamed(variable: Variable, name: str) -> Variable:
        if variable.kind is VariableKind.OBJECT and isinstance(variable.source, Attribute):
            source = Attribute(variable.source.base, name + variable.source.name)
            return Variable(variable.kind, source, variable.class_name, variable.contents)
        return variable

    twice, once = walk.table.clone(), walk.table.clone()
    twice.apply(lambda variable: renamed(variable, "p"))
    twice.apply(lambda variable: renamed(variable, "q"))
    once.apply(lambda variable: renamed(renamed(variable, "p"), "q"))
    assert once == twice
    assert all(
        effect.source.name.startswith("qp")
        for effect in once.table().effects
        if effect.op is Op.SET_ATTRIBUTE and isinstance(effect.source, Attribute)
    )


def test_clear(table: SideEffects) -> None:
    walk = Walk()
    for what in ("attr", "list", "hook", "new"):
        walk.step(walk.table, what, 0, 1)
    assert not walk.table.is_empty()
    walk.table.clear()
    assert walk.table.is_empty()
    assert walk.table == table


def test_diff_tells_what_differs(table: SideEffects) -> None:
    other = table.clone()
    other.result = 1
    assert (other.diff(table) or "").startswith("result")
    other = table.clone()
    other.track_list([], SELF)
    assert (other.diff(table) or "").startswith("variables")
    other = table.clone()
    other.register_hook(At(Local("x")), "m:f")
    assert (other.diff(table) or "").startswith("effect")
