"""Files elsewhere, on the file systems of fsspec: where they are, which version, and their bytes by ranges.

fsspec knows ``s3://``, ``gs://``, ``https://``, ``memory://`` and more; the package of a scheme is the user's
to install. Whatever a file system raises becomes one error that names the URL, without what may be secret.

A file that is opened stays one version. Each answer must be whole, and of the version that was opened. An
HTTP server names the version (ETag, Last-Modified, size) in the answer itself; S3 is asked for this version
only (``If-Match``); elsewhere the file's facts are asked for again after each range.

From HTTP servers, one request for a range brings the size of the file, its version and its first bytes. So
presigned URLs, which are for one method, serve; and so do servers without HEAD.

Work that reads all of a file copies it into an unnamed file in the folder for temporary files. The last
copies are kept as long as the process runs, so that a file that is read twice, or read back after it was put,
is fetched once. A kept copy is used only if the file elsewhere still is of its version.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Protocol, cast

from archive.base.errors import CHANGED, LONGEST_CAUSE, ArchiveError, one_line
from archive.base.ranged import AT_ONCE, BLOCK
from archive.base.urls import is_url, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

EXTRA = "files by URL need fsspec: `pip install 'debug-archive[fleet]'`"
UNTOLD = (LookupError, AttributeError, TypeError, NotImplementedError)
"""What file systems raise for URLs that they did not expect; their words are for programmers."""
NO_PLACES = {"data"}
"""Schemes of URLs that hold bytes, and name no place."""
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
WHOLE = 1 << 26
"""Bytes of a file, at most, that is read whole where an HTTP server knows no ranges."""
PARTIAL, UNSATISFIABLE = 206, 416
"""Status of an HTTP answer with a range, and of one that says that the file has no such bytes."""
CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
KEPT_BYTES, KEPT_FILES = 1 << 30, 8
"""Bytes of all copies that are kept, and their number."""


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
        OSError: the place cannot be reached.
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

    def kind(self) -> str:
        """``file``, ``directory``, or "" where there is neither; raises whatever the file system raises."""
        try:
            return str(self.facts()["type"])
        except FileNotFoundError:
            return ""

    def exists(self) -> bool:
        """Whether there is such a file or folder now; raises whatever the file system raises."""
        return bool(self.kind())

    def check_writable(self) -> None:
        """Refuse a place that takes no files.

        Raises:
            ArchiveError: it is an HTTP server's.
        """
        if self.is_http:
            raise ArchiveError("HTTP is for reading; write a file here and upload it", file=self.name)

    def version(self, facts: Mapping[str, Any]) -> Version:
        """The version of the file that has such facts."""
        known = tuple((key, str(facts[key])) for key in VERSION_FACTS if facts.get(key) is not None)
        return Version(hash(self.fs), self.path, known)

    @contextmanager
    def naming_errors(self, doing: str = "read") -> Iterator[None]:
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
            raise _without_secrets(error, self.path, self.name, doing) from None


def _without_secrets(error: Exception, path: str, name: str, doing: str) -> OSError:
    """An error of a file system, in one line that names the URL."""
    if isinstance(error, UNTOLD):
        cause = "fsspec knows no file by this URL"
    else:
        text = re.sub(rf"(?<!\w){re.escape(path)}(?!\w)", lambda _: name, str(error)) if path else str(error)
        cause = one_line(f"{type(error).__name__}: {shown(text) or 'no reason given'}")[:LONGEST_CAUSE]
    return OSError(errno.EIO, f"cannot be {doing}: {cause}", name)


def _located(url: str, name: str) -> tuple[Any, str]:
    """The file system of a URL, and the path in it."""
    scheme = url.partition("://")[0]
    if scheme.lower() in NO_PLACES:
        raise ArchiveError(f"no such place: {scheme}:// names no file", file=name)
    try:
        from fsspec.core import url_to_fs  # noqa: PLC0415 (an optional package, for URLs only)
    except ImportError:
        raise ArchiveError(EXTRA, file=name) from None
    try:
        fs, path = url_to_fs(url)
    except ImportError as error:
        raise ArchiveError(f"{scheme}:// needs a package: {error}", file=name) from None
    except ValueError as error:
        raise ArchiveError(f"no such place: {shown(str(error))}", file=name) from None
    except Exception as error:  # noqa: BLE001 (some file systems connect at once, and raise whatever they do)
        raise _without_secrets(error, url, name, "reached") from None
    return fs, path


def check_whole(name: str, data: bytes, size: int) -> None:
    """Refuse an answer that was cut short, or is longer than asked for.

    Raises:
        ArchiveError: it is.
    """
    if len(data) != size:
        raise ArchiveError(
            "the answer is not whole", expected=f"{size:,} bytes", found=f"{len(data):,}", file=name
        )


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


def opened_remote(place: Location) -> RemoteFile:
    """Open a file, which costs one or two requests.

    Raises:
        ArchiveError: the server's answer makes no sense, or is a large file as a whole.
        OSError: it cannot be read.
    """
    return HttpFile(place) if place.is_http else _StoredFile(place)


class CappedFile:
    """A file of which no more than some bytes are fetched.

    Args:
        file: the file.
        most: so many bytes.
    """

    def __init__(self, file: RemoteFile, most: int) -> None:
        self.name, self.size, self.head, self.version = file.name, file.size, file.head, file.version
        self._file, self._most, self._left = file, most, most

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from one place to another, all of them; refuses what would be too many together."""
        if stop - start > self._left:
            raise ArchiveError(f"takes more than {self._most:,} bytes of a file elsewhere", file=self.name)
        self._left -= stop - start
        return self._file.read(start, stop)

    def check_unchanged(self) -> None:
        """Refuse a file that is not the version that was opened."""
        self._file.check_unchanged()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _StoredFile:
    """A file of any file system of fsspec but HTTP."""

    head = b""

    def __init__(self, place: Location) -> None:
        self.name = place.name
        self._place = place
        with place.naming_errors():
            place.fs.invalidate_cache(place.path)
            self._file = place.fs.open(place.path, "rb", cache_type="none")
            facts = getattr(self._file, "details", None) or place.facts()  # of which S3 is asked once
            if facts.get("type") == "directory":
                raise ArchiveError(expected="a file", found="a folder", file=self.name)
            self.version = place.version(facts)
            self.size = int(facts["size"])

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from one place to another, all of them."""
        with self._place.naming_errors():
            self._file.seek(start)
            data: bytes = self._file.read(stop - start)
        if not self._place.is_s3:  # which is asked for the version that was opened
            self.check_unchanged()
        check_whole(self.name, data, stop - start)
        return data

    def check_unchanged(self) -> None:
        """Refuse a file that is not the version that was opened."""
        with self._place.naming_errors():
            now = self._place.version(self._place.facts())
        if now != self.version:
            raise ArchiveError(CHANGED, file=self.name)

    def close(self) -> None:
        """Close the file."""
        with self._place.naming_errors("closed"):
            self._file.close()


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


class HttpFile:
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
            check_whole(self.name, self.head, min(BLOCK, self.size))
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
        check_whole(self.name, answer.data, stop - start)
        return answer.data

    def check_unchanged(self) -> None:
        """Refuse a file that is not the version that was opened; one that was read whole is at hand."""
        if self._whole is None and self.size:
            self.read(0, 1)

    def close(self) -> None:
        """Nothing is open between requests."""

    def _ask(self, start: int, stop: int) -> _Answer:
        from fsspec.asyn import sync  # noqa: PLC0415 (an optional package, for URLs only)

        with self._place.naming_errors():
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
            check_whole(self.name, answer.data, answer.size or 0)
        return answer


class CopyCache:
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


KEPT = CopyCache(KEPT_BYTES, KEPT_FILES)


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
