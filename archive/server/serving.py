"""Runs the application on uvicorn, until a signal ends it.

uvicorn's HTTP, within bounds: headers arrive in time, bodies not in crumbs, no client has all connections.
"""

from __future__ import annotations

import errno
import logging
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

import h11
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from archive.base.errors import ArchiveError
from archive.base.signals import ENDING_SIGNALS, handled_by
from archive.server.app import ABORT, ACCESS, Service
from archive.server.settings import (
    BYTES_OF_A_PIECE,
    LEAST_PIECES,
    MOST_OF_HEADERS,
    RETRY_AFTER,
    SECONDS_OF_GOODBYE,
    SECONDS_OF_HEADERS,
    SECONDS_OF_IDLENESS,
)

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport
    from collections.abc import Callable, Iterator

    from archive.server.connections import Connections
    from archive.server.settings import Settings

# --- protocol

TOO_MANY = (
    f"HTTP/1.1 503 Service Unavailable\r\nRetry-After: {RETRY_AFTER}\r\n"
    "Content-Length: 0\r\nConnection: close\r\n\r\n"
).encode()


CLOSE = (b"connection", b"close")


class CountedConnection(h11.Connection):
    """The state of a connection. A body may not come in many small pieces: each takes as much time as a KB.

    With ``is_last``, the headers of the next answer say that it is the connection's last one.
    """

    pieces = size = 0
    is_last = False

    def send(self, event: h11.Event) -> bytes | None:  # type: ignore[override]
        """The bytes of an event."""
        if self.is_last and isinstance(event, h11.Response) and CLOSE not in event.headers:
            headers = [*event.headers, CLOSE]
            event = h11.Response(status_code=event.status_code, headers=headers, reason=event.reason)
        return super().send(event)

    def next_event(self) -> h11.Event | type[h11.NEED_DATA | h11.PAUSED]:
        """The next event."""
        event = super().next_event()
        if isinstance(event, h11.Request):
            self.pieces = self.size = 0
        elif isinstance(event, h11.Data):
            self.pieces += 1
            self.size += len(event.data)
            if self.pieces > LEAST_PIECES + self.size // BYTES_OF_A_PIECE:
                raise h11.RemoteProtocolError("a body in pieces that are too small")
        return event


class PromptProtocol(H11Protocol):
    """Closes a connection whose headers take too many ``seconds``; uvicorn itself waits for them for ever."""

    seconds = SECONDS_OF_HEADERS
    open: Connections
    conn: CountedConnection
    _due: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin a connection."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, ABORT: transport.abort}
        self.conn = CountedConnection(h11.SERVER, MOST_OF_HEADERS)
        if not self.open.opened(self._address):
            transport.write(TOO_MANY)
            transport.close()
        self._expect()

    def data_received(self, data: bytes) -> None:
        """Take bytes of the client."""
        super().data_received(data)
        self._expect()

    def on_response_complete(self) -> None:
        """End an answer; what the client still sends of its request must come in the time of headers, too."""
        super().on_response_complete()
        if self.conn.our_state is h11.DONE:
            self._expect()
        if self.conn.is_last:
            self._say_goodbye()

    def shutdown(self) -> None:
        """Let the next answer be the last one. A connection that is idle is closed in a moment.

        Closed at once, it would be reset for a client that is just sending a request.
        """
        self.conn.is_last = True
        if not self._is_answering:
            self._say_goodbye()

    @property
    def _address(self) -> str:
        return self.client[0] if self.client else ""

    @property
    def _is_answering(self) -> bool:
        return bool(self.cycle) and not self.cycle.response_complete

    def _say_goodbye(self) -> None:
        self.loop.call_later(SECONDS_OF_GOODBYE, self._close_idle)

    def _close_idle(self) -> None:
        if not self._is_answering:
            self.timeout_keep_alive_handler()

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self._cancel()
        self.open.closed(self._address)
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """Refuse an invalid request; if it is answered already, only close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            super().send_400_response(msg)
        else:
            self.transport.close()

    def _expect(self) -> None:
        """Start the time of headers, or of the rest of a body that is answered already; else stop it."""
        is_awaited = self.conn.their_state is h11.IDLE or self.conn.our_state is h11.DONE
        if not is_awaited:
            self._cancel()
        elif self._due is None:
            self._due = self.loop.call_later(self.seconds, self.timeout_keep_alive_handler)

    def _cancel(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None


def protocol_of(seconds: float, connections: Connections) -> type[PromptProtocol]:
    """The protocol of a server whose requests may take this long, and which counts its connections."""

    class Protocol(PromptProtocol):
        """With the seconds and connections of this server."""

    Protocol.seconds = min(seconds, SECONDS_OF_HEADERS)
    Protocol.open = connections
    return Protocol


# --- serving

BACKLOG = 2048
CLOSED_EARLY = "ASGI callable returned without completing response."
"""What uvicorn says where a client did not take its answer, or the server waits no longer."""


class _Server(Server):
    """Starts and ends the service, too; a signal ends it cleanly where possible, and is not raised again."""

    def __init__(self, config: Config, service: Service, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._service = service
        self._started = started

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve until a signal comes."""
        with self.capture_signals():
            try:
                await self._service.start()
                await self._serve(sockets)
            finally:
                await self._service.stop()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take connections."""
        await super().startup(sockets)
        self._started()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals that end the server, for the time of the block."""
        with handled_by(self.handle_exit, ENDING_SIGNALS):
            yield


def bound(host: str, port: int) -> socket.socket:
    """A socket at an address; port 0 is any that is free."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except UnicodeError:
        raise ArchiveError("cannot listen: no name of a machine", file=f"{host}:{port}") from None
    except OSError as error:
        way = "; `--port` chooses another one" if error.errno in (errno.EADDRINUSE, errno.EACCES) else ""
        raise ArchiveError(f"cannot listen: {error.strerror}{way}", file=f"{host}:{port}") from None
    # asyncio sends at once where the protocol is named; else an answer waits for 40 ms (Nagle's algorithm).
    return socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP, listening.detach())


def log_access(file: str) -> None:
    """Write a line a request to the end of a file; ``-`` is standard error."""
    handler = logging.StreamHandler() if file == "-" else logging.FileHandler(file, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    ACCESS.addHandler(handler)
    ACCESS.setLevel(logging.INFO)
    ACCESS.propagate = False


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a line of uvicorn's says what the layer around the application has not said already."""
    return record.msg != CLOSED_EARLY


def serve(settings: Settings, listening: socket.socket, started: Callable[[], None]) -> None:
    """Answer requests, until SIGINT or SIGTERM; those that have begun are finished.

    ``started`` is called when all workers are ready.
    """
    logging.basicConfig(format="debug-archive: %(message)s", level=logging.WARNING)
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    service = Service(settings)
    config = Config(
        service.app,
        http=protocol_of(settings.seconds, service.connections),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=SECONDS_OF_IDLENESS,
        timeout_graceful_shutdown=int(settings.seconds) + 1,
    )
    _Server(config, service, started).run([listening])
