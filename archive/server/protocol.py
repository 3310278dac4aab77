"""uvicorn's HTTP, in which the headers of a request must arrive in time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from archive.server.settings import SECONDS_OF_HEADERS

if TYPE_CHECKING:
    from asyncio import TimerHandle, Transport


class PromptProtocol(H11Protocol):
    """Closes a connection whose headers dawdle; uvicorn itself waits for them without end.

    Attributes:
        seconds: in which the headers must arrive.
    """

    seconds = SECONDS_OF_HEADERS
    _due: TimerHandle | None = None

    def connection_made(self, transport: Transport) -> None:  # type: ignore[override]
        """Begin a connection."""
        super().connection_made(transport)
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

    def connection_lost(self, exc: Exception | None) -> None:
        """End a connection."""
        self._cancel()
        super().connection_lost(exc)

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


def protocol_of(seconds: float) -> type[PromptProtocol]:
    """The protocol of a server whose requests may take so long."""

    class Protocol(PromptProtocol):
        """With the seconds of this server."""

    Protocol.seconds = min(seconds, SECONDS_OF_HEADERS)
    return Protocol
