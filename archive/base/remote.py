"""Files elsewhere, by fsspec URLs: read by ranges, and always the same version.

fsspec knows the places: ``s3://``, ``gs://``, ``https://``, ``memory://`` and more; the package of a scheme
is the user's to install. Of each answer it is checked that it is whole, and of the version that was opened.
An HTTP server names the version (ETag, Last-Modified, size) in the answer itself; S3 is asked for this
version alone (``If-Match``); elsewhere the file's facts are asked for again after each range.
"""

from __future__ import annotations

import errno
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from archive.base.errors import ArchiveError, one_line
from archive.base.ranged import BLOCK
from archive.base.urls import is_url, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CHANGED = "the file changed while it was read; nothing is written"
EXTRA = "files by URL need fsspec: `pip install 'debug-archive[fleet]'`"
WHOLE = 1 << 26
"""Bytes of a file, at most, that is read whole where a server knows no ranges."""
LONGEST_CAUSE = 200
"""Characters of another library's message that are told."""
VERSION_FACTS = (
    "size",
    "ETag",
    "etag",
    "Content-MD5",
    "Digest",
    "Last-Modified",
    "LastModified",
    "last_modified",
    "modified",
    "updated",
    "mtime",
    "created",
    "generation",
    "md5Hash",
    "crc32c",
    "VersionId",
    "sha",
)
"""Facts by which file systems of fsspec tell the versions of a file."""
CERTAIN_FACTS = {"ETag", "etag", "Content-MD5", "Digest", "generation", "md5Hash", "VersionId", "sha"}
"""Those that are others for each version. Times may be of a second, in which two versions were written."""
PARTIAL, UNSATISFIABLE = 206, 416
"""Status of an answer with a range, and of one that says that the file has no such bytes."""
CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


class Version(NamedTuple):
    """A version of a file elsewhere.

    Attributes:
        file_system: a number for it and its options.
        path: the file's path in it.
        facts: those that tell versions apart.
    """

    file_system: int
    path: str
    facts: tuple[tuple[str, str], ...]

    @property
    def is_certain(self) -> bool:
        """Whether no other version has these facts."""
        return any(key in CERTAIN_FACTS and not value.startswith("W/") for key, value in self.facts)


class RemoteFile(Protocol):
    """A file that is read by ranges.

    Attributes:
        name: its URL for messages.
        size: in bytes.
        head: its first bytes, as far as they are known.
        version: that which was opened.
    """

    name: str
    size: int
    head: bytes
    version: Version

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from one place to another, all of them.

        Raises:
            ArchiveError: the file changed, or the answer is not whole.
            OSError: they cannot be read.
        """

    def check_unchanged(self) -> None:
        """Refuse a file that is not the version that was opened.

        Raises:
            ArchiveError: it is not.
            OSError: it cannot be read any more.
        """

    def close(self) -> None:
        """Close it."""


class Location:
    """A place of a file system of fsspec.

    Args:
        source: a URL, or a file that fsspec opened.

    Attributes:
        name: its URL for messages.
        fs: the file system.
        path: the path in it.
        schemes: the schemes of the file system.

    Raises:
        ArchiveError: fsspec, or the package of the scheme, is not installed; or there is no such scheme.
    """

    def __init__(self, source: Any) -> None:  # noqa: ANN401 (an fsspec file has no type)
        if is_url(source):
            self.name = one_line(shown(source))
            self.fs, self.path = _located(source, self.name)
        else:
            self.fs, self.path = source.fs, source.path
            self.name = one_line(shown(self.fs.unstrip_protocol(self.path)))
        protocol = self.fs.protocol
        self.schemes = {protocol} if isinstance(protocol, str) else set(protocol)

    @property
    def is_local(self) -> bool:
        """Whether the path is one of this machine."""
        return "file" in self.schemes

    @property
    def is_http(self) -> bool:
        """Whether an HTTP server has the file."""
        return "http" in self.schemes

    @property
    def is_s3(self) -> bool:
        """Whether S3 has the file, or what speaks its language."""
        return "s3" in self.schemes

    def facts(self) -> dict[str, Any]:
        """What the file system says of the file now; raises whatever it raises."""
        self.fs.invalidate_cache(self.path)
        facts: dict[str, Any] = self.fs.info(self.path)
        return facts

    def exists(self) -> bool:
        """Whether there is such a file or folder now; raises whatever the file system raises."""
        try:
            self.facts()
        except FileNotFoundError:
            return False
        return True

    def version(self, facts: Mapping[str, Any]) -> Version:
        """The version of the file that has such facts."""
        told = tuple((key, str(facts[key])) for key in VERSION_FACTS if facts.get(key) is not None)
        return Version(hash(self.fs), self.path, told)

    @contextmanager
    def told(self, doing: str = "read") -> Iterator[None]:
        """Turn whatever a file system raises into one error that names the URL and shows no secrets.

        Raises:
            ArchiveError: the block's own, or the file changed.
            OSError: the file cannot be read or written; ``FileNotFoundError``: there is none.
        """
        try:
            yield
        except (ArchiveError, MemoryError, RecursionError):
            raise
        except FileNotFoundError:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), self.name) from None
        except FileExistsError:
            raise
        except Exception as error:  # noqa: BLE001 (each file system raises what its library does)
            if type(error).__name__ == "FileExpired":  # of s3fs, which need not be installed
                raise ArchiveError(CHANGED, file=self.name) from None
            text = shown(str(error).replace(self.path, self.name)) or "no reason given"
            cause = one_line(f"{type(error).__name__}: {text}")[:LONGEST_CAUSE]
            raise OSError(errno.EIO, f"cannot be {doing}: {cause}", self.name) from None


def _located(url: str, name: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 (an optional package, for URLs alone)
    except ImportError:
        raise ArchiveError(EXTRA, file=name) from None
    try:
        fs, path = url_to_fs(url)
    except ImportError as error:
        raise ArchiveError(f"{url.partition('://')[0]}:// needs a package: {error}", file=name) from None
    except ValueError as error:
        raise ArchiveError(f"no such place: {shown(str(error))}", file=name) from None
    return fs, path


def opened_remote(place: Location) -> RemoteFile:
    """Open a file, which costs one or two requests.

    Raises:
        ArchiveError: the server's answer makes no sense, or is a large file as a whole.
        OSError: it cannot be read.
    """
    return _HttpFile(place) if place.is_http else _StoredFile(place)


class _StoredFile:
    """A file of any file system of fsspec but HTTP."""

    head = b""

    def __init__(self, place: Location) -> None:
        self.name = place.name
        self._place = place
        with place.told():
            place.fs.invalidate_cache(place.path)
            self._file = place.fs.open(place.path, "rb", cache_type="none")
            facts = getattr(self._file, "details", None) or place.facts()  # of which S3 is asked once
            if facts.get("type") == "directory":
                raise ArchiveError(expected="a file", found="a folder", file=self.name)
            self.version = place.version(facts)
            self.size = int(facts["size"])

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from one place to another, all of them."""
        with self._place.told():
            self._file.seek(start)
            data: bytes = self._file.read(stop - start)
        if not self._place.is_s3:  # which is asked for the version that was opened
            self.check_unchanged()
        _check_whole(self.name, data, stop - start)
        return data

    def check_unchanged(self) -> None:
        """Refuse a file that is not the version that was opened."""
        with self._place.told():
            now = self._place.version(self._place.facts())
        if now != self.version:
            raise ArchiveError(CHANGED, file=self.name)

    def close(self) -> None:
        """Close the file."""
        with self._place.told("closed"):
            self._file.close()


def _check_whole(name: str, data: bytes, size: int) -> None:
    """Refuse an answer that was cut short, or is longer than asked for.

    Raises:
        ArchiveError: it is.
    """
    if len(data) != size:
        raise ArchiveError(
            "the answer is not whole", expected=f"{size:,} bytes", found=f"{len(data):,}", file=name
        )


class _Answer:
    """The facts of an HTTP server's answer, and its bytes.

    Attributes:
        start: first byte; 0 for the file as a whole.
        size: of the whole file, in bytes; None where the server does not say.
        facts: ETag and Last-Modified, where the server tells them.
        data: the bytes.
    """

    def __init__(self, status: int, headers: Any) -> None:  # noqa: ANN401 (of aiohttp, which is optional)
        self.is_partial = status == PARTIAL
        self.start, self.size = 0, None
        span = CONTENT_RANGE.fullmatch(headers.get("Content-Range", ""))
        if self.is_partial:
            self.start, self.size = (int(span[1]), int(span[2])) if span else (-1, None)
        elif "Content-Length" in headers:
            self.size = int(headers["Content-Length"])
        self.facts = {name: headers[name] for name in ("ETag", "Last-Modified") if name in headers}
        self.data = b""


class _HttpFile:
    """A file of an HTTP server. The first range brings size and version, so HEAD is not needed."""

    def __init__(self, place: Location) -> None:
        self.name = place.name
        self._place = place
        self._whole: bytes | None = None
        first = self._ask(0, BLOCK)
        if first.is_partial:
            if first.start or first.size is None:
                raise ArchiveError("the server does not say which bytes it sends", file=self.name)
            self.size, self.head = first.size, first.data
            _check_whole(self.name, self.head, min(BLOCK, self.size))
        else:
            self.size, self.head = len(first.data), first.data
            self._whole = first.data
        self.version = place.version({**first.facts, "size": self.size})

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from one place to another, all of them."""
        if self._whole is not None:
            return self._whole[start:stop]
        answer = self._ask(start, stop)
        if self._place.version({**answer.facts, "size": answer.size}) != self.version:
            raise ArchiveError(CHANGED, file=self.name)
        if answer.start != start or not answer.is_partial:
            raise ArchiveError("the server sends other bytes than were asked for", file=self.name)
        _check_whole(self.name, answer.data, stop - start)
        return answer.data

    def check_unchanged(self) -> None:
        """Refuse a file that is not the version that was opened; one that was read whole is at hand."""
        if self._whole is None and self.size:
            self.read(0, 1)

    def close(self) -> None:
        """Nothing is open between requests."""

    def _ask(self, start: int, stop: int) -> _Answer:
        from fsspec.asyn import sync  # noqa: PLC0415 (an optional package, for URLs alone)

        with self._place.told():
            answer: _Answer = sync(self._place.fs.loop, self._answer, start, stop)
        return answer

    async def _answer(self, start: int, stop: int) -> _Answer:
        """Ask for a range; the server may send the whole file, which is read if it is small."""
        fs = self._place.fs
        options = dict(fs.kwargs)
        asked = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        options["headers"] = {**options.get("headers", {}), **asked}
        session = await fs.set_session()
        async with session.get(fs.encode_url(self._place.path), **options) as reply:
            if reply.status == UNSATISFIABLE and not start:
                return _Answer(200, {"Content-Length": "0"})  # an empty file
            fs._raise_not_found_for_status(reply, self._place.path)  # noqa: SLF001 (no public name)
            answer = _Answer(reply.status, reply.headers)
            most = stop - start if answer.is_partial else WHOLE
            if not answer.is_partial and (answer.size or 0) > WHOLE:
                raise ArchiveError(
                    f"the server sends whole files only, and this one has {answer.size:,} bytes; "
                    "download it first",
                    file=self.name,
                )
            pieces, size = [], 0
            async for piece in reply.content.iter_chunked(BLOCK):
                pieces.append(piece)
                size += len(piece)
                if size > most:
                    raise ArchiveError("the server sends more bytes than it says", file=self.name)
        answer.data = b"".join(pieces)
        if not answer.is_partial and answer.size not in (None, size):
            _check_whole(self.name, answer.data, answer.size or 0)
        return answer
