"""A call unlike the captured one is right, as the eager module's, or refused with the model's line."""

from __future__ import annotations

import copy
import inspect
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import BackendError, lower
from archive.effects import Effectful, GuardError
from tests import effect_unlike
from tests.effect_models import CASES
from tests.effect_unlike import RIGHT, UNLIKE, Unlike
from tests.strategies import patient

pytestmark = pytest.mark.torch


def module(one: Unlike) -> nn.Module:
    if isinstance(one.forward, type):
        return one.forward()
    made: Any = type("Unlike", (nn.Module,), {"forward": one.forward, "__module__": effect_unlike.__name__})()
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
    return {name: snapshot(value) for name, value in vars(held).items() if name in names}


def snapshot(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, list | tuple):
        return type(value)(map(snapshot, value))
    if isinstance(value, dict):
        return {key: snapshot(one) for key, one in value.items()}
    return value


@pytest.mark.parametrize("stock", [False, True], ids=["machine", "TorchScript"])
@pytest.mark.parametrize("one", UNLIKE, ids=[one.forward.__name__ for one in UNLIKE])
def test_right_or_refused(one: Unlike, stock: bool) -> None:  # noqa: FBT001
    lowered = lower(module(one), "aten", effects=True, example_inputs=one.like)
    lines, start = inspect.getsourcelines(one.forward)
    here = [start + number for number, line in enumerate(lines) if "# here" in line]
    for said, arguments, named, before in one.calls:
        eager, loaded = module(one), Effectful.of(lowered, stock=stock)
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
        assert f'File "{effect_unlike.__file__}", line {here[0]},' in str(caught.value)
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
    made = effect_unlike.tensor(*draw(st.sampled_from(SHAPES)), dtype=dtype)
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


@cache
def lowered(number: int) -> Any:  # noqa: ANN401
    torch.manual_seed(0)
    one = [*UNLIKE, *HELD][number]
    return lower(module(one), "aten", effects=True, example_inputs=copy.deepcopy(one.like))


@pytest.mark.parametrize("number", range(len(UNLIKE) + len(HELD)))
@given(data=st.data())
@settings(patient, max_examples=8)
def test_any_call_is_right_or_refused(number: int, data: st.DataObject) -> None:
    one = [*UNLIKE, *HELD][number]
    torch.manual_seed(0)
    eager, loaded = module(one), Effectful.of(lowered(number))
    names = set(vars(loaded.state.module)) & set(vars(eager))
    for _ in range(2):
        drawn = data.draw(arguments(one.like))
        mine, its = copy.deepcopy(drawn), copy.deepcopy(drawn)
        kept = state_of(loaded.state.module, names)
        try:
            found = loaded(*its)
        except (GuardError, BackendError, TypeError):
            assert same(kept, state_of(loaded.state.module, names))
            assert same(its, drawn)
            continue
        assert same(eager(*mine), found)
        assert same(state_of(eager, names), state_of(loaded.state.module, names))
        assert same(mine, its)
