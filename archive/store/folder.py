"""The folder of a store: its mark, its files, its lock.

Files are written as everywhere (:mod:`archive.io.drafts`): absent or whole, whatever ends the process. All
are reached through their folder (:mod:`~archive.store.opened`), and none through a link. A companion is
added, replaced and removed by one process at a time, which holds the lock; readers need none.
"""

from __future__ import annotations

import os
import re
import stat
import time
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError, shown
from archive.formats.archive_id import ID_TEXT
from archive.store.opened import NO_LINK, OpenFolder, Signature, what_it_is

try:
    import fcntl
except ImportError:  # Windows: adding is atomic without a lock, but nothing else is
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.store.kept import KeptHeader

MARK, MARK_TEXT = "debug-archive-store", b"debug-archive store, version 1\n"
COMPANIONS, BASES, INDEX, LOCK = "companions", "bases", "index.sqlite", "lock"
FILES = {MARK, COMPANIONS, BASES, INDEX, LOCK}
"""All that lies in a store."""
ENDING = ".kept"
KEPT_NAME = re.compile(rf"({ID_TEXT.pattern}){re.escape(ENDING)}", re.IGNORECASE | re.ASCII)
"""The name of a kept companion, as file systems that know no case may give it back, too."""
KNOWN_MARK = re.compile(rb"debug-archive store, version [0-9]{1,9}\n")
MOST_SECONDS = 60.0
"""Seconds for which another process that changes the store is waited for by default."""
TURN_BYTES = 16
"""Bytes of the word that the last process to take the lock left in its file."""
NOTIFIED_AFTER, PAUSE = 1.0, 0.02
"""Seconds of waiting after which a line says so, and between two looks: most changes take less than that."""


class Waiting:
    """How long to wait for another process that changes a store; ``notify`` takes the line that says so."""

    def __init__(
        self,
        most: float = MOST_SECONDS,
        notify: Callable[[str], None] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.most = most
        self._notify = notify
        self._clock = clock
        self._sleep = sleep

    def until(self, is_free: Callable[[], bool], lock: str) -> None:
        """Wait until a lock is free."""
        begin = self._clock()
        while not is_free():
            waited = self._clock() - begin
            if waited >= self.most:
                raise ArchiveError(
                    f"another process has been changing the store for {self.most:g} s; "
                    "try again, or wait longer: --wait SECONDS",
                    file=lock,
                    in_python="waiting=…",
                )
            if self._notify is not None and waited >= min(NOTIFIED_AFTER, self.most / 2):
                self._notify(f"{lock}: another process changes the store; waiting for up to {self.most:g} s")
                self._notify = None
            self._sleep(min(PAUSE, max(0.0, self.most - waited)))


class KeptNames(NamedTuple):
    """What lies in a folder of kept files: by id, those that can be read, or why not; and foreign names."""

    files: dict[str, Signature]
    unread: dict[str, str]
    foreign: list[str]


class Folder:
    """The folder of a store."""

    def __init__(self, path: str | os.PathLike[str], waiting: Waiting | None = None) -> None:
        self.path = Path(path)
        self.companions = self.path / COMPANIONS
        self.bases = self.path / BASES
        self.index = self.path / INDEX
        self._waiting = waiting or Waiting()
        self._turn = b""

    def check(self) -> None:
        """Refuse a folder that isn't a store."""
        mark = _mark_of(self.path)
        if mark == MARK_TEXT:
            self._check_folders()
            return
        if KNOWN_MARK.fullmatch(mark):
            found = f"{shown(mark.decode().strip())}; a newer debug-archive may read it"
            raise ArchiveError(expected="a store of version 1", found=found, file=str(self.path))
        self.path.stat()  # a folder that is not there is the system's error
        raise ArchiveError(f"isn't a store: there is no mark {MARK} in it", file=str(self.path))

    def _check_folders(self) -> None:
        """Refuse folders of companions and bases that are links: their files are another one's."""
        with OpenFolder(self.companions), suppress(FileNotFoundError), OpenFolder(self.bases):
            pass

    def create(self) -> None:
        """Make the folder a store, unless it is one."""
        if self.path.exists() and not self.path.is_dir():
            raise ArchiveError("is a file, and a store is a folder", file=str(self.path))
        self.path.mkdir(parents=True, exist_ok=True)
        others = sorted(name for name in os.listdir(self.path) if name not in FILES and name[0] != ".")  # noqa: PTH208
        if others and not is_store(self.path):
            why = f"isn't a store, and a new one isn't made beside other files ({shown(others[0])})"
            raise ArchiveError(why, file=str(self.path))
        self.companions.mkdir(exist_ok=True)
        self.bases.mkdir(exist_ok=True)
        self._check_folders()
        if not is_store(self.path):
            mark = self.path / MARK
            if self.signature(mark) is None:
                self.write(mark, MARK_TEXT)
        self.check()

    def changed(self) -> int:
        """When a companion was added, replaced or removed last, in nanoseconds since 1970."""
        with OpenFolder(self.companions) as folder:
            return folder.changed()

    def foreign(self) -> list[Path]:
        """Everything in the store that isn't one of its files, drafts included."""
        with OpenFolder(self.path, is_root=True) as folder:
            paths = [self.path / name for name, _ in folder.statuses() if name not in FILES]
        paths += [self.companions / name for name in self.companion_names().foreign]
        paths += [self.bases / name for name in self.base_names().foreign]
        return sorted(paths)

    def companion_names(self) -> KeptNames:
        """What lies in the folder of companions; the id is the archive's."""
        return _names_in(self.companions)

    def base_names(self) -> KeptNames:
        """The same for bases; the id is the body's digest."""
        try:
            return _names_in(self.bases)
        except FileNotFoundError:
            return KeptNames({}, {}, [])

    def kept_path(self, archive_id: str) -> Path:
        """The file of a companion."""
        return self.companions / f"{archive_id}{ENDING}"

    def base_path(self, digest: str) -> Path:
        """The file of a base."""
        return self.bases / f"{digest}{ENDING}"

    def base_paths(self, header: KeptHeader) -> tuple[Path, Path]:
        """Where the base of a kept companion is: a companion, or the body of a removed one."""
        return self.kept_path(header.base_id.hex()), self.base_path(header.base.hex())

    def read(self, path: Path, most: int | None = None, begins: bytes = b"") -> bytes:
        """The content of a file of the store. If it does not begin with ``begins``, no more of it is read."""
        with self._opened(path) as folder:
            return folder.read(path.name, most, begins)

    def exists(self, path: Path) -> bool:
        """Whether anything has the name of a file of the store, even a link to nothing."""
        with self._opened(path) as folder:
            return folder.exists(path.name)

    def signature(self, path: Path) -> Signature | None:
        """The state of a file of the store; None where there is none."""
        try:
            with self._opened(path) as folder:
                status = folder.status(path.name)
        except FileNotFoundError:
            return None
        return None if status is None else Signature.of(status)

    def write(self, path: Path, data: bytes) -> Signature:
        """Write a file of the store, in the place of the one of that name, and bring its name to the disk."""
        if path.parent == self.bases:
            self.bases.mkdir(exist_ok=True)
        with self._opened(path) as folder:
            return folder.write(path.name, data)

    def remove(self, path: Path) -> None:
        """Remove a file of the store, or a link in its place."""
        with suppress(FileNotFoundError), self._opened(path) as folder:
            folder.remove(path.name)

    def remove_drafts(self) -> int:
        """Remove the drafts that killed processes have left, and count them."""
        removed = 0
        for path in (self.path, self.companions, self.bases):
            with suppress(FileNotFoundError), self._opened(path / MARK) as folder:
                removed += folder.remove_drafts()
        return removed

    def _opened(self, path: Path) -> OpenFolder:
        """The folder that a file of the store lies in."""
        return OpenFolder(path.parent, is_root=path.parent == self.path)

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """Wait until no other process, and no other thread, changes the store; then keep them waiting.

        Whoever takes the lock writes a new word into its file first. Yields whether this folder's last word
        was still there: then nobody took the lock since.
        """
        path = self.path / LOCK
        with self._opened(path) as folder:
            handle = folder.open(LOCK, os.O_RDWR | os.O_CREAT | NO_LINK | getattr(os, "O_NONBLOCK", 0))
        try:
            if fcntl is None:
                yield False
                return
            self._waiting.until(partial(_has_taken, handle), str(path))
            last, turn = self._turn, os.urandom(TURN_BYTES)
            is_unchanged = os.read(handle, TURN_BYTES + 1) == last != b""
            os.lseek(handle, 0, os.SEEK_SET)
            self._turn = turn if os.write(handle, turn) == len(turn) else b""
            yield is_unchanged
        finally:
            os.close(handle)


def _has_taken(handle: int) -> bool:
    """Take a lock, if it is free; whether it was."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_store(path: str | os.PathLike[str]) -> bool:
    """Whether a folder has the mark of a store, of whatever version."""
    try:
        return KNOWN_MARK.fullmatch(_mark_of(Path(path))) is not None
    except (ArchiveError, OSError):
        return False


def _mark_of(path: Path) -> bytes:
    """The mark of a folder; empty where it has none."""
    with OpenFolder(path, is_root=True) as folder:
        return b"" if folder.status(MARK) is None else folder.read(MARK, 2 * len(MARK_TEXT))


def _names_in(path: Path) -> KeptNames:
    """What lies in a folder of kept companions."""
    names = KeptNames({}, {}, [])
    with OpenFolder(path) as folder:
        for name, status in folder.statuses():
            match = KEPT_NAME.fullmatch(name)
            if not match:
                names.foreign.append(name)
            elif not stat.S_ISREG(status.st_mode):
                names.unread[match[1]] = str(ArchiveError(what_it_is(status), file=str(path / name)))
            elif match[1] != match[1].lower() or not name.endswith(ENDING):
                why = "has capital letters in its name; files of a store have none"
                names.unread[match[1]] = str(ArchiveError(why, file=str(path / name)))
            else:
                names.files[match[1]] = Signature.of(status)
    return names
