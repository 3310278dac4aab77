"""The map behind an opened container."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.mapped import Mapped

if TYPE_CHECKING:
    import mmap

    from archive.container.container import Container


def map_of(container: Container) -> mmap.mmap | None:
    """The map of a container's file; None where the file was read instead."""
    mapped = container._mapped
    assert isinstance(mapped, Mapped)
    return mapped._map
