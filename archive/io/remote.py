"""Remote files: their bytes by ranges, all of the version that was opened, and local copies of them.

An open file stays at one version. Each answer must be complete, and of the version that was opened. An HTTP
server names the version (ETag, Last-Modified, size) in the answer itself, and so does S3; for others the
file's facts are asked for again after each range.

From HTTP servers, one request for a range brings the size of the file, its version and its first bytes. So
presigned URLs, which are for one method, work; and so do servers without HEAD.

Work that reads all of a file copies it into an unnamed file in the folder for temporary files. The last
copies are kept as long as the process runs, so that a file that is read twice, or read back after a put, is
fetched once. A kept copy is used only if the remote file is still of its version.
"""

from __future__ import annotations

import os
import re
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, cast

from archive.base.errors import CHANGED, ArchiveError
from archive.io.patience import Patience
from archive.io.ranged import AT_ONCE, BLOCK
from archive.io.s3 import S3Object

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.io.location import Location, Version

WHOLE = 1 << 26
"""Most bytes of a file that is read as a whole if an HTTP server knows no ranges."""
PARTIAL, UNSATISFIABLE = 206, 416
"""Status of an HTTP answer with a range, and of one that says that the file has no such bytes."""
CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")
KEPT_BYTES, KEPT_FILES = 1 << 30, 8
"""Most bytes of all copies that are kept, and their number."""


def check_whole(name: str, data: bytes, size: int) -> None:
    """Refuse an answer that was cut short, or is longer than asked for."""
    if len(data) != size:
        raise ArchiveError(
            "the answer is not whole", expected=f"{size:,} bytes", found=f"{len(data):,}", file=name
        )


class RemoteFile(Protocol):
    """A file that is read by ranges, and its ``head``: the first bytes, as far as known."""

    name: str
    size: int
    head: bytes
    version: Version

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from one place to another, all of them."""

    def check_unchanged(self) -> None:
        """Refuse a file that has changed since it was opened."""

    def close(self) -> None:
        """Close it."""


def opened_remote(place: Location) -> RemoteFile:
    """Open a file, which takes one or two requests."""
    return HttpFile(place) if place.is_http else _StoredFile(place)


class CappedFile:
    """A file of which at most some bytes are fetched."""

    def __init__(self, file: RemoteFile, most: int) -> None:
        self.name, self.size, self.head, self.version = file.name, file.size, file.head, file.version
        self._file, self._most, self._left = file, most, most

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from one place to another, all of them; refuses too many bytes in total."""
        if stop - start > self._left:
            raise ArchiveError(f"takes more than {self._most:,} bytes of a remote file", file=self.name)
        self._left -= stop - start
        return self._file.read(start, stop)

    def check_unchanged(self) -> None:
        """Refuse a file that has changed since it was opened."""
        self._file.check_unchanged()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class _StoredFile:
    """A file on any of fsspec's file systems except HTTP."""

    head = b""

    def __init__(self, place: Location) -> None:
        self.name = place.name
        self._place = place
        fs = place.fs
        with place.naming_errors():
            fs.invalidate_cache(place.path)
            self._file = None if fs.async_impl else fs.open(place.path, "rb", cache_type="none")
            facts = getattr(self._file, "details", None) or place.facts()
            if facts.get("type") == "directory":
                raise ArchiveError(expected="a file", found="a folder", file=self.name)
            self.version = place.version(facts)
            self.size = int(facts["size"])
            has_tag = place.is_s3 and facts.get("ETag")
            self._object = S3Object(fs, place.path, facts, self.name) if has_tag else None

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from one place to another, all of them."""
        if start == stop:
            return b""
        with self._place.naming_errors():
            data = self._range(start, stop)
        if self._object is None:  # else its answer names the version
            self.check_unchanged()
        check_whole(self.name, data, stop - start)
        return data

    def _range(self, start: int, stop: int) -> bytes:
        """The bytes, as far as the answer has them."""
        if self._object is not None:
            return self._object.read(start, stop)
        if self._file is not None:
            self._file.seek(start)
            return cast("bytes", self._file.read(stop - start))
        place, size = self._place, stop - start
        return cast("bytes", place.ask("cat_file", place.path, start=start, end=stop, moved=size))

    def check_unchanged(self) -> None:
        """Refuse a file that has changed since it was opened."""
        with self._place.naming_errors():
            now = self._place.version(self._place.facts())
        if now != self.version:
            raise ArchiveError(CHANGED, file=self.name)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            with self._place.naming_errors("closed"):
                self._file.close()


class _Answer:
    """The facts of an HTTP server's answer, and its bytes; ``size`` is the whole file's, if known."""

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
        """Refuse a file that has changed since it was opened, unless it was read as a whole."""
        if self._whole is None and self.size:
            self.read(0, 1)

    def close(self) -> None:
        """Nothing is open between requests."""

    def _ask(self, start: int, stop: int) -> _Answer:
        patience = Patience(self._place.fs)
        with self._place.naming_errors():
            return patience.run(self._answer, start, stop, patience)

    async def _answer(self, start: int, stop: int, patience: Patience) -> _Answer:
        """Ask for a range; the server may send the whole file, which is read if it is small."""
        from aiohttp import ClientTimeout  # noqa: PLC0415 (an optional package, for HTTP only)

        fs = self._place.fs
        options = dict(fs.kwargs)
        if "timeout" not in fs.client_kwargs:
            options.setdefault("timeout", ClientTimeout())  # not its 5 minutes for any answer
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
            answer.data = await patience.gathered(reply.content.iter_chunked(BLOCK), most, self.name)
        if not answer.is_partial and answer.size is not None:
            check_whole(self.name, answer.data, answer.size)
        return answer


class CopyCache:
    """The kept copies, by the version of the file, in the order of their last use."""

    def __init__(self, room: int, most: int) -> None:
        self._room, self._most = room, most
        self._kept: dict[Version, tuple[int, int]] = {}
        """The descriptor and the size of each."""

    def opened(self, version: Version) -> BinaryIO | None:
        """The copy of a version, opened; None if none is kept."""
        if version not in self._kept:
            return None
        self._kept[version] = self._kept.pop(version)
        file = os.fdopen(os.dup(self._kept[version][0]), "rb")
        file.seek(0)
        return file

    def keep(self, version: Version, file: BinaryIO, size: int) -> None:
        """Keep a file under its own descriptor, if it is not too large and its version is certain."""
        if not version.is_certain or size > self._room or version in self._kept:
            return
        self._kept[version] = (os.dup(file.fileno()), size)
        while len(self._kept) > self._most or sum(size for _, size in self._kept.values()) > self._room:
            descriptor, _ = self._kept.pop(next(iter(self._kept)))
            os.close(descriptor)


KEPT = CopyCache(KEPT_BYTES, KEPT_FILES)


@contextmanager
def copied(remote: RemoteFile) -> Iterator[BinaryIO]:
    """A copy of a remote file, to be mapped."""
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
