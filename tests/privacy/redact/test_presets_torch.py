"""What PyTorch computes with fixtures that were redacted, by either preset, is the same to the bit."""

from __future__ import annotations

import copy
import io
import json
from typing import TYPE_CHECKING, Any

import pytest

import archive
from tests.support.corpus import FIXTURES
from tests.support.running_exported import registered
from tests.support.sampling import crossed, name_of, sampled
from tests.support.torch_oracles import CURRENT, clean, have_backends, result

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch.export.pt2_archive import _package
from torch.utils._pytree import tree_leaves

if TYPE_CHECKING:
    from pathlib import Path

PRESETS = ("publish", "vendor")
MADE: dict[str, str] = {
    made["file"]: made["case"] for made in json.loads((CURRENT / "made.json").read_text("utf-8"))["files"]
}
PICKLED = {"shop_protocol.pt2", "teller.pt2"}
"""Programs whose inputs PyTorch's restricted unpickler refuses, or with objects of other classes."""
EXPORTED = sorted(path for path in (FIXTURES / "exported").glob("*.pt2") if path.name not in PICKLED)


def bits(value: object) -> object:
    """A result whose tensors are bytes; the first line of an error."""
    if isinstance(value, Exception):
        return clean(str(value)).splitlines()[0]
    return [
        (leaf.dtype, leaf.shape, leaf.detach().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        if isinstance(leaf, torch.Tensor)
        else leaf
        for leaf in tree_leaves(value)
    ]


def outcome(program: Any, inputs: tuple[Any, Any]) -> object:  # noqa: ANN401 (an exported program)
    """What a program makes of inputs, or what it fails with: not every fixture runs on its own inputs."""
    arguments, named = copy.deepcopy(inputs)
    try:
        return bits(program.module()(*arguments, **named))
    except (RuntimeError, IndexError) as error:
        return bits(error)


@pytest.mark.parametrize(("file", "preset"), crossed(sampled(MADE, most=8), PRESETS, most=8), ids=name_of)
def test_scripts_compute_the_same(file: str, preset: Any, tmp_path: Path) -> None:  # noqa: ANN401 (a literal)
    have_backends()
    out = tmp_path / file
    archive.redact(CURRENT / file, out, io.BytesIO(), preset=preset, partial=True)
    assert bits(result(out, MADE[file])) == bits(result(CURRENT / file, MADE[file]))


@pytest.mark.parametrize(("path", "preset"), crossed(sampled(EXPORTED, most=8), PRESETS, most=8), ids=name_of)
def test_programs_compute_the_same(path: Path, preset: Any, tmp_path: Path) -> None:  # noqa: ANN401 (a literal)
    out = tmp_path / path.name
    archive.redact(path, out, io.BytesIO(), preset=preset, partial=True)
    registered()
    before, after = (_package.load_pt2(one).exported_programs for one in (path, out))
    assert before.keys() == after.keys()
    for name, program in before.items():
        inputs = program.example_inputs
        assert outcome(after[name], inputs) == outcome(program, inputs)
