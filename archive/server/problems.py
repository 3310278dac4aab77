"""Refusals: over HTTP, each is one sentence in JSON, as RFC 9457 has it."""

from __future__ import annotations

from enum import StrEnum
from http import HTTPMethod, HTTPStatus
from typing import TYPE_CHECKING, Any

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from archive.base.errors import one_line, several, shown
from archive.base.problems import NO_SPACE
from archive.server.settings import RETRY_AFTER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from fastapi import FastAPI
    from starlette.routing import BaseRoute
    from starlette.types import Scope

JSON, HTML, MEDIA_TYPE = "application/json", "text/html", "application/problem+json"
GONE = 499
"""The status of requests whose clients left, as proxies log it."""
BUSY = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INSUFFICIENT_STORAGE)
REFUSED = "refused"
"""Where the state of a request has its refusal."""


class Reason(StrEnum):
    """Why a request is refused for now: the client may come again. ``/metrics`` counts each."""

    QUEUE = "queue"  # as many requests wait as may
    WAIT = "wait"  # no worker was free in time
    WORKER = "worker"  # workers died of it, or before they could begin
    SPOOL = "spool"  # other requests have all the room on the disk
    DISK = "disk"  # the disk is full
    STORE = "store"  # the store cannot be read
    REPLACED = "replaced"  # a companion was replaced while it was read
    CONNECTIONS = "connections"  # as many connections are open as may be
    ADDRESS = "address"  # the same of one address
    ENDING = "ending"  # the server ends, and waits no longer


class HttpProblem(Exception):  # noqa: N818 (RFC 9457's word)
    """A request that is refused; ``reason`` says why it is refused only for now."""

    def __init__(
        self, status: int, detail: str, headers: Mapping[str, str] | None = None, reason: Reason | None = None
    ) -> None:
        super().__init__(status, detail, headers, reason)
        self.status = HTTPStatus(status)
        self.detail = detail
        self.headers = dict(headers or {})
        self.reason = reason


def busy(reason: Reason, detail: str) -> HttpProblem:
    """The refusal of a request that may come again."""
    status = HTTPStatus.INSUFFICIENT_STORAGE if reason is Reason.DISK else HTTPStatus.SERVICE_UNAVAILABLE
    return HttpProblem(status, detail, {"Retry-After": str(RETRY_AFTER)}, reason)


def full_disk() -> HttpProblem:
    """The refusal where the server's disk or quota has no space."""
    return busy(Reason.DISK, "the server's disk is full")


def note_refusal(request: Request, problem: HttpProblem) -> None:
    """Let the layer around all know why a request is refused."""
    setattr(request.state, REFUSED, problem)


def answer_to(problem: HttpProblem) -> JSONResponse:
    """The answer for a refusal."""
    facts = {
        "type": "about:blank",
        "title": problem.status.phrase,
        "status": int(problem.status),
        "detail": one_line(problem.detail),
    }
    return JSONResponse(facts, problem.status, problem.headers, MEDIA_TYPE)


def documented(words: str) -> dict[str, object]:
    """A refusal, as the description of a route has it."""
    return {"description": words, "content": {MEDIA_TYPE: {}}}


def header(name: str, words: str) -> dict[str, object]:
    """A header of requests, as the description of a route has it."""
    return {
        "name": name,
        "in": "header",
        "required": False,
        "schema": {"type": "string"},
        "description": words,
    }


OF_ALL: dict[int | str, dict[str, Any]] = {
    421: documented("The request calls the server by a name that is not its own."),
    422: documented("A parameter is unknown, given twice or out of its bounds."),
    503: documented("For now: workers, disk or store are not at hand; `Retry-After` says when to ask again."),
}
"""Refusals of all routes."""


async def check_parameters(request: Request) -> None:
    """Refuse parameters of the query that the route does not have, and those that are given twice."""
    given = [name for name, _ in request.query_params.multi_items()]
    known = [field.alias for field in request.scope["route"].dependant.query_params]
    for name in given:
        if name not in known:
            names = f"available: {', '.join(known)}" if known else "this address has none"
            why = f"unknown parameter {shown(name)}; {names}"
        elif given.count(name) > 1:
            why = f"the parameter {name} is given {given.count(name)} times"
        else:
            continue
        raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, why)


def _method_refused(routes: Sequence[BaseRoute], scope: Scope) -> HttpProblem:
    """The refusal of a request whose address exists, but not for its method."""

    def is_taken(method: str) -> bool:
        asked = {"type": "http", "method": method, "path": scope["path"], "root_path": scope["root_path"]}
        return any(route.matches(asked)[0] is Match.FULL for route in routes)

    methods = [method.value for method in HTTPMethod if is_taken(method)]
    why = f"{shown(scope['path'])} takes {several(methods, len(methods))}, not {shown(scope['method'])}"
    headers = {"Allow": ", ".join(methods)}
    return HttpProblem(HTTPStatus.METHOD_NOT_ALLOWED, f"{why}; /docs has all requests", headers)


def answer_refusals(app: FastAPI, page: Callable[[HttpProblem], Response]) -> None:
    """Let every refusal become a problem of one sentence; for a browser, a page of it."""

    def answer(request: Request, problem: HttpProblem) -> Response:
        return page(problem) if HTML in request.headers.get("accept", "") else answer_to(problem)

    @app.exception_handler(HttpProblem)
    def _(request: Request, problem: HttpProblem) -> Response:
        note_refusal(request, problem)
        return answer(request, problem)

    @app.exception_handler(HTTPException)
    def _(request: Request, error: HTTPException) -> Response:
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            return answer(request, _method_refused(app.routes, request.scope))
        is_unknown = error.status_code == HTTPStatus.NOT_FOUND and request.scope.get("route") is None
        detail = (
            f"nothing is at {shown(request.url.path)}; /docs has all addresses"
            if is_unknown
            else error.detail
        )
        return answer(request, HttpProblem(error.status_code, str(detail), error.headers))

    @app.exception_handler(RequestValidationError)
    def _(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        return answer(request, HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{place}: {first['msg']}"))

    @app.exception_handler(ClientDisconnect)
    def _(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=GONE)

    @app.exception_handler(OSError)
    def _(request: Request, error: OSError) -> Response:
        if error.errno in NO_SPACE:
            note_refusal(request, full_disk())
            return answer(request, full_disk())
        raise error

    @app.exception_handler(Exception)
    def _(request: Request, error: Exception) -> Response:
        why = f"internal error: {type(error).__name__}; the server's log says more"
        return answer(request, HttpProblem(HTTPStatus.INTERNAL_SERVER_ERROR, why))
