"""A folder of a store, held open: the only way to the files in it.

A name may become a link at any moment, and lead outside. So a folder is opened without following one, and
its files are listed, read, written and removed by their names in the folder that is open. Nothing but regular
files is read or written.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Self

from archive.base.errors import ArchiveError, named
from archive.io.drafts import MODE_BITS, put, remove_dead
from archive.io.output import SPECIAL_FILES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MOST_NUMBER = (1 << 63) - 1
"""SQLite's integers are signed."""
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
READ = os.O_RDONLY | NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
HAS_HANDLES = os.open in os.supports_dir_fd


class Signature(NamedTuple):
    """The state of a file, by which a change is noticed."""

    number: int
    size: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> Signature:
        """The state of a file as the system reports it."""
        return cls(status.st_ino & MOST_NUMBER, status.st_size, status.st_mtime_ns)


class OpenFolder:
    """A folder of a store, inside a ``with`` statement; only the store itself (``is_root``) may be a link."""

    def __init__(self, path: Path, *, is_root: bool = False) -> None:
        self.path = path
        self._is_root = is_root
        self._handle: int | None = None

    def __enter__(self) -> Self:
        """Open it."""
        if not self._is_root and not stat.S_ISDIR((status := self.path.lstat()).st_mode):
            raise ArchiveError(f"is a {_kind(status)}, not a folder of a store", file=str(self.path))
        if HAS_HANDLES:
            with named(self.path):
                self._handle = os.open(
                    self.path, os.O_RDONLY | os.O_DIRECTORY | (0 if self._is_root else NO_LINK)
                )
        return self

    def __exit__(self, *_: object) -> None:
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def changed(self) -> int:
        """When a name in it was written or removed last, in nanoseconds since 1970."""
        return (self.path.stat() if self._handle is None else os.fstat(self._handle)).st_mtime_ns

    def statuses(self) -> Iterator[tuple[str, os.stat_result]]:
        """The name and the state of all that is in it, links as such."""
        with os.scandir(self.path if self._handle is None else self._handle) as entries:
            for entry in entries:
                with suppress(FileNotFoundError):  # it was removed meanwhile
                    yield entry.name, entry.stat(follow_symlinks=False)

    def exists(self, name: str) -> bool:
        """Whether anything has a name, even a link to nothing."""
        try:
            os.stat(self._at(name), dir_fd=self._handle, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def status(self, name: str) -> os.stat_result | None:
        """The state of a regular file; None where nothing has the name."""
        try:
            state = os.stat(self._at(name), dir_fd=self._handle, follow_symlinks=False)
        except FileNotFoundError:
            return None
        self._check(name, state)
        return state

    def open(self, name: str, flags: int = READ) -> int:
        """The descriptor of a regular file."""
        self.status(name)  # its error says what a name is; the flags are sure that it is that
        with named(self.path / name):
            handle = os.open(self._at(name), flags, 0o666, dir_fd=self._handle)
        try:
            self._check(name, os.fstat(handle))
        except BaseException:
            os.close(handle)
            raise
        return handle

    def read(self, name: str, most: int | None = None, begins: bytes = b"") -> bytes:
        """The content of a regular file, which is read, and never mapped.

        If it does not begin with ``begins``, no more of it is read.
        """
        path = self.path / name
        with named(path), os.fdopen(self.open(name), "rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            if most is not None and size > most:
                raise ArchiveError(expected=f"up to {most:,} bytes", found=f"{size:,}", file=str(path))
            first = file.read(len(begins))
            data = first + file.read(size - len(first)) if first == begins else first
            if first == begins and len(data) < size:
                raise ArchiveError("became shorter while it was read", file=str(path))
            return data

    def write(self, name: str, data: bytes) -> Signature:
        """Write a regular file whole, replacing the one of that name, and bring its name to the disk."""
        there = self.status(name)
        mode = None if there is None else there.st_mode & MODE_BITS
        status = put(data, self.path / name, self._handle, mode)
        if self._handle is not None:
            with suppress(OSError):  # some file systems bring no names to the disk
                os.fsync(self._handle)
        return Signature.of(status)

    def remove(self, name: str) -> None:
        """Remove a file, or a link; nothing where there is none."""
        with suppress(FileNotFoundError), named(self.path / name):
            os.unlink(self._at(name), dir_fd=self._handle)

    def remove_drafts(self) -> int:
        """Remove the drafts that killed processes have left, and count them."""
        return remove_dead(self.path if self._handle is None else self._handle)

    def _at(self, name: str) -> str:
        """A name as the system takes it together with the folder."""
        return name if self._handle is not None else str(self.path / name)

    def _check(self, name: str, status: os.stat_result) -> None:
        """Refuse anything but a regular file."""
        if not stat.S_ISREG(status.st_mode):
            raise ArchiveError(what_it_is(status), file=str(self.path / name))


def what_it_is(status: os.stat_result) -> str:
    """Why something isn't a file of a store."""
    return f"is a {_kind(status)}, not a file of a store"


def _kind(status: os.stat_result) -> str:
    return (
        "file"
        if stat.S_ISREG(status.st_mode)
        else SPECIAL_FILES.get(stat.S_IFMT(status.st_mode), "special file")
    )
