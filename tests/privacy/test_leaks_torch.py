"""What PyTorch itself puts into models is nobody's secret: stock modules give away where it lies, at most."""

from __future__ import annotations

import io

import pytest

from archive import LeakKind, leaks
from archive import open as open_archive

pytest.importorskip("torch", exc_type=ImportError)

import torch

pytestmark = pytest.mark.torch
OF_SOURCE = {LeakKind.SOURCE, LeakKind.COMMENT, LeakKind.EMAIL, LeakKind.URL, LeakKind.KEY, LeakKind.HOST}
"""PyTorch's folder is on the machine that saved the model, so paths are."""


def saved(module: torch.nn.Module) -> bytes:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(module), file)
    return file.getvalue()


def from_no_file(data: bytes) -> str:
    """The texts of source ranges that name no file, or none that there is."""
    with open_archive(data) as opened:
        sources = opened.range_table.sources
        texts = [sources[number] for number in range(len(sources))]
    return "\n".join(str(one.text) for one in texts if str(one.filename or "") in ("", "<string>"))


@pytest.mark.parametrize(
    "module", [torch.nn.MultiheadAttention(4, 2), torch.nn.Upsample(4)], ids=["mha", "up"]
)
def test_stock_modules_have_no_source_text(module: torch.nn.Module) -> None:
    assert not [one for one in leaks(saved(module)).counted() if one.kind in OF_SOURCE]


class Halving(torch.nn.Module):
    """Calls functions that PyTorch has in TorchScript, and that are from no file."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Operators of tensors whose first operand is a number, and attributes that are functions."""
        return 2 / x.mH + (3.0 - x).T


def test_operators_that_pytorch_has_in_torchscript_are_none() -> None:
    data = saved(Halving())
    assert "def mH(a : Tensor)" in from_no_file(data)
    assert "def div(a : int, b : Tensor)" in from_no_file(data)
    found = [one.text for one in leaks(data).counted() if one.kind is LeakKind.SOURCE]
    assert [one for one in found if '"""' not in one] == [
        "def forward(self, x: torch.Tensor) -> torch.Tensor:",
        "return 2 / x.mH + (3.0 - x).T",
    ]
