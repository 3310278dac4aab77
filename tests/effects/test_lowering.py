"""Modules with effects: lowered, saved, loaded elsewhere, and run until their state is the eager one."""

from __future__ import annotations

import copy
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

import archive

pytest.importorskip("torch", exc_type=ImportError)

import torch

from archive.backend import (
    BackendError,
    Delegate,
    Effectful,
    LoweringError,
    lower,
    lowered_archive,
    save_lowered,
)
from archive.check.verify import verify
from archive.effects.replay.errors import GuardError, ReplayError
from tests.support.live_state import live_state
from tests.support.processes import run_fresh

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.torch

X = torch.ones(2, 3)


class Counting(torch.nn.Module):
    """It counts, averages, remembers, and changes a buffer in place."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.count = 0
        self.average = 0.5
        self.history: list[torch.Tensor] = []
        self.cache: dict[str, torch.Tensor] = {}
        self.register_buffer("seen", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x)
        self.count += 1
        self.average = 0.9 * self.average + 0.1 * self.count
        self.history.append(y.mean())
        self.cache["last"] = y
        self.seen.add_(x.sum(0))
        return y * self.average


def counting() -> Counting:
    torch.manual_seed(0)
    return Counting()


@cache
def lowered() -> torch.jit.ScriptModule:
    """A module of which loads have parameters in common, which no call changes."""
    return lower(counting(), "aten", effects=True, example_inputs=(X,))


def same_state(ours: Any, theirs: Counting) -> None:  # noqa: ANN401
    assert (ours.count, ours.average) == (theirs.count, theirs.average)
    assert torch.equal(torch.stack(ours.history), torch.stack(theirs.history))
    assert torch.equal(ours.cache["last"], theirs.cache["last"])
    assert torch.equal(ours.seen, theirs.seen)


@pytest.mark.parametrize("stock", [False, True], ids=["machine", "TorchScript"])
@pytest.mark.parametrize("ending", [".pt", ".ptl"])
def test_n_calls_end_in_the_state_of_the_eager_module(ending: str, stock: bool, tmp_path: Path) -> None:  # noqa: FBT001
    eager = counting()
    save_lowered(lowered(), tmp_path / f"a{ending}")
    loaded = Effectful.load(tmp_path / f"a{ending}", stock=stock)
    for seed in range(4):
        x = torch.randn(2, 3, generator=torch.Generator().manual_seed(seed))
        assert torch.equal(loaded(x), eager(x))
        same_state(loaded.state.module, eager)


ELSEWHERE = """
import sys
import torch
from archive.backend import Effectful
assert not any(name.startswith("tests") for name in sys.modules)
assert "torch._dynamo" not in sys.modules  # takes as long as torch itself
model = Effectful.load(sys.argv[1])
for number in range(3):
    out = model(torch.full((2, 3), float(number)))
state = model.state.module
print(state.count, state.average, len(state.history), state.seen.tolist(), out.detach().sum().item())
"""


def test_it_runs_in_a_process_without_the_model(tmp_path: Path) -> None:
    eager = counting()
    save_lowered(lowered(), tmp_path / "a.pt")
    done = run_fresh(ELSEWHERE, tmp_path / "a.pt", folder=tmp_path)
    for number in range(3):
        out = eager(torch.full((2, 3), float(number)))
    expected = eager.count, eager.average, len(eager.history), eager.seen.tolist(), out.detach().sum().item()
    assert done.stdout.split() == " ".join(map(str, expected)).split()


def test_the_model_and_the_state_of_another_load_are_left_alone() -> None:
    eager = counting()
    before = copy.deepcopy(eager)
    module = lower(eager, "aten", effects=True, example_inputs=(X,))
    first, second = Effectful.of(module), Effectful.of(module)
    first(X)
    assert eager.count == before.count == second.state.module.count == 0
    assert torch.equal(eager.seen, before.seen)
    assert torch.equal(second.state.module.seen, before.seen)
    assert first.state.module.count == 1


def test_a_live_module_may_be_the_state() -> None:
    eager, live = counting(), counting()
    model = Effectful.of(lowered(), live_state(live))
    for _ in range(2):
        model(X)
        eager(X)
    same_state(live, eager)


def test_an_operation_that_fails_leads_to_the_model_and_changes_nothing() -> None:
    model = Effectful.of(lowered())
    with pytest.raises(BackendError) as caught:
        model(torch.ones(2, 4))
    assert caught.value.module_hierarchy == "top(Counting)::<unknown>.inner(Linear)::forward.aten::linear"
    assert "y = self.inner(x)" in str(caught.value.frames[0])
    assert model.state.module.count == 0


class InPlace(torch.nn.Module):
    """It writes into a buffer, and changes a tensor by an operator, between calls of a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)
        self.register_buffer("kept", torch.zeros(2, 3))

    def forward(self, x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        found = self.inner(x)
        self.kept[:1] = y
        found += z
        return self.inner(found)


@pytest.mark.parametrize(
    ("y", "z", "line"),
    [(torch.ones(2, 3), X, "self.kept[:1] = y"), (torch.ones(1, 3), torch.ones(2, 2), "found += z")],
)
def test_a_change_in_place_that_fails_shows_its_own_line(y: torch.Tensor, z: torch.Tensor, line: str) -> None:
    model = Effectful.of(lower(InPlace(), "aten", effects=True, example_inputs=(X, torch.ones(1, 3), X + 1)))
    with pytest.raises(BackendError) as caught:
        model(X, y, z)
    shown = str(caught.value.frames[-1]).splitlines()
    (mark,) = (place for place, one in enumerate(shown) if one.endswith("<--- HERE"))
    assert shown[mark - 1].strip() == line


def test_an_effect_that_fails_leads_to_the_model_and_changes_nothing() -> None:
    model = Effectful.of(lowered())
    del model.state.module.history
    with pytest.raises(ReplayError) as caught:
        model(X)
    assert "self.history.append" in str(caught.value)
    assert "self.history.append(y.mean())\n        ~~~~" in str(caught.value)
    assert (model.state.module.count, model.state.module.seen.tolist()) == (0, [0, 0, 0])


def test_gradients_flow_and_hooks_run() -> None:
    model = Hooked()
    module = lower(model, "aten", effects=True, example_inputs=(torch.ones(2, 3, requires_grad=True),))
    allowed = {f"{__name__}:doubled": doubled}
    effectful = Effectful.of(module, allow=allowed)
    grads = []
    for run in (model, effectful):
        x = torch.ones(2, 3, requires_grad=True)
        run(x).sum().backward()
        grads.append(x.grad)
    assert torch.equal(*grads)
    with pytest.raises(ReplayError, match="doubled"):
        Effectful.of(module)


class HookedInside(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x)
        y.register_hook(doubled)
        return y * 1


def test_hooks_of_what_the_graph_makes_are_refused_where_torchscript_would_lose_them() -> None:
    model = HookedInside()
    module = lower(model, "aten", effects=True, example_inputs=(torch.ones(2, 3, requires_grad=True),))
    allowed = {f"{__name__}:doubled": doubled}
    grads = []
    for run in (model, Effectful.of(module, allow=allowed)):
        x = torch.ones(2, 3, requires_grad=True)
        run(x).sum().backward()
        grads.append(x.grad)
    assert torch.equal(*grads)
    with pytest.raises(LoweringError, match="TorchScript gives no gradient to hooks"):
        Effectful.of(module, allow=allowed, stock=True)


def doubled(grad: torch.Tensor) -> torch.Tensor:
    return grad * 2


class Hooked(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.register_hook(doubled)
        return self.inner(x)


class HookedInVain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.register_hook(doubled).remove()
        return x * 1


def test_a_hook_that_is_taken_off_again_needs_a_gradient_all_the_same() -> None:
    model = HookedInVain()
    module = lower(model, "aten", effects=True, example_inputs=(torch.ones(2, 3, requires_grad=True),))
    effectful = Effectful.of(module, allow={f"{__name__}:doubled": doubled})
    assert effectful(torch.ones(2, 3, requires_grad=True)).requires_grad
    with pytest.raises(RuntimeError, match="doesn't require gradient"):
        model(torch.ones(2, 3))
    with pytest.raises(GuardError, match="requires_grad"):
        effectful(torch.ones(2, 3))


def test_what_is_saved_is_well_formed_and_the_same_bytes() -> None:
    first = lowered_archive(lowered())
    assert lowered_archive(lower(counting(), "aten", effects=True, example_inputs=(X,))) == first
    with archive.open(first) as opened:
        assert [one for one in verify(opened) if one.severity != "note"] == []
        assert opened.effects is not None
        (method,) = opened.effects.methods
        said = {effect.handle: str(opened.symbolicate(effect.handle)) for effect in method.effects}
    assert len(said) == 5
    assert all("tests" in text and "<eval_with_key>" not in text for text in said.values())


def test_effects_stay_with_the_model_when_debug_info_is_split_off(tmp_path: Path) -> None:
    path, device, companion = (tmp_path / name for name in ("a.pt", "device.pt", "model.ptdbg"))
    save_lowered(lowered(), path)
    archive.split(path, device, companion)
    with archive.open(path) as one, archive.open(device) as other:
        assert one.effects == other.effects
    model = Effectful.load(device, companion=companion)
    del model.state.module.history
    with pytest.raises(ReplayError, match=r"self.history.append\(y.mean\(\)\)\n        ~~~~"):
        model(X)


class Holder(torch.nn.Module):
    def __init__(self, held: torch.nn.Module) -> None:
        super().__init__()
        self.held = held

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


def test_a_module_with_effects_is_saved_by_itself() -> None:
    host = torch.jit.script(Holder(lowered()))
    with pytest.raises(LoweringError, match="is saved by itself, neither frozen nor as part of another"):
        lowered_archive(host)


def test_a_module_without_effects_has_none_to_run() -> None:
    with pytest.raises(LoweringError, match="was not lowered with effects"):
        Effectful(Delegate.of(lower(torch.nn.Linear(3, 3), "aten")))


class Graph(torch.nn.Module):
    """It has a sparse buffer, and counts."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self.register_buffer("edges", torch.eye(2).to_sparse())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return (self.edges * self.count).to_dense() @ x.to_dense()


@pytest.mark.parametrize("x", [X, X.to_sparse()], ids=["dense", "sparse"])
def test_sparse_tensors_are_arguments_and_buffers(x: torch.Tensor) -> None:
    """PyTorch compares no sparse tensors, and they have no address; captures take them."""
    eager = Graph()
    loaded = Effectful.load(lowered_archive(lower(eager, "aten", effects=True, example_inputs=(x,))))
    for count in (1, 2, 3):
        assert torch.equal(loaded(x), eager(x))
        assert loaded.state.module.count == eager.count == count
