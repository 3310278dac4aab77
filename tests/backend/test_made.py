"""Made models, lowered: equal to eager, scripted and traced, and after saving and loading."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive import backend
from tests.backend.made_models import Made, models, saved, scripted, traced
from tests.support.sampling import examples
from tests.support.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.backend.made_models import Way

pytestmark = pytest.mark.torch


def lower(module: torch.jit.ScriptModule) -> torch.jit.ScriptModule:
    return backend.lower(module, "aten")


WAYS: dict[str, Way] = {
    "lowered": lambda module, inputs: lower(module)(*inputs),
    "saved": lambda module, inputs: saved(lower(module))(*inputs),
    "machine": lambda module, inputs: backend.Delegate.of(lower(module))(*inputs),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("frontend", [scripted, traced])
@given(made=models())
@settings(patient, max_examples=examples(15))
def test_made_models_give_what_eager_gives(
    made: Made, frontend: Callable[[Made], torch.jit.ScriptModule], way: Way
) -> None:
    module = frontend(made)
    with torch.no_grad():
        ours = way(module, made.inputs)
        assert torch.equal(ours, module(*made.inputs)), "the same operations, to the bit"
        assert torch.allclose(ours, made.model(*made.inputs), atol=1e-5, equal_nan=True)
