"""The bytes of a source: mapped if it is a file on disk, fetched if it is remote, else read as a whole.

A *source* is a path, a URL, bytes, a binary file, or a :class:`Mapped` that is open. :func:`placed` says
whether it is on this machine or remote. :class:`Mapped` has all of its bytes at hand: a remote file is copied
first. :func:`by_ranges` returns a :class:`Fetched` for a remote file; of it only what is asked for is read.

A mapped file must not become shorter while it is in use: the system ends a process that touches a page after
the file's end (SIGBUS). :func:`in_memory` reads a file instead, which takes its size in memory.
"""

from __future__ import annotations

import io
import mmap
import os
import stat
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from archive.base.errors import CHANGED, ArchiveError, named, one_line
from archive.io.urls import is_elsewhere, is_url, name_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import TypeAlias, TypeGuard

    from _typeshed import ReadableBuffer

    from archive.io.location import Location
    from archive.io.remote import RemoteFile

    Source: TypeAlias = "str | os.PathLike[str] | ReadableBuffer | BinaryIO | io.IOBase | Mapped"

CLAIMED = 1 << 24
"""A remote file's allowance of memory is computed from at most this many of its bytes."""
SMALL_BYTES = 1 << 24
"""Most bytes of a list, or of a file of settings or secrets."""
UNRETURNED = 1 << 22
"""Bytes of mapped files that are read before their memory is returned."""
PIECE = 1 << 16
"""Bytes that are compared at once."""
UNNAMED = "archive in memory"
"""What messages call bytes, which have no name."""


def placed(source: Source) -> tuple[Source, Location | None]:
    """A source, and its place if it is remote, else None; a ``file://`` URL becomes a local path."""
    if not is_elsewhere(source):
        return source, None
    from archive.io.location import Location  # noqa: PLC0415 (remote files only)

    place = Location(source)
    return (place.path, None) if place.is_local else (source, place)


class Mapped:
    """The bytes of a source, read only, until it is closed.

    Share one between the parts of a command: each closes its own view; the ``found`` cache is common, with a
    name for each thing found.
    """

    __slots__ = ("_map", "_source", "_status", "data", "found", "name")

    def __init__(self, source: Source, name: str | None = None) -> None:
        """Map or read a source.

        Args:
            source: a path or URL, a bytes-like object, or a binary file, read as a whole from its beginning
                where it can seek. Files on disk are mapped, remote ones are copied first. Of one that
                is mapped already, the same bytes: nothing else is opened.
        """
        self.name = one_line(name or _label(source))
        self.data, self._map, self._status = _load(source)
        self.found: dict[str, Any] = source.found if isinstance(source, Mapped) else {}
        self._source = b"" if isinstance(source, Mapped) else source

    @property
    def weight(self) -> int:
        """Bytes of file from which its allowance of memory is computed."""
        return len(self.data)

    def whole(self) -> Mapped:
        """The same: all bytes are at hand."""
        return self

    def beside(self, path: str) -> Mapped | Fetched | None:
        """Open a file by its path below this one's folder; None if either is missing."""
        here = self._source if isinstance(self._source, (str, os.PathLike)) else _path(self._source)
        if here is None:
            return None
        there = _joined(os.fsdecode(here), path)
        with suppress(FileNotFoundError):
            return by_ranges(there if self._map is not None else in_memory(there))
        return None

    def check_unchanged(self) -> None:
        """Refuse a mapped file that was written to since; one that lost its name counts as unchanged."""
        if self._map is None:
            return
        now = None
        with suppress(OSError):  # no file has the name any more
            now = _status(self._source)
        written = now is not None and now.file == self._status.file and now != self._status
        if written or self._map.size() != len(self._map):
            raise ArchiveError(CHANGED, file=self.name)

    def close(self) -> None:
        """Close the file; views in use stay valid. Closing twice does nothing."""
        self.data.release()
        if self._map is not None:
            with suppress(BufferError):  # views are in use: the last of them will unmap it
                self._map.close()
        self._map, self._source = None, b""


class Fetched:
    """The bytes of a remote file, read by ranges when they are asked for."""

    __slots__ = ("_file", "_most", "_source", "data", "found", "name")

    def __init__(
        self,
        file: RemoteFile,
        name: str | None = None,
        source: Source | None = None,
        most: int | None = None,
    ) -> None:
        """Read a file by ranges.

        Args:
            source: what it was opened from.
            most: most bytes fetched of each file that is opened beside it.
        """
        from archive.io.ranged import RangedBytes  # noqa: PLC0415 (remote files only)

        self.name = one_line(name) if name else file.name
        self._source, self._most = source, most
        self.found: dict[str, Any] = {}
        self.data = RangedBytes(file.read, file.size, head=file.head)
        self._file = file

    @property
    def weight(self) -> int:
        """Bytes of file from which its allowance of memory is computed: its claimed size, up to a bound."""
        return min(len(self.data), CLAIMED)

    def whole(self) -> Mapped:
        """The whole file, copied; this one is closed."""
        from archive.io.remote import copied  # noqa: PLC0415 (remote files only)

        with copied(self._file) as copy:
            self.close()
            return Mapped(copy, self.name)

    def beside(self, path: str) -> Mapped | Fetched | None:
        """Open a file by its path below this one's folder; None if there is none, or this one has no URL."""
        if is_url(self._source):
            with suppress(FileNotFoundError):
                return by_ranges(_joined(self._source, path), most=self._most)
        return None

    def check_unchanged(self) -> None:
        """Refuse a file that has changed since it was opened."""
        self._file.check_unchanged()

    def close(self) -> None:
        """Close the file; views in use stay valid. Closing twice does nothing."""
        self.data.release()
        self._file.close()


def by_ranges(source: Source, name: str | None = None, *, most: int | None = None) -> Mapped | Fetched:
    """A source whose bytes are at hand or, if it is remote, read when they are asked for.

    More than ``most`` bytes of a remote file are refused when they are asked for.
    """
    source, place = placed(source)
    if place is None:
        return Mapped(source, name)
    from archive.io.remote import CappedFile, opened_remote  # noqa: PLC0415 (remote files only)

    file = opened_remote(place)
    return Fetched(file if most is None else CappedFile(file, most), name, source, most)


def _path(source: Source) -> str | None:
    """The path of an opened file, or of one in memory; None if it has none."""
    name = getattr(source, "name", None)
    has_path = isinstance(source, FileInMemory) or _is_on_disk(source)
    return name if has_path and isinstance(name, str) else None


def _joined(file: str, path: str) -> str:
    """A path below the folder of a file; a URL's query, which concerns that file, is left out."""
    if not is_url(file):
        return os.path.join(os.path.dirname(file), *path.split("/"))  # noqa: PTH118, PTH120 (a Path would lose "./")
    from urllib.parse import quote  # noqa: PLC0415 (remote files only)

    folder, slash, _ = file.partition("?")[0].rpartition("/")
    return folder + slash + (quote(path) if file.startswith("http") else path)


class FileInMemory(io.BytesIO):
    """The content of a file, with its name."""

    def __init__(self, content: bytes, name: str) -> None:
        super().__init__(content)
        self.name = name


class PartsRead:
    """Parts of mapped files that have been read, whose memory is returned to the system meanwhile.

    The pages of a mapped file count as this process's memory once they are read. Whenever `UNRETURNED` bytes
    have been read, all pages of the files are returned, even those of other parts. They stay in the system's
    cache, from which they come back if read again.
    """

    def __init__(self) -> None:
        self._maps: dict[int, mmap.mmap] = {}  # by identity
        self._bytes = 0

    def add(self, view: memoryview) -> None:
        """Note a part of a file that has been read; memory other than maps is ignored."""
        mapped = view.obj
        if not isinstance(mapped, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):  # Windows has none
            return
        self._maps[id(mapped)] = mapped
        self._bytes += view.nbytes
        if self._bytes >= UNRETURNED:
            for file in self._maps.values():
                file.madvise(mmap.MADV_DONTNEED)
            self._maps, self._bytes = {}, 0


def same_bytes(left: bytes | memoryview, right: bytes | memoryview) -> bool:
    """Whether two places have the same bytes; compared piece by piece as ``bytes``, since views are slow."""
    return len(left) == len(right) and all(
        bytes(left[at : at + PIECE]) == bytes(right[at : at + PIECE]) for at in range(0, len(left), PIECE)
    )


def in_memory(source: Source) -> Source:
    """The content of a file on disk, which would be mapped; any other source, such as a URL, unchanged."""
    if is_elsewhere(source):
        return source
    with unchanged(source):
        if isinstance(source, (str, os.PathLike)):
            with regular_file(source) as file:
                return FileInMemory(_read(file), _label(source))
        if _is_on_disk(source):
            source.seek(0)
            return FileInMemory(_read(source), _label(source))
    return source


def source_of(file: str | os.PathLike[str], *, mapped: bool) -> Source:
    """A file as the library's functions take it: its path, or with ``--no-map`` its content."""
    return file if mapped else in_memory(file)


@contextmanager
def unchanged(*sources: Source) -> Iterator[None]:
    """Refuse files on disk whose size or time of change differs after the block; skip other sources."""
    before = [_status(source) for source in sources]
    yield
    for source, status in zip(sources, before, strict=True):
        try:
            same = _status(source) == status
        except OSError:
            same = False
        if not same:
            raise ArchiveError(CHANGED, file=_label(source))


class _Status(NamedTuple):
    """A file by its device and number, its size and its time of change."""

    file: tuple[int, int]
    size: int
    changed: int

    @classmethod
    def of(cls, status: os.stat_result) -> _Status:
        return cls((status.st_dev, status.st_ino), status.st_size, status.st_mtime_ns)


NO_FILE = _Status((0, 0), 0, 0)


def _status(source: Source) -> _Status | None:
    """The status of a source; None if it isn't a file on disk."""
    if is_elsewhere(source):
        return None
    if isinstance(source, (str, os.PathLike)):
        return _Status.of(os.stat(source))  # noqa: PTH116 (a Path costs more than all the rest)
    if _is_on_disk(source) and not source.closed:
        return _Status.of(os.fstat(source.fileno()))
    return None


def _is_on_disk(source: Source) -> TypeGuard[BinaryIO]:
    """Whether a source is an opened file on disk; the ``fileno()`` of a GzipFile belongs to another file."""
    return isinstance(getattr(source, "raw", source), io.FileIO)


def _label(source: Source) -> str:
    if isinstance(source, (str, os.PathLike)):
        return name_of(os.fsdecode(source))
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else UNNAMED


class _Loaded(NamedTuple):
    """The bytes of a source; if they are mapped, also the map and the file's status then."""

    data: memoryview
    map: mmap.mmap | None = None
    status: _Status = NO_FILE


def _load(source: Source) -> _Loaded:
    if isinstance(source, Mapped):
        return _Loaded(source.data[:])
    source, place = placed(source)
    if place is not None:
        from archive.io.remote import copied, opened_remote  # noqa: PLC0415 (remote files only)

        with closing(opened_remote(place)) as remote, copied(remote) as file:
            return _map(file)
    if isinstance(source, (str, os.PathLike)):
        with regular_file(source) as opened:
            return _map(opened)
    try:
        return _Loaded(_bytes(memoryview(cast("ReadableBuffer", source))))
    except TypeError:  # not a buffer, so a file
        file = cast("BinaryIO", source)
    if _is_on_disk(file):
        return _map(file)
    if file.seekable():
        file.seek(0)
    return _Loaded(_bytes(memoryview(file.read())))


def regular_file(path: str | os.PathLike[str]) -> io.FileIO:
    """A regular file, opened."""
    mode = os.stat(path).st_mode  # noqa: PTH116 (a Path costs more than all the rest)
    if not stat.S_ISREG(mode):
        raise ArchiveError(expected="a file", found=stat.filemode(mode), file=one_line(_label(path)))
    return io.FileIO(os.fspath(path))


def read_whole(path: str | os.PathLike[str]) -> bytes:
    """All bytes of a small file that a command needs besides its inputs: a list, settings, secrets.

    For a pipe, all bytes up to its end; none if nobody writes to it.
    """

    def opened(path: str, flags: int) -> int:
        """Open a file; a pipe without waiting for a writer."""
        descriptor = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
        if hasattr(os, "O_NONBLOCK"):
            os.set_blocking(descriptor, True)
        return descriptor

    with open(path, "rb", opener=opened) as file:
        data = file.read(SMALL_BYTES + 1)
    if len(data) > SMALL_BYTES:
        raise ArchiveError(f"has more than {SMALL_BYTES:,} bytes", file=os.fspath(path))
    return data


def _map(file: BinaryIO | io.FileIO) -> _Loaded:
    file.flush()
    status = os.fstat(file.fileno())
    if not stat.S_ISREG(status.st_mode):
        return _Loaded(_bytes(memoryview(_read(file))))
    if not status.st_size:
        return _Loaded(memoryview(b""))
    with named(_label(file)):
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    return _Loaded(memoryview(mapped), mapped, _Status.of(status))


def _read(file: BinaryIO | io.FileIO) -> bytes:
    """The rest of a file; errors name it."""
    with named(_label(file)):
        return file.read() or b""


def _bytes(view: memoryview) -> memoryview:
    """The same memory, as bytes that are read only."""
    return view.cast("B").toreadonly() if view.nbytes else memoryview(b"")
