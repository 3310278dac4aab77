"""Modules quantised in each way of ``torch.ao.quantization``, with arguments they take and fail with."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn
from torch.ao import quantization
from torch.ao.quantization import quantize_fx

if TYPE_CHECKING:
    from collections.abc import Callable


class Image(nn.Module):
    """A convolution, a sum and a linear layer between stubs, for static quantisation."""

    def __init__(self) -> None:
        super().__init__()
        self.quantise = quantization.QuantStub()
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.relu = nn.ReLU()
        self.sum = torch.ao.nn.quantized.FloatFunctional()
        self.out = nn.Linear(8, 4)
        self.dequantise = quantization.DeQuantStub()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.relu(self.norm(self.conv(self.quantise(x))))
        y = self.sum.add(y, y).mean([2, 3])
        return self.dequantise(self.out(y))


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(16, 32)
        self.second = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.relu(self.first(x))
        return self.second(y)


class Plain(Layers):
    """The same without types: PyTorch scripts no graph that ``torch.fx`` makes of typed parameters."""

    def forward(self, x):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN201
        y = torch.relu(self.first(x))
        return self.second(y)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 16, 2)
        self.out = nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y, _ = self.lstm(x)
        return self.out(y)


class Quantised(NamedTuple):
    """A quantised module.

    Attributes:
        model: the module.
        good: an argument that it takes.
        bad: an argument that it fails with.
        line: the model's own line on which it then fails.
    """

    model: nn.Module
    good: torch.Tensor
    bad: torch.Tensor
    line: str


IMAGES, VECTORS, SEQUENCES = torch.randn(2, 3, 8, 8), torch.randn(2, 16), torch.randn(5, 2, 8)
FIRST = "y = torch.relu(self.first(x))"


def _dynamic(dtype: torch.dtype) -> Quantised:
    model = quantization.quantize_dynamic(Layers().eval(), {nn.Linear}, dtype=dtype)
    return Quantised(model, VECTORS, VECTORS[:, 1:], FIRST)


def _recurrent() -> Quantised:
    model = quantization.quantize_dynamic(Recurrent().eval(), {nn.Linear, nn.LSTM})
    return Quantised(model, SEQUENCES, SEQUENCES[..., 1:], "y, _ = self.lstm(x)")


def _static() -> Quantised:
    model: Any = quantization.fuse_modules(Image().eval(), [["conv", "norm", "relu"]])
    model.qconfig = quantization.get_default_qconfig("fbgemm")
    prepared = quantization.prepare(model)
    prepared(IMAGES)
    line = "y = self.relu(self.norm(self.conv(self.quantise(x))))"
    return Quantised(quantization.convert(prepared), IMAGES, IMAGES[:, 1:], line)


def _fx(model: nn.Module, mapping: Any, good: torch.Tensor, bad: torch.Tensor, line: str) -> Quantised:  # noqa: ANN401
    prepared = quantize_fx.prepare_fx(model.eval(), mapping, (good,))
    prepared(good)
    return Quantised(quantize_fx.convert_fx(prepared), good, bad, line)


def _fx_static() -> Quantised:
    mapping = quantization.get_default_qconfig_mapping("fbgemm")
    return _fx(Plain(), mapping, VECTORS, VECTORS[:, 1:], "first = self.first(quantize_per_tensor)")


def _fx_dynamic() -> Quantised:
    mapping = quantization.QConfigMapping().set_global(quantization.default_dynamic_qconfig)
    return _fx(Plain(), mapping, VECTORS, VECTORS[:, 1:], "first = self.first(x)")


MAKERS: dict[str, Callable[[], Quantised]] = {
    "eager-dynamic": lambda: _dynamic(torch.qint8),
    "eager-dynamic-float16": lambda: _dynamic(torch.float16),
    "eager-dynamic-lstm": _recurrent,
    "eager-static": _static,
    "fx-dynamic": _fx_dynamic,
    "fx-static": _fx_static,
}


def quantised(name: str) -> Quantised:
    """A quantised module by its name. PyTorch's warnings that all of this is deprecated are left out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        return MAKERS[name]()
