"""Runs the application on uvicorn, until a signal ends it."""

from __future__ import annotations

import errno
import logging
import signal
import socket
from contextlib import contextmanager
from typing import TYPE_CHECKING

from uvicorn import Config, Server

from archive.base.errors import ArchiveError
from archive.server.app import Service
from archive.server.protocol import protocol_of
from archive.server.settings import MOST_CONNECTIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from archive.server.settings import Settings

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM)
BACKLOG = 2048
SECONDS_OF_IDLENESS = 15
"""Seconds in which a connection that is kept must be used again."""


class _Server(Server):
    """Starts and ends the service, too; a signal ends it as well as can be, and is not raised once more.

    Args:
        config: uvicorn's.
        service: the service.
        started: called when it is ready.
    """

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
        before = {one: signal.signal(one, self.handle_exit) for one in ENDING_SIGNALS}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)


def bound(host: str, port: int) -> socket.socket:
    """A socket at an address.

    Args:
        host: a name or an address, of IPv4 or IPv6.
        port: 0 for any that is free.

    Raises:
        ArchiveError: the address is taken, or none of this machine.
    """
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


def serve(settings: Settings, listening: socket.socket, started: Callable[[], None]) -> None:
    """Answer requests, until SIGINT or SIGTERM; those that have begun are finished.

    Args:
        settings: the server's.
        listening: the socket.
        started: called when all workers are ready.

    Raises:
        ArchiveError: the folder is no store.
        OSError: it cannot be read.
    """
    logging.basicConfig(format="debug-archive: %(message)s", level=logging.WARNING)
    service = Service(settings)
    config = Config(
        service.app,
        http=protocol_of(settings.seconds),
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=SECONDS_OF_IDLENESS,
        timeout_graceful_shutdown=int(settings.seconds) + 1,
    )
    _Server(config, service, started).run([listening])
