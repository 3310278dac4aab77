"""Undo: when one effect fails, the state is as it was before the first."""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.effects.placeholders import Plain
from archive.effects.replay.errors import ReplayError
from archive.effects.replay.replay import replay
from archive.effects.replay.state import State
from archive.formats.effects.model import (
    At,
    Attribute,
    Constant,
    Effect,
    MethodEffects,
    Op,
    Output,
    Temporary,
)
from tests.effects.programs import (
    ALLOWED,
    SELF,
    Tensor,
    X,
    at,
    done,
    forward,
    kinds,
    methods,
    outputs,
    picture,
    started,
)
from tests.support.sampling import examples
from tests.support.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Callable


BROKEN = Effect(Op.DELETE_ITEM, at("self.child.log"), Constant(99))


@settings(patient, max_examples=examples(100))
@given(
    methods(), st.integers(0, 7), st.sampled_from([BROKEN, Effect(Op.COPY, at("self.mean"), None, Output(1))])
)
def test_a_failed_change_leaves_the_state_as_it_was(
    method: MethodEffects, place: int, broken: Effect
) -> None:
    effects = (*method.effects[:place], broken, *method.effects[place:])
    broken_method = MethodEffects(method.method, method.inputs, method.result, effects)
    state, x, out = started(method), Tensor(3, 4), outputs()
    before = picture(state, x, out)
    with pytest.raises(ReplayError):
        replay(broken_method, state, out, arguments={"x": x}, allow=ALLOWED)
    assert picture(state, x, out) == before


@settings(patient, max_examples=examples(100))
@given(st.data())
def test_each_kind_of_effect_is_undone(data: st.DataObject) -> None:
    """Each kind once, with a failure right behind it."""
    for kind in kinds:
        effect = data.draw(kind)
        test_a_failed_change_leaves_the_state_as_it_was.hypothesis.inner_test(  # type: ignore[attr-defined]
            forward(effect), 1, BROKEN
        )


class Slotted:
    __slots__ = ("count",)


class Guarded:
    kept = 1

    @property
    def count(self) -> int:
        return self.kept

    @count.setter
    def count(self, value: int) -> None:
        self.kept = value


class Defaults:
    count = 0


def _deleted() -> Any:  # noqa: ANN401
    found: Any = Plain()
    found.a, found.count, found.b = 1, 2, 3
    return found


@pytest.mark.parametrize("made", [Slotted, Guarded, Defaults, Plain, _deleted])
@pytest.mark.parametrize("op", [Op.SET_ATTRIBUTE, Op.DELETE_ATTRIBUTE])
def test_attributes_of_any_kind_of_object_are_undone(made: Callable[[], Any], op: Op) -> None:
    held = made()
    before = list(getattr(held, "__dict__", {}).items()), getattr(held, "count", "none")
    change = Effect(op, SELF, Constant("count"), Constant(5) if op is Op.SET_ATTRIBUTE else None)
    effects = forward(change, Effect(Op.APPEND, X, None, Output(0)))
    with pytest.raises(ReplayError):
        replay(effects, State({"self": held}), [1], arguments={"x": 3})
    assert (list(getattr(held, "__dict__", {}).items()), getattr(held, "count", "none")) == before


@pytest.mark.parametrize("made", [[1, 2, 3], deque([1, 2, 3]), {1: 2, 0: 3}, OrderedDict({1: 2, 0: 3})])
@pytest.mark.parametrize(
    ("op", "key", "value"),
    [
        (Op.APPEND, None, 5),
        (Op.EXTEND, None, (5, 6)),
        (Op.INSERT, 1, 5),
        (Op.POP, None, None),
        (Op.POP, 0, None),
        (Op.SET_ITEM, 0, 9),
        (Op.SET_ITEM, 7, 9),
        (Op.DELETE_ITEM, 1, None),
        (Op.CLEAR, None, None),
    ],
)
def test_items_of_any_kind_of_container_are_undone(made: Any, op: Op, key: int | None, value: Any) -> None:  # noqa: ANN401
    held = made.copy()
    change = Effect(op, X, None if key is None else Constant(key), None if value is None else Constant(value))
    with pytest.raises(ReplayError):
        done(change, BROKEN, state=_with_x(held))
    assert held == made
    assert list(held) == list(made)
    assert repr(held) == repr(made)


def _with_x(held: object) -> State:
    return State({**started().roots, "x": held})


def test_an_extension_takes_containers_alone() -> None:
    def failing() -> Any:  # noqa: ANN401
        yield 1
        raise ValueError("no more")

    state = started()
    module: Any = state.module
    with pytest.raises(ReplayError, match=r"self\.items\.extend\(out\[0\]\): expected a container"):
        done(Effect(Op.EXTEND, at("self.items"), None, Output(0)), state=state, out=[failing()])
    assert module.items == [10, 11, module.child]


def test_changes_below_a_temporary_are_undone_where_they_were_made() -> None:
    """``thing.held`` is one list at the first change and another at the second."""
    thing = Temporary(0)
    held = Attribute(thing, "held")
    state = started()
    before = picture(state)
    with pytest.raises(ReplayError):
        done(
            Effect(Op.NEW, thing, Constant("package.module:Thing")),
            Effect(Op.SET_ATTRIBUTE, thing, Constant("held"), At(at("self.items"))),
            Effect(Op.APPEND, held, None, Constant(5)),
            Effect(Op.SET_ATTRIBUTE, thing, Constant("held"), At(at("self.child.log"))),
            Effect(Op.APPEND, held, None, Constant(6)),
            BROKEN,
            state=state,
        )
    assert picture(state) == before


def test_a_copy_is_undone_when_the_result_cannot_be_read_behind_it() -> None:
    new = Effect(Op.NEW, Temporary(0), Constant("package.module:Thing"))
    copy = Effect(Op.COPY, at("self.mean"), None, Output(2))
    method = forward(new, copy, result=At(Attribute(Temporary(0), "missing")))
    state = started(method)
    before = picture(state)
    with pytest.raises(ReplayError, match="no attribute 'missing'"):
        replay(method, state, outputs(), arguments={}, allow=ALLOWED)
    assert picture(state) == before


def test_an_object_without_backup_is_not_changed() -> None:
    class Odd:
        __slots__ = ()

        def clear(self) -> None:
            raise AssertionError("never called")

    with pytest.raises(ReplayError, match="what a Odd is can't be put back"):
        done(Effect(Op.CLEAR, X), state=_with_x(Odd()))


def test_an_interruption_goes_on_after_changes_are_undone() -> None:
    class Interrupting(Tensor):
        def copy_(self, _: object) -> None:
            raise KeyboardInterrupt

    state = State({**started().roots, "x": Interrupting()})
    before = picture(state)
    clear = Effect(Op.CLEAR, at("self.items"))
    with pytest.raises(KeyboardInterrupt):
        done(clear, Effect(Op.COPY, X, None, Output(2)), clear, state=state)
    assert picture(state) == before
