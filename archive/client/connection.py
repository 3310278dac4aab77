"""Requests to a server, each bounded in time and size, and tried again where the server asks for it."""

from __future__ import annotations

import http.client
import io
import json
import time
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode, urlsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    UnknownHandler,
)

from archive.base.errors import ArchiveError, in_file, one_line
from archive.base.urls import shown

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping
    from typing import IO

    from _typeshed import WriteableBuffer

SECONDS_OF_SILENCE = 30.0
"""Seconds in which a server must say something."""
SECONDS = 300.0
"""Seconds in which an answer must be complete."""
PIECE = 1 << 16
TRIES = 4
LONGEST_WAIT = 10.0
"""Seconds between two tries."""
MOST_OF_PROBLEM = 1 << 16
"""Bytes of a refusal that are read."""
BUSY = 503
NOT_MODIFIED = 304
UNAUTHORIZED = 401


class _Received(io.RawIOBase):
    """What a socket receives, until the time of an answer is over.

    A socket's own timeout starts anew with each byte: a server that sends single bytes would last for days.

    Args:
        raw: the socket's file.
        socket: the socket.
    """

    def __init__(self, raw: io.RawIOBase, socket: socket.socket) -> None:
        self._raw = raw
        self._socket = socket
        self._end = time.monotonic() + SECONDS

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        """Receive bytes.

        Raises:
            ArchiveError: the time is over.
        """
        left = self._end - time.monotonic()
        if left <= 0:
            raise self._late()
        self._socket.settimeout(min(left, SECONDS_OF_SILENCE))
        try:
            return self._raw.readinto(buffer)
        except TimeoutError:
            if left < SECONDS_OF_SILENCE:
                raise self._late() from None
            raise

    @staticmethod
    def _late() -> ArchiveError:
        return ArchiveError(f"an answer that takes more than {SECONDS:g} s")

    def close(self) -> None:
        """Close the socket's file."""
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """An answer whose headers and body arrive in time."""

    def __init__(self, sock: socket.socket, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 (http's)
        super().__init__(sock, *arguments, **named)
        self.fp = io.BufferedReader(_Received(self.fp.detach(), sock))


class _Plain(http.client.HTTPConnection):
    response_class = _Response


class _Encrypted(http.client.HTTPSConnection):
    response_class = _Response


class _PlainHandler(HTTPHandler):
    def http_open(self, req: Request) -> http.client.HTTPResponse:
        return self.do_open(_Plain, req)


class _EncryptedHandler(HTTPSHandler):
    def https_open(self, req: Request) -> http.client.HTTPResponse:
        return self.do_open(_Encrypted, req)


HANDLERS = (
    *(ProxyHandler, _PlainHandler, _EncryptedHandler),
    *(HTTPRedirectHandler, HTTPErrorProcessor, HTTPDefaultErrorHandler, UnknownHandler),
)


class Reply(NamedTuple):
    """An answer.

    Attributes:
        status: of HTTP.
        data: its body.
    """

    status: int
    data: bytes


class Connection:
    """Asks a server.

    Args:
        url: its address; what stands behind the host is the beginning of all paths.

    Attributes:
        name: the address for messages, without what is secret in it.

    Raises:
        ArchiveError: it is no address of HTTP.
    """

    def __init__(self, url: str) -> None:
        self.name = shown(url).rstrip("/")
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise ArchiveError(f"is no address: {error}", file=self.name) from None
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ArchiveError(expected="an address like http://host:8080", found=self.name)
        if parts.username is not None:
            raise ArchiveError("an address has no place for users and passwords", file=self.name)
        self._base = url.rstrip("/")
        self._opener = OpenerDirector()  # which follows no address to a file, as `urlopen` would
        for handler in HANDLERS:
            self._opener.add_handler(handler())

    def ask(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        most: int,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Reply:
        """The answer to a request.

        Args:
            path: behind the address.
            query: the parameters.
            most: bytes that it may have.
            headers: of the request.
            body: is put, where it is given.

        Raises:
            ArchiveError: the server cannot be reached, refuses, is too slow, or says too much.
        """
        url = f"{self._base}{path}" + (f"?{urlencode(query)}" if query else "")
        method = "GET" if body is None else "PUT"
        request = Request(url, body, dict(headers or {}), method=method)  # noqa: S310 (http and https alone)
        for left in reversed(range(TRIES)):
            try:
                return self._reply(request, most)
            except _AgainError as again:
                if not left:
                    raise ArchiveError(again.why, file=self.name) from None
                time.sleep(again.seconds)
        raise AssertionError  # the last try returns or raises

    def _reply(self, request: Request, most: int) -> Reply:
        """The answer to one try.

        Raises:
            _AgainError: another try may have another answer.
            ArchiveError: none will.
        """
        try:
            with in_file(self.name), self._opener.open(request, timeout=SECONDS_OF_SILENCE) as found:
                return Reply(found.status, self._body(found, most))
        except HTTPError as error:
            with error:
                return self._refused(error)
        # A ValueError is of what the server says: a redirection to no address, a chunk of -5 bytes.
        except (URLError, http.client.HTTPException, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            why = f"cannot be reached: {one_line(str(reason) or type(reason).__name__)}"
            raise _AgainError(why, 1.0) from None

    def _refused(self, error: HTTPError) -> Reply:
        """What a refusal says; that nothing has changed is none."""
        if error.code == NOT_MODIFIED:
            return Reply(NOT_MODIFIED, b"")
        why = f"{error.code}: {_detail(error)}"
        if error.code == BUSY:
            raise _AgainError(why, _seconds(error.headers.get("Retry-After", "")))
        raise ServerRefusal(error.code, why, self.name)

    def _body(self, found: http.client.HTTPResponse, most: int) -> bytes:
        """A body, read to its end.

        Raises:
            ArchiveError: it is too long, or comes too slowly.
            HTTPException: it is cut.
        """
        data = bytearray()
        while piece := found.read(PIECE):
            data += piece
            if len(data) > most:
                raise ArchiveError(f"an answer of more than {most:,} bytes", file=self.name)
        if found.length:  # what is still to come after the end
            raise http.client.IncompleteRead(b"", found.length)
        return bytes(data)


class ServerRefusal(ArchiveError):  # noqa: N818 (what the server says)
    """A server's refusal.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, status: int, why: str, file: str) -> None:
        super().__init__(why, file=file)
        self.status = status


class _AgainError(Exception):
    """A try failed; another one may not."""

    def __init__(self, why: str, seconds: float) -> None:
        super().__init__(why, seconds)
        self.why = why
        self.seconds = seconds


def _detail(error: IO[bytes]) -> str:
    """The sentence of a refusal; its title where it is no problem of RFC 9457."""
    try:
        found = json.loads(error.read(MOST_OF_PROBLEM))
        detail = found["detail"]
    except (ValueError, RecursionError, LookupError, TypeError, OSError, http.client.HTTPException):
        detail = getattr(error, "reason", "")
    return one_line(shown(str(detail)))


def _seconds(retry_after: str) -> float:
    """Seconds to wait."""
    return min(float(retry_after), LONGEST_WAIT) if retry_after.isdecimal() else 1.0
