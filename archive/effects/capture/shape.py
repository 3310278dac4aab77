"""The shape of a tensor, as the model sees it."""

from __future__ import annotations

from typing import Any

import torch


class Shape(tuple[Any, ...]):
    """The proxy of a ``torch.Size``, as ``x.shape`` gives it: a tuple of numbers of the graph."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # noqa: ANN401
        """``torch.Size``, so that ``isinstance`` sees it."""
        return torch.Size

    def numel(self) -> Any:  # noqa: ANN401
        """The number of elements of a tensor of this shape."""
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
