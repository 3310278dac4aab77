"""Programs to lower in parts, and what is asked of them."""

from __future__ import annotations

import copy
import io
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("torch", exc_type=ImportError)

import torch
from torch import nn
from torch.utils import _pytree as pytree

from archive.backend import (
    register_backend,
    unregister_backend,
)
from archive.backend.aten.backend import ATEN, Aten
from archive.backend.programs.delegates import delegate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


X = torch.linspace(-1, 1, 12).view(3, 4)
ROWS = {0: torch.export.Dim("rows")}


@contextmanager
def backend(name: str = "some", **given: Any) -> Iterator[str]:  # noqa: ANN401
    """The backend ``aten`` by another name, with other parts."""
    parts = {"preprocess": ATEN.preprocess, "runtime": ATEN.runtime, "link": ATEN.link}
    register_backend(name, **{**parts, **given})
    try:
        yield name
    finally:
        unregister_backend(name)


def supporting(*kinds: str) -> Callable[[torch.fx.Node], bool]:
    """Whether a node calls one of some operators."""
    return lambda node: str(node.target).split(".")[1] in kinds


def exported(model: nn.Module, *arguments: Any, **how: Any) -> Any:  # noqa: ANN401
    return torch.export.export(model.eval(), arguments, **how)


def loaded(program: Any) -> Any:  # noqa: ANN401
    """A program, saved and loaded by PyTorch."""
    file = io.BytesIO()
    torch.export.save(program, file)
    return torch.export.load(io.BytesIO(file.getvalue()))


def calls(program: Any) -> list[torch.fx.Node]:  # noqa: ANN401
    """The calls of backends in a program."""
    return [node for node in program.graph.nodes if node.target is delegate]


def kinds_of(graph: Any) -> list[str]:  # noqa: ANN401
    """The operators that a graph itself calls."""
    return [str(node.target).split(".")[1] for node in graph.nodes if "aten." in str(node.target)]


def running(program: Any) -> nn.Module:  # noqa: ANN401
    """A module of a program, whose tensors are its own."""
    return copy.deepcopy(program.module())


def same(found: object, expected: object) -> bool:
    leaves, others = pytree.tree_leaves(found), pytree.tree_leaves(expected)
    pairs = zip(leaves, others, strict=True)
    return all(
        torch.equal(one.nan_to_num(), two.nan_to_num()) if isinstance(one, torch.Tensor) else one == two
        for one, two in pairs
    )


class Everything(nn.Module):
    """Writes a buffer, has a condition, and a size that may vary."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.last = nn.Linear(4, 4)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        self.count.add_(1)
        y = torch.relu(self.first(x)).view(x.shape[0] * 2, 2)
        y = torch.cond(y.sum() > 0, lambda z: z + 1, lambda z: z - 1, (y,))
        low, high = self.last(y.reshape(-1, 4)).max(dim=-1)
        return {"sum": (low + high) * self.count, "rows": y}


class Failing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(5, 4)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        x = self.table(words)
        return x.relu() + 1


def doubled(original: Any, *_: Any) -> Any:  # noqa: ANN401
    """A state without the weights themselves."""
    program = original.program
    held = {**program.state_dict, **program.constants}
    return {name: 2 * tensor.detach() for name, tensor in held.items()}


class Doubled:
    """Computes a linear layer twice as large."""

    last_handle = -1

    def is_available(self) -> bool:
        return True

    def compile(self, processed: Any, spec: Any) -> Any:  # noqa: ANN401
        return dict.fromkeys(spec, processed)

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:  # noqa: ANN401
        return [nn.functional.linear(inputs[0], handle["0.weight"], handle["0.bias"])]


class Silent(Doubled):
    """Runs what ``aten`` compiles, and records nothing."""

    def compile(self, processed: Any, spec: Any) -> Any:  # noqa: ANN401
        return Aten().compile(processed, spec)

    def execute(self, handle: Any, inputs: list[Any]) -> list[Any]:  # noqa: ANN401
        return Aten().execute(handle, inputs)
