"""Files with long zeros that take no space on disk; and whether a file is mapped."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from archive.base.mapped import Mapped
from archive.container.container import Container, Member, member_from, write_archive

if TYPE_CHECKING:
    import mmap
    from pathlib import Path
    from typing import BinaryIO


class Sparse:
    """A file that leaves holes in the place of :func:`zeros`."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file

    def write(self, data: bytes | memoryview) -> int:
        if memoryview(data).contiguous:
            return self.file.write(data)
        self.file.seek(len(data), 1)
        return len(data)


def zeros(size: int) -> memoryview:
    """So many zeros, which take no memory."""
    return np.broadcast_to(np.zeros(1, np.uint8), (size,)).data


def with_zeros(archive: Path, path: Path, size: int) -> Path:
    """An archive between two more tensors, which together have so many zeros, and no crc."""
    half = size // 2
    before, behind = (Member(f"data/{name}", zeros(half), half, 0, deflated=False) for name in "ab")
    with Container.open(archive) as container, path.open("wb") as file:
        members = [before, *map(member_from, container.records.values()), behind]
        write_archive(Sparse(file), container.root, members)
    return path


# --- The map behind an opened container


def map_of(container: Container) -> mmap.mmap | None:
    """The map of a container's file; None where the file was read instead."""
    mapped = container._mapped
    assert isinstance(mapped, Mapped)
    return mapped._map
