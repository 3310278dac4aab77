"""The application: its routes, its numbers, and the layer around all.

``/healthz`` and ``/metrics`` are for those who run the server. The outermost layer refuses foreign hosts,
counts requests, and ends those whose clients do not read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import quote

from fastapi import APIRouter, FastAPI
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Histogram,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from starlette.responses import Response

import archive
from archive.app.sources import own_store
from archive.base.errors import ArchiveError, shown
from archive.server.companions import Companions
from archive.server.desk import Desk
from archive.server.logs import Logs
from archive.server.people import PeopleRoutes
from archive.server.problems import GONE, HttpProblem, answer_refusals, answer_to
from archive.server.spool import Spool
from archive.server.workers import Workers

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from prometheus_client.core import Metric
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from archive.server.settings import Settings
    from archive.server.work import Explained
    from archive.store.stores import OwnStore


# --- numbers

NAME = "debug_archive"
LATENCIES = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
"""Seconds up to which requests are counted."""
OUTCOMES = ("explained", "ambiguous", "unknown")
"""What becomes of failures, as the fields of :class:`~archive.server.work.Explained`."""


class Metrics:
    """The numbers of a server."""

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
        for outcome in OUTCOMES:
            self._failures.labels(outcome)
        self.registry.register(_Now(workers, spool))

    def count(self, explained: Explained) -> None:
        """Count the failures of a log."""
        for outcome in OUTCOMES:
            self._failures.labels(outcome).inc(getattr(explained, outcome))


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


# --- operations


class OperationsRoutes:
    """The routes of operations."""

    def __init__(self, store: OwnStore[Any], metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self.router = APIRouter()
        self.router.add_api_route(
            "/healthz", self.health, summary="Whether the store can be read", responses={503: {}}
        )
        self.router.add_api_route(
            "/metrics", self.metrics, summary="Numbers for Prometheus", response_class=Response
        )

    def health(self) -> dict[str, object]:
        """Whether the store can be read, and how many companions it has."""
        try:
            return {"status": "ok", "companions": len(self._store.entries())}
        except (ArchiveError, OSError) as error:
            raise HttpProblem(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None

    def metrics(self) -> Response:
        """The numbers, as text."""
        return Response(generate_latest(self._metrics.registry), media_type=CONTENT_TYPE_LATEST)


# --- guard

ACCESS = logging.getLogger("archive.server.access")
"""Gets a line a request: nothing of bodies, and no query, which may have patterns of logs."""
LONGEST_PATH = 200
UNKNOWN = "other"
"""The label of requests that no route takes."""
PLAIN = (b"x-content-type-options", b"nosniff")
"""No browser takes a log for a page."""


class RequestGuard:
    """Counts the requests to an application, and bounds the time of each piece of an answer."""

    def __init__(self, app: ASGIApp, metrics: Metrics, settings: Settings) -> None:
        self._app = app
        self._metrics = metrics
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, size = time.perf_counter(), GONE, 0

        async def send_in_time(message: Message) -> None:
            nonlocal status, size
            size += len(message.get("body", b""))
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), PLAIN]
            async with asyncio.timeout(self._settings.seconds):
                await send(message)

        try:
            await self._inner(scope)(scope, receive, send_in_time)
        finally:
            route = getattr(scope.get("route"), "path", UNKNOWN)
            self._metrics.requests.labels(route, status).inc()
            seconds = time.perf_counter() - start
            self._metrics.seconds.labels(route).observe(seconds)
            path = quote(scope["path"])[:LONGEST_PATH]
            ACCESS.info("%s %s %d %.0f ms %d bytes", scope["method"], path, status, 1000 * seconds, size)

    def _inner(self, scope: Scope) -> ASGIApp:
        """The application; or a refusal of hosts that are not the server's.

        A browser sends the name that led it here. Otherwise any page could lead its own name here, and read.
        """
        hosts = self._settings.hosts
        if hosts:
            host = next((value.decode("latin-1") for key, value in scope["headers"] if key == b"host"), "")
            name = host.rpartition(":")[0] if host[-1:].isdecimal() and ":" in host else host
            if name.lower() not in hosts:
                why = f"no host of this server: {shown(name)}; `--allow-host NAME` adds one"
                return answer_to(HttpProblem(421, why))
        return self._app


# --- app

DESCRIPTION = """\
Failures of PyTorch models, explained by the models' own source. A failure is explained by the model that its
handles or its log name, or by the only one that nothing contradicts; else it stays as it is, and is counted.
"""


class Service:
    """A store's application, and what works for it."""

    def __init__(self, settings: Settings) -> None:
        self._store = own_store(settings.store)
        self._spool = Spool(settings.spool)
        self.workers = Workers(settings)
        metrics = Metrics(self.workers, self._spool)
        desk = Desk(settings, self._spool, self.workers, metrics.count)
        app = FastAPI(
            title="debug-archive",
            version=archive.__version__,
            description=DESCRIPTION,
            docs_url=None,  # FastAPI's pages load scripts from other servers
            redoc_url=None,
        )
        for part in (
            Logs(desk),
            Companions(settings, self._spool, self.workers, self._store),
            OperationsRoutes(self._store, metrics),
            PeopleRoutes(desk, self._store, app.openapi),
        ):
            app.include_router(part.router)
        answer_refusals(app)
        self.app = RequestGuard(app, metrics, settings)

    async def start(self) -> None:
        """Start the workers, each of which opens the store."""
        try:
            await self.workers.start()
        except HttpProblem as problem:
            raise ArchiveError(problem.detail) from None

    async def stop(self) -> None:
        """End the workers, and remove what lies on the disk."""
        await self.workers.close()
        self._spool.close()
        self._store.close()
