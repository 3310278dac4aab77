"""A server that says whatever a test wants, in a thread of this process."""

from __future__ import annotations

import socket
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Said(NamedTuple):
    """An answer: its status, its body and headers, and how many bytes it says that it has."""

    status: int = 200
    data: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    length: int | None = None


@contextmanager
def saying(answer: Callable[[str, BaseHTTPRequestHandler], Said]) -> Iterator[str]:
    """A server; its address.

    Args:
        answer: a path, and the request → the answer.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            said = answer(urlsplit(self.path).path, self)
            self.send_response(said.status)
            length = len(said.data) if said.length is None else said.length
            for name, value in (("Content-Length", str(length)), *said.headers):
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said.data)

        def do_PUT(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Say nothing of requests."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def flooding(head: bytes, piece: bytes, most: int) -> Iterator[tuple[str, list[int]]]:
    """A server that answers each request with the same bytes again and again, until the client leaves.

    Args:
        head: what comes first.
        piece: what follows.
        most: bytes, at most.

    Yields:
        Its address, and the bytes that were sent in each answer.
    """
    sent: list[int] = []

    def run() -> None:
        while True:
            client, _ = listening.accept()
            with client, suppress(OSError):  # the client left
                if not client.recv(1 << 16):
                    return
                client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
                sent.append(0)
                client.sendall(head)
                while sent[-1] < most:
                    client.sendall(piece)
                    sent[-1] += len(piece)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = listening.getsockname()
        thread = Thread(target=run)
        thread.start()
        try:
            yield f"http://127.0.0.1:{address[1]}", sent
        finally:
            socket.create_connection(address).close()
            thread.join()
