"""Methods as programs of the register machine, models for it, and its values compared."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn

from archive.backend.aten.blob import decoded, encoded
from archive.backend.aten.machine import Machine
from archive.backend.aten.program import MachineProgram, program_of
from archive.backend.graph.folding import folded
from archive.backend.graph.inlining import inlined
from archive.backend.graph.range_finder import RangeFinder

if TYPE_CHECKING:
    from archive.backend.graph.graphs import Graph


class Made(NamedTuple):
    """A method, ready to run; handles are places among the graph's operations."""

    graph: Graph
    program: MachineProgram
    tensors: list[torch.Tensor]

    @property
    def machine(self) -> Machine:
        return Machine(self.program, self.tensors)


def made(module: nn.Module, *, fold: bool = True) -> Made:
    """The program of a module's forward, after it was text."""
    scripted = module if isinstance(module, torch.jit.ScriptModule) else torch.jit.script(module)
    graph = inlined(scripted._c, "forward", RangeFinder.of(scripted._c))
    graph = folded(graph) if fold else graph
    tensors: list[torch.Tensor] = []
    program, unsupported = program_of(graph, {op: n for n, op in enumerate(graph.operations())}, tensors)
    assert not unsupported, [one.kind for one in unsupported]
    read = decoded(encoded({"forward": program}), len(tensors))
    assert read == {"forward": program}
    return Made(graph, read["forward"], tensors)


@dataclass
class Recording:
    """A recorder that keeps what it is told."""

    operations: list[tuple[int, int, int, str]] = field(default_factory=list)
    memory: list[tuple[int, int, int, int, int]] = field(default_factory=list)


def same(ours: Any, theirs: Any) -> bool:  # noqa: ANN401
    """Whether two values are of the same structure, types and numbers."""
    if isinstance(theirs, torch.Tensor):
        return ours.dtype == theirs.dtype and bool(torch.allclose(ours, theirs, atol=1e-6))
    if isinstance(theirs, dict):
        return list(ours) == list(theirs) and same(list(ours.values()), list(theirs.values()))
    if isinstance(theirs, list | tuple):
        kinds = type(ours) is type(theirs) and len(ours) == len(theirs)
        return kinds and all(map(same, ours, theirs))
    return type(ours) is type(theirs) and repr(ours) == repr(theirs)


class Searching(nn.Module):
    """Loops in loops, left early."""

    def found(self, x: torch.Tensor, n: int) -> int:
        for i in range(10):
            for j in range(1, 20, 3):
                if i * j > n:
                    return i * 100 + j
                if j > i + int(x[0]):
                    break
                if j == 4:
                    continue
                n -= 1
        return -1

    def forward(self, x: torch.Tensor, n: int) -> tuple[int, int]:
        return self.found(x, n), self.found(x + 1, n + 30)


class Listed(nn.Module):
    """Keeps constant lists that it gives away."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes = [1, 2]
        self.others = [1, 2]

    def forward(self) -> tuple[list[int], list[int]]:
        return self.sizes, self.others


class Containers(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> tuple[dict[str, torch.Tensor], list[torch.Tensor], str]:
        named: dict[str, torch.Tensor] = {"x": x, "y": x + 1}
        counts: dict[int, list[int]] = {}
        rows: list[torch.Tensor] = []
        for i, row in enumerate(x):
            if i == n:
                break
            rows.append(row * i)
            if i not in counts:
                counts[i] = [i]
            counts[i].append(int(row.sum()))
            named[f"row{i}"] = row
        for key, value in named.items():
            if key in ("x", "row0"):
                rows.insert(0, value.flatten()[:2])
        more = [one + 1 for one in rows]
        more += rows[1:]
        more.extend([x[0]])
        more.reverse()
        last = more.pop()
        more[0] = last
        del named["y"]
        named["sum"] = torch.tensor([float(len(counts)), 0.5]) + torch.tensor([2], dtype=torch.float64)
        text = (
            ",".join([f"{k}={v}" for k, v in counts.items()]) + str(sorted([3, 1, 2])) + "a-b".split("-")[1]  # noqa: SIM905
        )
        return named, more, text
