"""Archives to be broken, and what their readers must then do; large ones that take no space on disk."""

from __future__ import annotations

import io
import struct
import zipfile
from typing import TYPE_CHECKING

import numpy as np
import pytest

from archive.base.errors import ArchiveError
from archive.base.limits import Limits
from archive.container.container import Container
from archive.container.write import Member, member_from, new_member, write_archive
from archive.io.mapped import Mapped

if TYPE_CHECKING:
    import mmap
    from pathlib import Path
    from typing import BinaryIO

    from archive.container.write import Writable


def written(*members: Member, root: str = "m") -> bytes:
    out = io.BytesIO()
    write_archive(out, root, members)
    return out.getvalue()


def write_again(out: Writable, container: Container) -> int:
    """Write an archive again from its records as they are; returns its length in bytes."""
    return write_archive(out, container.root, map(member_from, container.records.values()))


SMALL = written(
    new_member("data/0", b"tensor" * 10),
    new_member("code/m.py", b"def forward(self):\n" * 20),
    new_member("code/empty.py", b""),
    new_member("version", b"3\n"),
)


def zipped(**files: bytes) -> bytes:
    """The same by an ordinary zip tool."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as target:
        for name, data in files.items():
            target.writestr(name.replace("__", "/"), data)
    return out.getvalue()


PLAIN = zipped(m__data=b"plain" * 10, m__version=b"3\n")


def put(data: bytes, at: int, form: str, *values: int) -> bytes:
    changed = bytearray(data)
    struct.pack_into(f"<{form}", changed, at % len(data), *values)
    return bytes(changed)


def refused(data: bytes, limits: Limits | None = None) -> ArchiveError:
    """The error of reading an archive and all of its records."""
    with pytest.raises(ArchiveError) as raised:
        read(data, limits)
    assert raised.value.file == "m.pt"
    assert str(raised.value).startswith("m.pt: ")
    return raised.value


def read(data: bytes, limits: Limits | None = None) -> None:
    with Container.open(data, name="m.pt", limits=limits or Limits()) as container:
        for record in container.records.values():
            assert len(record.view()) == record.size


# --- Files with long zeros that take no space on disk; and whether a file is mapped


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


def with_flipped_bit(path: Path, at: int) -> bytes:
    """The bytes of a file, in one of which a bit is another."""
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    return bytes(data)
