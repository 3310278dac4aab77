"""Globals of another file, for cases that change them."""

from __future__ import annotations

import torch

EXPORTED = torch.ones(2, 3)
CALLS = 0


def note_call() -> int:
    """Count a call."""
    global CALLS
    CALLS += 1
    return CALLS
