"""Containers of many kinds, changed in random ways: eager calls against those of the captured model."""

from __future__ import annotations

import hashlib
import re
import warnings
from collections import OrderedDict, defaultdict, deque
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

from archive.effects import CaptureError, GuardError, ReplayError, replay
from archive.effects.places import items_of
from archive.effects.replay.replay import prepared
from archive.formats.effects.model import Attribute, Constant, Effect, Made, Op, Temporary
from tests.effects.effect_cases import tensor
from tests.effects.made_modules import Made as Text
from tests.effects.made_modules import written
from tests.effects.outcome import Comparing, Direct, paths, picture, state_in, state_of
from tests.support.effect_tables import SELF, method
from tests.support.live_state import live_state
from tests.support.sampling import examples
from tests.support.strategies import patient

if TYPE_CHECKING:
    from types import ModuleType

    from hypothesis.strategies import SearchStrategy


pytestmark = pytest.mark.torch

# --- Models made of random operations on one container, by two names of it, in an object and in a list


class Kind(NamedTuple):
    """A kind of container.

    Attributes:
        starts: expressions that make one.
        operations: statements on ``C``, which may append to ``seen`` and change ``x``.
    """

    starts: tuple[str, ...]
    operations: tuple[str, ...]


DICTS = (
    "C['k'] = x",
    "C['n'] = C['n'] + 1 if 'n' in C else 0",
    "C['new'] = x * 2",
    "seen.append(C.get('k', 3))",
    "seen.append('k' in C)",
    "seen.append(C.pop('k', None))",
    "seen.append(C.setdefault('s', 0.5))",
    "C.update(u=1, v=x)",
    "C.clear()",
    "seen.append(len(C))",
    "seen.append(list(C))",
    "seen.append(list(C.values()))",
    "for key, one in C.items(): x = x + one * (key != 'k')",
    "if 'n' in C: del C['n']",
    "seen.append(dict(C))",
    "seen.append(bool(C))",
    "C |= {'k': 4.0}",
)
LISTS = (
    "C.append(x)",
    "C.append(1)",
    "C.extend([x, 2])",
    "C += [0.5]",
    "C.insert(0, x * 3)",
    "if C: seen.append(C.pop())",
    "if len(C) > 1: seen.append(C.pop(0))",
    "if C: C[0] = x",
    "if C: del C[-1]",
    "C.clear()",
    "seen.append(len(C))",
    "seen.append(list(C))",
    "seen.append(C[-1] if C else 0)",
    "C.reverse()",
    "for one in C: x = x + one",
)
ELEMENTS = ("C.add('c')", "C.discard('a')", "if 'a' in C: C.remove('a')", "C.update({'d'}, ['e'])")
KINDS = {
    "deque": Kind(
        ("deque()", "deque([1, 2.5])", "deque([torch.ones(3), 1], 2)", "deque(maxlen=3)"),
        (
            *(one for one in LISTS if "insert" not in one),
            "C.appendleft(x * 2)",
            "C.extendleft([x, 2])",
            "if C: seen.append(C.popleft())",
            "C.rotate(1)",
            "C.rotate(-2)",
            "seen.append(C.maxlen)",
            "seen.append(C.copy())",
            "if C.maxlen is None: C.insert(1, 5)",
        ),
    ),
    "set": Kind(
        ("set()", "{'a', 'b'}", "{'c'}"),
        (
            *ELEMENTS,
            "C.clear()",
            "C |= {'z', 'a'}",
            "C &= {'a', 'c', 'd'}",
            "C -= {'a'}",
            "C ^= {'a'}",
            "seen.append(sorted(C))",
            "seen.append(len(C))",
            "seen.append('a' in C)",
            "seen.append(C == {'a'})",
            "seen.append(C.union({'q'}))",
            "seen.append(C <= {'a', 'b', 'c'})",
            "seen.append(C.isdisjoint({'x'}))",
            "seen.append(set(C))",
            "seen.append(frozenset(C) - {'a'})",
            "seen.append({'a', 'y'} & C)",
            "x = x + len(C)",
            "if not C: C.add('n')",
            "seen.append(max(C, default='none'))",
        ),
    ),
    "ordered": Kind(
        ("OrderedDict()", "OrderedDict(k=1.0, n=2)"),
        (
            *DICTS,
            "if 'k' in C: C.move_to_end('k')",
            "if 'k' in C: C.move_to_end('k', last=False)",
            "if C: seen.append(C.popitem())",
            "if C: seen.append(C.popitem(last=False))",
            "seen.append(C == OrderedDict(k=1.0))",
            "seen.append(C.copy())",
        ),
    ),
    "default": Kind(
        ("defaultdict(int)", "defaultdict(float, k=1.0)"),
        (*DICTS, "C['m'] += 1", "seen.append(C['missing'])", "seen.append(C.default_factory is None)"),
    ),
    "default_lists": Kind(
        ("defaultdict(list)",),
        (
            "C['a'].append(x)",
            "C['b'] += [1, x]",
            "seen.append(len(C['a']))",
            "seen += ['b' in C]",
            "C.clear()",
        ),
    ),
    "dict_subclass": Kind(
        ("Doubling(k=1.0)", "Attributed(k=1.0, n=2)", "Ordered(k=1.0)"),
        (*DICTS, "C.note = 3", "seen.append(getattr(C, 'note', 0))", "C.note = x", "seen.append(C.total())"),
    ),
    "list_subclass": Kind(
        ("History()", "History([1, 0.5])", "Bounded([1])"),
        (*LISTS, "C.keep(x)", "C.kept = C.kept + 1", "seen.append(C.kept)", "seen.append(C + [x])"),
    ),
}
CLASSES = """
class Totalled:
    def total(self):
        return sum(one for one in self.values() if not isinstance(one, torch.Tensor))

class Doubling(Totalled, dict):
    def __setitem__(self, key, value):
        super().__setitem__(key, value * 2)

class Attributed(Totalled, dict):
    def __setitem__(self, key, value):
        dict.__setitem__(self, key, value)
        if key == 'n':
            self.latest = value

    def __contains__(self, key):
        return dict.__contains__(self, key) or key == 'always'

class Ordered(Totalled, OrderedDict):
    def __setitem__(self, key, value):
        self.writes = getattr(self, 'writes', 0) + 1
        super().__setitem__(key, value)

class History(list):
    kept = 0

    def keep(self, value):
        self.append(value)
        self.kept += 1

class Bounded(History):
    def append(self, value):
        if len(self) > 2:
            del self[0]
        super().append(value)
"""
TEXT = """import torch
from collections import OrderedDict, defaultdict, deque
{classes}
class Held:
    pass

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = {first}
        self.same = self.first
        self.other = {other}
        self.held = Held()
        self.held.container = self.other
        self.nested = [self.first, {third}]

    def forward(self, x):
        seen, _ = [], (self.first, self.same, self.other, self.held.container, self.nested[0], self.nested[1])
        {text}
        return x, seen
"""
PLACES = ("self.first", "self.same", "self.other", "self.held.container", "self.nested[0]", "self.nested[1]")


def model(starts: tuple[str, str, str], lines: list[str]) -> Text:
    """A model of three containers, and of some statements."""
    first, other, third = starts
    text = TEXT.format(classes=CLASSES, first=first, other=other, third=third, text="\n        ".join(lines))
    return Text(f"made_containers_{hashlib.sha256(text.encode()).hexdigest()[:12]}", text)


def models(kind: str) -> SearchStrategy[Text]:
    """Models of a kind."""
    starts, operations = KINDS[kind]
    one = st.sampled_from(starts)
    statements = st.builds(
        lambda operation, place: re.sub(r"\bC\b", place, operation),
        st.sampled_from(operations),
        st.sampled_from(PLACES),
    )
    return st.builds(model, st.tuples(one, one, one), st.lists(statements, min_size=1, max_size=5))


# --- what is tested


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
        replay(method(effect, failing), live_state(model), [0], arguments={})
    assert shown(model.held) == shown(same)
    replay(method(effect), live_state(model), [0], arguments={})
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
    with pytest.raises(ReplayError, match="m:Loud isn't a class that derives from list"):
        prepared(method(effect), {"m:Loud": Loud})
    named = Made("namedtuple", (Constant("m:Loud"), Constant(("a",)), ONE))
    with pytest.raises(ReplayError, match="m:Loud isn't a named tuple of a"):
        prepared(method(result=named), {"m:Loud": Loud})


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (Made("deque", (KEY,)), "a deque of 'a'"),
        (Made("set", (Made("list", ()),)), "a set with an element that isn't a constant"),
        (Made("OrderedDict", (ONE,)), "a OrderedDict with a key that has no value"),
        (Made("defaultdict", (KEY,)), "a defaultdict of 'a'"),
        (Made("namedtuple", (Constant("m:C"), Constant(("a", "a")), ONE, ONE)), "a namedtuple of 'm:C'"),
        (Made("namedtuple", (Constant("m:C"), Constant(("class",)), ONE)), "a namedtuple of 'm:C'"),
        (Made("subclass", (Constant("m:C"), Made("list", ()))), "a subclass, which only the state may have"),
        (Made("view", (ONE, ONE, ONE, ONE)), "a view of no tensor"),
    ],
)
def test_a_container_that_breaks_a_rule_is_refused(made: Made, said: str) -> None:
    with pytest.raises(ReplayError, match=re.escape(said)):
        prepared(method(result=made))
