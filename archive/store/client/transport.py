"""HTTP as Python has it, whose connections, redirections and answers draw from the budget of one request."""

from __future__ import annotations

import http.client
import io
import socket
from concurrent.futures import Future
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any
from urllib.error import HTTPError
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

if TYPE_CHECKING:
    from http.client import HTTPMessage
    from typing import IO

    from _typeshed import WriteableBuffer

    from archive.store.client.budget import Budget

PIECE = 1 << 16
"""Bytes that are sent, or received, at once."""


def opener_of(budget: Budget) -> OpenerDirector:
    """What opens one request, and follows no address to a file, as ``urlopen`` would."""
    opener = OpenerDirector()
    others = (HTTPErrorProcessor(), HTTPDefaultErrorHandler(), UnknownHandler())
    for handler in (ProxyHandler(), _Plain(budget), _Encrypted(budget), _Redirections(), *others):
        opener.add_handler(handler)
    return opener


class _Received(io.RawIOBase):
    """What a socket receives, within the budget.

    A socket's own timeout starts anew with each byte: a server that sends single bytes would last for days.

    Args:
        raw: the socket's file.
        socket: the socket.
        budget: what is left.
    """

    def __init__(self, raw: io.RawIOBase, socket: socket.socket, budget: Budget) -> None:
        self._raw = raw
        self._socket = socket
        self._budget = budget

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int | None:
        """Receive bytes.

        Raises:
            ArchiveError: the time is over, or more bytes come than may.
        """
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

    def __init__(self, sock: socket.socket, *arguments: Any, budget: Budget, **named: Any) -> None:  # noqa: ANN401 (http's)
        super().__init__(sock, *arguments, **named)
        self.fp = io.BufferedReader(_Received(self.fp.detach(), sock, budget))


class _Bounded(http.client.HTTPConnection):
    """A connection that is made, and sends, within the budget."""

    def __init__(self, *arguments: Any, budget: Budget, **named: Any) -> None:  # noqa: ANN401 (http's)
        super().__init__(*arguments, **named)
        self._budget = budget
        self.response_class = partial(_Response, budget=budget)  # type: ignore[assignment]
        self._create_connection = self._connected

    def _connected(self, address: tuple[str, int], *_: object) -> socket.socket:
        """A socket to the first address of a name that answers; all of them share the time."""
        failed = OSError(f"no address of {address[0]}")
        for family, kind, protocol, _name, place in self._addresses(*address):
            found = socket.socket(family, kind, protocol)
            try:
                found.settimeout(self._budget.silence)
                found.connect(place)
                found.settimeout(self._budget.silence)  # for the handshake of TLS as a whole
            except OSError as error:
                found.close()
                failed = error
            except BaseException:
                found.close()
                raise
            else:
                return found
        raise failed

    def _addresses(self, host: str, port: int) -> list[Any]:
        """The addresses of a name. ``getaddrinfo`` knows no bound of time, so another thread waits for it."""
        found = Future[list[Any]]()

        def search() -> None:
            try:
                found.set_result(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
            except Exception as error:  # noqa: BLE001 (whoever waits raises it)
                found.set_exception(error)

        Thread(target=search, daemon=True).start()
        try:
            return found.result(self._budget.silence)
        except TimeoutError:
            if self._budget.is_spent:
                raise self._budget.late() from None
            raise TimeoutError(f"no address of {host} was found in time") from None

    def send(self, data: Any) -> None:  # noqa: ANN401 (http's)
        """Send bytes, in pieces that each have the time that is left."""
        for start in range(0, len(data), PIECE):
            if self.sock is not None:
                self.sock.settimeout(self._budget.silence)
            super().send(memoryview(data)[start : start + PIECE])


class _BoundedEncrypted(_Bounded, http.client.HTTPSConnection):
    """The same with TLS."""


class _Plain(HTTPHandler):
    def __init__(self, budget: Budget) -> None:
        super().__init__()
        self._budget = budget

    def http_open(self, req: Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_Bounded, budget=self._budget), req)


class _Encrypted(HTTPSHandler):
    def __init__(self, budget: Budget) -> None:
        super().__init__()
        self._budget = budget

    def https_open(self, req: Request) -> http.client.HTTPResponse:
        return self.do_open(partial(_BoundedEncrypted, budget=self._budget), req)


class _Redirections(HTTPRedirectHandler):
    """Follows redirections without reading their bodies, or sending a token; and none from TLS to none."""

    def redirect_request(  # noqa: PLR0917 (urllib's)
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        """The request that a redirection asks for.

        Raises:
            HTTPError: it is not followed.
        """
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
