"""The outermost layer: refuses foreign hosts, counts requests, and ends those whose clients do not read."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from archive.base.errors import shown
from archive.server.problems import Problem, answer_to

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from archive.server.metrics import Metrics
    from archive.server.settings import Settings

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
