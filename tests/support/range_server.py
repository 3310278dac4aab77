"""An HTTP server of this machine that counts what is asked of it, and that may behave badly."""

from __future__ import annotations

import re
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

RANGE = re.compile(r"bytes=(\d+)-(\d+)")


@dataclass
class Served:
    """The files of a server, and how it serves them.

    Attributes:
        files: by path; memory, or the map of a file.
        ranges: whether it knows ranges.
        tags: whether it names the version of a file.
        cut: bytes that it leaves out at the end of each answer.
        before: called with the number of a request before it is answered.
        url: of the server.
        requests: paths and ranges that were asked for.
        sent: bytes of all bodies.
    """

    files: dict[str, bytes | memoryview]
    ranges: bool = True
    tags: bool = True
    cut: int = 0
    before: Callable[[int], None] = lambda _: None
    status: int | None = None
    url: str = ""
    requests: list[tuple[str, str]] = field(default_factory=list)
    sent: int = 0


@contextmanager
def served(files: Mapping[str, bytes | memoryview]) -> Generator[Served]:
    """A server of some files, for the time of the block."""
    state = Served(dict(files))

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def do_GET(self) -> None:
            asked = self.headers.get("Range", "")
            state.requests.append((self.path, asked))
            state.before(len(state.requests))
            data = state.files.get(self.path.partition("?")[0])
            if state.status or data is None:
                self._answer(state.status or 404, b"", {})
                return
            headers = {"ETag": f'"{hash(bytes(data[-64:]))}"'} if state.tags else {}
            span = RANGE.fullmatch(asked)
            if not span or not state.ranges:
                self._answer(200, data, headers)
                return
            start, stop = int(span[1]), min(int(span[2]) + 1, len(data))
            if start >= len(data):
                self._answer(416, b"", {})
                return
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{len(data)}"
            self._answer(206, data[start:stop], headers)

        def _answer(self, status: int, body: bytes | memoryview, headers: Mapping[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            kept = body[: len(body) - state.cut]
            state.sent += len(kept)
            with suppress(ConnectionError):  # a client need not read what it did not ask for
                self.wfile.write(kept)
            self.close_connection = self.close_connection or len(kept) < len(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
