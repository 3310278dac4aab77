"""The server for people: ``/`` explains a log, ``/report`` shows a model, ``/models`` lists the store.

Forms are plain ones, which need no script. Nothing of what they send stays here: bodies and answers lie in
the spool as long as a request takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.requests import Request  # noqa: TC002 (FastAPI reads annotations)
from starlette.responses import Response

from archive.base.errors import ArchiveError, counted
from archive.page.document import text_of
from archive.server import html, work
from archive.server.forms import MULTIPART
from archive.server.problems import HttpProblem, Reason, busy, note_refusal
from archive.server.settings import LONGEST_NAME
from archive.store.entries import COMPANIONS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from archive.server.desk import Desk
    from archive.server.work import Explained
    from archive.store.stores import OwnStore

MOST_ROWS = 1_000
"""Models that a page lists."""
SHOWN = """
<label>Source <select name="source"><option value="full">text and paths</option>
<option value="basename">text, and names of files</option><option value="none">none</option></select></label>
"""
LOG_FORM = f"""
<p>Paste a log, or drop its file on the field below. The answer is a page of its failures, each at the line
of its model. Nothing is kept here.</p>
<form method="post" action="/" enctype="{MULTIPART}">
<label>Log <textarea name="log" rows="14" spellcheck="false"></textarea></label>
<label>or a file, which gzip may have packed <input type="file" name="file"></label>
{SHOWN}<button>Explain</button></form>"""
MODEL_FORM = f"""
<p>The answer is a page about the model: where its bytes go, its source beside the generated code, what is
wrong with it. The model is read here, never run, and not kept.</p>
<form method="post" action="/report" enctype="{MULTIPART}">
<label>Model <input type="file" name="model" required></label>
{SHOWN}<button>Report</button></form>"""


class PeopleRoutes:
    """The pages of people."""

    def __init__(self, desk: Desk, store: OwnStore[Any], schema: Callable[[], dict[str, Any]]) -> None:
        self._desk = desk
        self._store = store
        self._schema = schema
        self.router = APIRouter(include_in_schema=False, default_response_class=Response)
        route = self.router.add_api_route
        route("/", lambda: html.page("Explain a log", LOG_FORM))
        route("/", self.explain, methods=["POST"])
        route("/report", lambda: html.page("Report on a model", MODEL_FORM))
        route("/report", self.report, methods=["POST"])
        route("/models", self.models)
        route("/docs", self.docs)

    async def explain(self, request: Request) -> Response:
        """The page of a log's failures."""
        return await self._answer(request, LOG_FORM, work.failures_page_of)

    async def report(self, request: Request) -> Response:
        """The page about a model."""
        return await self._answer(request, MODEL_FORM, work.report_of)

    async def _answer(self, request: Request, form: str, task: Callable[..., Any]) -> Response:
        """What a worker makes of a form; a refusal is a page with that form, too."""
        content_type = request.headers.get("content-type", "")[:LONGEST_NAME]
        try:
            return await self._desk.answer(request, html.MEDIA_TYPE, _own_policy, task, content_type)
        except HttpProblem as problem:
            return _refused(request, problem, form)

    def models(
        self,
        request: Request,
        name: Annotated[str, Query(max_length=LONGEST_NAME, description="A part of the name.")] = "",
    ) -> Response:
        """The companions of the store, as a table."""
        try:
            every = self._store.entries()
        except (ArchiveError, OSError) as error:
            return _refused(request, busy(Reason.STORE, str(error)))
        entries = [entry for entry in every if entry.has_in_name(name)]
        rows = [
            (
                text_of(entry.file),
                text_of(", ".join(entry.labels)),
                text_of(entry.facts.top),
                f'<a href="{COMPANIONS}/{quote(entry.archive_id)}">{text_of(entry.archive_id)}</a>',
                f"{entry.prefix or ''}",
                f"{entry.size:,}",
            )
            for entry in entries[:MOST_ROWS]
        ]
        rest = f"; the first {MOST_ROWS:,} are shown" if len(entries) > MOST_ROWS else ""
        search = (
            f'<form action="/models"><label>Name <input name="name" value="{text_of(name)}"></label></form>'
        )
        titles = ("File", "Releases", "Top module", "Archive id", "Handle prefix", "Bytes of its debug info")
        count = f"<p>{counted(len(entries), 'model')} of {len(every):,}{rest}</p>"
        return html.page("Models", search + count + html.table(titles, rows))

    def docs(self) -> Response:
        """The requests of programs, out of their schema."""
        return html.page("Requests over HTTP", described(self._schema()))


def _refused(request: Request, problem: HttpProblem, form: str = "") -> Response:
    """The page of a refusal, with the form that may be sent again."""
    note_refusal(request, problem)
    why = f'<p class="notice" role="alert">{text_of(problem.detail)}</p>'
    return html.page(problem.status.phrase, why + form, problem.status, problem.headers)


def _own_policy(_: Explained | None, page: Path) -> dict[str, str]:
    with page.open("rb") as file:
        return html.headers_of(file.read(html.HEAD_BYTES))


def described(schema: dict[str, Any]) -> str:
    """A description of requests as HTML."""
    parts = [f"<p>{text_of(schema['info'].get('description', ''))}</p>"]
    parts.append('<p><a href="/openapi.json">openapi.json</a> has all of it, for programs.</p>')
    for path, methods in schema["paths"].items():
        for method, about in methods.items():
            parts.append(f"<h2><code>{text_of(method.upper())} {text_of(path)}</code></h2>")
            parts += [f"<p>{text_of(about[key])}</p>" for key in ("summary", "description") if about.get(key)]
            parameters = [
                (
                    f"<code>{text_of(one['name'])}</code>",
                    text_of(one["in"]),
                    text_of(one.get("description", "")),
                )
                for one in about.get("parameters", [])
            ]
            if parameters:
                parts.append(html.table(("Parameter", "In", "What it says"), parameters))
            answers = [
                (text_of(status), text_of(answer.get("description", "")))
                for status, answer in about.get("responses", {}).items()
            ]
            parts.append(html.table(("Answer", "When"), answers))
    return "".join(parts)
