"""``with torch.no_grad():`` in scripted modules."""

from __future__ import annotations

import io
import re

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend import BackendError, Delegate, LoweringError, lower, lowered_archive

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


class Detached(nn.Module):
    """Blocks without gradients, in one another and in a loop, one of which may fail."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor, times: int) -> torch.Tensor:
        y = x * self.weight
        with torch.no_grad():
            z = y * 2
            for _ in range(times):
                with torch.no_grad():
                    z = z + self.weight
            if times > 2:
                z = z.view(99)
        return y + z


class Empty(nn.Module):
    """Blocks of which nothing is left to run."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            two = 1 + 1
        with torch.no_grad():
            pass
        return x * two


class Recorded(nn.Module):
    """Another context, which backends do not know."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autograd.profiler.record_function("part"):
            y = x * 2
        return y + x


def test_gradients_are_those_of_the_model() -> None:
    given = torch.ones(2, 3, requires_grad=True)
    expected = torch.jit.script(Detached())(given, 2)
    (gradient,) = torch.autograd.grad(expected.sum(), given)
    lowered = lower(Detached(), "aten")
    loaded = torch.jit.load(io.BytesIO(lowered_archive(lowered)))
    for runs in (lowered, loaded, Delegate.of(lowered)):
        result = runs(given, 2)
        assert torch.equal(result, expected)
        assert torch.equal(torch.autograd.grad(result.sum(), given)[0], gradient)


@pytest.mark.parametrize("enabled", [True, False])
def test_a_failure_inside_leaves_gradients_as_they_were(*, enabled: bool) -> None:
    lowered = lower(Detached(), "aten")
    delegate = Delegate.of(lowered)
    with torch.set_grad_enabled(enabled):
        for runs in (lowered, delegate):
            with pytest.raises(RuntimeError, match="is invalid for input of size 6"):
                runs(torch.ones(2, 3), 3)
            assert torch.is_grad_enabled() is enabled
        with delegate.recording(), pytest.raises(BackendError, match=r"z = z\.view\(99\)"):
            delegate(torch.ones(2, 3), 3)
        assert torch.is_grad_enabled() is enabled


def test_blocks_may_be_empty() -> None:
    assert torch.equal(lower(Empty(), "aten")(torch.ones(2)), torch.ones(2) * 2)


def test_other_contexts_are_refused_at_their_line() -> None:
    with pytest.raises(LoweringError, match=r"prim::Enter is not supported") as caught:
        lower(Recorded(), "aten")
    assert 'record_function("part")' in str(caught.value)


def test_the_lite_interpreter_has_no_contexts() -> None:
    with pytest.raises(LoweringError, match="PyTorch does not save it: ENTER is not supported") as caught:
        lowered_archive(lower(Detached(), "aten"), lite=True)
    first, second = re.findall(r'File ".*test_contexts\.py", line (\d+)\n    (.+)', str(caught.value))
    assert first[1] == second[1] == "with torch.no_grad():"
    assert int(second[0]) == int(first[0]) + 3
