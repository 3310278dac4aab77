"""The application: routes, and what each answers.

``/healthz`` and ``/metrics`` are for those who run the server. The outermost layer refuses foreign hosts,
counts requests, and ends those whose clients do not read.
"""

from __future__ import annotations

import asyncio
import errno
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import APIRouter, FastAPI
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

import archive
from archive.base.errors import ArchiveError, shown
from archive.server.companions import Companions
from archive.server.logs import Logs
from archive.server.metrics import Metrics
from archive.server.problems import Problem, answer_to
from archive.server.spool import Spool
from archive.server.workers import Workers
from archive.store.store import Store

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from archive.server.settings import Settings


# --- operations


class Operations:
    """The routes of operations.

    Args:
        store: the server's.
        metrics: likewise.

    Attributes:
        router: the routes.
    """

    def __init__(self, store: Store, metrics: Metrics) -> None:
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
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None

    def metrics(self) -> Response:
        """The numbers, as text."""
        return Response(generate_latest(self._metrics.registry), media_type=CONTENT_TYPE_LATEST)


# --- guard

UNKNOWN = "other"
"""The label of requests that no route takes."""
GONE = 499
"""The status of requests whose clients left, as proxies log it."""
PLAIN = (b"x-content-type-options", b"nosniff")
"""No browser takes a log for a page."""


class Guard:
    """Counts the requests to an application, and bounds the time of each piece of an answer.

    Args:
        app: the application.
        metrics: where requests are counted.
        settings: the server's.
    """

    def __init__(self, app: ASGIApp, metrics: Metrics, settings: Settings) -> None:
        self._app = app
        self._metrics = metrics
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), GONE

        async def send_in_time(message: Message) -> None:
            nonlocal status
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
            self._metrics.seconds.labels(route).observe(time.perf_counter() - start)

    def _inner(self, scope: Scope) -> ASGIApp:
        """The application; or a refusal of hosts that are not the server's.

        A browser sends the name that led it here: else any page could lead its own name here, and read.
        """
        hosts = self._settings.hosts
        if hosts:
            host = next((value.decode("latin-1") for key, value in scope["headers"] if key == b"host"), "")
            name = host.rpartition(":")[0] if host[-1:].isdecimal() and ":" in host else host
            if name.lower() not in hosts:
                why = f"no host of this server: {shown(name)}; `--allow-host NAME` adds one"
                return answer_to(Problem(421, why))
        return self._app


# --- app

FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
DESCRIPTION = """\
Failures of PyTorch models, explained by the models' own source. A failure is explained by the model that its
handles or its log name, or by the only one that nothing contradicts; else it stays as it is, and is counted.
"""


class Service:
    """A store's application, and what works for it.

    Args:
        settings: the server's.

    Attributes:
        app: the application.
        workers: explain logs.

    Raises:
        ArchiveError: the folder is no store.
        OSError: it cannot be read.
    """

    def __init__(self, settings: Settings) -> None:
        self._store = Store.open(settings.store)
        self._spool = Spool(settings.spool)
        self.workers = Workers(settings)
        metrics = Metrics(self.workers, self._spool)
        app = FastAPI(
            title="debug-archive", version=archive.__version__, description=DESCRIPTION, redoc_url=None
        )
        for part in (
            Logs(settings, self._spool, self.workers, metrics),
            Companions(settings, self._spool, self.workers, self._store),
            Operations(self._store, metrics),
        ):
            app.include_router(part.router)
        _answer_refusals(app)
        self.app = Guard(app, metrics, settings)

    async def start(self) -> None:
        """Start the workers, each of which opens the store.

        Raises:
            ArchiveError: one does not start.
        """
        try:
            await self.workers.start()
        except Problem as problem:
            raise ArchiveError(problem.detail) from None

    async def stop(self) -> None:
        """End the workers, and remove what lies on the disk."""
        await self.workers.close()
        self._spool.close()
        self._store.close()


def _answer_refusals(app: FastAPI) -> None:
    """Let every refusal become a problem of one sentence."""

    @app.exception_handler(Problem)
    def _(_: Request, problem: Problem) -> Response:
        return answer_to(problem)

    @app.exception_handler(HTTPException)
    def _(_: Request, error: HTTPException) -> Response:
        return answer_to(Problem(error.status_code, str(error.detail), error.headers))

    @app.exception_handler(RequestValidationError)
    def _(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        return answer_to(Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{place}: {first['msg']}"))

    @app.exception_handler(ClientDisconnect)
    def _(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=GONE)

    @app.exception_handler(OSError)
    def _(_: Request, error: OSError) -> Response:
        if error.errno in FULL:
            return answer_to(Problem(HTTPStatus.INSUFFICIENT_STORAGE, "the server's disk is full"))
        raise error

    @app.exception_handler(Exception)
    def _(_: Request, error: Exception) -> Response:
        return answer_to(Problem(500, f"internal error: {type(error).__name__}; the server's log tells more"))
