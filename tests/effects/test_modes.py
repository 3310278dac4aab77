"""Modes around a loaded module: what the model reads of them, and what its own modes leave."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import Effectful, lower, lowered_archive
from archive.effects import CaptureError, GuardError, capture

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.torch

X = torch.linspace(-1, 1, 6).reshape(2, 3)


class Model(nn.Module):
    """A layer, in the modes that a function puts it."""

    def __init__(self, run: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.run = run

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(self.layer, x)


def loaded(model: nn.Module) -> Effectful:
    return Effectful.load(lowered_archive(lower(model, "aten", effects=True, example_inputs=(X,))))


def by_gradients(layer: Any, x: torch.Tensor) -> Any:  # noqa: ANN401
    return layer(x) if torch.is_grad_enabled() else x


def by_autocast(layer: Any, x: torch.Tensor) -> Any:  # noqa: ANN401
    return layer(x) if torch.is_autocast_enabled("cpu") else x


def by_inference(layer: Any, x: torch.Tensor) -> Any:  # noqa: ANN401
    return layer(x) if torch.is_inference_mode_enabled() else x


ASKED = [
    (by_gradients, torch.no_grad, "torch.is_grad_enabled is True"),
    (by_autocast, lambda: torch.autocast("cpu"), "torch.is_autocast_enabled is False"),
    (by_inference, torch.inference_mode, "torch.is_inference_mode_enabled is False"),
]


@pytest.mark.parametrize(("run", "mode", "guard"), ASKED)
def test_a_mode_that_the_model_asks_for_is_guarded(run: Any, mode: Any, guard: str) -> None:  # noqa: ANN401
    eager = Model(run)
    model = loaded(eager)
    assert torch.equal(model(X), eager(X))
    with mode(), pytest.raises(GuardError, match=guard):
        model(X)


def part_without_gradients(layer: Any, x: torch.Tensor) -> Any:  # noqa: ANN401
    with torch.no_grad():
        y = layer(x) * 2
    return layer(y)


def test_a_part_without_gradients_is_none_of_the_call_s() -> None:
    eager = Model(part_without_gradients)
    model = loaded(eager)
    for mode in (torch.no_grad, torch.enable_grad, torch.inference_mode):
        with mode():
            wanted, found = eager(X), model(X)
        assert torch.equal(wanted, found)
        assert wanted.requires_grad == found.requires_grad
        assert wanted.is_inference() == found.is_inference()


def with_gradients(layer: Any, x: torch.Tensor) -> Any:  # noqa: ANN401
    with torch.enable_grad():
        return layer(x)


def test_gradients_in_a_call_without_are_refused() -> None:
    with torch.no_grad(), pytest.raises(CaptureError, match="a gradient where the call is made without"):
        capture(Model(with_gradients), X)
    model = loaded(Model(with_gradients))
    assert model(X).requires_grad
    with torch.no_grad(), pytest.raises(GuardError, match="is_grad_enabled"):
        model(X)


def in_autocast(layer: Any, x: torch.Tensor) -> Any:  # noqa: ANN401
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return layer(x).softmax(-1)


@pytest.mark.parametrize("stock", [False, True])
def test_autocast_takes_other_sizes_and_no_other_autocast(stock: bool) -> None:  # noqa: FBT001
    eager = Model(in_autocast)
    data = lowered_archive(lower(eager, "aten", effects=True, example_inputs=(X,)))
    model = Effectful.load(data, stock=stock)
    for given in (X, torch.ones(5, 3), torch.ones(0, 3)):
        wanted, found = eager(given), model(given)
        assert torch.equal(wanted, found)
        assert wanted.dtype is found.dtype is torch.bfloat16
    with torch.autocast("cpu", dtype=torch.float16), pytest.raises(GuardError, match="is_autocast_enabled"):
        model(X)
    with pytest.raises(GuardError, match=r"x\.dtype == torch\.float32"):
        model(X.bfloat16())


def test_autocast_around_a_capture_is_not_mixed_with_another() -> None:
    with (
        torch.autocast("cpu", dtype=torch.float16),
        pytest.raises(CaptureError, match="autocast inside the model, and another one around it"),
    ):
        capture(Model(in_autocast), X)


def test_pytorch_is_as_before_once_a_capture_is_over() -> None:
    names = ("is_grad_enabled", "is_autocast_enabled", "get_default_dtype", "clear_autocast_cache")
    before = [getattr(torch, name) for name in names]
    apply, mode = torch.autograd.Function.__dict__["apply"], torch._C._InferenceMode
    with pytest.raises(CaptureError):
        capture(Model(lambda _, x: x.numpy()), X)
    assert [getattr(torch, name) for name in names] == before
    assert torch.autograd.Function.__dict__["apply"] is apply
    assert torch._C._InferenceMode is mode
