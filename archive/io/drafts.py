"""Drafts of files: they vanish with the process that writes them, whatever ends it.

A draft has no name where the system and the file system support unnamed files (Linux: ``O_TMPFILE``).
Otherwise, and for the moment in which it replaces a file, it is beside its target as
``.debug-archive-PID-TOKEN.draft``. A process that is killed leaves such a file, and the next process that
writes to the folder removes it: only if its name matches, its PID is dead, and nobody, even on another
machine, holds its lock. Without locks (Windows), the system itself keeps open files from being removed.

A draft takes a new name in one step: by a link, or on file systems without links by a rename that replaces
nothing (Linux: ``renameat2``). Without either, an empty file has the name for a moment.
"""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from archive.base.cores import LONG, meanwhile
from archive.base.errors import named

try:
    import fcntl
except ImportError:  # Windows, where no open file can be removed or renamed
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from _typeshed import ReadableBuffer

DRAFT_NAME = re.compile(r"\.debug-archive-([0-9]{1,10})-[0-9a-f]{8}\.draft")
BUFFER = 1 << 16
NAMED = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
WITHOUT_UNNAMED = {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS}
"""Errors of systems and file systems that have no unnamed files."""
WITHOUT_EXCLUSIVE = {errno.EINVAL, errno.ENOSYS}
"""Errors of systems and file systems whose renames do not check the new name."""
THIS_FOLDER, EXCLUSIVE = -100, 1
"""``AT_FDCWD`` and ``RENAME_NOREPLACE`` of ``renameat2(2)``."""
OWN_MODE, NEW_MODE = 0o600, 0o666
MODE_BITS = 0o7777


class Draft:
    """A file to write and read, beside its target, which it becomes or leaves untouched.

    If ``path`` is a symbolic link, the target is what it leads to.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Open a draft, with the permissions of the target if there is one."""
        self.path = path = Path(path)
        self._name: Path | None = None
        self._kept: Path | None = None
        with named(path):
            self.target = target = Path(os.path.realpath(path))  # a circle of links isn't an error here
            clear_dead(target.parent)
            self._mode = target.stat().st_mode & MODE_BITS if target.exists() else None
            mode = NEW_MODE if self._mode is None else OWN_MODE
            handle = _unnamed(target.parent, mode)
            if handle is None:
                self._name = _draft_of(target)  # before the file exists: a signal may come at any time
                handle = os.open(self._name, NAMED, mode)
            self.file = io.BufferedRandom(_NamingFile(handle, path), BUFFER)
            _lock(handle)

    def finish(self) -> None:
        """Flush everything written to the disk, and set the permissions of the target.

        Without locks, the file is closed: an open file cannot take a name there.
        """
        with named(self.path):
            self.file.flush()
            if self._mode is not None and os.chmod in os.supports_fd:
                os.chmod(self.file.fileno(), self._mode)  # noqa: PTH101 (the file may have no name)
            os.fsync(self.file.fileno())
            self._status = os.fstat(self.file.fileno())
            if fcntl is None:
                self.file.close()

    def take(self) -> None:
        """Become the target, if none exists."""
        with named(self.path):
            if self._name is None:
                _link(self.file.fileno(), self.target)
                return
            try:
                self.target.hardlink_to(self._name)
            except OSError:  # the target exists, or the file system has no links: the next call shows which
                self._take_without_links(self._name)

    def _take_without_links(self, name: Path) -> None:
        """Become the target by giving up the name."""
        if not _renamed(name, self.target):
            os.close(os.open(self.target, NAMED, OWN_MODE))
            try:
                name.replace(self.target)
            except BaseException:
                self.target.unlink()
                raise
        self._name = None

    def keep(self) -> None:
        """Keep the present target under a draft's name, for :meth:`give_back`."""
        with named(self.path):
            self._kept = _draft_of(self.target)
            try:
                os.link(self.target, self._kept)
            except OSError:  # a file system without links
                shutil.copy2(self.target, self._kept)

    def replace(self) -> None:
        """Replace the present target; only a file with a name can do so."""
        with named(self.path):
            if self._name is None:
                self._name = _draft_of(self.target)
                _link(self.file.fileno(), self._name)
            self._name.replace(self.target)
        self._name = None

    def is_target(self) -> bool:
        """Whether the finished file has become the target."""
        try:
            return os.path.samestat(self.target.stat(), self._status)
        except OSError:
            return False

    def give_back(self) -> None:
        """Restore the target as it was before: the file that was kept, or none."""
        if not self.is_target():
            return
        with named(self.path):
            if self._kept is None:
                self.target.unlink()
            else:
                self._kept.replace(self.target)

    def close(self) -> None:
        """Close the file; unless it became the target, it is gone."""
        with suppress(OSError):  # of bytes that are not written yet and no longer wanted
            self.file.close()
        for name in (self._name, self._kept):
            if name is not None:
                with suppress(OSError):  # it has become the target, or a later process removes it
                    name.unlink()
        self._name = self._kept = None


@contextmanager
def reaching_disk(file: BinaryIO) -> Iterator[None]:
    """Bring a large draft to the disk while the block reads it, so that :meth:`Draft.finish` waits less."""
    file.flush()
    raw = getattr(file, "raw", None)
    if not isinstance(raw, _NamingFile) or os.fstat(raw.fileno()).st_size < LONG:
        yield
        return
    reached = meanwhile(raw.reach_disk, LONG)
    try:
        yield
    except BaseException:
        with suppress(OSError):  # of what is no longer wanted
            reached()
        raise
    reached()


class _NamingFile(io.FileIO):
    """A file whose errors name the target as given."""

    def __init__(self, handle: int, path: Path) -> None:
        super().__init__(handle, "r+")
        self._path = path

    def write(self, data: ReadableBuffer, /) -> int:
        with named(self._path):
            return super().write(data)

    def reach_disk(self) -> None:
        """Bring what was written to the disk."""
        with named(self._path):
            os.fsync(self.fileno())


def _draft_of(target: Path) -> Path:
    """A new name for a draft, beside its target."""
    return target.with_name(f".debug-archive-{os.getpid()}-{os.urandom(4).hex()}.draft")


def _lock(handle: int) -> None:
    """Lock a file until it is closed: a sign of life for processes that cannot see this one."""
    if fcntl is not None:
        with suppress(OSError):  # a file system without locks; then only the process's number counts
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _unnamed(folder: Path, mode: int) -> int | None:
    """The descriptor of a new file without a name; None if such files are not supported."""
    if not hasattr(os, "O_TMPFILE"):
        return None
    try:
        handle = os.open(folder, os.O_RDWR | os.O_TMPFILE, mode)
    except OSError as error:
        if error.errno not in WITHOUT_UNNAMED:
            raise
        return None
    if _path_of(handle).exists():
        return handle
    os.close(handle)  # without /proc, it would never get a name
    return None


def _path_of(handle: int) -> Path:
    return Path(f"/proc/self/fd/{handle}")


def _link(handle: int, name: Path) -> None:
    """Give an unnamed file a name that no file has."""
    # Python makes the system follow the link only if a folder's descriptor is given, though it is unused.
    os.link(_path_of(handle), name, src_dir_fd=handle, follow_symlinks=True)


def _renamed(name: Path, free: Path) -> bool:
    """Whether a file was renamed in one step; False if the system would replace what has the new name."""
    import ctypes  # noqa: PLC0415 (only file systems without links need it)

    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, TypeError):  # not Linux; on Windows, a library needs a name
        return False
    if not rename(THIS_FOLDER, os.fsencode(name), THIS_FOLDER, os.fsencode(free), EXCLUSIVE):
        return True
    error = ctypes.get_errno()
    if error in WITHOUT_EXCLUSIVE:
        return False
    raise OSError(error, os.strerror(error))


@lru_cache(maxsize=1 << 10)
def clear_dead(folder: Path) -> None:
    """Remove the drafts that killed processes left in a folder; once per process and folder."""
    remove_dead(folder)


def remove_dead(folder: Path | int) -> int:
    """Remove the drafts that killed processes left in a folder, and count them.

    The folder is a path, or an open descriptor, which no link can redirect.
    """
    removed = 0
    handle = folder if isinstance(folder, int) else None
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = DRAFT_NAME.fullmatch(entry.name)
            if match:
                with suppress(OSError):  # it is locked, or gone, or may not be removed
                    removed += _remove_dead(entry.path, int(match[1]), handle)
    return removed


def _remove_dead(path: str, pid: int, handle: int | None) -> bool:
    """Remove a draft unless its process lives; return whether it is gone."""
    if fcntl is None:  # no open file can be removed; and probing a process there would end it
        os.unlink(path, dir_fd=handle)
        return True
    if _is_alive(pid):
        return False
    draft = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=handle)
    try:
        fcntl.flock(draft, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path, dir_fd=handle)
    finally:
        os.close(draft)
    return True


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def put(data: bytes, path: Path, handle: int | None, mode: int | None = None) -> os.stat_result:
    """Write a complete file in place of whatever has its name: even a link, which is not followed.

    Its draft has a name; if the process is killed, it stays until :func:`remove_dead`.

    Args:
        handle: the descriptor of its folder, which no link can redirect, or None.
        mode: its permissions; by default those of any new file.
    """
    draft, name = (
        str(place) if handle is None else place.name  # within the folder
        for place in (_draft_of(path), path)
    )
    with named(path):
        opened = os.open(draft, NAMED, NEW_MODE, dir_fd=handle)
        try:
            with io.BufferedRandom(_NamingFile(opened, path), BUFFER) as file:
                _lock(opened)
                file.write(data)
                file.flush()
                if mode is not None and os.chmod in os.supports_fd:
                    os.chmod(opened, mode)  # noqa: PTH101 (a descriptor)
                os.fsync(opened)
                status = os.fstat(opened)
                if fcntl is not None:  # the lock holds until the draft has its name
                    os.replace(draft, name, src_dir_fd=handle, dst_dir_fd=handle)
            if fcntl is None:
                os.replace(draft, name, src_dir_fd=handle, dst_dir_fd=handle)
        except BaseException:
            with suppress(OSError):  # it has its name, or a later process removes it
                os.unlink(draft, dir_fd=handle)
            raise
    return status
