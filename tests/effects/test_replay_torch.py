"""Replay and undo on real modules and tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.effects.replay.errors import ReplayError
from archive.effects.replay.replay import prepared, replay
from archive.formats.effects.model import (
    At,
    Attribute,
    Constant,
    Effect,
    Item,
    Local,
    Made,
    MethodEffects,
    Op,
    Output,
    Temporary,
)
from tests.support.live_state import live_state

if TYPE_CHECKING:
    from archive.formats.effects.model import Value

pytestmark = pytest.mark.torch

SELF, X = Local("self"), Local("x")
HOOK = Constant(f"{__name__}:doubled")
BROKEN = Effect(Op.POP, Attribute(SELF, "empty"))


def doubled(gradient: torch.Tensor) -> torch.Tensor:
    return gradient * 2


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("mean", torch.zeros(2))
        self.register_buffer("late", torch.ones(2), persistent=False)
        self.scale = nn.Parameter(torch.ones(2))
        self.layers = nn.ModuleList([nn.Linear(2, 2)])
        self.count = 0
        self.previous = torch.ones(2)
        self.empty: list[int] = []
        self.none = None


def picture(module: nn.Module) -> Any:  # noqa: ANN401
    """Everything that a module has, in order; tensors by identity and elements."""

    def shown(value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, torch.Tensor):
            return type(value), id(value), value.tolist(), value.requires_grad, value.grad_fn is None
        if isinstance(value, nn.Module):
            return id(value), shown(vars(value))
        if isinstance(value, dict):
            return type(value), [(key, shown(one)) for key, one in value.items()]
        if isinstance(value, list | set):
            return sorted(map(str, value))
        return value

    return shown(module)


def setting(name: str, value: Value) -> Effect:
    return Effect(Op.SET_ATTRIBUTE, SELF, Constant(name), value)


NEW_TENSOR, NEW_PARAMETER, NEW_MODULE = Output(0), Output(1), Output(2)
CHANGES = {
    "a number": setting("count", Constant(5)),
    "a new attribute": setting("fresh", Constant(5)),
    "a buffer": setting("mean", NEW_TENSOR),
    "no buffer any more": setting("mean", Constant(None)),
    "a tensor": setting("previous", NEW_TENSOR),
    "a parameter": setting("scale", NEW_PARAMETER),
    "a number becomes a parameter": setting("count", NEW_PARAMETER),
    "a buffer becomes a parameter": setting("late", NEW_PARAMETER),
    "a tensor becomes a module": setting("previous", NEW_MODULE),
    "a module": setting("linear", NEW_MODULE),
    "a parameter goes": Effect(Op.DELETE_ATTRIBUTE, SELF, Constant("scale")),
    "a buffer goes": Effect(Op.DELETE_ATTRIBUTE, SELF, Constant("late")),
    "a module goes": Effect(Op.DELETE_ATTRIBUTE, SELF, Constant("linear")),
    "a number goes": Effect(Op.DELETE_ATTRIBUTE, SELF, Constant("count")),
    "one more layer": Effect(Op.APPEND, Attribute(SELF, "layers"), None, NEW_MODULE),
    "another layer": Effect(Op.SET_ITEM, Attribute(SELF, "layers"), Constant(0), NEW_MODULE),
    "one more buffer": Effect(Op.REGISTER_BUFFER, SELF, Constant("more"), NEW_TENSOR),
    "one more buffer, not persistent": Effect(Op.REGISTER_TRANSIENT, SELF, Constant("more"), NEW_TENSOR),
    "a buffer, persistent from now on": Effect(Op.REGISTER_BUFFER, SELF, Constant("late"), NEW_TENSOR),
    "in place": Effect(Op.COPY, Attribute(SELF, "mean"), None, NEW_TENSOR),
    "in place, with a gradient": Effect(Op.COPY, Attribute(SELF, "mean"), None, Output(3)),
    "a parameter can't be a number": setting("scale", Constant(1)),
    "a buffer can't take an attribute's name": Effect(
        Op.REGISTER_BUFFER, SELF, Constant("count"), NEW_TENSOR
    ),
    "in place, of another shape": Effect(Op.COPY, Attribute(SELF, "mean"), None, Output(4)),
}


def outputs() -> list[Any]:
    needing = torch.full((2,), 3.0, requires_grad=True)
    return [torch.full((2,), 7.0), nn.Parameter(torch.zeros(2)), nn.Linear(2, 2), needing * 2, torch.zeros(5)]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_of_a_module_are_undone(change: Effect) -> None:
    module = Model()
    before = picture(module)
    effects = MethodEffects("forward", (), Output(0), (change, BROKEN))
    with pytest.raises(ReplayError):
        replay(effects, live_state(module), outputs(), arguments={})
    assert picture(module) == before


@pytest.mark.parametrize("name", list(CHANGES)[:-3])
def test_each_change_of_a_module_is_seen_in_it(name: str) -> None:
    module = Model()
    before = picture(module)
    replay(
        MethodEffects("forward", (), Output(0), (CHANGES[name],)), live_state(module), outputs(), arguments={}
    )
    assert picture(module) != before


def test_registered_buffers_are_in_the_state_dict_if_they_are_persistent() -> None:
    module = Model()
    for name in ("one more buffer", "a buffer, persistent from now on"):
        replay(
            MethodEffects("forward", (), Output(0), (CHANGES[name],)),
            live_state(module),
            outputs(),
            arguments={},
        )
    assert {"more", "late"} <= module.state_dict().keys()
    change = CHANGES["one more buffer, not persistent"]
    replay(MethodEffects("forward", (), Output(0), (change,)), live_state(module), outputs(), arguments={})
    assert "more" not in module.state_dict()
    assert "more" in dict(module.named_buffers())


def test_a_buffer_changed_in_place_stays_the_same_tensor() -> None:
    module = Model()
    mean = module.mean
    effects = MethodEffects("forward", (), Output(0), (CHANGES["in place"],))
    replay(effects, live_state(module), outputs(), arguments={})
    assert module.mean is mean
    assert mean.tolist() == [7, 7]


def test_hooks_are_registered_on_arguments_and_outputs() -> None:
    register = MethodEffects(
        "forward",
        (X,),
        Output(0),
        (
            Effect(Op.NEW, Temporary(0), Constant("builtins:list")),
            Effect(Op.APPEND, Temporary(0), None, Output(0)),
            Effect(Op.REGISTER_HOOK, X, HOOK, Constant(0)),
            Effect(Op.REGISTER_HOOK, Item(Temporary(0), 0), HOOK, Constant(1)),
        ),
    )
    state = live_state(Model())
    x = torch.ones(2, requires_grad=True)
    y = replay(register, state, [x * 3], arguments={"x": x}, allow=[str(HOOK.value)])
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [12, 12]


def test_a_registered_hook_is_removed_when_a_later_change_fails() -> None:
    x = torch.ones(2, requires_grad=True)
    effects = (Effect(Op.REGISTER_HOOK, X, HOOK, Constant(0)), BROKEN)
    state = live_state(Model())
    with pytest.raises(ReplayError):
        replay(
            MethodEffects("forward", (X,), Output(0), effects),
            state,
            [1],
            arguments={"x": x},
            allow=[str(HOOK.value)],
        )
    assert _gradient(x) == [3, 3]
    assert not state.hooks


def _gradient(x: torch.Tensor) -> list[float]:
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad is not None
    return list(x.grad.tolist())


def test_three_calls_equal_three_eager_ones() -> None:
    class Eager(Model):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            self.mean.mul_(0.5).add_(x)
            self.previous = x
            return x * self.count

    counting = MethodEffects(
        "forward",
        (X, Attribute(SELF, "count"), Attribute(SELF, "mean")),
        Made("tuple", (Output(0), At(Attribute(SELF, "previous")))),
        (
            setting("count", Output(1)),
            Effect(Op.COPY, Attribute(SELF, "mean"), None, Output(2)),
            setting("previous", At(X)),
        ),
    )
    torch.manual_seed(0)
    eager, module = Eager(), Model()
    ready, state = prepared(counting), live_state(module)
    for call in range(3):
        x = torch.full((2,), float(call))
        previous = eager.previous
        expected = eager(x)
        given, count, mean = ready.inputs(state, {"x": x})
        result, before = ready.replay(state, [given * (count + 1), count + 1, mean * 0.5 + x], {"x": x})
        assert torch.equal(result, expected)
        assert torch.equal(before, previous)
    assert module.count == eager.count == 3
    assert torch.equal(module.mean, eager.mean)
    assert module.previous is x
