"""``/v1/companions``: the companions of the store, listed, given out by their ids, and added.

Conditions and ranges of requests for one of them follow RFC 9110, sections 13 and 14.
"""

from __future__ import annotations

import hmac
import json
import re
from base64 import b64encode
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Depends, Path, Query
from fastapi.security import HTTPBearer
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request  # noqa: TC002 (FastAPI reads annotations)
from starlette.responses import Response

from archive.base.digests import digest_of
from archive.base.errors import ArchiveError, shown
from archive.base.quick_dataclass import dataclass
from archive.reader.facts import MAX_ID
from archive.server import work
from archive.server.problems import JSON, HttpProblem, Reason, busy, documented, header
from archive.server.settings import LONGEST_NAME
from archive.server.spool import CLOSE, receive
from archive.store.entries import COMPANIONS, LINES, MOST_LISTED, entry_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from archive.server.settings import Settings
    from archive.server.spool import Spool
    from archive.server.workers import Workers
    from archive.store.entries import AnyEntry
    from archive.store.stores import OwnStore


# --- ranges

RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
TAG = re.compile(r'(?:W/)?("[^"]*")')


@dataclass(frozen=True, slots=True)
class Representation:
    """Bytes with a strong entity tag, which has its quotes."""

    read: Callable[[], bytes]
    size: int
    tag: str
    headers: Mapping[str, str]
    media_type: str

    def answer(self, request: Request) -> Response:
        """The answer with the bytes, or the part that is asked for, or none if the client has them."""
        asked = request.headers
        headers = {"ETag": self.tag, "Accept-Ranges": "bytes", **self.headers}
        known = asked.get("if-none-match", "")  # weak and strong tags compare alike here
        if known.strip() == "*" or self.tag in TAG.findall(known):
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        if request.method == "HEAD":
            headers["Content-Length"] = str(self.size)
            return Response(headers=headers, media_type=self.media_type)
        part = None
        if asked.get("if-range", self.tag) == self.tag:  # a weak tag or a date never fits
            part = part_of(asked.get("range", ""), self.size)
        if part is None:
            return Response(self.read(), headers=headers, media_type=self.media_type)
        if not part:
            headers["Content-Range"] = f"bytes */{self.size}"
            return Response(status_code=HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, headers=headers)
        headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{self.size}"
        data = self.read()[part.start : part.stop]
        return Response(data, HTTPStatus.PARTIAL_CONTENT, headers, self.media_type)


def tag_of(data: bytes) -> str:
    """The strong entity tag of bytes."""
    return f'"{digest_of(data).hex()}"'


def part_of(asked: str, size: int) -> range | None:
    """The range that is asked for, empty if there are no such bytes; None without one valid range."""
    bounds = RANGE.fullmatch(asked.strip())
    if not bounds or bounds[1] == bounds[2] == "":
        return None
    if not bounds[1]:
        return range(max(0, size - int(bounds[2])), size)
    first, last = int(bounds[1]), int(bounds[2]) if bounds[2] else size - 1
    if bounds[2] and last < first:
        return None
    return range(first, min(last + 1, size))


# --- companions

BINARY = "application/octet-stream"
MAY_CHANGE = {"Cache-Control": "no-cache"}
"""A companion may be replaced: caches ask whether theirs is still the same."""
READ_ONLY = "this server is read only; `debug-archive serve --token-file FILE` takes companions"


class Companions:
    """The routes of companions."""

    def __init__(self, settings: Settings, spool: Spool, workers: Workers, store: OwnStore[Any]) -> None:
        self._settings = settings
        self._spool = spool
        self._workers = workers
        self._store = store
        self.router = APIRouter(prefix=COMPANIONS)
        route = self.router.add_api_route
        route(
            "",
            self.page,
            summary="List companions",
            response_class=Response,
            openapi_extra={"parameters": ASKED[:1]},
            responses=LISTED,
        )
        route(
            "",
            self.add,
            methods=["PUT"],
            summary="Add a companion",
            response_class=Response,
            openapi_extra=SENT,
            responses=ADDED,
            dependencies=[Depends(BEARER)],
        )
        route(
            "/{id}",
            self.give,
            summary="Get a companion file",
            response_class=Response,
            openapi_extra={"parameters": ASKED},
            responses=GIVEN,
        )
        route(
            f"/{{id}}/{LINES}",
            self.lines,
            summary="Get the digests of a companion's lines of code",
            response_class=Response,
            openapi_extra={"parameters": ASKED[:1]},
            responses=LINES_GIVEN,
        )

    def page(
        self,
        request: Request,
        *,
        after: Annotated[str, Query(description="The id after which the page begins.")] = "",
        limit: Annotated[
            int, Query(ge=1, le=MOST_LISTED, description="How many companions a page has at most.")
        ] = 100,
        prefix: Annotated[int | None, Query(ge=0, description="The prefix of unique handles.")] = None,
        name: Annotated[str, Query(description="A part of the file's name, top class or label.")] = "",
        facts: Annotated[bool, Query(description="List handles and code records, too.")] = False,
    ) -> Response:
        """A page of companions, in the order of their ids."""
        try:
            every = self._store.entries()
        except (ArchiveError, OSError) as error:
            raise busy(Reason.STORE, str(error)) from None
        entries = [entry for entry in every if prefix in (None, entry.prefix) and entry.has_in_name(name)]
        page, following = _page(entries, after, limit)
        content = {
            "companions": [entry_json(entry, complete=facts) for entry in page],
            "total": len(entries),
            "next": following,
        }
        data = json.dumps(content, ensure_ascii=False).encode()
        return Representation(lambda: data, len(data), tag_of(data), MAY_CHANGE, JSON).answer(request)

    def give(
        self,
        request: Request,
        id: Annotated[  # noqa: A002 (the parameter's name)
            str,
            Path(description="An archive id, a prefix of handles, or a file's name, also `NAME@LABEL`."),
        ],
        *,
        digest: Annotated[str, Query(description="That of the list, where several have the id.")] = "",
    ) -> Response:
        """A companion file, or a part of it; `HEAD` gives its headers only."""
        entry = self._named(id, digest)
        headers = {**MAY_CHANGE, "Debug-Archive-Id": entry.archive_id}
        tag = f'"{entry.digest}"'
        return Representation(partial(self._read, entry), entry.size, tag, headers, BINARY).answer(request)

    def lines(
        self,
        request: Request,
        id: Annotated[str, Path(description="As of a companion.")],  # noqa: A002 (the parameter's name)
        *,
        digest: Annotated[str, Query(description="That of the list, where several have the id.")] = "",
    ) -> Response:
        """What the store noted of the code when it was given the archive; the companion is without it."""
        entry = self._named(id, digest)
        try:
            noted = self._store.lines_of(entry)
        except (ArchiveError, OSError) as error:
            raise HttpProblem(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from None
        lines = {name: b64encode(digests).decode() for name, digests in noted.items()}
        data = json.dumps({LINES: lines}, ensure_ascii=False).encode()
        return Representation(lambda: data, len(data), tag_of(data), MAY_CHANGE, JSON).answer(request)

    def _read(self, entry: AnyEntry) -> bytes:
        """The bytes of a companion."""
        try:
            data = self._store.given_of(entry).data
        except (ArchiveError, OSError) as error:
            raise HttpProblem(HTTPStatus.INTERNAL_SERVER_ERROR, str(error)) from None
        if digest_of(data).hex() != entry.digest:
            raise busy(Reason.REPLACED, "the companion was replaced this moment; try again")
        return data

    async def add(
        self,
        request: Request,
        *,
        name: Annotated[str, Query(max_length=LONGEST_NAME, description="The name of the file.")] = "",
        root: Annotated[str, Query(max_length=LONGEST_NAME, description="The archive's root.")] = "",
        serialization_id: Annotated[str, Query(max_length=MAX_ID, description="The archive's own id.")] = "",
        replace: Annotated[bool, Query(description="Take the place of another of its archive id.")] = False,
        label: Annotated[str, Query(max_length=64, description="What the release is called: 1.4.2.")] = "",
    ) -> Response:
        """Add a companion, or the companion of an archive."""
        sent = work.Sent(name or "sent.ptdbg", root, serialization_id, replace, label)
        self._check_token(request.headers.get("authorization", ""))
        with self._spool.file() as body, self._spool.file() as answer:
            await receive(request, body, self._settings)
            result = await self._workers.run(work.add, body.path, answer.path, sent)
            data = await run_in_threadpool(answer.path.read_bytes)
        return Response(data, HTTPStatus.CREATED if result else HTTPStatus.OK, media_type=JSON)

    def _check_token(self, authorization: str) -> None:
        """Refuse a request without the token."""
        if self._settings.token is None:
            raise HttpProblem(HTTPStatus.FORBIDDEN, READ_ONLY)
        scheme, _, token = authorization.partition(" ")
        is_right = hmac.compare_digest(token.strip().encode(), self._settings.token.encode())
        if scheme.lower() != "bearer" or not is_right:
            why = "the token is missing or wrong; send `Authorization: Bearer TOKEN`"
            raise HttpProblem(HTTPStatus.UNAUTHORIZED, why, {"WWW-Authenticate": "Bearer", **CLOSE})

    def _named(self, word: str, digest: str) -> AnyEntry:
        """The companion that a word means: see :meth:`~archive.store.store.Store.find`."""
        try:
            meant: Sequence[AnyEntry] = self._store.find(word)
        except (ArchiveError, OSError) as error:
            raise busy(Reason.STORE, str(error)) from None
        entries = [entry for entry in meant if digest in {"", entry.digest}]
        if len(entries) == 1:
            return entries[0]
        count = f"{len(entries)} companions have" if entries else "no companion has"
        status = HTTPStatus.CONFLICT if entries else HTTPStatus.NOT_FOUND
        raise HttpProblem(
            status, f"{count} the id, prefix or name {shown(word)}; GET /v1/companions lists all"
        )


def _page(entries: Sequence[AnyEntry], after: str, limit: int) -> tuple[Sequence[AnyEntry], str | None]:
    """The companions after an id, and the id after which the next page begins; None after the last one.

    Those of one id, of which a bucket may have several, stay on one page.
    """
    page = [entry for entry in entries if entry.archive_id > after]
    if len(page) <= limit:
        return page, None
    last = page[limit - 1].archive_id
    page = [entry for entry in page if entry.archive_id <= last]
    return page, last if entries[-1].archive_id > last else None


BODY = {"type": "string", "format": "binary", "description": "A companion, or an archive with debug info."}
SENT = {"requestBody": {"required": True, "content": {BINARY: {"schema": BODY}}}}
BEARER = HTTPBearer(auto_error=False, description="The server's token.")
"""Describes the token; what is wrong with one is said by the route."""
ASKED = [
    header("If-None-Match", "Tags of what the client has: if one is that of the answer, it has no body."),
    header("Range", "The part of the file that is wanted: `bytes=0-99`."),
    header("If-Range", "The tag of the file that the part is of; if it has another one, all of it comes."),
]
LISTED: dict[int | str, dict[str, Any]] = {
    200: {"description": "A page of companions.", "content": {JSON: {}}},
    304: {"description": "The client has it: `If-None-Match`."},
}
ADDED: dict[int | str, dict[str, Any]] = {
    200: {"description": "The store has it already.", "content": {JSON: {}}},
    201: {"description": "It is added.", "content": {JSON: {}}},
    401: documented("The token is missing or wrong."),
    403: documented("The server is read only."),
    409: documented("Another archive has its id, or its handle prefix."),
    408: documented("The body did not arrive in time."),
    413: documented("The body is too long."),
    504: documented("The work took too long and was ended."),
}
LINES_GIVEN: dict[int | str, dict[str, Any]] = {
    200: {"description": "Digests of 3 bytes each, in base64, by code record; none without them."},
    304: {"description": "The client has it: `If-None-Match`."},
    404: documented("No companion has that id."),
    409: documented("Several companions have an id of that beginning."),
}
GIVEN: dict[int | str, dict[str, Any]] = {
    200: {"description": "The companion, as it was added.", "content": {BINARY: {}}},
    206: {"description": "The part that `Range` asks for.", "content": {BINARY: {}}},
    304: {"description": "The client has it: `If-None-Match`."},
    404: documented("No companion has that id."),
    409: documented("Several companions have an id of that beginning."),
    416: {"description": "It has no such part."},
}
