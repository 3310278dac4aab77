"""Refusals: over HTTP, each is one sentence in JSON, as RFC 9457 has it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, Response

from archive.base.errors import one_line
from archive.base.problems import NO_SPACE
from archive.server.settings import RETRY_AFTER

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI
    from starlette.requests import Request

JSON, MEDIA_TYPE = "application/json", "application/problem+json"
GONE = 499
"""The status of requests whose clients left, as proxies log it."""
BUSY = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INSUFFICIENT_STORAGE)


class HttpProblem(Exception):  # noqa: N818 (RFC 9457's word)
    """A request that is refused."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail, headers)
        self.status = HTTPStatus(status)
        self.detail = detail
        self.headers = dict(headers or {})
        if self.status in BUSY:
            self.headers.setdefault("Retry-After", str(RETRY_AFTER))


def full_disk() -> HttpProblem:
    """The refusal where the server's disk or quota has no space."""
    return HttpProblem(HTTPStatus.INSUFFICIENT_STORAGE, "the server's disk is full")


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


def answer_refusals(app: FastAPI) -> None:
    """Let every refusal become a problem of one sentence."""

    @app.exception_handler(HttpProblem)
    def _(_: Request, problem: HttpProblem) -> Response:
        return answer_to(problem)

    @app.exception_handler(HTTPException)
    def _(_: Request, error: HTTPException) -> Response:
        return answer_to(HttpProblem(error.status_code, str(error.detail), error.headers))

    @app.exception_handler(RequestValidationError)
    def _(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        return answer_to(HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{place}: {first['msg']}"))

    @app.exception_handler(ClientDisconnect)
    def _(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=GONE)

    @app.exception_handler(OSError)
    def _(_: Request, error: OSError) -> Response:
        if error.errno in NO_SPACE:
            return answer_to(full_disk())
        raise error

    @app.exception_handler(Exception)
    def _(_: Request, error: Exception) -> Response:
        return answer_to(
            HttpProblem(500, f"internal error: {type(error).__name__}; the server's log says more")
        )
