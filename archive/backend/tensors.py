"""Tensors inside of values, and the storages that hold their elements."""

from __future__ import annotations

import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """All tensors in a value: in lists, tuples, and the values of dicts, at any depth."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from tensors_in(one)
    elif isinstance(value, dict):
        for one in value.values():
            yield from tensors_in(one)


def storages_of(tensors: Iterable[torch.Tensor]) -> dict[int, Any]:
    """Weak references to the storages of tensors, by address; tensors without a storage are left out."""
    found = {}
    for one in tensors:
        with suppress(RuntimeError):  # sparse tensors, and those that are not computed, have no storage
            storage = one.untyped_storage()
            found[storage.data_ptr()] = weakref.ref(storage)
    return found
