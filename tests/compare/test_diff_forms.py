"""Two forms of one model: ``diff`` says of their weights what ``digest --of weights`` says."""

from __future__ import annotations

import io
from itertools import combinations, permutations
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.errors import ArchiveError
from archive.compare.sameness import Level
from archive.render.diff import verdict
from tests.support.commands import called
from tests.support.corpus import FIXTURES, KINDS, RELEASES

if TYPE_CHECKING:
    from pathlib import Path

FILES = [
    *(
        KINDS / name
        for name in ("state_dict.pt", "tensors.safetensors", "legacy.pt", "module.pt", "model.gguf")
    ),
    *(KINDS / name for name in ("checkpoint.pt", "exported.pt2", "program.pte", "package.pt")),
    RELEASES / "torch-2.13.0/nested.pt",
    RELEASES / "torch-2.13.0/nested.ptl",
    FIXTURES / "exported/shop.pt2",
]


@pytest.mark.parametrize(("old", "new"), [*combinations(FILES, 2)], ids=lambda path: path.name)
def test_weights_are_the_same_if_their_digests_are(old: Path, new: Path) -> None:
    diff = archive.diff(old, new)
    if diff.old_kind.split()[:3] == diff.new_kind.split()[:3]:
        return
    try:
        digests = {str(archive.digest(file, of="weights")) for file in (old, new)}
    except ArchiveError:  # without weights, or with some that have no names
        return
    assert diff.weights.startswith("the same ") == (len(digests) == 1), diff.weights
    assert diff.same_model or f"weights: {diff.weights}" in verdict(diff).splitlines()


def test_files_of_one_kind_have_no_such_line() -> None:
    diff = archive.diff(FIXTURES / "training/epoch1.pt", FIXTURES / "training/epoch2.pt")
    assert diff.weights == ""
    assert "weights: " not in verdict(diff)


def test_forms_of_one_model_differ_in_form_only() -> None:
    """A state dict has no gradients, and tables of tensors are the form of exported programs."""
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(2, 2)

        def forward(self, x: object) -> object:
            return self.fc(x)

    model, exported = Model(), io.BytesIO()
    torch.export.save(torch.export.export(model, (torch.ones(1, 2),)), exported)
    saved, old, script = io.BytesIO(), io.BytesIO(), io.BytesIO()
    torch.save(model.state_dict(), saved)
    torch.save(model.state_dict(), old, _use_new_zipfile_serialization=False)
    torch.jit.save(torch.jit.trace(model, torch.ones(1, 2)), script)
    forms = {"exported": exported, "saved": saved, "old": old, "script": script}
    for (one, was), (other, now) in permutations(forms.items(), 2):
        diff = archive.diff(was.getvalue(), now.getvalue())
        assert diff.weights == "the same 2 tensors", (one, other)
        rows = [row for row in diff.changes if row.level is Level.MODEL]
        assert not [row for row in rows if row.what in ("tensor", "table of tensors")], (one, other)
    changed = io.BytesIO()
    with torch.no_grad():
        model.fc.bias[0] += 1
    torch.save(model.state_dict(), changed)
    diff = archive.diff(exported.getvalue(), changed.getvalue())
    assert diff.weights == "1 of 2 tensors that both have are the same"


def test_nobody_is_told_to_look_for_failures_in_a_text_that_is_compared() -> None:
    assert "--log" not in str(called("diff", KINDS / "note.pt", KINDS / "state_dict.pt").exception)
    assert "--log" in str(called("symbolicate", KINDS / "note.pt", "1").exception)
