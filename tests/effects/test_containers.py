"""Containers of many kinds, changed in random ways: eager calls against those of the captured model."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

pytest.importorskip("torch", exc_type=ImportError)


from archive.effects import CaptureError, GuardError
from tests.support.effect_cases import tensor
from tests.support.effect_outcome import Comparing, paths, picture, state_in, state_of
from tests.support.effect_running import Direct
from tests.support.made_containers import KINDS, models
from tests.support.made_effects import written
from tests.support.strategies import patient

if TYPE_CHECKING:
    from types import ModuleType

    from tests.support.made_effects import Made

pytestmark = pytest.mark.torch

CALLS = 4


def check(made: Made) -> int:
    """Compare calls; gives the number of calls that were equal before one was refused.

    Raises:
        CaptureError: the model was refused as a whole.
    """
    with written(made) as module:
        eager, example = module.Model(), tensor(0, 3)
        before = picture([state_of(eager, [module]), example])
        loaded = Direct(eager, (example,), code_of(module))
        assert picture([state_of(eager, [module]), example]) == before, "capture leaves everything as it was"
        same = Comparing(paths(state_of(eager, [module])))
        for number in range(CALLS):
            state = picture(state_in(loaded))
            try:
                found = loaded(tensor(number, 3))
            except GuardError:
                assert picture(state_in(loaded)) == state, "a refused call leaves everything as it was"
                return number
            same.same(eager(tensor(number, 3)), found, f"call {number}")
            same.same(state_of(eager, [module]).module, state_in(loaded).module, ".module")
    return CALLS


def code_of(module: ModuleType) -> dict[str, Any]:
    return {f"{module.__name__}:{name}": one for name, one in vars(module).items() if isinstance(one, type)}


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(patient, max_examples=6)
def test_random_operations(kind: str, data: st.DataObject) -> None:
    warnings.simplefilter("ignore")
    try:
        equal = check(data.draw(models(kind)))
    except CaptureError:
        reject()
    assert equal, "the example call is never refused"
