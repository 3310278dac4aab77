"""Quantised modules: lowered, saved, and run in a fresh process of stock PyTorch, bit by bit as before."""

from __future__ import annotations

import io
import warnings
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn
from torch.ao import quantization
from torch.ao.quantization import quantize_fx

from archive.backend import BackendError, Delegate, LoweringError, lower, lowered_archive, save_lowered
from tests.support.processes import run_fresh

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# --- models


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


pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

STOCK = """
import sys
sys.modules["archive"] = None
import torch, torch.jit.mobile
folder, *names = sys.argv[1:]
for name in names:
    good, expected, bad = torch.load(f"{folder}/{name}.data")
    for ending, load in (("pt", torch.jit.load), ("ptl", torch.jit.mobile._load_for_lite_interpreter)):
        module = load(f"{folder}/{name}.{ending}")
        print(name, ending, torch.equal(module(good), expected))
        try:
            module(bad)
        except Exception as error:
            print(str(error).replace("\\n", "|"))
"""
"""Runs archives; what a failure says stands on one line."""
WITHOUT_LINES = ("eager-dynamic-lstm", "eager-static")
"""Models whose failures have no lines in the lite interpreter, lowered or not: raised by code, or oneDNN."""


@cache
def made(name: str) -> Quantised:
    return quantised(name)


@cache
def lowered_scripted(name: str) -> torch.jit.ScriptModule:
    return lower(made(name).model, "aten")


@pytest.mark.parametrize("name", MAKERS)
def test_outputs_of_traced_ones_are_equal_bit_by_bit(name: str) -> None:
    model, good, *_ = made(name)
    lowered = lower(torch.jit.trace(model, good), "aten")
    assert torch.equal(lowered(good), model(good))
    again = torch.jit.load(io.BytesIO(lowered_archive(lowered)))
    assert torch.equal(again(good), model(good))


@pytest.mark.parametrize("name", MAKERS)
def test_delegates_run_them_and_show_the_model_s_lines(name: str) -> None:
    model, good, bad, line = made(name)
    delegate = Delegate.of(lowered_scripted(name))
    assert torch.equal(delegate(good), model(good))
    with pytest.raises(BackendError) as caught:
        delegate(bad)
    assert line in str(caught.value)


def test_stock_pytorch_runs_them_and_shows_the_model_s_lines(tmp_path: Path) -> None:
    for name in MAKERS:
        model, good, bad, _ = made(name)
        for ending in ("pt", "ptl"):
            save_lowered(lowered_scripted(name), tmp_path / f"{name}.{ending}")
        torch.save((good, model(good), bad), tmp_path / f"{name}.data")
    said = run_fresh(STOCK, tmp_path, *MAKERS, folder=tmp_path).stdout.splitlines()
    for name, ending in ((name, ending) for name in MAKERS for ending in ("pt", "ptl")):
        equal, failure, *said = said
        assert equal == f"{name} {ending} True"
        assert made(name).line in failure or (ending == "ptl" and name in WITHOUT_LINES), name
    assert not said


@pytest.mark.parametrize("ending", ["pt", "ptl"])
def test_commands_take_their_archives(ending: str, tmp_path: Path) -> None:
    whole, small, companion, joined = (
        tmp_path / name for name in (f"a.{ending}", f"s.{ending}", "a.ptdbg", f"j.{ending}")
    )
    save_lowered(lowered_scripted("eager-static"), whole)
    assert archive.verify(whole) == []
    archive.split(whole, small, companion)
    archive.join(small, companion, joined)
    assert joined.read_bytes() == whole.read_bytes()
    with archive.open(whole) as opened:
        operators = [one.op for one in opened.handles.values()]
        assert "quantized::conv2d_relu" in map(str, operators)


def test_a_backend_without_objects_refuses_them_at_their_line() -> None:
    with pytest.raises(LoweringError, match="is not supported in this compiler") as caught:
        lower(made("eager-dynamic").model, "backend_with_compiler_demo")
    assert "~~~ <--- HERE" in str(caught.value)


class Holding(nn.Module):
    """A module around a quantised one."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = made("eager-dynamic").model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) + 1


def test_a_quantised_part_of_another_module_is_lowered() -> None:
    model = Holding()
    good = made("eager-dynamic").good
    lowered = lower(model, "aten", paths=["inner"])
    loaded = torch.jit.load(io.BytesIO(lowered_archive(lowered)))
    assert torch.equal(lowered(good), model(good))
    assert torch.equal(loaded(good), model(good))
