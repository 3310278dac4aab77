"""A call unlike the captured one is right, as the eager module's, or refused with the model's line."""

from __future__ import annotations

import copy
import functools
import inspect
from functools import cache
from itertools import product
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import BackendError, Effectful, lower
from archive.effects import GuardError, ReplayError
from tests.effects import unlike_models
from tests.effects.changing_models import CASES
from tests.effects.unlike_models import RIGHT, UNLIKE, Unlike
from tests.support.live_state import live_state
from tests.support.sampling import sampled
from tests.support.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch


def module(one: Unlike) -> nn.Module:
    if isinstance(one.forward, type):
        return one.forward()
    made: Any = type("Unlike", (nn.Module,), {"forward": one.forward, "__module__": one.forward.__module__})()
    for name, value in copy.deepcopy(one.attributes).items():
        setattr(made, name, value)
    return made


def same(ours: Any, theirs: Any) -> bool:  # noqa: ANN401
    if isinstance(ours, torch.Tensor):
        return (
            isinstance(theirs, torch.Tensor)
            and (ours.dtype, ours.shape, ours.requires_grad, ours.device)
            == (theirs.dtype, theirs.shape, theirs.requires_grad, theirs.device)
            and (
                ours.is_meta or ours.is_sparse or torch.allclose(ours, theirs, rtol=0, atol=0, equal_nan=True)
            )
        )
    if isinstance(ours, torch.dtype):
        return theirs in (ours, str(ours))  # a table keeps its text
    if isinstance(ours, list | tuple):
        return type(ours) is type(theirs) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, dict):
        return list(ours) == list(theirs) and all(map(same, ours.values(), theirs.values()))
    return type(ours) is type(theirs) and ours == theirs


def state_of(held: Any, names: set[str]) -> dict[str, Any]:  # noqa: ANN401
    return {name: snapshot(vars(held)[name]) for name in sorted(names & vars(held).keys())}


def snapshot(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, list | tuple):
        return type(value)(map(snapshot, value))
    if isinstance(value, dict):
        return {key: snapshot(one) for key, one in value.items()}
    return value


PLAIN = (
    "Counter",
    "MovingAverage",
    "History",
    "Window",
    "Cache",
    "Rebound",
    "InPlace",
    "Deleting",
    "Results",
)
HELD = [Unlike(CASES[name].make, CASES[name].arguments, (), {}) for name in PLAIN]
"""Models whose state is that of the module alone."""
ALL = [*UNLIKE, *HELD]


@cache
def lowered(number: int) -> Any:  # noqa: ANN401
    torch.manual_seed(0)
    one = ALL[number]
    return lower(module(one), "aten", effects=True, example_inputs=copy.deepcopy(one.like))


NAMES = {one.forward.__name__: number for number, one in enumerate(ALL)}
RUN = sampled(product(list(NAMES)[: len(UNLIKE)], ["machine", "TorchScript"]), most=12, by=[itemgetter(1)])


@pytest.mark.parametrize(("name", "how"), RUN)
def test_right_or_refused(name: str, how: str) -> None:
    one = UNLIKE[NAMES[name]]
    lines, start = inspect.getsourcelines(one.forward)
    here = [start + number for number, line in enumerate(lines) if "# here" in line]
    for said, arguments, named, before in one.calls:
        eager, loaded = module(one), Effectful.of(lowered(NAMES[name]), stock=how == "TorchScript")
        for run in (eager, loaded):
            run(*copy.deepcopy(one.like))
        names = set(vars(loaded.state.module)) & set(vars(eager))
        if before is not None:
            before(eager)
            before(loaded.state.module)
        mine, its = (copy.deepcopy((arguments, named)) for _ in range(2))
        kept, rng = state_of(loaded.state.module, names), torch.get_rng_state()
        if said == RIGHT:
            assert same(eager(*mine[0], **mine[1]), loaded(*its[0], **its[1]))
            assert same(state_of(eager, names), state_of(loaded.state.module, names))
            assert same(mine, its)
            continue
        with pytest.raises(GuardError) as caught:
            loaded(*its[0], **its[1])
        assert f"forward: this call is not as the one that was captured: {said}" in str(caught.value)
        assert f'File "{one.forward.__code__.co_filename}", line {here[0]},' in str(caught.value)
        assert f"{lines[here[0] - start].rstrip()}\n" in str(caught.value)
        assert same(kept, state_of(loaded.state.module, names))
        assert same(its, (arguments, named))
        assert torch.equal(rng, torch.get_rng_state())


SHAPES = [(2, 3), (6, 3), (1, 3), (3,), (), (2, 3, 4), (0, 3), (3, 2)]
DTYPES = [torch.float32, torch.float32, torch.float64, torch.int64, torch.bool]
OTHERS = [None, True, False, 0, 2, 3, 2.0, 0.5, "half", "double", torch.int64, torch.float64]


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    dtype = draw(st.sampled_from(DTYPES))
    made = unlike_models.tensor(*draw(st.sampled_from(SHAPES)), dtype=dtype)
    if draw(st.booleans()) and made.dim() > 1:
        made = made.transpose(0, 1)
    return made.requires_grad_() if dtype.is_floating_point and draw(st.booleans()) else made


def values() -> st.SearchStrategy[Any]:
    items = st.lists(tensors(), max_size=3)
    named = st.dictionaries(st.sampled_from("xyz"), tensors(), max_size=2)
    return st.one_of(tensors(), tensors(), st.sampled_from(OTHERS), items, named)


@st.composite
def arguments(draw: st.DrawFn, like: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments like these, or unlike; one may be given twice."""
    count = draw(st.sampled_from([len(like), len(like), len(like) + 1]))
    given = [draw(st.just(one) | tensors() | values()) for one in like][:count]
    while len(given) < count:
        given.append(draw(values() | st.sampled_from(given)))
    return tuple(given)


@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True to a scalar")
@pytest.mark.parametrize("name", sampled(NAMES))
@given(data=st.data())
@settings(patient, max_examples=3)
def test_any_call_is_right_or_refused(name: str, data: st.DataObject) -> None:
    one = ALL[NAMES[name]]
    torch.manual_seed(0)
    eager, loaded = module(one), Effectful.of(lowered(NAMES[name]))
    names = set(vars(loaded.state.module)) & set(vars(eager))
    for _ in range(2):
        drawn = data.draw(arguments(one.like))
        mine, its = copy.deepcopy(drawn), copy.deepcopy(drawn)
        kept = state_of(loaded.state.module, names)
        try:
            found = loaded(*its)
        except (ReplayError, BackendError, TypeError):
            assert same(kept, state_of(loaded.state.module, names))
            assert same(its, drawn)
            continue
        assert same(eager(*mine), found)
        assert same(state_of(eager, names), state_of(loaded.state.module, names))
        assert same(mine, its)


class Steps:
    """What a class holds."""

    factor = 2


def counting(function: Any) -> Any:  # noqa: ANN401
    @functools.wraps(function)
    def counted(*args: Any) -> Any:  # noqa: ANN401
        global COUNT  # noqa: PLW0603 (that is what is captured)
        COUNT += 1
        return function(*args) * FACTOR

    return counted


class Decorated(nn.Module):
    """A global that a decorator's function changes, one that it reads, and a class's attribute."""

    @counting
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + COUNT * Steps.factor


COUNT, FACTOR = 0, 2


@pytest.fixture
def decorated(monkeypatch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401
    monkeypatch.setitem(globals(), "COUNT", 0)
    return lower(Decorated(), "aten", effects=True, example_inputs=(unlike_models.X,))


def test_a_global_that_a_decorator_changes(decorated: Any) -> None:  # noqa: ANN401
    loaded, eager, x = Effectful.of(decorated), Decorated(), unlike_models.X
    for number in range(1, 4):
        assert torch.equal(loaded(x), eager(x))
        assert (loaded.state.globals[__name__]["COUNT"], COUNT) == (number, number)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda names: names.update(FACTOR=5), r"FACTOR == 2, found 5"),
        (lambda names: setattr(names["Steps"], "factor", 7), r"Steps\.factor == 2, found 7"),
        (lambda names: names.update(COUNT=0.5), r"type\(.*COUNT\) is int, found float"),
    ],
)
@pytest.mark.parametrize("live", [False, True], ids=["its own state", "a live module"])
def test_a_global_that_somebody_else_changes(
    decorated: Any,  # noqa: ANN401
    live: bool,  # noqa: FBT001
    change: Callable[[Any], None],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loaded = Effectful.of(decorated, live_state(Decorated()) if live else None)
    loaded(unlike_models.X)
    names = globals() if live else loaded.state.globals[__name__]
    monkeypatch.setitem(names, "FACTOR", 2)
    monkeypatch.setattr(names["Steps"], "factor", 2)
    change(names)
    before = names["COUNT"]
    with pytest.raises(GuardError, match=f"expected .*{said}") as caught:
        loaded(unlike_models.X)
    assert f'File "{__file__}", line ' in str(caught.value)
    assert names["COUNT"] == before


class Aliased(nn.Module):
    """One list by two names, and what may be missing."""

    def __init__(self) -> None:
        super().__init__()
        self.first = [1]
        self.second = self.first

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.first[0] = self.first[0] + 1
        return x * self.second[0] * getattr(self, "factor", 1)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("second", [1], r"self\.second is self\.first, which is not so"),
        ("factor", 2, r"hasattr\(self, 'factor'\) is False, found True"),
    ],
)
def test_what_is_the_same_or_missing_stays_so(name: str, value: Any, said: str) -> None:  # noqa: ANN401
    loaded = Effectful.of(lower(Aliased(), "aten", effects=True, example_inputs=(unlike_models.X,)))
    loaded(unlike_models.X)
    setattr(loaded.state.module, name, value)
    with pytest.raises(GuardError, match=said):
        loaded(unlike_models.X)
    assert loaded.state.module.first == [2]
