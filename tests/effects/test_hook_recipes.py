"""Hooks on tensors by recipe: found by their code in another process, bound to the state, or refused."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import Effectful, lower, save_lowered
from archive.effects import ReplayError
from tests.support.live_state import live_state
from tests.support.processes import run_fresh

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from types import ModuleType

pytestmark = pytest.mark.torch

SOURCE = """
import torch

SCALE = 3.0
SEEN = []


class Gate:
    def __init__(self):
        self.count = 0
        self.log = []

    def counted(self, gradient):
        self.count += 1
        SEEN.append(self.count)
        self.log.append(self.count)
        return gradient * self.count


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()
        self.last = None
        self.factor = torch.tensor(2.0)

    def forward(self, x):
        y = x * 2
        y.register_hook(self.gate.counted)
        if self.last is not None:
            self.last.remove()
        self.last = x.register_hook(lambda gradient, more=1: gradient * SCALE * self.factor + y + more)
        return y.sin()
"""
ALLOWED = ["hooked_model:Model", "hooked_model:Gate.counted"]
PROGRAM = f"""
import sys, torch
from archive.backend import Effectful
model = Effectful.load(sys.argv[1], allow={ALLOWED})
found = []
for number in range(3):
    x = torch.full((2,), float(number)).requires_grad_()
    model(x).sum().backward()
    found.append(x.grad)
state = model.state
found += [state.module.gate.log, state.globals["hooked_model"]["SEEN"]]
found += [sys.modules["hooked_model"].SEEN, type(state.module.last).__name__]
torch.save(found, sys.argv[2])
"""


@pytest.fixture
def hooked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "hooked_model.py").write_text(SOURCE)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("hooked_model")
    sys.modules.pop("hooked_model", None)


def gradients(model: Any) -> list[torch.Tensor]:  # noqa: ANN401
    """Gradients of three calls."""
    found = []
    for number in range(3):
        x = torch.full((2,), float(number)).requires_grad_()
        model(x).sum().backward()
        assert x.grad is not None
        found.append(x.grad)
    return found


def saved(hooked: ModuleType, folder: Path) -> str:
    path = str(folder / "hooked.pt")
    example = (torch.ones(2, requires_grad=True),)
    save_lowered(lower(hooked.Model(), "aten", effects=True, example_inputs=example), path)
    return path


def same(ours: list[torch.Tensor], theirs: list[torch.Tensor]) -> bool:
    return all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


def test_another_process_finds_the_code_and_leaves_its_own_globals_alone(
    hooked: ModuleType, tmp_path: Path
) -> None:
    run_fresh(PROGRAM, saved(hooked, tmp_path), tmp_path / "found", folder=tmp_path, paths=[tmp_path])
    *found, log, seen, others, handle = torch.load(tmp_path / "found", weights_only=False)
    model = hooked.Model()
    assert same(found, gradients(model))
    assert (log, seen, others, handle) == (model.gate.log, hooked.SEEN, [], type(model.last).__name__)


def load_with(source: str, folder: Path, path: str) -> Effectful:
    """Load an archive where the model's Python module has another source."""
    (folder / "hooked_model.py").write_text(source)
    sys.modules.pop("hooked_model")
    importlib.invalidate_caches()
    return Effectful.load(path, allow=ALLOWED)


def test_other_code_is_refused(hooked: ModuleType, tmp_path: Path) -> None:
    path = saved(hooked, tmp_path)
    with pytest.raises(ReplayError) as error:
        load_with(SOURCE.replace("gradient * SCALE", "gradient + SCALE"), tmp_path, path)
    told = str(error.value)
    assert "'hooked_model:Model.forward.<locals>.<lambda>' is not the code that was captured" in told
    assert "self.last = x.register_hook(" in told


def test_code_that_has_only_moved_is_the_same(hooked: ModuleType, tmp_path: Path) -> None:
    ours = load_with("# A comment.\n\n" + SOURCE, tmp_path, saved(hooked, tmp_path))
    assert same(gradients(ours), gradients(hooked.Model()))


def test_code_needs_permission(hooked: ModuleType, tmp_path: Path) -> None:
    path = saved(hooked, tmp_path)
    with pytest.raises(ReplayError, match=r"'hooked_model:Gate.counted' is not allowed; pass allow="):
        Effectful.load(path, allow=["hooked_model:Model"])
    with pytest.raises(ReplayError, match=r"'hooked_model:Model.forward.<locals>.<lambda>' is not allowed"):
        Effectful.load(path, allow=["hooked_model:Gate"])
    Effectful.load(path, allow=["hooked_model:Model.forward.<locals>.<lambda>", "hooked_model:Gate"])


def test_a_live_state_has_the_models_own_objects(hooked: ModuleType, tmp_path: Path) -> None:
    eager, live = hooked.Model(), hooked.Model()
    ours = Effectful.load(saved(hooked, tmp_path), live_state(live), allow=ALLOWED)
    assert same(gradients(ours), gradients(eager))
    assert live.gate.count == eager.gate.count == 3
    assert hooked.SEEN == [1, 2, 3] * 2
    assert live.last.remove
    assert not isinstance(live.gate, type(ours.state))


def test_hooks_are_taken_off_again_if_a_later_effect_fails(
    hooked: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise RuntimeError("not now")

    live = hooked.Model()
    ours = Effectful.load(saved(hooked, tmp_path), live_state(live, modules=["hooked_model"]), allow=ALLOWED)
    first, second = (torch.ones(2, requires_grad=True) for _ in range(2))
    ours(first)
    kept = live.last
    monkeypatch.setattr(torch.nn.Module, "__setattr__", refused)
    with pytest.raises(ReplayError, match="not now"):
        ours(second)
    assert not second._backward_hooks
    assert live.last is kept
    assert list(first._backward_hooks or ()) == [kept.id]
