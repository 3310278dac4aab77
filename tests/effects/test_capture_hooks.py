"""Captured hooks and autograd functions: gradients are those of the module."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.effects import capture
from archive.effects.replay.replay import prepared
from tests.effects.changing_models import X
from tests.effects.comparison import scripted
from tests.support.live_state import live_state

pytestmark = pytest.mark.torch

ALLOWED = ["tests.effects.test_capture_hooks:halved"]


def halved(gradient: torch.Tensor) -> torch.Tensor:
    return gradient / 2


class Hooks(nn.Module):
    """Hooks on an argument, a parameter and what is computed; one is taken off."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * self.weight
        removed = x.register_hook(halved)
        x.register_hook(halved)
        removed.remove()
        self.weight.register_hook(halved)
        y.register_hook(halved)
        return y * 2


def test_hooks() -> None:
    eager, model = Hooks(), Hooks()
    x, other = (X.clone().requires_grad_() for _ in range(2))
    eager(x).sum().backward()
    graph, side_effects = capture(model, X.clone().requires_grad_())
    method = side_effects.table()
    assert not model.weight._backward_hooks
    ready, state = prepared(method, allow=ALLOWED), live_state(model)
    outputs = scripted(graph)(*ready.inputs(state, {"x": other}))
    ready.replay(state, outputs, {"x": other}).sum().backward()
    assert x.grad is not None
    assert other.grad is not None
    assert torch.equal(x.grad, other.grad)
    assert torch.equal(eager.weight.grad, model.weight.grad)
