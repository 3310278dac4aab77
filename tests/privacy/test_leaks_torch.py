"""What PyTorch itself puts into models is nobody's secret: stock modules give away where it lies, at most."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from archive import LeakKind, leaks
from archive import open as open_archive

if TYPE_CHECKING:
    from pathlib import Path

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


def test_lines_that_lowering_writes_are_nobodys(tmp_path: Path) -> None:
    from archive.backend import lower  # noqa: PLC0415 (needs PyTorch)
    from archive.backend.example import Classifier  # noqa: PLC0415 (the same)

    model = Classifier().eval()
    model.features = lower(model.features, "aten")
    path = tmp_path / "model.pt"
    torch.jit.script(model).save(str(path))
    with open_archive(path) as opened:
        code = b"".join(bytes(record.view()) for name, record in opened.records.items() if "Lowered" in name)
    lines = [line for line in code.decode("utf-8", "replace").splitlines() if "# debug handle" in line]
    assert len(lines) > 50
    listed = {one.text for one in leaks(path).counted() if one.kind is LeakKind.SOURCE}
    assert "return self.head(self.features(image))" in listed, "the model's own line"
    generated = {line for line in listed if "# debug handle" in line}
    assert generated, "the texts of the model's errors are in some"
    assert all("'" in line or '"' in line for line in generated)
    assert not {line for line in listed if "self.__constants" in line or "__is_available()" in line}
