"""Files as memory: mapped if they are on disk, else read as a whole."""

from __future__ import annotations

import io
import mmap
import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO, cast

from archive.base.errors import ArchiveError, one_line

if TYPE_CHECKING:
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


def _label(source: Source) -> str:
    if isinstance(source, (str, os.PathLike)):
        return os.fsdecode(source)
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "archive in memory"


def _load(source: Source) -> tuple[memoryview, mmap.mmap | None]:
    """The bytes of a source, and their map if the file is mapped."""
    if isinstance(source, (str, os.PathLike)):
        mode = os.stat(source).st_mode  # noqa: PTH116 (a Path costs more than all the rest)
        if not stat.S_ISREG(mode):
            raise ArchiveError(expected="a file", found=stat.filemode(mode))
        with io.FileIO(os.fspath(source)) as opened:
            return _map(opened)
    try:
        return _bytes(memoryview(cast("ReadableBuffer", source))), None
    except TypeError:  # no buffer, so a file
        file = cast("BinaryIO", source)
    if isinstance(getattr(file, "raw", file), io.FileIO):  # not GzipFile, whose fileno() is the wrong file
        return _map(file)
    if file.seekable():
        file.seek(0)
    return _bytes(memoryview(file.read())), None


def _map(file: BinaryIO | io.FileIO) -> tuple[memoryview, mmap.mmap | None]:
    file.flush()
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        return _bytes(memoryview(file.read())), None
    if not status.st_size:
        return memoryview(b""), None
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return memoryview(mapped), mapped


def _bytes(view: memoryview) -> memoryview:
    """The same memory as bytes, read only."""
    return view.cast("B").toreadonly() if view.nbytes else memoryview(b"")
