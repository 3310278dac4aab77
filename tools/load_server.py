"""``debug-archive serve`` under load: requests a second, latency, and wrong answers, of which there are none.

    python -m tools.load_server [SECONDS]

A server of the three models of ``fixtures/fleet`` runs on this machine. 1, 8 and 64 clients send it logs, for
SECONDS each (10 by default), and compare each answer with what is explained here. Then, once more with 8
clients, others dawdle and leave in the middle of bodies, a worker is killed, and the server, which is started
again.
"""

from __future__ import annotations

import http.client
import os
import random
import signal
import socket
import statistics
import sys
import tempfile
import time
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, NamedTuple

from archive.app.explaining import explainer_of
from archive.app.sources import models_in
from tests.failures.models.test_three_models import FLEET
from tests.support.servers import Running, store_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PATH = "/v1/symbolicate"
HALF = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\nhalf" % PATH.encode()
CLIENTS = (1, 8, 64)
LINES_OF_FAILURE = 5
REFUSED = 503
SECONDS_TO_RETRY = 0.1


class Sample(NamedTuple):
    """A log, its explanation, and how many failures it has."""

    log: bytes
    explained: bytes
    failures: int


@dataclass
class Measured:
    """What clients saw.

    Attributes:
        seconds: how long they asked.
        latencies: seconds of each answer.
        failures: failures in the logs that were answered.
        wrong: answers that are not those expected.
        refused: requests that were asked to come again.
        cut: requests whose connection was closed.
    """

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)
    failures: int = 0
    wrong: int = 0
    refused: int = 0
    cut: int = 0

    def latency(self, percent: int) -> float:
        """The seconds in which so many of a hundred requests were answered."""
        return statistics.quantiles(self.latencies, n=100)[percent - 1] if len(self.latencies) > 1 else 0.0

    def row(self, name: str) -> str:
        """A row of the table."""
        times = (f"{1000 * self.latency(percent):,.0f}" for percent in (50, 95, 99))
        rates = (f"{count / self.seconds:,.0f}" for count in (len(self.latencies), self.failures))
        return f"| {' | '.join((name, *rates, *times, *map(str, (self.refused, self.cut, self.wrong))))} |"


def samples(failures: int, most: int | None = None) -> list[Sample]:
    """Logs of so many failures each, at most so many with unique handles, and as many with others."""
    found = []
    models = models_in([FLEET])
    for name in ("unique", "plain"):
        lines = (FLEET / f"{name}.log").read_bytes().splitlines(keepends=True)
        size = failures * LINES_OF_FAILURE
        for start in range(0, len(lines), size)[:most]:
            log = b"".join(lines[start : start + size])
            found.append(Sample(log, b"".join(explainer_of(models).explain([log])), failures))
    return found


class Client(Thread):
    """A client that asks until it is stopped.

    Args:
        port: the server's.
        logs: what it sends.
        stop: ends it.
    """

    def __init__(self, port: int, logs: Sequence[Sample], stop: Event) -> None:
        super().__init__(daemon=True)
        self.seen = Measured()
        self._port = port
        self._logs = random.Random(id(self)).sample(list(logs), len(logs))  # noqa: S311 (no secret)
        self._halt = stop

    def run(self) -> None:
        """Ask, over one connection as long as that lasts."""
        while not self._halt.is_set():
            with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)) as connection:
                try:
                    self._ask(connection)
                except (OSError, http.client.HTTPException):
                    self.seen.cut += 1
                    time.sleep(SECONDS_TO_RETRY)

    def _ask(self, connection: http.client.HTTPConnection) -> None:
        at = 0
        while not self._halt.is_set():
            sample = self._logs[at % len(self._logs)]
            start = time.perf_counter()
            connection.request("POST", PATH, sample.log)
            reply = connection.getresponse()
            data = reply.read()
            if reply.status == REFUSED:
                self.seen.refused += 1
                time.sleep(SECONDS_TO_RETRY)
                continue
            self.seen.latencies.append(time.perf_counter() - start)
            self.seen.failures += sample.failures
            self.seen.wrong += (reply.status, data) != (http.client.OK, sample.explained)
            at += 1


def load(port: int, logs: Sequence[Sample], clients: int, seconds: float) -> Measured:
    """What so many clients see in so many seconds."""
    return together(port, logs, clients, lambda: time.sleep(seconds))


def together(port: int, logs: Sequence[Sample], clients: int, meanwhile: Callable[[], object]) -> Measured:
    """What clients see while something is done."""
    stop = Event()
    asking = [Client(port, logs, stop) for _ in range(clients)]
    start = time.perf_counter()
    for client in asking:
        client.start()
    try:
        meanwhile()
    finally:
        stop.set()
        for client in asking:
            client.join(60)
    seconds = time.perf_counter() - start
    every = [client.seen for client in asking]
    return Measured(
        seconds,
        [one for seen in every for one in seen.latencies],
        *(sum(getattr(seen, name) for seen in every) for name in ("failures", "wrong", "refused", "cut")),
    )


def disturbed(store: Path, logs: Sequence[Sample], clients: int, seconds: float) -> Measured:
    """What clients see while others dawdle and leave, a worker is killed, and the server, which returns."""
    with Running(store) as first:

        def disturb() -> None:
            dawdling = [socket.create_connection(("127.0.0.1", first.port)) for _ in range(clients)]
            for client in dawdling:
                client.sendall(HALF)
            for _ in range(clients):
                with socket.create_connection(("127.0.0.1", first.port)) as client:
                    client.sendall(HALF)
            time.sleep(seconds / 3)
            with suppress(ProcessLookupError):
                os.kill(random.choice(first.workers), signal.SIGKILL)  # noqa: S311 (no secret)
            time.sleep(seconds / 3)
            first.end(signal.SIGKILL)
            for client in dawdling:
                client.close()
            with Running(store, "--port", first.port):
                time.sleep(seconds / 3)

        return together(first.port, logs, clients, disturb)


def main() -> None:
    """Measure, and print a table."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 10.0
    print("## A server under load\n")
    print(f"{os.cpu_count()} CPUs, as many workers; the clients share them")
    print()
    print("| clients x failures | requests/s | failures/s | p50 ms | p95 ms | p99 ms | 503 | cut | wrong |")
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(Path(folder) / "store")
        with Running(store) as server:
            for failures in (1, 200):
                logs = samples(failures)
                for clients in CLIENTS:
                    print(
                        load(server.port, logs, clients, seconds).row(f"{clients} x {failures}"), flush=True
                    )
        print(disturbed(store, samples(1), 8, seconds).row("8 x 1, disturbed"))


if __name__ == "__main__":
    main()
