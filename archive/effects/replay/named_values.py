"""Values that a table holds by their texts: dtypes and devices of PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from archive.effects.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Callable


def dtype(text: str) -> torch.dtype:
    """The dtype with a name: ``torch.float32``.

    Raises:
        StateError: there is none.
    """
    found = vars(torch).get(text.removeprefix("torch."))
    if not isinstance(found, torch.dtype):
        raise StateError(f"{text} is no dtype")
    return found


def device(text: str) -> torch.device:
    """The device with a name: ``cuda:0``.

    Raises:
        StateError: this PyTorch knows no such device.
    """
    try:
        return torch.device(text)
    except RuntimeError as error:
        raise StateError(f"{text} is no device") from error


NAMED: dict[str, Callable[[str], object]] = {"dtype": dtype, "device": device}
"""By kind of ``Made``."""
