"""Compiled packages, run by PyTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import _inductor as inductor

if TYPE_CHECKING:
    from pathlib import Path


def outcome(path: Path) -> list[bytes]:
    """The results of a call of the fixtures' model, bit by bit."""
    arguments = torch.linspace(-1, 1, 12).reshape(3, 4), torch.full((3, 4), 2.0), torch.tensor([1, 2, 5])
    results = inductor.aoti_load_package(str(path))(*arguments)
    return [bytes(one.contiguous().reshape(-1).view(torch.uint8).numpy()) for one in results]
