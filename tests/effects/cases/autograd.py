"""Functions with a way back of their own, with and without gradients."""

from __future__ import annotations

import enum
import math
from typing import Any

import torch
from torch.autograd.function import once_differentiable

from tests.effects.effect_cases import OURS, Cases, Model, tensor, with_gradient

CASES = Cases("autograd_function")


class Sum(torch.autograd.Function):
    """Twice its argument; the way back is not the derivative."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x + x

    @staticmethod
    def backward(_: Any, grad: torch.Tensor) -> Any:
        return grad


class Saving(torch.autograd.Function):
    """Its result is saved for the way back."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        result = x + x + x
        ctx.save_for_backward(result)
        ctx.scale = 3
        return result

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (result,) = ctx.saved_tensors
        return grad * math.sqrt(result.numel()) * ctx.scale


class LinearWithSetup(torch.autograd.Function):
    """A ``setup_context`` apart from ``forward``."""

    @staticmethod
    def forward(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return x.mm(weight.t())

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, _: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        return grad.mm(weight), grad.t().mm(x)


class TwoResults(torch.autograd.Function):
    """Two results."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        return x.clone(), x * 2

    @staticmethod
    def backward(_: Any, one: Any, other: Any) -> Any:
        return one if other is None else one + other


class Mode(enum.Enum):
    """A way to compute."""

    SIN = 0
    COS = 1


class ByMode(torch.autograd.Function):
    """An argument that is no tensor."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor, mode: Mode) -> torch.Tensor:
        return x.sin() if mode is Mode.SIN else x.cos()

    @staticmethod
    def backward(_: Any, grad: torch.Tensor) -> Any:
        return grad, None


class Once(torch.autograd.Function):
    """A way back that has none itself."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 1

    @staticmethod
    @once_differentiable
    def backward(_: Any, grad: torch.Tensor) -> Any:
        return grad * 0.5


class ByClass(torch.autograd.Function):
    """Class methods."""

    @classmethod
    def forward(cls, _: Any, x: torch.Tensor) -> torch.Tensor:
        return x + x

    @classmethod
    def backward(cls, _: Any, grad: torch.Tensor) -> Any:
        return grad


class Strided(torch.autograd.Function):
    """A way back that asks for strides."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        return torch.add(x, x)

    @staticmethod
    def backward(_: Any, grad: torch.Tensor) -> Any:
        return grad * grad.stride()[-1]


class InPlace(torch.autograd.Function):
    """An argument that is changed."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        x.mul_(3)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(_: Any, grad: torch.Tensor) -> Any:
        return grad * 3


@CASES.add(arguments=with_gradient)
def autograd_function_equivalence(_: Model, x: torch.Tensor) -> torch.Tensor:
    return Sum.apply(x)


@CASES.add(OURS)
def function_without_gradient(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.last = Sum.apply(x)
    return self.last


@CASES.add(OURS, count=0)
def autograd_function_with_a_counter(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.count += 1
    return Sum.apply(x) * self.count


@CASES.add(arguments=with_gradient)
def save_for_bwd(_: Model, x: torch.Tensor) -> torch.Tensor:
    return Saving.apply(x)


@CASES.add()
def function_context_save_and_mark(_: Model, x: torch.Tensor) -> torch.Tensor:
    return Saving.apply(x)


@CASES.add(weight=tensor(3, 4, 3))
def linear_setup_context(self: Model, x: torch.Tensor) -> torch.Tensor:
    return LinearWithSetup.apply(x, self.weight)


@CASES.add(arguments=with_gradient)
def materialize_grad(_: Model, x: torch.Tensor) -> Any:
    return TwoResults.apply(x)


@CASES.add()
def multi_output(_: Model, x: torch.Tensor) -> Any:
    return TwoResults.apply(x)


@CASES.add(arguments=with_gradient)
def stride_in_bwd(_: Model, x: torch.Tensor) -> torch.Tensor:
    return Strided.apply(x)


@CASES.add(mode=Mode.SIN)
def enum_arg(self: Model, x: torch.Tensor) -> torch.Tensor:
    return ByMode.apply(x, self.mode)


@CASES.add(
    test="once_differentiable",
    arguments=with_gradient,
)
def once_differentiable_backward(_: Model, x: torch.Tensor) -> torch.Tensor:
    return Once.apply(x)


@CASES.add(test="classmethod", arguments=with_gradient)
def classmethod_forward(_: Model, x: torch.Tensor) -> torch.Tensor:
    return ByClass.apply(x)


@CASES.add(held=torch.zeros(2, 3))
def mark_dirty_discarded_output_grad(self: Model, x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    InPlace.apply(y)
    self.held.add_(y)
    return y.sum()


@CASES.add(OURS, held=[])
def results_kept(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.held.append(Sum.apply(x))
    return self.held[-1] + 1


@CASES.add(OURS, arguments=with_gradient)
def function_under_no_grad(self: Model, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        self.last = Sum.apply(x)
    return x * 2


class Clamped(torch.autograd.Function):
    """A way back that is not linear in the gradient."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, bound: float) -> torch.Tensor:
        ctx.save_for_backward(x)
        ctx.bound = bound
        return x.sign()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad.clamp(-0.5, 0.5) * (x.abs() < ctx.bound), None


class Marked(torch.autograd.Function):
    """One result has no gradient, and one argument gets none."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> Any:
        places = x.argmax(1)
        ctx.mark_non_differentiable(places)
        return x * weight, places

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor, _: Any) -> Any:
        assert ctx.needs_input_grad == (True, True)
        return grad * 3, None


class Reversed(torch.autograd.Function):
    """The result is a view of the argument."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, alpha: float) -> torch.Tensor:
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        return -ctx.alpha * grad, None


class WithParameter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(tensor(1, 3))
        self.step = 0


@CASES.add(OURS)
class gradients_by_a_parameter(WithParameter):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.step += 1
        return Clamped.apply(x * self.weight, self.step * 0.4) * x


@CASES.add(OURS, arguments=with_gradient)
class result_without_gradient(WithParameter):
    def forward(self, x: torch.Tensor) -> Any:
        return Marked.apply(x, self.weight)


@CASES.add(OURS, arguments=with_gradient)
class gradient_reversal(WithParameter):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.step += 1
        return Reversed.apply(x * self.weight, 0.5 * self.step) * self.weight


@CASES.add(OURS, arguments=with_gradient, last=None)
def result_with_gradient_kept(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.last = Saving.apply(Saving.apply(x))
    return self.last * 2


@CASES.add(
    OURS,
    says="InPlace.apply: a gradient of arguments that it changes in place",
    arguments=with_gradient,
)
def mark_dirty_with_gradient(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return InPlace.apply(y) + y  # here


@CASES.add(
    OURS,
    says="a tensor that an autograd function relies on is changed in place",
    arguments=with_gradient,
)
def saved_tensor_that_changes(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    z = Clamped.apply(y, 1.0)  # here
    y.add_(1)
    return z + y


@CASES.add(OURS, says="Local.apply: its backward cannot be found by a name", arguments=with_gradient)
def function_without_a_name(_: Model, x: torch.Tensor) -> torch.Tensor:
    return local_function().apply(x)  # here


def local_function() -> Any:
    class Local(Sum):
        """A function that no other process finds."""

    return Local
