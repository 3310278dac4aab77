"""Requests to a server, each bounded in time and size, and tried again where the server asks for it.

It is HTTP as Python has it; connections, redirections and answers draw from the budget of one request.
"""

from __future__ import annotations

import http.client
import io
import socket
import time
from concurrent.futures import Future
from functools import partial
from threading import Thread
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
from urllib.response import addinfourl

from archive.base.deadline import LateError, has_deadline, seconds_left
from archive.base.errors import ArchiveError, in_file, one_line
from archive.base.json_text import parsed_json
from archive.io.patience import SECONDS, prolonged, too_slow
from archive.io.urls import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from http.client import HTTPMessage
    from typing import IO

    from _typeshed import WriteableBuffer


# --- budget

SECONDS_OF_SILENCE = 30.0
"""Seconds in which a server must say something, or it is asked again."""
BESIDE_BODIES = 1 << 20
"""Bytes of everything but bodies: headers, bodies of redirections and refusals, sizes of chunks."""
BESIDE_A_BYTE = 16
"""For each run of this many bytes of a body, one more may come beside it."""


class RequestBudget:
    """What is left of a request's time and bytes for all its tries, redirections, headers and bodies."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._end = clock() + seconds
        self._room = BESIDE_BODIES

    @property
    def silence(self) -> float:
        """Seconds that the next call of the system may take."""
        left = self._end - self._clock()
        if left <= 0:
            raise self.late()
        return min(left, SECONDS_OF_SILENCE)

    @property
    def is_spent(self) -> bool:
        """Whether no time is left."""
        return self._clock() >= self._end

    def late(self) -> ArchiveError | LateError:
        """The error of a request that takes too long: not the server's where the work has a deadline."""
        return LateError() if has_deadline() else ArchiveError(too_slow(self._seconds))

    def prolong(self, count: int) -> None:
        """Add the time that received or sent bytes grant."""
        now = self._clock()
        self._end = now + seconds_left(prolonged(self._end - now, count, self._seconds))

    def wait(self, seconds: float) -> None:
        """Wait before another try."""
        if self._clock() + seconds >= self._end:
            raise self.late()
        time.sleep(seconds)

    def take(self, count: int) -> None:
        """Count bytes that were received."""
        self.prolong(count)
        self._room -= count
        if self._room < 0:
            raise ArchiveError(f"sent more than {BESIDE_BODIES:,} bytes besides the body")

    def give(self, count: int) -> None:
        """Give bytes back that were a body's: they have a bound of their own."""
        self._room += count + count // BESIDE_A_BYTE


# --- transport

PIECE = 1 << 16
"""Bytes that are sent, or received, at once."""


def opener_of(budget: RequestBudget) -> OpenerDirector:
    """What opens one request, and never a file, as ``urlopen`` would."""
    opener = OpenerDirector()
    others = (HTTPErrorProcessor(), HTTPDefaultErrorHandler(), UnknownHandler())
    for handler in (ProxyHandler(), _Requests(budget), _Redirections(), *others):
        opener.add_handler(handler)
    return opener


class _Received(io.RawIOBase):
    """What a socket receives, within the budget.

    A socket's own timeout restarts with each byte: a server that sends single bytes would last for days.
    """

    def __init__(self, raw: io.RawIOBase, socket: socket.socket, budget: RequestBudget) -> None:
        self._raw = raw
        self._socket = socket
        self._budget = budget

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        """Receive bytes."""
        self._socket.settimeout(self._budget.silence)
        try:
            count = self._raw.readinto(buffer)
        except TimeoutError:
            if self._budget.is_spent:
                raise self._budget.late() from None
            raise
        self._budget.take(count or 0)
        return count

    def close(self) -> None:
        """Close the socket's file."""
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    """An answer whose headers and body are within the budget."""

    def __init__(self, sock: socket.socket, *arguments: Any, budget: RequestBudget, **named: Any) -> None:  # noqa: ANN401 (http's)
        super().__init__(sock, *arguments, **named)
        self.fp = io.BufferedReader(_Received(self.fp.detach(), sock, budget))


class _Bounded(http.client.HTTPConnection):
    """A connection that is made, and sends, within the budget."""

    def __init__(self, *arguments: Any, budget: RequestBudget, **named: Any) -> None:  # noqa: ANN401 (http's)
        super().__init__(*arguments, **named)
        self._budget = budget
        self.response_class = partial(_Response, budget=budget)  # type: ignore[assignment]
        self._create_connection = self._connected

    def _connected(self, address: tuple[str, int], *_: object) -> socket.socket:
        """A socket to the first address of a name that answers; all of them share the time."""
        failed = OSError(f"no address of {address[0]}")
        for family, kind, protocol, _name, place in self._addresses(*address):
            connection = socket.socket(family, kind, protocol)
            try:
                connection.settimeout(self._budget.silence)
                connection.connect(place)
                connection.settimeout(self._budget.silence)  # for the handshake of TLS as a whole
            except OSError as error:
                connection.close()
                failed = error
            except BaseException:
                connection.close()
                raise
            else:
                return connection
        raise failed

    def _addresses(self, host: str, port: int) -> list[Any]:
        """The addresses of a name. ``getaddrinfo`` knows no bound of time, so another thread waits for it."""
        addresses = Future[list[Any]]()

        def search() -> None:
            try:
                addresses.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            except Exception as error:  # noqa: BLE001 (whoever waits raises it)
                addresses.set_exception(error)

        Thread(target=search, daemon=True).start()
        try:
            return addresses.result(self._budget.silence)
        except TimeoutError:
            if self._budget.is_spent:
                raise self._budget.late() from None
            raise TimeoutError(f"no address of {host} was found in time") from None

    def send(self, data: Any) -> None:  # noqa: ANN401 (http's)
        """Send bytes, in pieces that each have the time that is left."""
        for start in range(0, len(data), PIECE):
            if self.sock is not None:
                self.sock.settimeout(self._budget.silence)
            piece = memoryview(data)[start : start + PIECE]
            super().send(piece)
            self._budget.prolong(len(piece))


class _BoundedEncrypted(_Bounded, http.client.HTTPSConnection):
    """The same with TLS."""


class _Requests(HTTPHandler, HTTPSHandler):
    def __init__(self, budget: RequestBudget) -> None:
        super().__init__()
        self._budget = budget

    def http_open(self, req: Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_Bounded, budget=self._budget), req)

    def https_open(self, req: Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_BoundedEncrypted, budget=self._budget), req)


class _Redirections(HTTPRedirectHandler):
    """Follows redirections, without reading their bodies or sending a token; none from TLS to plain HTTP."""

    def redirect_request(  # noqa: PLR0917 (urllib's)
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """The request that a redirection asks for."""
        if req.type == "https" and not newurl.lower().startswith("https:"):
            why = f"{msg} - a redirection from https to {newurl.partition(':')[0]} is not allowed"
            raise HTTPError(req.full_url, code, why, headers, fp)
        followed = super().redirect_request(req, fp, code, msg, headers, newurl)
        if followed is not None:
            followed.remove_header("Authorization")
        return followed

    def http_error_302(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage) -> Any:  # noqa: ANN401 (urllib's)
        """Follow a redirection; what stands in it is not read."""
        unread = addinfourl(io.BytesIO(), headers, req.full_url, code)
        fp.close()
        return super().http_error_302(req, unread, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


# --- connection

TRIES = 4
LONGEST_WAIT = 10.0
"""Seconds between two tries."""
MOST_OF_PROBLEM = 1 << 16
"""Bytes of a refusal that are read."""
MOST_OF_FACTS = 1_000
"""Values of a refusal."""
BUSY = 503
NOT_MODIFIED = 304
UNAUTHORIZED = 401
NOT_FOUND = 404


class Reply(NamedTuple):
    """An answer."""

    status: int
    data: bytes


class Connection:
    """Asks a server; what follows the host in its URL is the beginning of all paths."""

    def __init__(self, url: str) -> None:
        self.name = shown(url).rstrip("/")
        try:
            parts = urlsplit(url)
            _ = parts.port  # a number, or none
        except ValueError as error:
            raise ArchiveError(f"isn't an address: {error}", file=self.name) from None
        if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
            raise ArchiveError(expected="an address like http://host:8080", found=self.name)
        if parts.username is not None:
            raise ArchiveError("an address has no place for users and passwords", file=self.name)
        self._base = url.rstrip("/")

    def ask(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        most: int,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
    ) -> Reply:
        """The answer to a request, of ``most`` bytes at most."""
        url = f"{self._base}{path}" + (f"?{urlencode(query)}" if query else "")
        method = "GET" if body is None else "PUT"
        request = Request(url, body, dict(headers or {}), method=method)  # noqa: S310 (only http and https)
        budget = RequestBudget(seconds_left(SECONDS))
        for left in reversed(range(TRIES)):
            try:
                return self._reply(request, most, budget)
            except _AgainError as again:
                if not left:
                    raise ArchiveError(again.why, file=self.name) from None
                with in_file(self.name):
                    budget.wait(again.seconds)
        raise AssertionError  # the last try returns or raises

    def _reply(self, request: Request, most: int, budget: RequestBudget) -> Reply:
        """The answer to one try."""
        try:
            with in_file(self.name), opener_of(budget).open(request, timeout=SECONDS_OF_SILENCE) as response:
                return Reply(response.status, self._body(response, most, budget))
        except HTTPError as error:
            with error, in_file(self.name):
                return self._refused(error)
        # A ValueError is of what the server says: a redirection to no address, a chunk of -5 bytes.
        except (URLError, http.client.HTTPException, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            why = f"cannot be reached: {one_line(str(reason) or type(reason).__name__)}"
            raise _AgainError(why, 1.0) from None

    def _refused(self, error: HTTPError) -> Reply:
        """What a refusal says. "Not modified" comes as one, and is an answer."""
        if error.code == NOT_MODIFIED:
            return Reply(NOT_MODIFIED, b"")
        why = f"{error.code}: {_detail(error)}"
        if error.code == BUSY:
            raise _AgainError(why, _seconds(error.headers.get("Retry-After", "")))
        raise ServerRefusal(error.code, why, self.name)

    def _body(self, response: http.client.HTTPResponse, most: int, budget: RequestBudget) -> bytes:
        """A body, read to its end."""
        data = bytearray()
        while piece := response.read(PIECE):
            data += piece
            budget.give(len(piece))
            if len(data) > most:
                raise ArchiveError(f"an answer of more than {most:,} bytes", file=self.name)
        if response.length:  # what is still to come after the end
            raise http.client.IncompleteRead(b"", response.length)
        return bytes(data)


class ServerRefusal(ArchiveError):  # noqa: N818 (what the server says)
    """A server's refusal."""

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
    """The sentence of a refusal; its title where it isn't a problem of RFC 9457."""
    try:
        data = error.read(MOST_OF_PROBLEM)
    except (ValueError, OSError, http.client.HTTPException):
        data = b""
    try:
        detail = parsed_json(data, MOST_OF_FACTS)["detail"]
    except (ArchiveError, LookupError, TypeError):
        detail = getattr(error, "reason", "")
    return one_line(shown(str(detail)))


def _seconds(retry_after: str) -> float:
    return min(float(retry_after), LONGEST_WAIT) if retry_after.isdecimal() else 1.0
