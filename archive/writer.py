"""Writing files: complete or not at all, and never over another one unasked."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from archive.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from archive.container import Container

PIECE = 1 << 20


def check_target(path: str | os.PathLike[str], *, force: bool) -> None:
    """Refuse a target that exists, unless it may be replaced.

    Raises:
        ArchiveError: it exists and ``force`` is not given.
    """
    if not force and Path(path).exists():
        raise ArchiveError("the file exists; pass --force (force=True) to replace it", file=str(path))


@contextmanager
def replacing(path: str | os.PathLike[str], *, force: bool) -> Iterator[BinaryIO]:
    """A file, to write and read, that takes its name only when the block ends well.

    Args:
        path: the target.
        force: replace an existing file.

    Raises:
        ArchiveError: the target exists and ``force`` is not given.
        OSError: it cannot be written.
    """
    check_target(path, force=force)
    target = Path(path)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "w+b") as out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(target.stat().st_mode if target.exists() else 0o666 & ~mask)
        Path(name).replace(target)
    except BaseException:
        with suppress(OSError):
            Path(name).unlink()
        raise


def save(container: Container, path: str | os.PathLike[str], *, force: bool = False) -> None:
    """Write an archive as it stands, byte for byte.

    Raises:
        ArchiveError: the target exists and ``force`` is not given.
    """
    with replacing(path, force=force) as out:
        data = container.data
        for start in range(0, len(data), PIECE):
            out.write(data[start : start + PIECE])
