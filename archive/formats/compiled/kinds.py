"""The kinds of debug information in compiled models."""

from __future__ import annotations

from enum import StrEnum


class SpareKind(StrEnum):
    """The kinds of debug information in compiled models."""

    OBJECT = "object"
    """What stands behind the segments of shared objects."""
    KERNELS = "kernels"
    SOURCES = "sources"
