"""Programs of transformers, lowered in parts by the backend of examples/backends, compute the same."""

from __future__ import annotations

import importlib
import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch.utils import _pytree as pytree

from archive.backend import lower, unregister_backend
from archive.backend.programs.delegates import delegate
from tests.support.sampling import sampled
from tests.zoo.packages import EXPORTED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.zoo.sample import Sample

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]  # export warns of much
BACKENDS = Path(__file__).parents[2] / "examples" / "backends"


@pytest.fixture(scope="module")
def tape() -> Iterator[str]:
    """The backend of the example, registered."""
    sys.path.insert(0, str(BACKENDS))
    importlib.import_module("tape")
    sys.path.remove(str(BACKENDS))
    yield "tape"
    unregister_backend("tape")
    del sys.modules["tape"]


@pytest.mark.parametrize("sample", sampled(EXPORTED, most=1), ids=lambda sample: sample.name)
def test_a_transformer_computes_the_same_in_parts(sample: Sample, tape: str) -> None:
    pytest.importorskip(sample.package)
    torch.manual_seed(0)
    model, inputs = sample.build()
    program = torch.export.export(model.eval(), inputs)
    file = io.BytesIO()
    torch.export.save(lower(program, tape), file)
    loaded = torch.export.load(io.BytesIO(file.getvalue()))
    assert sum(node.target is delegate for node in loaded.graph.nodes) > 1
    with torch.no_grad():
        found, expected = (pytree.tree_leaves(run(*inputs)) for run in (loaded.module(), model))
    tensors = [each for each in expected if isinstance(each, torch.Tensor)]
    assert len(found) >= len(tensors) > 0
    found = [each for each in found if isinstance(each, torch.Tensor)]
    assert all(map(torch.equal, found, tensors))
    assert len(found) == len(tensors)
