"""``POST /v1/symbolicate``: logs and handles in, explanations out."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from archive.server import work
from archive.server.problems import JSON, HttpProblem, documented
from archive.server.spool import receive
from archive.server.work import HandlesRequest, LogRequest, Pattern, Refused

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.types import Receive, Scope, Send

    from archive.server.settings import Settings
    from archive.server.spool import Spool, SpoolFile
    from archive.server.work import Explained
    from archive.server.workers import Workers

PIECE = 1 << 18
"""Bytes of an answer that are sent at once."""
TEXT = "text/plain; charset=utf-8"
ENCODINGS = ("", "identity", "gzip")
ABOUT = """\
A log as `text/plain`, which gzip may have packed, comes back with every failure explained, to the byte as
`debug-archive symbolicate STORE` prints it; the headers count. `{"log": …}` gives the causes of the failures,
and the explained log; `{"handles": …}` gives the source behind the handles of one failure.
"""


class Logs:
    """The routes of logs.

    Args:
        count: counts the failures of a log.

    Attributes:
        router: the routes.
    """

    def __init__(
        self, settings: Settings, spool: Spool, workers: Workers, count: Callable[[Explained], None]
    ) -> None:
        self._settings = settings
        self._spool = spool
        self._workers = workers
        self._count = count
        self.router = APIRouter()
        self.router.add_api_route(
            "/v1/symbolicate",
            self.symbolicate,
            methods=["POST"],
            summary="Explain the failures in a log",
            description=ABOUT,
            response_class=Response,
            responses=RESPONSES,
            openapi_extra={"requestBody": REQUEST},
        )

    async def symbolicate(
        self,
        request: Request,
        id: Annotated[Pattern | None, Query(description="A pattern of ids in the log.")] = None,  # noqa: A002 (the parameter's name)
        model: Annotated[Pattern | None, Query(description="A pattern of models' names in the log.")] = None,
    ) -> Response:
        """Explain a log, or look up handles."""
        if request.headers.get("content-encoding", "").lower() not in ENCODINGS:
            raise HttpProblem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Encoding: gzip is known, and none")
        is_json = request.headers.get("content-type", "").partition(";")[0].strip().lower() == JSON
        with ExitStack() as stack:
            body, answer = (stack.enter_context(self._spool.file()) for _ in range(2))
            await receive(request, body, self._settings)
            if is_json:
                explained = await worked(self._workers, request, work.explain_json, body.path, answer.path)
            else:
                explained = await worked(
                    self._workers, request, work.explain_text, body.path, answer.path, id, model
                )
            headers = {}
            if explained is not None:
                self._count(explained)
                counts = explained._asdict().items()
                headers = {f"Debug-Archive-{name.capitalize()}": str(count) for name, count in counts}
            body.remove()
            answer.count(answer.path.stat().st_size)
            return SpooledAnswer(answer, stack.pop_all(), headers, JSON if is_json else TEXT)


async def worked(
    workers: Workers,
    request: Request,
    task: Callable[..., Explained | Refused | None],
    *arguments: object,
) -> Explained | None:
    """What a worker says, unless the client leaves before.

    Raises:
        HttpProblem: the work is refused.
        ClientDisconnect: the client left.
    """
    working = asyncio.ensure_future(workers.run(task, *arguments))
    leaving = asyncio.ensure_future(request.receive())
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        result = await working
    finally:
        for future in (working, leaving):
            future.cancel()
    if isinstance(result, Refused):
        raise HttpProblem(result.status, result.detail)
    return result


class SpooledAnswer(Response):
    """An answer that lies in a file; the file is removed when it is sent, or when it cannot be.

    Args:
        answer: the file.
        stack: removes it.
    """

    def __init__(self, answer: SpoolFile, stack: ExitStack, headers: dict[str, str], media_type: str) -> None:
        super().__init__(headers={**headers, "Content-Length": str(answer.size)}, media_type=media_type)
        self._answer = answer
        self._stack = stack

    async def __call__(self, _: Scope, __: Receive, send: Send) -> None:
        """Send the answer."""
        with self._stack, self._answer.path.open("rb") as file:
            await send(
                {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
            )
            while piece := file.read(PIECE):
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})


REQUEST = {
    "required": True,
    "content": {
        "text/plain": {"schema": {"type": "string", "format": "binary"}},
        JSON: {"schema": {"anyOf": [LogRequest.model_json_schema(), HandlesRequest.model_json_schema()]}},
    },
}
RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The explained log; or its causes, counts, notes and text; or a look-up.",
        "content": {"text/plain": {}, JSON: {}},
        "headers": {
            f"Debug-Archive-{name}": {"schema": {"type": "integer"}, "description": words}
            for name, words in (
                ("Models", "Models of the store."),
                ("Explained", "Failures that are explained."),
                ("Ambiguous", "Failures that stay, for several models may have them."),
                ("Unknown", "Failures that stay, for no model has them."),
            )
        },
    },
    400: documented("The pattern is no regular expression, or the body is no JSON, or no gzip."),
    404: documented("No archive has that id."),
    408: documented("The body did not arrive in time."),
    413: documented("The body, or its explanation, is too long."),
    503: documented("All workers are busy; Retry-After tells when to ask again."),
    504: documented("The work took too long and was ended."),
}
