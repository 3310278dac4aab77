"""Bodies and answers on the disk, within bounds: workers read and write them, and no pipe carries a log.

A folder of a server that was killed is removed by the next one: it has no lock.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from archive.server.problems import Problem

try:
    import fcntl
except ImportError:  # Windows, where no open file can be removed
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

PREFIX = "debug-archive-serve-"
LOCK, NEW_LOCK = "spool.lock", "spool.lock.new"
"""A store has a `lock`, too, and may have a name like a spool's."""
FULL = "the server holds as many bytes of other requests as it may; try again"


class Spool:
    """A folder of bodies and answers.

    Args:
        room: bytes that all of them may have together.

    Attributes:
        held: bytes that they have.
    """

    def __init__(self, room: int) -> None:
        _remove_dead(Path(tempfile.gettempdir()))
        self._folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        self._lock = (self._folder / NEW_LOCK).open("wb")
        if fcntl is not None:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            (self._folder / NEW_LOCK).rename(self._folder / LOCK)  # which nobody has seen unlocked
        self._room = room
        self.held = 0

    @contextmanager
    def file(self) -> Iterator[SpoolFile]:
        """A file for the time of the block."""
        file = SpoolFile(self, self._folder / uuid4().hex)
        try:
            yield file
        finally:
            file.remove()

    def take(self, count: int) -> None:
        """Count bytes in.

        Raises:
            Problem: they are more than there is room for.
        """
        if self.held + count > self._room:
            raise Problem(503, FULL)
        self.held += count

    def close(self) -> None:
        """Remove the folder."""
        self._lock.close()
        shutil.rmtree(self._folder, ignore_errors=True)


class SpoolFile:
    """A body or an answer.

    Attributes:
        path: its file.
        size: its bytes that are counted.
    """

    def __init__(self, spool: Spool, path: Path) -> None:
        self._spool = spool
        self.path = path
        self.size = 0

    def write(self, out: BinaryIO, data: bytes) -> None:
        """Append bytes.

        Raises:
            Problem: there is no room.
            OSError: the disk is full.
        """
        self.count(len(data))
        out.write(data)

    def count(self, size: int) -> None:
        """Count bytes that stand in the file.

        Raises:
            Problem: there is no room.
        """
        self._spool.take(size)
        self.size += size

    def remove(self) -> None:
        """Remove the file."""
        self._spool.held -= self.size
        self.size = 0
        self.path.unlink(missing_ok=True)


def _remove_dead(parent: Path) -> None:
    """Remove the folders of servers that were killed."""
    for folder in parent.glob(f"{PREFIX}*"):
        with suppress(OSError):  # it is another user's, or its server lives
            _remove_unlocked(folder)


def _remove_unlocked(folder: Path) -> None:
    """Remove a folder whose lock nobody holds.

    Raises:
        OSError: somebody does, or may not be asked.
    """
    with (folder / LOCK).open("r+b") as lock:
        if fcntl is not None:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
