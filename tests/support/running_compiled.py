"""Compiled packages, run by PyTorch."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
import torch
from torch import _inductor as inductor

if TYPE_CHECKING:
    from pathlib import Path


PLACES = re.compile(r"0x[0-9a-f]+|aotinductor_\w+/\w+")
"""Addresses, and where a package is unpacked."""


def outcome(path: Path) -> list[bytes]:
    """The results of a call of the fixtures' model, bit by bit."""
    arguments = torch.linspace(-1, 1, 12).reshape(3, 4), torch.full((3, 4), 2.0), torch.tensor([1, 2, 5])
    results = inductor.aoti_load_package(str(path))(*arguments)
    return [bytes(one.contiguous().reshape(-1).view(torch.uint8).numpy()) for one in results]


def failure(path: Path) -> str:
    """What a call of it with inputs of another shape says."""
    wide, right = torch.ones(3, 5), torch.ones(3, 4)
    with pytest.raises(RuntimeError) as failed:
        inductor.aoti_load_package(str(path))(wide, right, torch.tensor([1, 2, 3]))
    return PLACES.sub("", str(failed.value))
