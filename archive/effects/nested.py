"""Values in values: items of lists, tuples and slices, and values of dicts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def with_items(value: Any, change: Callable[[Any], Any]) -> Any:
    """A new list, tuple, named tuple, slice or dict with changed items; any other value as it is.

    To change parts at any depth, ``change`` calls it again.
    """
    kind = type(value)
    if kind is tuple or kind is list:
        return kind(map(change, value))
    if kind is dict:
        return {key: change(item) for key, item in value.items()}
    if kind is slice:
        return slice(*map(change, (value.start, value.stop, value.step)))
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return tuple.__new__(kind, map(change, value))
    return value


def with_tensors(value: Any, change: Callable[[Any], Any]) -> Any:
    """A copy of a value with changed tensors, at any depth; what was the same object stays so."""
    known: dict[int, Any] = {}

    def changed(part: Any) -> Any:
        if id(part) not in known:
            is_tensor = isinstance(part, torch.Tensor)
            known[id(part)] = change(part) if is_tensor else with_items(part, changed)
        return known[id(part)]

    return changed(value)


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """All tensors in a value: in lists, tuples, and the values of dicts, at any depth."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(item)
