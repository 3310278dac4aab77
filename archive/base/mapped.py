"""Files as memory: mapped if they are on disk, else read as a whole.

A mapped file must not become shorter while it is in use: the system ends a process that touches a page behind
the file's end (SIGBUS). :func:`in_memory` reads a file instead, which costs its size in memory.
"""

from __future__ import annotations

import io
import mmap
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, BinaryIO, cast

from archive.base.errors import ArchiveError, named, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeGuard

    from _typeshed import ReadableBuffer

    Source = str | os.PathLike[str] | ReadableBuffer | BinaryIO | io.IOBase


class Mapped:
    """The bytes of a source, read only, until it is closed.

    Attributes:
        data: the bytes.
        name: the file's name, for messages.
    """

    __slots__ = ("_map", "data", "name")

    def __init__(self, source: Source, name: str | None = None) -> None:
        """Map or read a source.

        Args:
            source: a path, a bytes-like object, or a binary file, read as a whole from its beginning where
                it can seek. Files on disk are mapped.
            name: the file's name; by default the source's own.

        Raises:
            ArchiveError: the path is no file.
            OSError: the source cannot be read.
        """
        self.name = one_line(name or _label(source))
        try:
            self.data, self._map = _load(source)
        except ArchiveError as problem:
            problem.within(file=self.name)
            raise

    def close(self) -> None:
        """Close the file; views in use stay valid. Closing twice does nothing."""
        self.data.release()
        if self._map is not None:
            with suppress(BufferError):  # views are in use: the last of them will unmap it
                self._map.close()
        self._map = None


class FileInMemory(io.BytesIO):
    """The content of a file, with its name.

    Attributes:
        name: the file's path.
    """

    def __init__(self, content: bytes, name: str) -> None:
        super().__init__(content)
        self.name = name


def in_memory(source: Source) -> Source:
    """Read a source that would be mapped.

    Returns:
        The content of a file on disk; any other source as it is.

    Raises:
        ArchiveError: the path is no file, or the file changed while it was read.
        OSError: the source cannot be read.
    """
    with unchanged(source):
        if isinstance(source, (str, os.PathLike)):
            with _opened(source) as file:
                return FileInMemory(_read(file), _label(source))
        if _is_on_disk(source):
            source.seek(0)
            return FileInMemory(_read(source), _label(source))
    return source


@contextmanager
def unchanged(*sources: Source) -> Iterator[None]:
    """Refuse files whose size or time of change is another at the end of the block than at its beginning.

    Args:
        sources: files on disk by path or opened; others are not looked at.

    Raises:
        ArchiveError: a file changed, or its name is another file's or none's now.
        OSError: a file is not there at the beginning.
    """
    before = [_status(source) for source in sources]
    yield
    for source, status in zip(sources, before, strict=True):
        try:
            same = _status(source) == status
        except OSError:
            same = False
        if not same:
            raise ArchiveError("the file changed while it was read; nothing is written", file=_label(source))


def _status(source: Source) -> tuple[int, ...] | None:
    """The file, size and time of change of a source; None if it is no file on disk."""
    if isinstance(source, (str, os.PathLike)):
        status = os.stat(source)  # noqa: PTH116 (a Path costs more than all the rest)
    elif _is_on_disk(source) and not source.closed:
        status = os.fstat(source.fileno())
    else:
        return None
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


def _is_on_disk(source: Source) -> TypeGuard[BinaryIO]:
    """Whether a source is an opened file on disk; the ``fileno()`` of a GzipFile is another file's."""
    return isinstance(getattr(source, "raw", source), io.FileIO)


def _label(source: Source) -> str:
    if isinstance(source, (str, os.PathLike)):
        return os.fsdecode(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "archive in memory"


def _load(source: Source) -> tuple[memoryview, mmap.mmap | None]:
    """The bytes of a source, and their map if the file is mapped."""
    if isinstance(source, (str, os.PathLike)):
        with _opened(source) as opened:
            return _map(opened)
    try:
        return _bytes(memoryview(cast("ReadableBuffer", source))), None
    except TypeError:  # no buffer, so a file
        file = cast("BinaryIO", source)
    if _is_on_disk(file):
        return _map(file)
    if file.seekable():
        file.seek(0)
    return _bytes(memoryview(file.read())), None


def _opened(path: str | os.PathLike[str]) -> io.FileIO:
    """A regular file, opened.

    Raises:
        ArchiveError: the path is another kind of file.
    """
    mode = os.stat(path).st_mode  # noqa: PTH116 (a Path costs more than all the rest)
    if not stat.S_ISREG(mode):
        raise ArchiveError(expected="a file", found=stat.filemode(mode), file=one_line(_label(path)))
    return io.FileIO(os.fspath(path))


def _map(file: BinaryIO | io.FileIO) -> tuple[memoryview, mmap.mmap | None]:
    file.flush()
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        return _bytes(memoryview(_read(file))), None
    if not status.st_size:
        return memoryview(b""), None
    with named(_label(file)):
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return memoryview(mapped), mapped


def _read(file: BinaryIO | io.FileIO) -> bytes:
    """All that is left in a file; errors name it."""
    with named(_label(file)):
        return file.read() or b""


def _bytes(view: memoryview) -> memoryview:
    """The same memory as bytes, read only."""
    return view.cast("B").toreadonly() if view.nbytes else memoryview(b"")
