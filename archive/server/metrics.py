"""The server's numbers, as Prometheus reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client.core import Metric

    from archive.server.spool import Spool
    from archive.server.work import Explained
    from archive.server.workers import Workers

NAME = "debug_archive"
LATENCIES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Seconds up to which requests are counted."""


class Metrics:
    """The numbers of a server.

    Args:
        workers: the server's.
        spool: likewise.

    Attributes:
        registry: holds all numbers.
        requests: requests that were answered, by route and status.
        seconds: how long these took, by route.
    """

    def __init__(self, workers: Workers, spool: Spool) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            f"{NAME}_requests", "Requests answered.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            f"{NAME}_request_seconds",
            "Seconds from a request's headers to the end of its answer.",
            ["route"],
            buckets=LATENCIES,
            registry=self.registry,
        )
        self._failures = Counter(
            f"{NAME}_failures",
            "Failures in logs, by what became of them.",
            ["outcome"],
            registry=self.registry,
        )
        for outcome in ("explained", "ambiguous", "unknown"):
            self._failures.labels(outcome)
        self.registry.register(_Now(workers, spool))

    def count(self, explained: Explained) -> None:
        """Count the failures of a log."""
        self._failures.labels("explained").inc(explained.explained)
        self._failures.labels("ambiguous").inc(explained.ambiguous)
        self._failures.labels("unknown").inc(explained.unknown)


class _Now(Collector):
    """What is in flight now, and the workers that were killed."""

    def __init__(self, workers: Workers, spool: Spool) -> None:
        self._workers = workers
        self._spool = spool

    def collect(self) -> Iterator[Metric]:
        """Collect the numbers."""
        workers = self._workers
        yield GaugeMetricFamily(f"{NAME}_workers_busy", "Workers that work.", workers.busy)
        yield GaugeMetricFamily(
            f"{NAME}_requests_waiting", "Requests that wait for a worker.", workers.waiting
        )
        yield GaugeMetricFamily(
            f"{NAME}_spool_bytes", "Bytes of bodies and answers on disk.", self._spool.held
        )
        killed = CounterMetricFamily(f"{NAME}_workers_killed", "Workers that were killed.", labels=["reason"])
        for reason in ("late", "left", "died"):
            killed.add_metric([reason], getattr(workers.killed, reason))
        yield killed
