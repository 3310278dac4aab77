"""The folder of a store: its mark, its files, its lock.

Files are written as everywhere (:mod:`archive.base.drafts`): absent or whole, whatever ends the process. A
companion is added, replaced and removed by one process at a time, which holds the lock; readers need none.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError, named, shown
from archive.base.output import replacing

try:
    import fcntl
except ImportError:  # Windows: adding is atomic without a lock, but nothing else is
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK, MARK_TEXT = "debug-archive-store", b"debug-archive store, version 1\n"
COMPANIONS, BASES, INDEX, LOCK = "companions", "bases", "index.sqlite", "lock"
KEPT_NAME = re.compile(r"([0-9a-f]{32})\.kept")
BASE_NAME = re.compile(r"([0-9a-f]{32})\.kept")
MOST_NUMBER = (1 << 63) - 1
"""SQLite's integers are signed."""
KNOWN_MARK = re.compile(rb"debug-archive store, version [0-9]{1,9}\n")


class Signature(NamedTuple):
    """The state of a file, by which a change is noticed."""

    number: int
    size: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> Signature:
        """The state of a file as the system tells it."""
        return cls(status.st_ino & MOST_NUMBER, status.st_size, status.st_mtime_ns)


class Folder:
    """The folder of a store.

    Args:
        path: the folder.

    Attributes:
        path: the folder.
        companions: the folder of companions in it.
        bases: the folder of bases in it.
        index: the path of the index.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.companions = self.path / COMPANIONS
        self.bases = self.path / BASES
        self.index = self.path / INDEX

    def check(self) -> None:
        """Refuse a folder that is no store.

        Raises:
            ArchiveError: it is none, or one of an unknown version.
            OSError: it cannot be read.
        """
        mark = _mark_of(self.path)
        if mark == MARK_TEXT:
            return
        if KNOWN_MARK.fullmatch(mark):
            found = f"{shown(mark.decode().strip())}; a newer debug-archive may read it"
            raise ArchiveError(expected="a store of version 1", found=found, file=str(self.path))
        self.path.stat()  # a folder that is not there is the system's error
        raise ArchiveError(f"is no store: there is no mark {MARK} in it", file=str(self.path))

    def create(self) -> None:
        """Make the folder a store, unless it is one.

        Raises:
            ArchiveError: it is a file, holds other files, or is a store of an unknown version.
            OSError: it cannot be written.
        """
        if self.path.exists() and not self.path.is_dir():
            raise ArchiveError("is a file, and a store is a folder", file=str(self.path))
        self.path.mkdir(parents=True, exist_ok=True)
        ours = {MARK, COMPANIONS, BASES, INDEX, LOCK}
        others = sorted(name for name in os.listdir(self.path) if name not in ours and name[0] != ".")  # noqa: PTH208
        if others and not is_store(self.path):
            why = f"is no store, and no new one is made beside other files ({shown(others[0])})"
            raise ArchiveError(why, file=str(self.path))
        self.companions.mkdir(exist_ok=True)
        self.bases.mkdir(exist_ok=True)
        if not (self.path / MARK).exists():
            with suppress(ArchiveError):  # another process was faster; `check` looks at its mark
                self.write(self.path / MARK, MARK_TEXT)
        self.check()

    def changed(self) -> int:
        """When a companion was added, replaced or removed last, in nanoseconds since 1970.

        Raises:
            OSError: the folder cannot be read.
        """
        return self.companions.stat().st_mtime_ns

    def kept(self) -> dict[str, Signature]:
        """The signature of each kept companion's file, by archive id."""
        return dict(_listed(self.companions, KEPT_NAME))

    def base_files(self) -> dict[str, Signature]:
        """The signature of each base's file, by digest."""
        return dict(_listed(self.bases, BASE_NAME))

    def kept_path(self, archive_id: str) -> Path:
        """The file of a companion."""
        return self.companions / f"{archive_id}.kept"

    def base_path(self, digest: str) -> Path:
        """The file of a base."""
        return self.bases / f"{digest}.kept"

    def write(self, path: Path, data: bytes, *, force: bool = False) -> None:
        """Write a file of the store, and bring its name to the disk, too. No link is followed.

        Raises:
            ArchiveError: the file exists and ``force`` is not given, or it is a link or no regular file.
            OSError: it cannot be written.
        """
        if path.is_symlink():
            raise ArchiveError("is a link, and no file of a store is one", file=str(path))
        with replacing(path, force=force) as file:
            file.write(data)
        _sync(path.parent)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Wait until no other process, and no other thread, changes the store; then keep them waiting.

        Raises:
            OSError: the store cannot be written.
        """
        with named(self.path / LOCK):
            handle = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        try:
            if fcntl is not None:
                fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            os.close(handle)


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a folder has the mark of a store, of whatever version."""
    try:
        return KNOWN_MARK.fullmatch(_mark_of(Path(path))) is not None
    except OSError:
        return False


def _mark_of(path: Path) -> bytes:
    """The mark of a folder; empty where it has none."""
    try:
        handle = os.open(
            path / MARK, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        )
    except FileNotFoundError:
        return b""
    try:
        return os.read(handle, 2 * len(MARK_TEXT))
    finally:
        os.close(handle)


def _listed(folder: Path, names: re.Pattern[str]) -> Iterator[tuple[str, Signature]]:
    """The regular files of a folder whose names fit, by the id in the name; others are left aside."""
    try:
        found = os.scandir(folder)
    except FileNotFoundError:
        return
    with found:
        for entry in found:
            match = names.fullmatch(entry.name)
            if not match:
                continue
            with suppress(FileNotFoundError):  # it was removed meanwhile
                status = entry.stat(follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield match[1], Signature.of(status)


def _sync(folder: Path) -> None:
    """Bring the names in a folder to the disk, where the system can."""
    with suppress(OSError):  # Windows opens no folders, and some file systems bring none to the disk
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
