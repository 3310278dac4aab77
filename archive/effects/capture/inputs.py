"""Inputs of the graph: tensors and numbers that the model reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.scalars import is_scalar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.effects.capture.sites import Statement
    from archive.formats.effects.model import Source


@dataclass(slots=True)
class Input:
    """One input of the graph.

    Attributes:
        source: where it lives.
        node: its placeholder.
        original: the model's own tensor or list, which stays as it is; or a number.
        proxy: the copy, or the number of the graph, that the call works with.
        version: version counter of the copy before the call.
        statement: the statement that last changed the tensor.
        latest: version counter of the copy after that statement.
        silently: whether the tensor was changed without its version counter, as by batch norm.
    """

    source: Source
    node: Any
    original: Any
    proxy: Any
    version: int = 0
    statement: Statement | None = None
    latest: int = 0
    silently: bool = False

    @property
    def tensors(self) -> list[tuple[Any, Any]]:
        """The tensor, or those in the list: the model's own, and the copy."""
        if is_scalar(self.proxy):
            return []
        if not self.is_list:
            return [(self.original, self.proxy)]
        pairs = zip(self.original, self.proxy, strict=True)
        return [(one, copy) for one, copy in pairs if isinstance(copy, torch.Tensor)]

    @property
    def is_list(self) -> bool:
        """Whether the input is a list, which the graph takes as a whole."""
        return type(self.proxy) is list

    @property
    def changed(self) -> bool:
        """Whether a tensor has been changed in place."""
        if is_scalar(self.proxy) or self.is_list:
            return False
        return self.silently or self.proxy._version != self.version


def copied(tensor: Any) -> Any:  # noqa: ANN401
    """A tensor with the same contents and no memory in common; a parameter gives a parameter."""
    with torch.no_grad():
        copy = tensor.detach().clone()
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(copy, requires_grad=tensor.requires_grad)
    return copy.requires_grad_(tensor.requires_grad)


class Copies:
    """Copies of a model's parameters and buffers, which one captured call after the other works with.

    A copy that a call has changed is not used again.
    """

    def __init__(self) -> None:
        self._kept: dict[int, tuple[Any, Any, int]] = {}

    def of(self, tensor: Any) -> Any:  # noqa: ANN401
        """The copy of a tensor."""
        kept = self._kept.get(id(tensor))
        if kept is not None and _is_unchanged(*kept):
            return kept[1]
        copy = copied(tensor)
        self._kept[id(tensor)] = tensor, copy, copy._version
        return copy

    def forget(self, changed: Iterable[Input]) -> None:
        """Forget copies that a call has changed, maybe without their version counters."""
        proxies = {id(one.proxy) for one in changed}
        self._kept = {number: one for number, one in self._kept.items() if id(one[1]) not in proxies}

    def check(self) -> None:
        """Forget copies that differ from their tensors, after a call that was not finished."""
        with torch._C.DisableTorchFunction():
            self._kept = {number: one for number, one in self._kept.items() if torch.equal(one[0], one[1])}


def _is_unchanged(tensor: Any, copy: Any, version: int) -> bool:  # noqa: ANN401
    has_gradient = copy.grad is not None or copy._backward_hooks
    return copy._version == version and copy.requires_grad == tensor.requires_grad and not has_gradient
