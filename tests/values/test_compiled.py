"""Models that AOTInductor compiled: what they return is compared, and what was not seen is counted."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.errors import ArchiveError

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from tests.support.commands import run
from tests.support.exported import COMPILED, written

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.torch,
    *(pytest.mark.filterwarnings(f"ignore::{kind}Warning") for kind in ("Deprecation", "Future", "User")),
]
INPUTS = torch.rand(3, 4), torch.rand(3, 4), torch.tensor([1, 2, 3])


class Mixer(nn.Module):
    """What the fixtures were compiled from, with the numbers that they were compiled with."""

    def __init__(self, off: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.mix, self.rows = nn.Linear(4, 4), nn.Embedding(6, 4)
        self.register_buffer("scale", torch.arange(1.0, 5) * off)

    def warm(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.mix(x)) * self.scale

    def forward(
        self, left: torch.Tensor, right: torch.Tensor, ids: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        a, b = self.warm(left), self.warm(right)
        return torch.cumsum(a + self.rows(ids), 0), (a - b).softmax(-1).sum()


@pytest.mark.parametrize("off", [1.0, 1.02])
def test_the_results_of_a_compiled_model_are_beside_those_of_its_source(off: float, tmp_path: Path) -> None:
    mine = archive.run(written("compiled", tmp_path), *INPUTS)
    diff = mine.diff(archive.run(Mixer(off).eval(), *INPUTS))
    assert len(diff.outputs) == 2
    assert diff.is_beyond == (off != 1)
    assert diff.first is None
    with archive.open(tmp_path / "compiled.pt2") as opened:
        assert mine.unseen == {"calls of kernels": len(opened.kernels)}


def test_a_compiled_model_without_provenance_is_not_seen_as_a_whole(tmp_path: Path) -> None:
    assert archive.run(written("plain", tmp_path), *INPUTS).unseen == {"compiled model": 1}


def test_inputs_of_other_sizes_are_refused(tmp_path: Path) -> None:
    before = dict(os.environ)
    with pytest.raises(ArchiveError, match=r"model fails with float32 of shape \(3, 5\).*compiled for"):
        archive.run(written("compiled", tmp_path), torch.rand(3, 5), *INPUTS[1:])
    assert dict(os.environ) == before


def test_sources_that_were_not_compiled_are_refused() -> None:
    with pytest.raises(ArchiveError, match=r"sources\.pt2: has sources that were not compiled"):
        archive.run(COMPILED / "sources.pt2", *INPUTS)


def test_the_command_says_what_was_not_seen(tmp_path: Path) -> None:
    model = written("compiled", tmp_path)
    torch.export.save(torch.export.export(Mixer(1.02).eval(), INPUTS), tmp_path / "base.pt2")
    done = run("run", model, "--base", tmp_path / "base.pt2")
    assert done.returncode == 1
    assert b"compiled.pt2 (AOTInductor) beside" in done.stdout
    assert b"the model's result is" in done.stdout
    assert b"calls of kernels" in done.stdout
