"""A changed line of a traced model is a constant that differs: the line is known, so it is named."""

from __future__ import annotations

import io
from runpy import run_path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

import archive
from archive.compare.sameness import Level
from tests.support.commands import called

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]

MODEL = """\
import torch


class Scaled(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        y = self.linear(x) * torch.tensor(0.5)
        return y + torch.tensor([1.0, 2.0, 3.0])
"""
FIRST, SECOND = "model.py:10", "model.py:11"


def traced(folder: Path, edit: tuple[str, str] = ("", ""), *, lite: bool = False) -> bytes:
    """The model with an edited line, traced from the same file."""
    path = folder / "model.py"
    path.write_text(MODEL.replace(*edit))
    torch.manual_seed(0)
    script = torch.jit.trace(run_path(str(path), run_name="model")["Scaled"](), torch.ones(2, 3))
    if lite:
        return bytes(script._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True))
    buffer = io.BytesIO()
    torch.jit.save(script, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize("lite", [False, True])
@pytest.mark.parametrize(
    ("edit", "line"), [(("0.5", "0.25"), FIRST), (("2.0, 3.0", "4.0, 3.0"), SECOND)], ids=["first", "second"]
)
def test_a_changed_constant_names_the_line_that_uses_it(
    tmp_path: Path,
    edit: tuple[str, str],
    line: str,
    lite: bool,  # noqa: FBT001
) -> None:
    was, now = traced(tmp_path, lite=lite), traced(tmp_path, edit, lite=lite)
    (row,) = (row for row in archive.diff(was, now).changes if row.level is Level.MODEL)
    assert row.new == str(tmp_path / line)
    assert row.in_words.endswith(f"; used at {tmp_path / line}")


def test_a_new_constant_does_too(tmp_path: Path) -> None:
    was, now = traced(tmp_path), traced(tmp_path, ("(0.5)", "(0.5) * torch.tensor(7.5)"))
    for old, new, sign in ((was, now, "added"), (now, was, "gone")):
        rows = [row.in_words for row in archive.diff(old, new).changes if row.what == "tensor"]
        assert rows == [f"{sign}, float32 [] at {tmp_path / FIRST}"]


def test_without_debug_info_none_is_named(tmp_path: Path) -> None:
    files = []
    for name, data in (("was", traced(tmp_path)), ("now", traced(tmp_path, ("0.5", "0.25")))):
        archive.split(data, tmp_path / f"{name}.pt", tmp_path / f"{name}.ptdbg")
        files.append(tmp_path / f"{name}.pt")
    said = called("diff", *files).stdout
    assert "tensor CONSTANTS.c0: 1 of 1 elements differ" in said
    assert "used at" not in said
