"""Copies of files elsewhere, for work that reads all of them.

A copy is an unnamed file in the folder for temporary files. The last ones are kept as long as the process
runs, so that a file that is read twice, or read back after it was put, is fetched once. A kept copy is used
only if the file elsewhere still is of its version.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, BinaryIO, cast

from archive.base.ranged import AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.location import Version
    from archive.base.remote import RemoteFile

KEPT_BYTES, KEPT_FILES = 1 << 30, 8
"""Bytes of all copies that are kept, and their number."""


class Copies:
    """The copies that are kept, by the version of the file, in the order of their last use.

    Args:
        room: bytes of all copies.
        most: how many copies.
    """

    def __init__(self, room: int, most: int) -> None:
        self._room, self._most = room, most
        self._kept: dict[Version, tuple[int, int]] = {}
        """The descriptor and the size of each."""

    def opened(self, version: Version) -> BinaryIO | None:
        """The copy of a version, opened; None where none is kept."""
        if version not in self._kept:
            return None
        self._kept[version] = self._kept.pop(version)
        file = os.fdopen(os.dup(self._kept[version][0]), "rb")
        file.seek(0)
        return file

    def keep(self, version: Version, file: BinaryIO, size: int) -> None:
        """Keep a file under a descriptor of its own, if it is not too large and its version is certain."""
        if not version.is_certain or size > self._room or version in self._kept:
            return
        self._kept[version] = (os.dup(file.fileno()), size)
        while len(self._kept) > self._most or sum(size for _, size in self._kept.values()) > self._room:
            descriptor, _ = self._kept.pop(next(iter(self._kept)))
            os.close(descriptor)


KEPT = Copies(KEPT_BYTES, KEPT_FILES)


@contextmanager
def copied(remote: RemoteFile) -> Iterator[BinaryIO]:
    """A copy of a file elsewhere, to be mapped.

    Raises:
        ArchiveError: the file changed meanwhile.
        OSError: the file cannot be read, or there is no space for the copy.
    """
    kept = KEPT.opened(remote.version)
    if kept is not None:
        with kept:
            yield kept
        return
    with tempfile.TemporaryFile() as copy:
        for start in range(0, remote.size, AT_ONCE):
            copy.write(remote.read(start, min(start + AT_ONCE, remote.size)))
        copy.seek(0)
        KEPT.keep(remote.version, cast("BinaryIO", copy), remote.size)
        yield cast("BinaryIO", copy)
