"""Servers in processes of their own, as users start them, and requests to them."""

from __future__ import annotations

import http.client
import os
import re
import signal
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple, Self

from archive.store.store import Store
from tests.failures.models.test_three_models import FLEET
from tests.support.waiting import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Mapping
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
        store: the store's folder.
        options: of the command.

    Attributes:
        store: as given.
        port: its port.
        url: its address.
    """

    def __init__(self, store: Path, *options: object) -> None:
        self.store = store
        self._words = [*START, str(store), "--port", "0", *map(str, options)]

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(self._words, stderr=subprocess.PIPE)
        assert self.process.stderr is not None
        self.said = self.process.stderr.readline().decode()
        found = re.search(r" at (http://127\.0\.0\.1:([0-9]+)), ", self.said)
        assert found, self.said
        self.url, self.port = found[1], int(found[2])
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self, by: signal.Signals = signal.SIGTERM) -> int:
        """End the server; its exit status."""
        self.process.send_signal(by)
        status = self.process.wait(PATIENCE)
        if self.process.stderr is not None:
            self.process.stderr.close()
        return status

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
