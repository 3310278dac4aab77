"""``/metrics``: the numbers of a server, for Prometheus, under the names that its clients have in common.

What has a name there has it here: ``process_resident_memory_bytes``, ``process_cpu_seconds_total`` and others
are of the process that speaks HTTP; Linux has them. Workers are processes of their own.
"""

from __future__ import annotations

import platform
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Info,
    ProcessCollector,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

import archive
from archive.base.errors import ArchiveError
from archive.server.problems import Reason

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from prometheus_client.core import Metric

    from archive.server.connections import Connections
    from archive.server.spool import Spool
    from archive.server.work import Explained
    from archive.server.workers import Workers
    from archive.store.stores import OwnStore

NAME = "debug_archive"
LATENCIES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Seconds up to which requests are counted."""
OUTCOMES = ("explained", "ambiguous", "unknown")
"""What becomes of failures, as the fields of :class:`~archive.server.work.Explained`."""


class Metrics:
    """The numbers of a server."""

    def __init__(
        self, workers: Workers, spool: Spool, connections: Connections, store: OwnStore[Any]
    ) -> None:
        own = self._registry = CollectorRegistry()
        self.requests = Counter(f"{NAME}_requests", "Requests answered.", ["route", "status"], registry=own)
        self.seconds = Histogram(
            f"{NAME}_request_seconds",
            "Seconds from a request's headers to the end of its answer.",
            ["route"],
            buckets=LATENCIES,
            registry=own,
        )
        self.in_flight = Gauge(
            f"{NAME}_requests_in_flight", "Requests being answered, with this one.", registry=own
        )
        self.refused = Counter(
            f"{NAME}_refused",
            "Requests and connections refused for now (503, 507), by reason.",
            ["reason"],
            registry=own,
        )
        self._failures = Counter(
            f"{NAME}_failures", "Failures in logs, by what became of them.", ["outcome"], registry=own
        )
        for reason in Reason:
            self.refused.labels(reason)
        for outcome in OUTCOMES:
            self._failures.labels(outcome)
        build = Info(f"{NAME}_build", "The releases of debug-archive and Python.", registry=own)
        build.info({"version": archive.__version__, "python": platform.python_version()})
        ProcessCollector(registry=own)
        self._registry.register(_Now(workers, spool, connections))
        self._registry.register(_Stored(store))
        self._registry.register(_WorkerProcesses(workers))

    def count(self, explained: Explained) -> None:
        """Count the failures of a log."""
        for outcome in OUTCOMES:
            self._failures.labels(outcome).inc(getattr(explained, outcome))

    def text(self, accepted: str) -> tuple[bytes, str]:
        """All numbers as they are now, in the form that a client of Prometheus accepts; its media type."""
        encode, media_type = choose_encoder(accepted)
        return encode(self._registry), media_type


class _Now(Collector):
    """What is in flight now, and the workers that were killed."""

    def __init__(self, workers: Workers, spool: Spool, connections: Connections) -> None:
        self._workers = workers
        self._spool = spool
        self._connections = connections

    def collect(self) -> Iterator[Metric]:
        """Collect the numbers."""
        workers = self._workers
        for name, words, value in (
            ("connections", "Connections that are open.", self._connections.open),
            ("workers", "Workers that are ready or work.", len(workers.pids)),
            ("workers_busy", "Workers that work.", workers.busy),
            ("requests_waiting", "Requests that wait for a worker.", workers.waiting),
            ("spool_bytes", "Bytes of bodies and answers on disk.", self._spool.held),
        ):
            yield GaugeMetricFamily(f"{NAME}_{name}", words, value)
        killed = CounterMetricFamily(f"{NAME}_workers_killed", "Workers that were killed.", labels=["reason"])
        for reason, count in asdict(workers.killed).items():
            killed.add_metric([reason], count)
        yield killed


class _Stored(Collector):
    """The store: what it holds, where it can be read."""

    def __init__(self, store: OwnStore[Any]) -> None:
        self._store = store

    def collect(self) -> Iterator[Metric]:
        """Collect the numbers."""
        readable = GaugeMetricFamily(f"{NAME}_store_readable", "1 if the store can be read, else 0.")
        try:
            entries = self._store.entries()
            unread = len(self._store.unread)
        except (ArchiveError, OSError):
            readable.add_metric([], 0)
            yield readable
            return
        readable.add_metric([], 1)
        yield readable
        for name, words, value in (
            ("models", "Models whose companions the store has.", len(entries)),
            ("unread_models", "Companions in the store that cannot be read.", unread),
            ("bytes", "Bytes of the companions as they lie in the store.", sum(e.kept_size for e in entries)),
        ):
            yield GaugeMetricFamily(f"{NAME}_store_{name}", words, value)


class _WorkerProcesses(Collector):
    """Memory and CPU time of all workers, those that have ended among them."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self._seconds = 0.0

    def collect(self) -> Iterator[Metric]:
        """Collect the numbers; none where the system does not say."""
        if not _of_process("self"):
            return
        living = [_of_process(pid) for pid in self._workers.pids]
        memory = sum(facts.get("process_resident_memory_bytes", 0) for facts in living)
        seconds = _seconds_of_ended() + sum(facts.get("process_cpu_seconds", 0) for facts in living)
        # One that has ended is counted again once its end is known: until then the sum stays.
        self._seconds = max(self._seconds, seconds)
        yield GaugeMetricFamily(
            f"{NAME}_workers_resident_memory_bytes",
            "Resident memory of all workers; pages that they share count for each.",
            memory,
        )
        yield CounterMetricFamily(
            f"{NAME}_workers_cpu_seconds",
            "CPU seconds of all workers, also of those that ended.",
            self._seconds,
        )


def _of_process(pid: int | str) -> dict[str, float]:
    """What Linux says of a process, by the names of Prometheus; nothing of one that has ended."""
    found = ProcessCollector(pid=lambda: pid, registry=None).collect()
    return {family.name: family.samples[0].value for family in found}


def _seconds_of_ended() -> float:
    """CPU seconds of the processes that this one started, and that have ended."""
    with suppress(ImportError):
        import resource  # noqa: PLC0415 (Windows doesn't have it)

        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return used.ru_utime + used.ru_stime
    return 0.0
