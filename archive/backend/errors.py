"""What can go wrong with lowered modules."""

from __future__ import annotations


class LoweringError(RuntimeError):
    """A module that cannot be lowered: PyTorch's own words where PyTorch has some."""
