"""Servers in processes, as users start them, and servers in a thread that say what a test wants."""

from __future__ import annotations

import http.client
import os
import re
import signal
import socket
import subprocess
import sys
from contextlib import closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import IO, TYPE_CHECKING, NamedTuple, Self
from urllib.parse import urlsplit

from archive.store.store import Store
from tests.failures.models.test_three_models import FLEET
from tests.support.processes import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

FILES = sorted(FLEET.glob("*.ptdbg"))
TOKEN = "a token of the tests"  # noqa: S105 (no secret)
SECONDS = 1.0
"""The patience of a server that has little."""
START = [sys.executable, "-c", "from archive.cli import main; main()", "serve"]


class Reply(NamedTuple):
    """An answer."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class Running:
    """A server that runs until the block ends.

    Args:
        store: the store's folder, or the URL of its bucket.
        options: of the command.

    Attributes:
        store: as given.
        port: its port.
        url: its address.
        lines: what it says on standard error after its first line.
    """

    def __init__(self, store: Path | str, *options: object) -> None:
        self.store = store
        self._words = [*START, str(store), "--port", "0", *map(str, options)]

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(self._words, stderr=subprocess.PIPE)
        assert self.process.stderr is not None
        self.said = self.process.stderr.readline().decode()
        self.lines: list[str] = []
        self._listener = Thread(target=self._listen, args=(self.process.stderr,))
        self._listener.start()
        found = re.search(r" at (http://[0-9.]+:([0-9]+)), ", self.said)
        assert found, self.said
        self.url, self.port = found[1], int(found[2])
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._listener.join(PATIENCE)

    def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        """End the server; its exit status."""
        self.process.send_signal(by)
        return self.process.wait(PATIENCE)

    def _listen(self, said: IO[bytes]) -> None:
        """Note what the server says, until its last process has closed its standard error."""
        with said:
            self.lines.extend(line.decode() for line in said)

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """The answer to a request."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as connection:
            connection.request(method, path, body, dict(headers or {}))
            found = connection.getresponse()
            return Reply(
                found.status, {key.lower(): value for key, value in found.getheaders()}, found.read()
            )

    def number(self, name: str) -> float:
        """A number of ``/metrics``."""
        lines = self.ask("GET", "/metrics").data.decode().splitlines()
        (value,) = (line.rpartition(" ")[2] for line in lines if line.startswith(f"{name} "))
        return float(value)

    @property
    def workers(self) -> list[int]:
        """The processes that work for it."""
        words = ["ps", "-ww", "-o", "pid=,args=", "--ppid", str(self.process.pid)]
        lines = subprocess.run(words, capture_output=True, check=False).stdout.decode().splitlines()
        return [int(line.split()[0]) for line in lines if "spawn_main" in line]


def is_alive(pid: int) -> bool:
    """Whether a process runs, and is no zombie."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, check=False).stdout
    return not state.startswith(b"Z")


def store_of(folder: Path, files: list[Path] = FILES) -> Path:
    """A store of the three models."""
    with Store.open(folder, create=True) as store:
        for file in files:
            store.add(file)
    return folder


# --- servers that say what a test wants


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
