"""The sizes of a tensor, as the model sees them."""

from __future__ import annotations

from typing import Any

import torch


class Shape(tuple[Any, ...]):
    """What ``x.shape`` is while a model is captured: a tuple of numbers of the graph."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # noqa: ANN401
        """PyTorch's own class: ``isinstance`` sees it."""
        return torch.Size

    def numel(self) -> Any:  # noqa: ANN401
        """How many elements a tensor of these sizes has."""
        total: Any = 1
        for one in self:
            total = total * one
        return total

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401
        found = tuple.__getitem__(self, index)
        return Shape(found) if isinstance(index, slice) else found

    def __add__(self, other: Any) -> Any:  # noqa: ANN401
        return Shape(tuple.__add__(self, tuple(other)))

    def __repr__(self) -> str:
        return f"torch.Size({list(self)})"

    __str__ = __repr__
