"""Containers of many kinds, changed in random ways: eager calls against those of the captured model."""

from __future__ import annotations

import re
import warnings
from collections import OrderedDict, defaultdict, deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)


from archive.effects import CaptureError, GuardError, ReplayError, State, replay
from archive.effects.places import items_of
from archive.effects.replay.replay import prepared
from archive.formats.effects.model import Attribute, Constant, Effect, Made, Op, Temporary
from tests.support.effect_cases import tensor
from tests.support.effect_outcome import Comparing, paths, picture, state_in, state_of
from tests.support.effect_running import Direct
from tests.support.effect_tables import SELF, method
from tests.support.made_containers import KINDS, model, models
from tests.support.made_effects import written
from tests.support.sampling import examples
from tests.support.strategies import patient

if TYPE_CHECKING:
    from types import ModuleType

    from tests.support.made_effects import Made as Text

pytestmark = pytest.mark.torch

CALLS = 4


def check(made: Text) -> int:
    """Compare calls; gives the number of calls that were equal before one was refused.

    Raises:
        CaptureError: the model was refused as a whole.
    """
    with written(made) as module:
        eager, example = module.Model(), tensor(0, 3)
        before = picture([state_of(eager, [module]), example])
        loaded = Direct(eager, (example,), code_of(module))
        assert picture([state_of(eager, [module]), example]) == before, "capture leaves everything as it was"
        same = Comparing(paths(state_of(eager, [module])))
        for number in range(CALLS):
            state = picture(state_in(loaded))
            try:
                found = loaded(tensor(number, 3))
            except GuardError:
                assert picture(state_in(loaded)) == state, "a refused call leaves everything as it was"
                return number
            same.same(eager(tensor(number, 3)), found, f"call {number}")
            same.same(state_of(eager, [module]).module, state_in(loaded).module, ".module")
    return CALLS


def code_of(module: ModuleType) -> dict[str, Any]:
    return {f"{module.__name__}:{name}": one for name, one in vars(module).items() if isinstance(one, type)}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(patient, max_examples=examples(6))
def test_random_operations(kind: str, data: st.DataObject) -> None:
    warnings.simplefilter("ignore")
    try:
        equal = check(data.draw(models(kind)))
    except CaptureError:
        reject()
    assert equal, "the example call is never refused"


# --- changes are undone ------------------------------------------------------------------------------------


class Loud(dict[str, Any]):
    """A dict that nobody may set items of, but Python's own methods."""

    def __setitem__(self, key: str, value: object) -> None:
        raise AssertionError("never called")

    def clear(self) -> None:
        raise AssertionError("never called")


class Listed(list[Any]):
    """The same as a list."""

    def append(self, value: object) -> None:  # noqa: ARG002
        raise AssertionError("never called")


PLACE = Attribute(SELF, "held")
ONE, KEY = Constant(1), Constant("a")
CHANGES: list[tuple[Any, Effect, Any]] = [
    (lambda: {"a"}, Effect(Op.ADD, PLACE, None, Constant("b")), {"a", "b"}),
    (lambda: {"a"}, Effect(Op.ADD, PLACE, None, KEY), {"a"}),
    (lambda: {"a"}, Effect(Op.DISCARD, PLACE, None, KEY), set()),
    (lambda: {"a", "b"}, Effect(Op.CLEAR, PLACE), set()),
    (lambda: deque([1, 2], 2), Effect(Op.APPEND, PLACE, None, ONE), deque([2, 1], 2)),
    (lambda: deque([1, 2], 2), Effect(Op.APPEND_LEFT, PLACE, None, Constant(3)), deque([3, 1], 2)),
    (lambda: deque([1, 2]), Effect(Op.POP_LEFT, PLACE), deque([2])),
    (lambda: deque([1, 2]), Effect(Op.POP, PLACE), deque([1])),
    (lambda: deque([1, 2]), Effect(Op.INSERT, PLACE, ONE, Constant(5)), deque([1, 5, 2])),
    (lambda: deque([1, 2]), Effect(Op.DELETE_ITEM, PLACE, ONE), deque([1])),
    (lambda: OrderedDict(a=1, b=2), Effect(Op.DELETE_ITEM, PLACE, KEY), OrderedDict(b=2)),
    (lambda: OrderedDict(b=2), Effect(Op.SET_ITEM, PLACE, KEY, ONE), OrderedDict(b=2, a=1)),
    (lambda: defaultdict(list, b=[]), Effect(Op.SET_ITEM, PLACE, KEY, ONE), defaultdict(list, b=[], a=1)),
    (lambda: Loud(b=2), Effect(Op.SET_ITEM, PLACE, KEY, ONE), Loud(b=2, a=1)),
    (lambda: Loud(b=2), Effect(Op.CLEAR, PLACE), Loud()),
    (lambda: Listed([1]), Effect(Op.APPEND, PLACE, None, Constant(2)), Listed([1, 2])),
    (lambda: Listed([1]), Effect(Op.EXTEND, PLACE, None, Made("list", (ONE, ONE))), Listed([1, 1, 1])),
]


def shown(value: Any) -> Any:  # noqa: ANN401
    items = items_of(value)
    return type(value), sorted(items) if isinstance(value, set) else items


@pytest.mark.parametrize(("before", "effect", "after"), CHANGES)
def test_a_change_is_made_by_pythons_own_method_and_undone(before: Any, effect: Effect, after: Any) -> None:  # noqa: ANN401
    model, same = SimpleNamespace(held=before(), count=1), before()
    failing = Effect(Op.APPEND, Attribute(SELF, "count"), None, ONE)
    with pytest.raises(ReplayError, match="append"):
        replay(method(effect, failing), State.of(model), [0], arguments={})
    assert shown(model.held) == shown(same)
    replay(method(effect), State.of(model), [0], arguments={})
    assert shown(model.held) == shown(after)


# --- calls unlike the example ------------------------------------------------------------------------------


def test_another_kind_of_container_is_refused() -> None:
    made = model(("deque()",) * 3, ["self.first.append(x)", "seen.append(len(self.first))"])
    with written(made) as module:
        loaded = Direct(module.Model(), (tensor(0, 3),), {})
        loaded(tensor(0, 3))
        loaded.state.module.first = loaded.state.module.same = loaded.state.module.nested[0] = []
        with pytest.raises(GuardError, match=r"type\(self\.first\) is deque"):
            loaded(tensor(1, 3))
        assert loaded.state.module.first == []


def test_without_the_models_classes_there_are_stand_ins() -> None:
    made = model(("Ordered(k=1.0)",) * 3, ["self.first['n'] = x", "seen.append(Ordered(a=x))"])
    with written(made) as module:
        loaded = Direct(module.Model(), (tensor(0, 3),), {})
        found = loaded(tensor(0, 3))[1][0]
    assert (type(found).__name__, list(found), isinstance(found, OrderedDict)) == ("Ordered", ["a"], True)
    assert found.writes == 1, "what the class's own method has set"
    assert not hasattr(found, "total"), "a stand-in has no methods of the model"
    assert type(found) is type(loaded.state.module.first)


def test_a_class_that_is_allowed_must_derive_from_the_same_container() -> None:
    effect = Effect(Op.NEW, Temporary(0), Constant("m:Loud"), Made("list", ()))
    with pytest.raises(ReplayError, match="m:Loud is no class that derives from list"):
        prepared(method(effect), {"m:Loud": Loud})
    named = Made("namedtuple", (Constant("m:Loud"), Constant(("a",)), ONE))
    with pytest.raises(ReplayError, match="m:Loud is no named tuple of a"):
        prepared(method(result=named), {"m:Loud": Loud})


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Made("deque", (KEY,)), "a deque of 'a'"),
        (Made("set", (Made("list", ()),)), "a set with an element that is no constant"),
        (Made("OrderedDict", (ONE,)), "a OrderedDict with a key that has no value"),
        (Made("defaultdict", (KEY,)), "a defaultdict of 'a'"),
        (Made("namedtuple", (Constant("m:C"), Constant(("a", "a")), ONE, ONE)), "a namedtuple of 'm:C'"),
        (Made("namedtuple", (Constant("m:C"), Constant(("class",)), ONE)), "a namedtuple of 'm:C'"),
        (Made("subclass", (Constant("m:C"), Made("list", ()))), "a subclass, which is for the state alone"),
        (Made("view", (ONE, ONE, ONE, ONE)), "a view of no tensor"),
    ],
)
def test_a_container_that_breaks_a_rule_is_refused(made: Made, said: str) -> None:
    with pytest.raises(ReplayError, match=re.escape(said)):
        prepared(method(result=made))
