"""Objects of TorchScript's classes in modules that are lowered: they are dissolved, or refused."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
import torch.jit.mobile

from archive.backend import LoweringError, lower, lowered_archive
from tests.support.processes import run_fresh

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.torch


@torch.jit.script
class Sized:
    """A tensor and what it is multiplied by, as torchvision's detectors have ImageList and BoxCoder."""

    def __init__(self, x: torch.Tensor, factors: list[int]) -> None:
        self.x = x
        self.factors = factors

    def times(self, y: torch.Tensor) -> torch.Tensor:
        return self.x * self.factors[-1] + y

    def grow(self, factor: int) -> None:
        self.factors.append(factor)

    def replace(self, x: torch.Tensor) -> None:
        self.x = x


def sized(x: torch.Tensor) -> tuple[Sized, int]:
    return Sized(x, [x.size(0)]), 3


class Across(torch.nn.Module):
    """An object passes through a tuple, a function and a method; its list grows meanwhile."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, factor = sized(x)
        same = one
        before = one.x
        one.grow(factor)
        same.replace(one.x + 1)
        return one.times(before) + same.factors[0] + len(one.factors)


class InLoop(torch.nn.Module):
    """Each turn makes an object of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for k in range(x.size(0)):
            one = Sized(x, [k])
            if k > 0:
                x = one.times(one.x)
        return x


class Attribute(torch.nn.Module):
    """An object is an attribute, which may be None."""

    def __init__(self, scale: Sized | None) -> None:
        super().__init__()
        self.scale: Sized | None = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.scale
        if scale is None:
            return x
        return scale.times(x)


class Checked(Attribute):
    """An error is raised if the object is missing; so behind the check it is the object."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scale = self.scale
        if scale is None or x.dim() > 2:
            raise RuntimeError("no scale")
        made = Sized(x, [3])
        if x.dim() < 1:
            raise RuntimeError("no vector")
        else:  # noqa: RET506 (the branch gives the object another name)
            same = made
        return scale.times(same.times(x))


class Either(torch.nn.Module):
    """Asks for a type that its caller decides."""

    def size(self, x: torch.Tensor | list[torch.Tensor]) -> torch.Tensor:
        if isinstance(x, (list, tuple)):
            return torch.stack(x).sum()
        return x.sum()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.size(x) + self.size([x, x + 1])


@pytest.mark.parametrize(
    "module",
    [
        Across,
        InLoop,
        lambda: Attribute(Sized(torch.full((2,), 3.0), [2])),
        lambda: Attribute(None),
        lambda: Checked(Sized(torch.full((2,), 3.0), [2])),
        Either,
    ],
)
def test_a_graph_needs_no_objects(module: Callable[[], torch.nn.Module]) -> None:
    scripted = torch.jit.script(module())
    lowered = lower(scripted, "aten")
    loaded = torch.jit.load(io.BytesIO(lowered_archive(lowered)))
    lite = torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(lowered_archive(lowered, lite=True)))
    for x in (torch.randn(2), torch.randn(3, 2)):
        assert torch.equal(loaded(x), scripted(x))
        assert torch.equal(lite(x), scripted(x))


def test_a_failure_in_a_method_shows_its_line_and_its_callers() -> None:
    lowered = lower(torch.jit.script(Attribute(Sized(torch.ones(3), [2]))), "aten")
    lite = torch.jit.mobile._load_for_lite_interpreter(io.BytesIO(lowered_archive(lowered, lite=True)))
    with pytest.raises(RuntimeError) as caught:
        lite(torch.ones(2))
    *_, line, mark = str(caught.value).rstrip().splitlines()
    assert mark.endswith("<--- HERE")
    assert line.strip() == "return self.x * self.factors[-1] + y"
    assert "return scale.times(x)" in str(caught.value)


ELSEWHERE = """
import sys
import torch
from archive.backend import LoweringError, lower
try:
    lower(torch.jit.load(sys.argv[1]), "aten")
except LoweringError as error:
    print(error)
"""


def test_an_object_of_a_loaded_module_needs_its_class(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.jit.save(torch.jit.script(Attribute(Sized(torch.ones(2), [2]))), path)
    said = run_fresh(ELSEWHERE, path, folder=tmp_path).stdout
    assert said.startswith("attribute scale is an object of __torch__.")
    assert "which TorchScript has not compiled in this process" in said


class Returned(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Sized:
        return Sized(x, [1])


class MadeInBranch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.dim() > 3:
            raise RuntimeError("too many")
        else:  # noqa: RET506 (the branch makes an object)
            one = Sized(x + 1, [2])
        return one.times(x)


class Listed(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return [Sized(x, [1]), Sized(x, [2])][x.size(0)].x


class Branch(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one = Sized(x, [1])
        if x.size(0) > 2:
            one.replace(x + 1)
        return one.x


class Chosen(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one = Sized(x, [1])
        if x.size(0) > 2:
            one = Sized(x, [2])
        return one.times(x)


class Grown(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = Sized(torch.ones(2), [1])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.one.grow(3)
        return self.one.times(x)


class Replaced(Grown):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.one.replace(x)
        return self.one.times(x)


@pytest.mark.parametrize(
    ("module", "line"),
    [
        (Returned, "return Sized(x, [1])"),
        (Listed, "return [Sized(x, [1]), Sized(x, [2])][x.size(0)].x"),
        (Branch, "self.x = x"),
        (Chosen, "return one.times(x)"),
        (MadeInBranch, "return one.times(x)"),
        (Grown, "self.factors.append(factor)"),
        (Replaced, "self.x = x"),
    ],
)
def test_an_object_that_stays_one_is_refused_with_its_line(
    module: Callable[[], torch.nn.Module], line: str
) -> None:
    with pytest.raises(LoweringError) as caught:
        lower(torch.jit.script(module()), "aten")
    assert line in str(caught.value)
