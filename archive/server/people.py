"""The server for people: ``/`` explains a log, ``/report`` shows a model, ``/models`` lists the store.

Forms are plain ones, which need no script. Nothing of what they send stays here: bodies and answers lie in
the spool as long as a request takes.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request  # noqa: TC002 (FastAPI reads annotations)
from starlette.responses import Response

from archive.base.errors import ArchiveError, counted, shown
from archive.page.markup import FIGURE, UNBROKEN, table, text_of
from archive.render.store import day_of
from archive.server import html, work
from archive.server.forms import MULTIPART
from archive.server.problems import HttpProblem, Reason, busy, note_refusal
from archive.server.reference import described
from archive.server.settings import LONGEST_NAME
from archive.store.entries import COMPANIONS, ID_SHOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import Any

    from archive.server.desk import Desk
    from archive.server.work import Explained
    from archive.server.workers import Workers
    from archive.store.entries import AnyEntry
    from archive.store.stores import OwnStore

MOST_ROWS = 1_000
"""Models that a page lists."""
EXPLAIN, REPORT, MODELS, DOCS = (address for address, _ in html.LINKS)
SHOWN = """
<label>Source <select name="source"><option value="full">text and paths</option>
<option value="basename">text, and names of files</option><option value="none">none</option></select></label>
"""
MODEL_FORM = f"""
<p>The answer is a page about the model: where its bytes go, its source beside the generated code, what is
wrong with it. The model is read here, never run, and not kept.</p>
<form method="post" action="{REPORT}" enctype="{MULTIPART}">
<label>Model <input type="file" name="model" required></label>
{SHOWN}<button class="primary">Report</button></form>"""
NO_EXAMPLE = (
    '<p class="notice" role="status">No model of this store has a failure that could be an example.</p>'
)
COLUMNS = (
    ("File", ""),
    ("Labels", ""),
    ("Added", UNBROKEN),
    ("Top module", ""),
    ("Archive id", UNBROKEN),
    ("Handle prefix", FIGURE),
    ("Bytes of debug info", FIGURE),
)


class PeopleRoutes:
    """The pages of people."""

    def __init__(
        self,
        pages: html.Pages,
        desk: Desk,
        workers: Workers,
        store: OwnStore[Any],
        schema: Callable[[], dict[str, Any]],
    ) -> None:
        self._pages = pages
        self._desk = desk
        self._workers = workers
        self._store = store
        self._schema = schema
        self.router = APIRouter(include_in_schema=False, default_response_class=Response)
        route = self.router.add_api_route
        route(EXPLAIN, self.start)
        route(EXPLAIN, self.explain, methods=["POST"])
        route(REPORT, lambda: pages.page(REPORT, "Report on a model", MODEL_FORM))
        route(REPORT, self.report, methods=["POST"])
        route(MODELS, self.models)
        route(DOCS, lambda: pages.page(DOCS, "Requests over HTTP", described(schema())))

    async def start(
        self,
        request: Request,
        *,
        example: Annotated[bool, Query(description="Fill in a log that the store explains.")] = False,
    ) -> Response:
        """The form that takes a log; with ``example``, it has one."""
        log = ""
        try:
            if example:
                log = await self._workers.run(work.example)
            has_examples = await run_in_threadpool(self._has_examples)
        except HttpProblem as problem:
            return self._refused(request, problem, EXPLAIN, log_form())
        note = NO_EXAMPLE if example and not log else ""
        form = note + log_form(log, has_example=has_examples and not example)
        return self._pages.page(EXPLAIN, "Explain a log", form)

    def _has_examples(self) -> bool:
        """Whether a model of the store has debug handles, of which a failure could be made up."""
        return any(entry.facts.handles for entry in self._entries())

    async def explain(self, request: Request) -> Response:
        """The page of a log's failures."""
        return await self._answer(request, EXPLAIN, log_form(), work.failures_page_of)

    async def report(self, request: Request) -> Response:
        """The page about a model."""
        return await self._answer(request, REPORT, MODEL_FORM, work.report_of)

    async def _answer(self, request: Request, at: str, form: str, task: Callable[..., Any]) -> Response:
        """What a worker makes of a form; a refusal is a page with that form, too."""
        given = request.headers.get("content-type", "")[:LONGEST_NAME], self._pages.top(at)
        try:
            return await self._desk.answer(request, html.MEDIA_TYPE, _own_policy, task, *given)
        except HttpProblem as problem:
            return self._refused(request, problem, at, form)

    def _refused(self, request: Request, problem: HttpProblem, at: str, form: str = "") -> Response:
        """The page of a refusal, with the form that may be sent again."""
        note_refusal(request, problem)
        return self._pages.of_problem(problem, at, form)

    def models(
        self,
        request: Request,
        name: Annotated[str, Query(max_length=LONGEST_NAME, description="A part of the name.")] = "",
    ) -> Response:
        """The companions of the store as a table, by the names of their files."""
        try:
            every = self._entries()
        except HttpProblem as problem:
            return self._refused(request, problem, MODELS)
        entries = [entry for entry in every if entry.has_in_name(name)]
        entries.sort(key=lambda entry: (entry.file.casefold(), entry.file, -entry.added))
        search = (
            f'<form class="search" action="{MODELS}"><label>Name or label '
            f'<input type="search" name="name" value="{text_of(name)}"></label>'
            '<button class="primary">Search</button></form>'
        )
        return self._pages.page(MODELS, "Models", search + _listed(entries, len(every), name))

    def _entries(self) -> Sequence[AnyEntry]:
        try:
            entries: Sequence[AnyEntry] = self._store.entries()
        except (ArchiveError, OSError) as error:
            raise busy(Reason.STORE, str(error)) from None
        return entries


def log_form(log: str = "", *, has_example: bool = False) -> str:
    """The form that takes a log, with a log in it, or with a link to an example."""
    way = f' <a href="{EXPLAIN}?example=1">Fill in an example</a>' if has_example else ""
    return f"""
<p>Paste a log, or drop its file on the field below. The answer is a page of its failures, each at the line
of its model. Nothing is kept here.{way}</p>
<form method="post" action="{EXPLAIN}" enctype="{MULTIPART}">
<label>Log <textarea name="log" rows="14" spellcheck="false">\n{escape(log)}</textarea></label>
<label>or a file, which gzip may have packed <input type="file" name="file"></label>
{SHOWN}<button class="primary">Explain</button></form>"""


def _listed(entries: Sequence[AnyEntry], total: int, name: str) -> str:
    """Models as a table, and how many they are."""
    if not entries:
        why = f"no file, class or label has {shown(name)} in its name" if total else "the store is empty"
        return f"<p>No models: {text_of(why)}.</p>"
    count = ("" if len(entries) == total else f"{len(entries):,} of ") + counted(total, "model")
    rest = f"; the first {MOST_ROWS:,} are shown" if len(entries) > MOST_ROWS else ""
    titles, kinds = zip(*COLUMNS, strict=True)
    return f"<p>{count}{rest}</p>" + table(titles, [*map(_row, entries[:MOST_ROWS])], kinds)


def _row(entry: AnyEntry) -> tuple[str, ...]:
    """The cells of a model."""
    address = f"{COMPANIONS}/{quote(entry.archive_id)}"
    day = day_of(entry.added)
    return (
        text_of(entry.file),
        text_of(", ".join(entry.labels)),
        f'<time datetime="{day}">{day}</time>',
        text_of(entry.facts.top),
        f'<a href="{address}" download>{text_of(entry.archive_id[:ID_SHOWN])}</a>',
        f"{entry.prefix or ''}",
        f"{entry.size:,}",
    )


def _own_policy(_: Explained | None, page: Path) -> dict[str, str]:
    with page.open("rb") as file:
        return html.headers_of(file.read(html.HEAD_BYTES))
