"""Quantised modules: lowered, saved, and run in a fresh process of stock PyTorch, bit by bit as before."""

from __future__ import annotations

import io
import subprocess
import sys
from functools import cache
from typing import TYPE_CHECKING

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import BackendError, Delegate, LoweringError, lower, lowered_archive, save_lowered
from tests.support.quantised_models import MAKERS, Quantised, quantised

if TYPE_CHECKING:
    from pathlib import Path

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
    command = [sys.executable, "-I", "-W", "ignore", "-c", STOCK, str(tmp_path), *MAKERS]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    said = done.stdout.splitlines()
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
