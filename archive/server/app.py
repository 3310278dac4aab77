"""The application: its routes, and the layer around all.

``/healthz``, ``/livez`` and ``/metrics`` are for those who run the server. The outermost layer refuses
foreign hosts, counts requests, and ends those whose clients do not read.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as OPEN_METRICS
from starlette.requests import Request  # noqa: TC002 (FastAPI reads annotations)
from starlette.responses import Response

import archive
from archive.app.sources import own_store
from archive.base.errors import ArchiveError, one_line, shown
from archive.server.companions import Companions
from archive.server.connections import Connections
from archive.server.desk import Desk
from archive.server.html import Pages
from archive.server.lines import Lines
from archive.server.logs import Logs
from archive.server.metrics import Metrics
from archive.server.people import PeopleRoutes
from archive.server.problems import (
    BUSY,
    GONE,
    OF_ALL,
    REFUSED,
    HttpProblem,
    Reason,
    answer_refusals,
    answer_to,
    busy,
    check_parameters,
    header,
)
from archive.server.spool import Spool
from archive.server.workers import Workers

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from archive.server.settings import Settings
    from archive.store.stores import OwnStore


# --- operations

HEALTH: dict[int | str, dict[str, Any]] = {200: {"description": "It can; `companions` says how many it has."}}
LIVE: dict[int | str, dict[str, Any]] = {200: {"description": "It does."}}
NUMBERS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The numbers.",
        "content": {form.partition(";")[0]: {} for form in (CONTENT_TYPE_PLAIN_0_0_4, OPEN_METRICS)},
    }
}


class OperationsRoutes:
    """The routes of operations."""

    def __init__(self, store: OwnStore[Any], metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self.router = APIRouter()
        route = self.router.add_api_route
        route("/healthz", self.health, summary="Ask whether the store can be read", responses=HEALTH)
        route("/livez", self.live, summary="Ask whether the server answers", responses=LIVE)
        route(
            "/metrics",
            self.metrics,
            summary="Get numbers for Prometheus",
            response_class=Response,
            openapi_extra={"parameters": [header("Accept", "Which form of Prometheus is wanted.")]},
            responses=NUMBERS,
        )

    def health(self) -> dict[str, object]:
        """Whether the store can be read, and how many companions it has."""
        try:
            return {"status": "ok", "companions": len(self._store.entries())}
        except (ArchiveError, OSError) as error:
            raise busy(Reason.STORE, str(error)) from None

    async def live(self) -> dict[str, object]:
        """Whether the server answers at all, whatever its store and its workers do."""
        return {"status": "ok"}

    def metrics(self, request: Request) -> Response:
        """The numbers, as text or in the form of OpenMetrics, as `Accept` says."""
        text, media_type = self._metrics.text(request.headers.get("accept", ""))
        return Response(text, media_type=media_type)


# --- guard

ACCESS = logging.getLogger("archive.server.access")
"""Gets a line a request: nothing of bodies, and no query, which may have patterns of logs."""
ABORT = "abort"
"""Where the state of a request has what ends its connection at once."""
LONGEST_PATH = 200
UNKNOWN = "other"
"""The label of requests that no route takes."""
PLAIN = (b"x-content-type-options", b"nosniff")
"""No browser takes a log for a page."""


class RequestGuard:
    """Counts the requests to an application, and bounds the time of each piece of an answer."""

    def __init__(self, app: ASGIApp, metrics: Metrics, lines: Lines, settings: Settings) -> None:
        self._app = app
        self._metrics = metrics
        self._lines = lines
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status, size, is_deaf = time.perf_counter(), GONE, 0, False

        async def send_in_time(message: Message) -> None:
            nonlocal status, size, is_deaf
            size += len(message.get("body", b""))
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), PLAIN]
            try:
                async with asyncio.timeout(self._settings.seconds):
                    await send(message)
            except TimeoutError:
                is_deaf = True
                raise

        try:
            with self._metrics.in_flight.track_inprogress():
                await self._inner(scope)(scope, receive, send_in_time)
        except asyncio.CancelledError:  # the server ends, and waits no longer
            if status == GONE:
                scope["state"][REFUSED] = ending = busy(Reason.ENDING, "the server ends; try again")
                await answer_to(ending)(scope, receive, send_in_time)
        except Exception:
            if not is_deaf:
                raise
            why = f"a client did not take a piece of its answer in {self._settings.seconds:g} s"
            self._lines.write("clients that do not read", f"{why}; its connection is closed")
            scope["state"][ABORT]()  # closed in order, it would stay open until the client reads
        finally:
            route = getattr(scope.get("route"), "path", UNKNOWN)
            self._metrics.requests.labels(route, status).inc()
            seconds = time.perf_counter() - start
            self._metrics.seconds.labels(route).observe(seconds)
            path = quote(scope["path"])[:LONGEST_PATH]
            ACCESS.info("%s %s %d %.0f ms %d bytes", scope["method"], path, status, 1000 * seconds, size)
            if status in BUSY:
                problem = scope.get("state", {}).get(REFUSED)
                reason, why = (problem.reason, problem.detail) if problem else (UNKNOWN, UNKNOWN)
                self.refuse(reason, f"{status} {scope['method']} {route}: {why}")

    def refuse(self, reason: Reason | str, line: str) -> None:
        """Count what is refused for now, and write a line about it."""
        self._metrics.refused.labels(reason).inc()
        self._lines.write(f"requests refused ({reason})", one_line(line))

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


def answer_head(router: APIRouter) -> None:
    """Let HEAD give the headers of whatever GET gives (RFC 9110, section 9.1)."""
    for route in list(router.routes):
        if isinstance(route, APIRoute) and "GET" in (route.methods or ()):
            path = route.path.removeprefix(router.prefix)
            router.add_api_route(path, route.endpoint, methods=["HEAD"], include_in_schema=False)


class Service:
    """A store's application, and what works for it."""

    def __init__(self, settings: Settings) -> None:
        self._store = own_store(settings.store)
        self._spool = Spool(settings.spool)
        self._lines = Lines()
        self.workers = Workers(settings, self._lines)
        self.connections = Connections(lambda reason, why: self.app.refuse(reason, f"503 {why}"))
        metrics = Metrics(self.workers, self._spool, self.connections, self._store)
        desk = Desk(settings, self._spool, self.workers, metrics.count)
        app = FastAPI(
            title="debug-archive",
            version=archive.__version__,
            description=DESCRIPTION,
            docs_url=None,  # FastAPI's pages load scripts from other servers
            redoc_url=None,
            openapi_url=None,
            responses=OF_ALL,
            dependencies=[Depends(check_parameters)],
        )
        app.add_api_route("/openapi.json", app.openapi, response_model=None, include_in_schema=False)
        answer_head(app.router)
        pages = Pages(settings.store)
        for part in (
            Logs(desk),
            Companions(settings, self._spool, self.workers, self._store),
            OperationsRoutes(self._store, metrics),
            PeopleRoutes(pages, desk, self.workers, self._store, app.openapi),
        ):
            answer_head(part.router)
            app.include_router(part.router)
        answer_refusals(app, pages.of_problem)
        self.app = RequestGuard(app, metrics, self._lines, settings)

    async def start(self) -> None:
        """Start the workers, each of which opens the store."""
        try:
            await self.workers.start()
        except HttpProblem as problem:
            raise ArchiveError(problem.detail) from None

    async def stop(self) -> None:
        """End the workers, and remove what lies on the disk."""
        await self.workers.close()
        self._lines.close()
        self._spool.close()
        self._store.close()
