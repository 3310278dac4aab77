"""Tensors inside of values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator


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
