"""Copies of files elsewhere, for work that reads all of them."""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast

from archive.base.ranged import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.remote import RemoteFile


@contextmanager
def copied(remote: RemoteFile) -> Iterator[BinaryIO]:
    """A copy of a file elsewhere, in the folder for temporary files; it has no name and vanishes by itself.

    Raises:
        ArchiveError: the file changed meanwhile.
        OSError: the file cannot be read, or there is no space for the copy.
    """
    with tempfile.TemporaryFile() as copy:
        for start in range(0, remote.size, AT_ONCE):
            copy.write(remote.read(start, min(start + AT_ONCE, remote.size)))
        copy.seek(0)
        yield cast("BinaryIO", copy)
