"""``POST /v1/symbolicate``: logs and handles in, explanations out."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request  # noqa: TC002 (FastAPI reads annotations)
from starlette.responses import Response

from archive.server import work
from archive.server.problems import JSON, HttpProblem, documented, header
from archive.server.work import ABOUT_IDS, ABOUT_NAMES, HandlesRequest, LogRequest, Pattern

if TYPE_CHECKING:
    from pathlib import Path

    from archive.server.desk import Desk
    from archive.server.work import Explained

TEXT = "text/plain; charset=utf-8"
ENCODINGS = ("", "identity", "gzip")
ABOUT = """\
A log as `text/plain`, which gzip may have packed, comes back with every failure explained, to the byte as
`debug-archive symbolicate STORE` prints it; the headers count. `{"log": …}` gives the causes of the failures,
and the explained log; `{"handles": …}` gives the source of the handles of one failure.
"""


class Logs:
    """The routes of logs."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self.router = APIRouter()
        self.router.add_api_route(
            "/v1/symbolicate",
            self.symbolicate,
            methods=["POST"],
            summary="Explain the failures in a log",
            description=ABOUT,
            response_class=Response,
            responses=RESPONSES,
            openapi_extra={"parameters": [PACKED], "requestBody": REQUEST},
        )

    async def symbolicate(
        self,
        request: Request,
        id: Annotated[Pattern | None, Query(description=ABOUT_IDS)] = None,  # noqa: A002 (the parameter's name)
        model: Annotated[Pattern | None, Query(description=ABOUT_NAMES)] = None,
    ) -> Response:
        """Explain a log, or look up handles."""
        if request.headers.get("content-encoding", "").lower() not in ENCODINGS:
            raise HttpProblem(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "Content-Encoding: only gzip is known")
        is_json = request.headers.get("content-type", "").partition(";")[0].strip().lower() == JSON
        if is_json:
            if id is not None or model is not None:
                why = "in JSON, `id` and `model` are fields of the body, not parameters"
                raise HttpProblem(HTTPStatus.UNPROCESSABLE_ENTITY, why)
            return await self._desk.answer(request, JSON, _counts, work.explain_json)
        return await self._desk.answer(request, TEXT, _counts, work.explain_text, id, model)


def _counts(explained: Explained | None, _: Path) -> dict[str, str]:
    """The counts of a log's failures, as headers."""
    counts = explained._asdict() if explained else {}
    return {f"Debug-Archive-{name.capitalize()}": str(count) for name, count in counts.items()}


PACKED = header(
    "Content-Encoding", "`gzip` where the log is packed; one that is packed is also known by its first bytes."
)
REQUEST = {
    "required": True,
    "content": {
        "text/plain": {
            "schema": {"type": "string", "format": "binary", "description": "The log, as it is or gzipped."}
        },
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
                (
                    "Notes",
                    "Notes on failures and patterns; the answer in JSON has them.",
                ),
            )
        },
    },
    400: documented("The pattern isn't a regular expression, the body isn't JSON, or only begins like gzip."),
    404: documented("No archive has that id."),
    422: documented(
        "A parameter or a field is unknown, given twice or out of its bounds; or a body in JSON, whose "
        "fields they are, comes with parameters."
    ),
    415: documented("`Content-Encoding` is neither `gzip` nor `identity`."),
    408: documented("The body did not arrive in time."),
    413: documented("The body, or its explanation, is too long."),
    504: documented("The work took too long and was ended."),
}
