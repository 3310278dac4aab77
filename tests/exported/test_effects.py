"""What programs change, as rows of the table that modules have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import lower
from tests.support.commands import run, told, well
from tests.support.corpus import FIXTURES

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # export warns of much

X = torch.ones(2, 3)


class Meter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("peak", torch.zeros(()))

    def forward(self, x: torch.Tensor, rate: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.peak.copy_(torch.maximum(self.peak, x.max()))
        x.mul_(rate)
        y = self.norm(x)
        return y, y + self.peak


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A program in the training dialect, functional, and lowered."""
    folder = tmp_path_factory.mktemp("meters")
    training = torch.export.export(Meter().train(), (X.clone(), X))
    functional = training.run_decompositions({})
    found = {}
    for name, program in {
        "training": training,
        "functional": functional,
        "lowered": lower(functional, "aten"),
    }.items():
        found[name] = folder / f"{name}.pt2"
        torch.export.save(program, found[name])
    return found


@pytest.mark.parametrize("name", ["functional", "lowered"])
def test_each_change_of_the_signature_is_a_row_with_the_model_s_line(
    name: str, saved: dict[str, Path]
) -> None:
    """PyTorch's own signature is the oracle."""
    signature = torch.export.load(saved[name]).graph_signature
    expected = [f"self.{target}.copy_" for target in signature.buffers_to_mutate.values()]
    expected += [f"{target}.copy_" for target in signature.user_inputs_to_mutate.values()]
    facts: Any = told("inspect", "--effects", saved[name])
    (method,) = facts["methods"]
    assert [each["text"].partition("(")[0] for each in method["effects"]] == expected
    assert len(expected) == 5
    assert method["graph"].startswith("graph(x, rate, self.")
    assert method["graph"].endswith("-> 7 values")
    assert method["result"] == "(out[5], out[6])"
    lines = {each["text"].partition(".copy_")[0]: each["line"] for each in method["effects"]}
    assert lines["x"] == "x.mul_(rate)"
    assert lines["self.peak"] == "self.peak.copy_(torch.maximum(self.peak, x.max()))"
    assert lines["self.norm.running_mean"] == "y = self.norm(x)"
    assert not method["notes"]


def test_writes_in_place_are_noted(saved: dict[str, Path]) -> None:
    shown = well("inspect", "--effects", saved["training"])
    assert "# 3 operations in place, whose changes the signature does not have" in shown
    assert ".copy_(" not in shown


def test_a_program_that_changes_nothing_has_none() -> None:
    path = FIXTURES / "exported" / "choice.pt2"
    done = run("inspect", "--effects", path)
    assert done.returncode == 2
    assert b"no effects" in done.stderr
