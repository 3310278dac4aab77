"""Hooks on tensors: on arguments and on what a call computes, named, partial and local ones, kept handles."""

from __future__ import annotations

import functools
from typing import Any

import torch

from tests.effects.effect_cases import OURS, Cases, Model, with_gradient

CASES = Cases("hooks")
HANDLE: Any = None
SEEN: list[Any] = []


def fourfold(grad: torch.Tensor) -> torch.Tensor:
    return grad * 4


def half(grad: torch.Tensor) -> torch.Tensor:
    return grad / 2


def threefold(grad: torch.Tensor) -> torch.Tensor:
    return grad * 3


def nothing(_: torch.Tensor) -> None: ...


def more_by(grad: torch.Tensor, *, k: float = 0) -> torch.Tensor:
    return grad + k


class Scaling:
    """A hook with state."""

    def __init__(self) -> None:
        self.count = 0

    def scaled(self, grad: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return grad * self.count


@CASES.add(arguments=with_gradient)
def tensor_only_register_hook_in_graph_lambda(_: Model, x: torch.Tensor) -> torch.Tensor:
    x.register_hook(lambda grad: grad * 2)
    return x * 1


@CASES.add(arguments=with_gradient)
def tensor_register_hook_in_graph_lambda(_: Model, x: torch.Tensor) -> Any:
    x.register_hook(lambda grad: grad * 2)
    return x * 3, x * x


@CASES.add(arguments=with_gradient)
def tensor_register_hook_in_graph_break_handle_lambda(_: Model, x: torch.Tensor) -> Any:
    handle = x.register_hook(lambda grad: grad * 2)
    z = x * x
    handle.remove()
    x.register_hook(lambda grad: grad * 3)
    return x * 1, z


@CASES.add(arguments=with_gradient)
def tensor_register_hook_multi_handle_return(_: Model, x: torch.Tensor) -> Any:
    handle = x.register_hook(fourfold)
    other = handle
    return x * x, handle is other


@CASES.add(arguments=with_gradient)
def removed_handle_return(_: Model, x: torch.Tensor) -> Any:
    handle = x.register_hook(fourfold)
    z = x * x
    handle.remove()
    handle.remove()
    return x * 2, z


@CASES.add(arguments=with_gradient, handle=None)
def tensor_register_hook_repeated_handle_not_local(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.handle = x.register_hook(fourfold)
    return x * x


@CASES.add(arguments=with_gradient)
def tensor_only_register_hook_in_graph_local(_: Model, x: torch.Tensor) -> torch.Tensor:
    def local(grad: torch.Tensor) -> torch.Tensor:
        return grad * 2

    x.register_hook(local)
    return x * 1


@CASES.add(arguments=with_gradient)
def tensor_only_register_hook_in_graph_local_inner(_: Model, x: torch.Tensor) -> Any:
    def local(grad: torch.Tensor) -> torch.Tensor:
        return grad * 2

    z = x * x
    x.register_hook(local)
    z.register_hook(local)
    return x * 1, z


@CASES.add(arguments=with_gradient)
def tensor_register_global_hook(_: Model, x: torch.Tensor) -> Any:
    x.register_hook(fourfold)
    return x * 1, x * x


@CASES.add(arguments=with_gradient)
def tensor_register_multiple_hooks(_: Model, x: torch.Tensor) -> Any:
    x.register_hook(fourfold)
    x.register_hook(half)
    x.register_hook(threefold)
    return x * 1, x * x


@CASES.add(arguments=with_gradient, handles=[])
def tensor_register_multiple_hooks_handles_in_list(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.handles.append(x.register_hook(fourfold))
    self.handles.append(x.register_hook(half))
    return x * x


@CASES.add(arguments=with_gradient)
def tensor_register_global_hooks_handles_in_list(_: Model, x: torch.Tensor) -> torch.Tensor:
    global HANDLE
    HANDLE = x.register_hook(fourfold)
    return x * x


@CASES.add(arguments=with_gradient)
def hook_on_intermediate(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.register_hook(half)
    return y.sum()


@CASES.add(arguments=with_gradient)
def hook_on_intermediate_used_before_and_after(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    z = y + 1
    y.register_hook(fourfold)
    return (z + y * 3).sum()


@CASES.add(arguments=with_gradient)
def hook_on_intermediate_returns_none(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.register_hook(nothing)
    return y.sum()


@CASES.add(arguments=with_gradient)
def hook_has_side_effect(self: Model, x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    self.last = y
    y.register_hook(half)
    return (y * 3).sum()


@CASES.add(arguments=with_gradient)
def hook_bwd_inside_side_effects(_: Model, x: torch.Tensor) -> torch.Tensor:
    def noted(grad: torch.Tensor) -> torch.Tensor:
        SEEN.append(grad)
        return grad * 2

    y = x * 2
    y.register_hook(noted)
    return (y + x).sum()


@CASES.add(arguments=with_gradient)
def intermediary_hooks(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    y.register_hook(threefold)
    return y + 1


@CASES.add(arguments=with_gradient)
def intermediary_hooks_same_on_aot_eager(_: Model, x: torch.Tensor) -> torch.Tensor:
    y = x.mul(2)
    y.register_hook(functools.partial(more_by, k=3))
    y.register_hook(functools.partial(more_by, k=4))
    return y.mul(3)


@CASES.add(
    arguments=with_gradient,
    hook=functools.partial(more_by, k=3),
)
def input_hooks_same(self: Model, x: torch.Tensor) -> torch.Tensor:
    x.register_hook(self.hook)
    return x.mul(2).mul(3)


@CASES.add(
    arguments=with_gradient,
    held=Scaling(),
)
def complex_state_mutation_in_intermediary_hooks_same_on_inductor(
    self: Model, x: torch.Tensor
) -> torch.Tensor:
    y = x.mul(2)
    y.register_hook(self.held.scaled)
    return y.mul(3)


@CASES.add(
    arguments=with_gradient,
    value=torch.tensor(8.0),
)
def hook_with_closure(self: Model, x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    x.register_hook(lambda grad: grad + self.value)
    return y.sin()


@CASES.add(arguments=with_gradient)
def hook_with_nested_closure(_: Model, x: torch.Tensor) -> torch.Tensor:
    def run() -> torch.Tensor:
        y = x.sin()
        x.register_hook(lambda grad: grad + y)
        return y.sin()

    return run()


@CASES.add(arguments=with_gradient)
def post_acc_grad_hook(_: Model, x: torch.Tensor) -> torch.Tensor:
    x.register_post_accumulate_grad_hook(nothing)
    return x * x


@CASES.add(OURS, arguments=with_gradient, count=0)
def hook_beside_a_counter(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.count += 1
    x.register_hook(threefold)
    return x * self.count
