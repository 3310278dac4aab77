"""State of scripted modules: attributes that methods write, kept by the lowered module and its archive."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile
from torch import nn

from archive.backend import Delegate, LoweringError, load_archive, lower, lowered_archive, save_lowered
from archive.backend.lower.codegen import CHANGES_STATE
from tests.backend.language_models import Unread
from tests.support.processes import run_fresh

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# --- models

X = torch.tensor([[1.0, 2.0, 3.0]])


class Counted(nn.Module):
    """Changes a buffer in place, by ``+=``."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.count


class Averaged(nn.Module):
    """Rebinds a buffer, and uses its value before and after."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before = self.mean  # type: ignore[has-type]
        self.mean = self.mean * 0.5 + x.mean(0)  # type: ignore[has-type]
        return x + self.mean - before


class Numbers(nn.Module):
    """Numbers and texts, written in branches and loops."""

    def __init__(self) -> None:
        super().__init__()
        self.step = 0
        self.scale = 1.0
        self.said = "a"
        self.odd = False

    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        for _ in range(times):
            self.step += 1
            if self.step % 2 == 1:
                self.scale = self.scale * 1.5
            else:
                self.said = self.said + "b"
            self.odd = not self.odd
        return x * self.scale + len(self.said) + self.step + int(self.odd)


class Remembered(nn.Module):
    """A tensor that is None until the first call, as recurrent modules keep their hidden state."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = torch.jit.Attribute(None, torch.Tensor | None)

    def forward(self, x: torch.Tensor, reset: bool = False) -> torch.Tensor:  # noqa: FBT001, FBT002
        hidden = self.hidden
        if hidden is None or reset:
            hidden = torch.zeros_like(x)
        hidden = torch.tanh(hidden + x)
        self.hidden = None if reset else hidden
        return hidden


class Collected(nn.Module):
    """Lists and dicts that are replaced by new ones."""

    def __init__(self) -> None:
        super().__init__()
        self.history = torch.jit.Attribute([], list[torch.Tensor])
        self.sums = torch.jit.Attribute({}, dict[str, float])

    def forward(self, x: torch.Tensor, key: str) -> torch.Tensor:
        self.history = self.history[-2:] + [x]  # noqa: RUF005 (TorchScript has no `*`)
        sums = dict(self.sums)
        sums[key] = sums.get(key, 0.0) + float(x.sum())
        self.sums = sums
        return torch.stack(self.history).sum() + sums[key]


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x * self.calls


class Shared(nn.Module):
    """Two modules of one class, one of which is called twice and written from outside."""

    def __init__(self) -> None:
        super().__init__()
        self.first = Inner()
        self.second = Inner()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(self.second(self.first(x)))
        if self.first.calls > 4:
            self.first.calls = 0
        return y


class Case(NamedTuple):
    """A model, and the arguments of several calls."""

    model: Callable[[], nn.Module]
    calls: list[tuple[Any, ...]]


CASES = {
    "counted": Case(Counted, [(X,)] * 3),
    "averaged": Case(Averaged, [(X,), (2 * X,), (X + 1,)]),
    "numbers": Case(Numbers, [(X, 1), (X, 0), (X, 4)]),
    "remembered": Case(Remembered, [(X,), (X,), (X, True), (X,)]),
    "collected": Case(Collected, [(X, "a"), (X + 1, "b"), (X, "a"), (3 * X, "b")]),
    "shared": Case(Shared, [(X,)] * 5),
}


pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("name", CASES)
def test_several_calls_are_equal(name: str) -> None:
    model, calls = CASES[name]
    scripted, lowered, delegate = (
        torch.jit.script(model()),
        lower(model(), "aten"),
        Delegate.of(lower(model(), "aten")),
    )
    loaded = torch.jit.load(io.BytesIO(lowered_archive(lowered)))
    lite = torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(lowered_archive(lowered, lite=True)))
    for number, given in enumerate(calls):
        expected = scripted(*given)
        for runs in (lowered, loaded, lite, delegate):
            assert torch.equal(runs(*given), expected), (number, runs)


@pytest.mark.parametrize("name", CASES)
def test_state_is_saved_and_loaded_again(name: str) -> None:
    model, calls = CASES[name]
    scripted, lowered = torch.jit.script(model()), lower(model(), "aten")
    for given in calls[:2]:
        scripted(*given)
        lowered(*given)
    once = torch.jit.load(io.BytesIO(lowered_archive(lowered)))
    buffer = io.BytesIO()
    torch.jit.save(once, buffer)
    twice = torch.jit.load(io.BytesIO(buffer.getvalue()))
    delegate = Delegate.load(io.BytesIO(buffer.getvalue()))
    lite = torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(lowered_archive(lowered, lite=True)))
    for given in calls[2:]:
        expected = scripted(*given)
        for runs in (lowered, once, twice, lite, delegate):
            assert torch.equal(runs(*given), expected), runs


def test_a_fresh_process_continues_from_the_state(tmp_path: Path) -> None:
    lowered = lower(Numbers(), "aten")
    lowered(X, 3)
    for ending in ("pt", "ptl"):
        save_lowered(lowered, tmp_path / f"a.{ending}")
    code = (
        "import sys; sys.modules['archive'] = None; import torch, torch.jit.mobile\n"
        "x = torch.tensor([[1.0, 2.0, 3.0]])\n"
        "for load in (lambda: torch.jit.load('a.pt'),\n"
        "             lambda: torch.jit.mobile._load_for_lite_interpreter('a.ptl')):\n"
        "    module = load()\n"
        "    print(module(x, 1).tolist(), module(x, 2).tolist())\n"
    )
    done = run_fresh(code, folder=tmp_path)
    scripted = torch.jit.script(Numbers())
    scripted(X, 3)
    expected = f"{scripted(X, 1).tolist()} {scripted(X, 2).tolist()}"
    assert done.stdout.splitlines() == [expected, expected]


class Resetting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.total = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total += float(x.sum())
        return x + self.total

    @torch.jit.export
    def reset(self, start: float) -> float:
        before = self.total
        self.total = start
        return before


def test_methods_share_the_state() -> None:
    spec: dict[str, dict[str, str]] = {"forward": {}, "reset": {}}
    scripted, lowered = torch.jit.script(Resetting()), lower(Resetting(), "aten", spec)
    delegate = Delegate.of(lowered)
    for start in (0.5, 2.0):
        assert torch.equal(lowered(X), scripted(X))
        delegate(X)
        expected = scripted.reset(start)
        assert lowered.reset(start) == delegate.run("reset", start) == expected
    assert torch.equal(lowered(X), scripted(X))


def test_a_failure_leaves_what_torchscript_leaves() -> None:
    class Failing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            y = x * self.weight
            self.calls += 10
            return y + self.calls

    scripted, lowered = torch.jit.script(Failing()), lower(Failing(), "aten")
    for runs in (scripted, lowered, Delegate.of(lower(Failing(), "aten"))):
        with pytest.raises(RuntimeError, match="must match"):
            runs(torch.ones(2))
        assert torch.equal(runs(X), X + 12)


def test_a_delegate_has_a_state_of_its_own() -> None:
    lowered = lower(Averaged(), "aten")
    lowered(X)
    delegate = Delegate.of(lowered)
    expected = lowered(X)
    assert torch.equal(delegate(X), expected)
    assert torch.equal(Delegate.of(lowered)(X), lowered(X))


def test_an_original_that_is_loaded_has_its_state_lowered() -> None:
    scripted = torch.jit.script(nn.Sequential(Counted(), Counted()))
    scripted(X)
    buffer = io.BytesIO()
    torch.jit.save(scripted, buffer)
    lowered = lower(torch.jit.load(io.BytesIO(buffer.getvalue())), "aten")
    assert torch.equal(lowered(X), scripted(X))
    assert torch.equal(lowered(X), scripted(X))


def test_an_archive_that_is_saved_again_goes_on_from_the_state(tmp_path: Path) -> None:
    scripted, lowered = torch.jit.script(Numbers()), lower(Numbers(), "aten")
    scripted(X, 3)
    lowered(X, 3)
    save_lowered(lowered, tmp_path / "once.pt")
    loaded = load_archive(tmp_path / "once.pt")
    assert torch.equal(loaded(X, 1), scripted(X, 1))
    save_lowered(loaded, tmp_path / "twice.ptl")
    lite = torch.jit.mobile._load_for_lite_interpreter(str(tmp_path / "twice.ptl"))
    assert torch.equal(lite(X, 2), scripted(X, 2))


class Appending(nn.Module):
    """Changes a list in place; another attribute could be the same list."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = [0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = self.seen + [1]  # noqa: RUF005 (TorchScript has no `*`)
        self.seen.append(2)
        return x + len(self.seen)


class Kept(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.total = torch.zeros(1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.total = x
        return self.total + x


def test_state_that_nothing_reads_is_refused_at_its_line() -> None:
    with pytest.raises(LoweringError, match=r"prim::SetAttr is not supported") as caught:
        lower(Unread(), "aten")
    assert "self.last = x.detach()" in str(caught.value)
    assert str(caught.value).endswith(CHANGES_STATE)


def test_a_list_that_changes_in_place_is_refused_at_its_line() -> None:
    with pytest.raises(LoweringError, match=r"aten::append is not supported") as caught:
        lower(Appending(), "aten")
    assert "self.seen.append(2)" in str(caught.value)


def test_a_backend_without_state_refuses_it_at_its_line() -> None:
    with pytest.raises(LoweringError, match=r"prim::SetAttr is not supported") as caught:
        lower(Kept(), "backend_with_compiler_demo")
    assert "self.total = x" in str(caught.value)
    assert str(caught.value).endswith(CHANGES_STATE)


class Measured(nn.Module):
    """Computes what it needs when it is first called, as torchvision's region pooling does."""

    def __init__(self) -> None:
        super().__init__()
        self.ready = False
        self.scale = 0.0
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        if not self.ready:
            self.scale = float(x.size(0))
            self.ready = True
        return x * self.scale + self.calls


@pytest.mark.parametrize("calls_before", [0, 1])
def test_what_a_first_call_computes_is_state_only_before_it(calls_before: int) -> None:
    model = Measured()
    for _ in range(calls_before):
        model(X)
    scripted, lowered = torch.jit.script(model), lower(model, "aten")
    for x in (torch.ones(2), torch.ones(3), torch.ones(2, 2)):
        assert torch.equal(lowered(x), scripted(x))
    writes = str(lowered._c.getattr("__loweredModule__")._get_method("forward").graph).count("prim::SetAttr")
    assert writes == (1 if calls_before else 3)
