"""Refusals, and how HTTP tells them: one sentence in JSON, as RFC 9457 has it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from starlette.responses import JSONResponse

from archive.base.errors import one_line
from archive.server.settings import RETRY_AFTER

if TYPE_CHECKING:
    from collections.abc import Mapping

MEDIA_TYPE = "application/problem+json"
BUSY = (HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.INSUFFICIENT_STORAGE)


class Problem(Exception):  # noqa: N818 (RFC 9457's word)
    """A request that is refused.

    Attributes:
        status: the status of HTTP.
        detail: the reason, and the way out.
        headers: of the answer.
    """

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, detail, headers)
        self.status = HTTPStatus(status)
        self.detail = detail
        self.headers = dict(headers or {})
        if self.status in BUSY:
            self.headers.setdefault("Retry-After", str(RETRY_AFTER))


def answer_to(problem: Problem) -> JSONResponse:
    """The answer that tells a refusal."""
    facts = {
        "type": "about:blank",
        "title": problem.status.phrase,
        "status": int(problem.status),
        "detail": one_line(problem.detail),
    }
    return JSONResponse(facts, problem.status, problem.headers, MEDIA_TYPE)
