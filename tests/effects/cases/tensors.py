"""Tensors that change in place: buffers, parts and views of them, parameters, running statistics."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.effects.effect_cases import OURS, Cases, Model, tensor, with_gradient

CASES = Cases("misc")


def buffers(*shapes: tuple[int, ...]) -> nn.Module:
    """A module with buffers ``a``, ``b``, …"""
    made = nn.Module()
    for name, shape in zip("abc", shapes, strict=False):
        made.register_buffer(name, torch.zeros(shape))
    return made


@CASES.add(held=buffers((2, 3)))
def inplace(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.held.a.copy_(x)
    self.held.a -= 0.5
    return self.held.a + 1


@CASES.add(
    weight=nn.Parameter(torch.ones(2, 3)),
)
def inplace_param_update(self: Model, x: torch.Tensor) -> torch.Tensor:
    before = torch.is_grad_enabled()
    try:
        torch.set_grad_enabled(False)
        self.weight.add_(x)
    finally:
        torch.set_grad_enabled(before)
    return self.weight * 2


@CASES.add(says="a tensor whose shape is changed in place")
def inplace_view_on_graph_input(_: Model, x: torch.Tensor) -> torch.Tensor:
    return x.t_().mul_(2)  # here


@CASES.add()
def out_variants_with_resizing_on_graph_inputs(_: Model, x: torch.Tensor) -> torch.Tensor:
    made = torch.empty(2, 3)
    torch.cosh(x, out=made)
    return made + 1


@CASES.add("repros", held=buffers((2, 3)))
def sigmoid_out(self: Model, x: torch.Tensor) -> torch.Tensor:
    torch.sigmoid(x, out=self.held.a)
    return self.held.a * 2


@CASES.add("repros")
def sort_out(self: Model, x: torch.Tensor) -> Any:
    values, places = torch.sort(x, dim=1)
    self.values, self.places = values, places
    return values


@CASES.add("repros", held=buffers((2, 3)))
def slicing_dynamic_shape_setitem(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.held.a[:, 1:] = x[:, :2]
    return self.held.a + x


@CASES.add("repros", norm=nn.BatchNorm1d(3))
def batch_norm_act(self: Model, x: torch.Tensor) -> torch.Tensor:
    return torch.relu(self.norm(x))


@CASES.add("repros", held=buffers((2, 3)))
def reinplacing(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.held.a.add_(x).mul_(0.5)
    return self.held.a + self.held.a.sin()


@CASES.add(held=buffers((2, 3), (3,)))
def tensor_item_capture(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.held.a.add_(x)
    self.held.b[0] = x.sum()
    self.total = self.held.b[0].item()
    return x + self.total


@CASES.add()
def item_changes(self: Model, x: torch.Tensor) -> Any:
    self.largest = x.max().item()
    return self.largest


@CASES.add(  # here
    "repros",
    says=("a part of a tensor that is changed in place is kept or returned: it would not change with it"),
    held=buffers((2, 3)),
)
def maml_item_capture(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.held.a.lerp_(x, 0.1)
    return self.held.a.detach()


@CASES.add("modules", held=tensor(4))
def no_op_assignment(self: Model, x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    self.held = self.held.to(x)
    return self.held + x


@CASES.add("modules", held=buffers((2, 3), (2, 3)))
def buffer_order(self: Model, x: torch.Tensor) -> torch.Tensor:
    for number, one in enumerate(self.held.buffers()):
        one.add_(x * (number + 1))
    return self.held.a - self.held.b


@CASES.add(held=buffers((4, 3)), rows=[])
def tensor_data(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.held.a.data[:2] += x
    return self.held.a


@CASES.add(
    OURS,
    says="a part of a tensor that is changed in place is kept or returned: it would not change with it",
    held=buffers((2, 3)),
    kept=[],
)
def views_of_a_buffer_are_kept(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.held.a.add_(x)
    self.kept.append(self.held.a[0])  # here
    return x + 1


@CASES.add(arguments=with_gradient)
def tensor_dot_grad_no_graph_break(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.last = x * 2
    return self.last + x


@CASES.add("unspec", held=buffers((2, 3)))
def feed_random_values_into_graph_only(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.held.a.zero_()
    self.held.a.index_fill_(1, torch.tensor([1]), 2.5)
    return self.held.a + x


@CASES.add(OURS, held=buffers((2, 3)))
def requires_grad_of_inputs(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.needed = x.requires_grad
    self.held.a = x.detach() + 1
    return self.held.a


@CASES.add(OURS, held=buffers((2, 3)))
def inplace_masked_fill(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.held.a.add_(x)
    self.held.a.masked_fill_(x > 0, -1.0)
    return self.held.a * 1


@CASES.add(OURS, seen=torch.ones(2, 3))
def powers_of_tensors(self: Model, x: torch.Tensor) -> torch.Tensor:
    self.seen **= 2
    return x**3 + (x * x) ** 0.5 + 2.0**x + self.seen


@CASES.add(OURS)
class views_that_were_there_before(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))
        self.kept: list[Any] = [self.total[0], self.total[:, 1]]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        self.kept.append(x)
        return x + 1


@CASES.add(OURS, says="self.kept[0] shares memory with self.total, which changes in place")
class views_of_another_dtype(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))
        self.kept: list[Any] = [self.total.view(torch.int32)]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total.add_(x)
        self.kept.append(x)
        return x + 1
