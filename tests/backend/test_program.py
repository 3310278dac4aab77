"""Programs of models with loops, branches and containers: they compute what the models do."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend.aten.blob import encoded
from archive.backend.aten.operators import PYTHON_CALLS as RUN_BY_PYTHON
from archive.backend.aten.operators import supported
from archive.backend.aten.program import program_of
from archive.backend.graph.inlining import inlined
from archive.backend.graph.range_finder import RangeFinder
from tests.support.backend_models import Branching
from tests.support.machines import Containers, Listed, Searching, made, same

pytestmark = pytest.mark.torch


class Swapped(nn.Module):
    def forward(self, n: int) -> tuple[int, int, int]:
        a, b, c = 1, 2, 3
        for _ in range(n):
            a, b, c = c, a, b
        return a, b, c


class Fibonacci(nn.Module):
    def forward(self, n: int) -> tuple[int, int]:
        a, b = 0, 1
        while a < n:
            a, b = b, a + b
        return a, b


class Tuples(nn.Module):
    def forward(self, x: torch.Tensor, n: int | None) -> tuple[tuple[int, torch.Tensor], list[int], float]:
        values = (1, x, "three", 4)
        first, _, _, last = values
        tail = values[2:]
        a, b = torch.max(x, 0)
        head, rest = torch.split(x, 1)
        if n is not None:
            last += n
        assert len(tail[0]) == 5, "three"
        size = max(x.shape[0], 2) + min([4, 9]) + abs(-last) + 7 // 2 + (-7) % 3
        return (first + size, a + b + head - rest), [1, 2, last], float(round(2.5)) if last > 0 else 0.1


class InPlace(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        y = torch.zeros_like(x, dtype=torch.float64, device=x.device)
        for i in range(n):
            y[i % 2].add_(x[0], alpha=i)
            if i == 3:
                y = y.to(torch.float32)
        return y


OWN: list[tuple[type[nn.Module], list[Any]]] = [
    *[(Swapped, [n]) for n in (0, 1, 2, 5)],
    *[(Fibonacci, [n]) for n in (0, 1, 1000)],
    *[(Searching, [torch.tensor([2]), n]) for n in (-5, 3, 500)],
    *[(Containers, [torch.arange(6.0).reshape(3, 2), n]) for n in (0, 2, 9)],
    *[(Tuples, [torch.tensor([[1.0, 5.0], [2.0, 3.0]]), n]) for n in (None, -9, 3)],
    (Listed, []),
    *[(InPlace, [torch.ones(2, 3), n]) for n in (0, 3, 6)],
]


@pytest.mark.parametrize("fold", [True, False])
@pytest.mark.parametrize(("model", "inputs"), OWN, ids=str)
def test_programs_equal_eager_and_scripted(model: type[nn.Module], inputs: list[Any], *, fold: bool) -> None:
    machine = made(model(), fold=fold).machine
    expected = model()(*inputs)
    assert same(torch.jit.script(model())(*inputs), expected)
    for _ in range(2):
        assert same(machine.run(inputs), expected)
        assert same(machine.run_observed(inputs, []), expected)


def test_tensors_are_shared_by_all_methods() -> None:
    model = Branching()
    first, again = made(model), made(model)
    assert [id(one) for one in first.tensors] == [id(one) for one in again.tensors]
    tensors = list(first.tensors)
    program, _ = program_of(first.graph, {}, tensors)
    assert len(tensors) == len(first.tensors) == 2
    assert program.constants == first.program.constants
    assert encoded({"forward": first.program}) == encoded({"forward": again.program})


def test_operators_that_reach_out_are_not_run() -> None:
    class Reaching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            torch.manual_seed(3)
            if x.dim() > 1:
                torch.save(x, "x")
            return x

    scripted = torch.jit.script(Reaching())
    _, unsupported = program_of(inlined(scripted._c, "forward", RangeFinder.of(scripted._c)), {}, [])
    assert [one.kind for one in unsupported] == ["aten::manual_seed", "aten::save"]
    names = [
        "from_file",
        "set_grad_enabled",
        "seed",
        "set_.source_Storage",
        "record_stream",
        "wait",
        "nothing",
    ]
    assert not any(supported(f"aten::{name}") for name in names)
    assert not any(
        map(supported, ["prim::PythonOp", "prim::rpc_sync", "os::system", "move", "", "aten::add."])
    )
    assert all(supported(name) for name in RUN_BY_PYTHON if "." in name)
