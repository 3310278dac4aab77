"""Files of HTTP servers, read by ranges.

A request for a range brings the size of the file, its version and its first bytes at once. So presigned URLs,
which are for one method, serve; and so do servers without HEAD.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError
from archive.base.location import CHANGED, check_whole
from archive.base.ranged import BLOCK

if TYPE_CHECKING:
    from archive.base.location import Location

WHOLE = 1 << 26
"""Bytes of a file, at most, that is read whole where a server knows no ranges."""
PARTIAL, UNSATISFIABLE = 206, 416
"""Status of an answer with a range, and of one that says that the file has no such bytes."""
CONTENT_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


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
            check_whole(self.name, answer.data, answer.size or 0)
        return answer
