"""A call unlike the captured one is right, as the eager module's, or refused with the model's line."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import lower
from archive.effects import Effectful, GuardError
from tests import effect_unlike
from tests.effect_unlike import RIGHT, UNLIKE, Unlike

pytestmark = pytest.mark.torch


def module(one: Unlike) -> nn.Module:
    made: Any = type("Unlike", (nn.Module,), {"forward": one.forward, "__module__": effect_unlike.__name__})()
    for name, value in copy.deepcopy(one.attributes).items():
        setattr(made, name, value)
    return made  # type: ignore[no-any-return]


def same(ours: Any, theirs: Any) -> bool:  # noqa: ANN401
    if isinstance(ours, torch.Tensor):
        return (
            isinstance(theirs, torch.Tensor)
            and (ours.dtype, ours.shape, ours.requires_grad, ours.device)
            == (theirs.dtype, theirs.shape, theirs.requires_grad, theirs.device)
            and (ours.is_meta or ours.is_sparse or torch.equal(ours, theirs))
        )
    if isinstance(ours, list | tuple):
        return type(ours) is type(theirs) and len(ours) == len(theirs) and all(map(same, ours, theirs))
    if isinstance(ours, dict):
        return list(ours) == list(theirs) and all(map(same, ours.values(), theirs.values()))
    return type(ours) is type(theirs) and ours == theirs


def state_of(held: Any, names: set[str]) -> dict[str, Any]:  # noqa: ANN401
    return {name: copy.deepcopy(value) for name, value in vars(held).items() if name in names}


@pytest.mark.parametrize("stock", [False, True], ids=["machine", "TorchScript"])
@pytest.mark.parametrize("one", UNLIKE, ids=[one.forward.__name__ for one in UNLIKE])
def test_right_or_refused(one: Unlike, stock: bool) -> None:  # noqa: FBT001
    lowered = lower(module(one), "aten", effects=True, example_inputs=one.like)
    lines, start = inspect.getsourcelines(one.forward)
    here = [start + number for number, line in enumerate(lines) if "# here" in line]
    for said, arguments, named, before in one.calls:
        eager, loaded = module(one), Effectful.of(lowered, stock=stock)
        for run in (eager, loaded):
            run(*copy.deepcopy(one.like))
        names = set(vars(loaded.state.module)) & set(vars(eager))
        if before is not None:
            before(eager)
            before(loaded.state.module)
        mine, its = (copy.deepcopy((arguments, named)) for _ in range(2))
        kept, rng = state_of(loaded.state.module, names), torch.get_rng_state()
        if said == RIGHT:
            assert same(eager(*mine[0], **mine[1]), loaded(*its[0], **its[1]))
            assert same(state_of(eager, names), state_of(loaded.state.module, names))
            assert same(mine, its)
            continue
        with pytest.raises(GuardError) as caught:
            loaded(*its[0], **its[1])
        assert f"forward: this call is not as the one that was captured: {said}" in str(caught.value)
        assert f'File "{effect_unlike.__file__}", line {here[0]},' in str(caught.value)
        assert f"{lines[here[0] - start].rstrip()}\n" in str(caught.value)
        assert same(kept, state_of(loaded.state.module, names))
        assert same(its, (arguments, named))
        assert torch.equal(rng, torch.get_rng_state())
