"""Small files beside those that a command is about: lists, settings, secrets. A pipe may take their place."""

from __future__ import annotations

import os

from archive.base.errors import ArchiveError

MOST_BYTES = 1 << 24
"""Such a file is not larger."""


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a small file, or of a pipe until its end; none of a pipe into which nobody writes.

    Raises:
        ArchiveError: there are more than `MOST_BYTES`.
        OSError: it cannot be read.
    """
    with open(path, "rb", opener=_opened) as file:
        data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ArchiveError(f"has more than {MOST_BYTES:,} bytes", file=os.fspath(path))
    return data


def _opened(path: str, flags: int) -> int:
    """Open a file; a pipe without waiting for who writes into it."""
    descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    if hasattr(os, "O_NONBLOCK"):
        os.set_blocking(descriptor, True)
    return descriptor
