"""A model of the table in ``docs/reference/lowered.md``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    Inputs = tuple[Any, ...]
    Way = Literal["scripted", "traced", "effects", "exported"]


@dataclass(frozen=True)
class Sample:
    """A model, and inputs for it.

    Attributes:
        kind: what it is, a row of the page's first table.
        name: its name.
        build: makes the eager module and its inputs.
        wrong: inputs with which it fails in its middle; None: a weight of the middle gets another shape.
        way: how lowering gets it.
        package: the distribution that has it.
        result: what it gives in TorchScript, of what the eager module gives.
    """

    kind: str
    name: str
    build: Callable[[], tuple[torch.nn.Module, Inputs]]
    wrong: Callable[[], Inputs] | None = None
    way: Way = "scripted"
    package: str = "torch"
    result: Callable[[Any], Any] = lambda given: given
