"""A server that says whatever a test wants, in a thread of this process."""

from __future__ import annotations

from contextlib import contextmanager
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
