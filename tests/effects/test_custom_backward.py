"""A function's own backward after replay: gradients of any order, errors and memory are those of PyTorch."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import Effectful, LoweringError, lower, lowered_archive
from archive.effects import GuardError, ReplayError
from archive.effects.replay import custom_backward

pytestmark = pytest.mark.torch


class Cube(torch.autograd.Function):
    """The third power of its argument; the way back is ten times too steep."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        (x,) = ctx.saved_tensors
        return gradient * 30 * x**2


class Exponential(torch.autograd.Function):
    """Saves its own result."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        result = x.exp()
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        (result,) = ctx.saved_tensors
        return gradient * result


class Summed(torch.autograd.Function):
    """A gradient that PyTorch has to sum up, and one too few."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:  # noqa: ANN401
        return x * y

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:  # noqa: ANN401
        return (gradient * 2, gradient * 3) if ctx.needs_input_grad[1] else gradient * 2


class Model(nn.Module):
    """Applies one of them to what it is given."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, -2.0, 3.0]))
        self.kind = kind
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if self.kind == "cube":
            return Cube.apply(x * self.weight) * x
        if self.kind == "exponential":
            return Exponential.apply(x * self.weight)
        return Summed.apply(x, self.weight if self.kind == "summed" else self.weight.detach())


def x(*values: float) -> torch.Tensor:
    return torch.tensor(values or (0.5, -1.0, 2.0), requires_grad=True)


NAMES = [f"{Cube.__module__}:{one}" for one in ("Cube", "Exponential", "Summed")]


def loaded(kind: str, given: torch.Tensor | None = None) -> Effectful:
    given = x() if given is None else given
    data = lowered_archive(lower(Model(kind), "aten", effects=True, example_inputs=(given,)))
    return Effectful.load(data, allow=NAMES)


def parameter(model: Effectful) -> Any:  # noqa: ANN401
    return next(one for one in model.delegate.tensors if one.requires_grad)


def test_first_and_second_derivatives() -> None:
    eager, model = Model("cube"), loaded("cube")
    ours, theirs = x(), x()
    pairs = []
    for one, given in ((eager, ours), (model, theirs)):
        (first,) = torch.autograd.grad(one(given).sum(), given, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), given)
        pairs.append((first, second))
    assert torch.equal(pairs[0][0], pairs[1][0])
    assert torch.allclose(pairs[0][1], pairs[1][1])
    assert model.state.module.calls == 1


def test_infinities_and_signed_zeros_are_kept() -> None:
    values = (float("inf"), -0.0, float("nan"))
    eager, model = Model("cube")(x(*values)), loaded("cube")(x(*values))
    assert str(eager.tolist()) == str(model.tolist())


def test_a_saved_result() -> None:
    eager, model = Model("exponential"), loaded("exponential")
    ours, theirs = x(), x()
    eager(ours).sum().backward()
    model(theirs).sum().backward()
    assert ours.grad is not None
    assert theirs.grad is not None
    assert torch.equal(ours.grad, theirs.grad)
    with pytest.raises(RuntimeError, match="a second derivative by a saved result is not kept"):
        torch.autograd.grad(model(theirs).sum(), theirs, create_graph=True)


def test_a_gradient_is_summed_to_the_argument_s_shape() -> None:
    eager, model = Model("summed"), loaded("summed", x().reshape(1, 3).detach())
    given = torch.ones(4, 3)
    eager(given).sum().backward()
    model(given).sum().backward()
    assert torch.equal(eager.weight.grad, parameter(model).grad)


def test_a_gradient_too_few_is_an_error() -> None:
    model = loaded("one")
    with pytest.raises(RuntimeError, match=r"incorrect number of gradients \(expected 2, got 1\)"):
        model(x()).sum().backward()


def test_a_way_back_is_gone_once_it_was_taken() -> None:
    for one in (Model("cube"), loaded("cube")):
        result = one(x()).sum()
        result.backward(retain_graph=True)
        result.backward()
        with pytest.raises(RuntimeError, match="a second time"):
            result.backward()


def test_a_saved_tensor_that_changes_is_an_error() -> None:
    for one in (Model("cube"), loaded("cube")):
        given = x().clone()
        result = one(given)
        with torch.no_grad():
            given.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


def test_nothing_is_left_of_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    links: list[Any] = []
    made = custom_backward.BackwardLink.__init__

    def noted(self: Any, *args: Any) -> None:  # noqa: ANN401
        links.append(weakref.ref(self))
        made(self, *args)

    monkeypatch.setattr(custom_backward.BackwardLink, "__init__", noted)
    model = loaded("exponential")
    result = model(x())
    assert links[0]() is not None
    del result
    gc.collect()
    assert links[0]() is None


def test_a_call_without_gradients_is_another_one() -> None:
    model = loaded("cube")
    with torch.no_grad(), pytest.raises(GuardError, match="is_grad_enabled"):
        model(x())
    without = loaded("cube", x().detach())
    with pytest.raises(GuardError, match="requires_grad"):
        without(x())
    assert model.state.module.calls == without.state.module.calls == 0


def test_a_function_is_found_by_permission_only() -> None:
    data = lowered_archive(lower(Model("cube"), "aten", effects=True, example_inputs=(x(),)))
    with pytest.raises(ReplayError, match="test_custom_backward:Cube' is not allowed"):
        Effectful.load(data)
    with pytest.raises(LoweringError, match="TorchScript runs no backward of an autograd function"):
        Effectful.load(data, allow=NAMES, stock=True)
