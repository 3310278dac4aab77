"""Modes of PyTorch inside a model: gradients on and off, autocast, and parts that are computed again."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from tests.effects.effect_cases import OURS, Cases, Model, tensor, with_gradient

CASES = Cases("ctx_manager")


class Layers(nn.Module):
    """Layers to put into modes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
        self.norm = nn.BatchNorm1d(3)
        self.calls = 0


@CASES.add(arguments=with_gradient, test="no_grad", count=0)
def part_without_gradient(self: Model, x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    with torch.no_grad():
        self.count += 1
        y = y * x
    with torch.set_grad_enabled(False):
        y = y + x * 2
    return y * x + self.count


@CASES.add(arguments=with_gradient)
def grad_mode_guard(_: Model, x: torch.Tensor) -> torch.Tensor:
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    y = x + 1
    torch.set_grad_enabled(before)
    return y + x


@CASES.add(arguments=with_gradient)
def nested_grad_mode_graph_break(_: Model, x: torch.Tensor) -> torch.Tensor:
    before = torch.is_grad_enabled()
    with torch.set_grad_enabled(False):
        with torch.set_grad_enabled(True):
            x = torch.mul(x, 5)
            assert torch.is_grad_enabled()
        assert not torch.is_grad_enabled()
    assert torch.is_grad_enabled() == before
    return x.abs().sqrt()


@CASES.add(OURS)
class decorated_without_gradient(Layers):
    @torch.no_grad()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.layer(x) * self.calls


@CASES.add(OURS)
class in_inference_mode(Layers):
    def forward(self, x: torch.Tensor) -> Any:
        self.calls += 1
        with torch.inference_mode():
            self.last = self.layer(x)
            is_known = self.last.is_inference() and torch.is_inference_mode_enabled()
            return self.last, [self.last * self.calls], is_known


@CASES.add(OURS)
class decorated_with_inference_mode(Layers):
    @torch.inference_mode()
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.norm(self.layer(x)) * self.calls


@CASES.add(OURS)
class number_from_inference_mode(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            scale = self.layer(x).mean().item()
        return self.layer(x) * scale


@CASES.add(OURS, says="an inference tensor in what needs a gradient")
class inference_tensor_with_a_gradient(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            y = self.layer(x)
        return y * self.layer.weight.sum()  # here


@CASES.add(OURS, says="an inference tensor that is changed outside of inference mode")
class inference_tensor_that_changes(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.inference_mode():
            y = self.layer(x)
        y.add_(1)  # here
        return y


@CASES.add()
class autocast_cpu(Layers):
    def forward(self, x: torch.Tensor) -> Any:
        with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
            y = self.layer(x)
        return y, x * 2


@CASES.add(OURS, arguments=with_gradient)
class autocast_of_weights_used_twice(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layer(self.layer(x))
            y = self.norm(y).softmax(-1) + nn.functional.mse_loss(y, x)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.cat([self.layer(y), x])
        return y.float() * self.calls


@CASES.add(test="autocast_float64", arguments=lambda number: (tensor(number).double(),))
def autocast_of_doubles(_: Model, x: torch.Tensor) -> Any:
    with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
        return torch.mm(x.float(), x.float().t()), torch.mm(x, x.t())


@CASES.add(test="autocast_arguments_binding")
class autocast_turned_off(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layer(x)
            with torch.autocast("cpu", enabled=False):
                y = self.layer(y.float())
            return self.layer(y)


@CASES.add(test="autocast_decorator")
class autocast_as_a_decorator(Layers):
    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return self.layer(x) * self.calls


@CASES.add(OURS)
class autocast_of_attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(3, 1, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            self.weights = self.attention(x[None], x[None], x[None])[1].detach()
        return self.weights.float() * 2


@CASES.add(OURS, says="what autocast does to lstm")
class autocast_of_an_lstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LSTM(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.layer(x[None])[0]


@CASES.add("higher_order_ops", arguments=with_gradient, test="dropout")
class checkpoint_without_reentry(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        part = lambda y: nn.functional.dropout(torch.sigmoid(self.layer(y)), 0.0)  # noqa: E731
        return checkpoint(part, x * 2, use_reentrant=False) * self.calls


@CASES.add("higher_order_ops", arguments=with_gradient, test="kwargs")
class checkpoint_with_keywords(Layers):
    def part(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return self.layer(x) * scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.part, x, scale=0.5, use_reentrant=False)


@CASES.add(OURS, arguments=with_gradient)
class checkpoint_with_reentry(Layers):
    def part(self, x: torch.Tensor, scale: float) -> Any:
        return torch.sigmoid(self.layer(x)) * scale, x.argmax(1)

    def forward(self, x: torch.Tensor) -> Any:
        self.calls += 1
        y, places = checkpoint(self.part, x * 2, 0.5, use_reentrant=True)
        return checkpoint_sequential(self.net, 2, y, use_reentrant=True) * self.calls, places


@CASES.add(OURS)
class checkpoint_of_what_needs_no_gradient(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.layer, x, use_reentrant=True)


@CASES.add(OURS, says="a change inside torch.utils.checkpoint, which repeats it in the backward pass")
class checkpoint_that_counts(Layers):
    def part(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1  # here
        return self.layer(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.part, x, use_reentrant=False)


@CASES.add(
    OURS,
    says="random numbers inside torch.utils.checkpoint, which differ in the backward pass: "
    "preserve_rng_state",
    arguments=with_gradient,
)
class checkpoint_with_other_random_numbers(Layers):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(nn.functional.dropout, x, use_reentrant=True, preserve_rng_state=False)  # here


@CASES.add(
    OURS,
    says="torch.is_grad_enabled inside torch.utils.checkpoint, which disables gradients",
    arguments=with_gradient,
)
class checkpoint_that_asks_for_gradients(Layers):
    def part(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x) if torch.is_grad_enabled() else x  # here

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return checkpoint(self.part, x, use_reentrant=True)
