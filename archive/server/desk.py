"""A body in, what a worker makes of it out: both lie in the spool as long as the request takes."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack
from typing import TYPE_CHECKING

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from archive.server.spool import receive

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from starlette.requests import Request
    from starlette.types import Receive, Scope, Send

    from archive.server.problems import HttpProblem
    from archive.server.settings import Settings
    from archive.server.spool import Spool, SpoolFile
    from archive.server.work import Explained
    from archive.server.workers import Workers

PIECE = 1 << 18
"""Bytes of an answer that are sent at once."""


class Desk:
    """Takes the bodies of requests, gives the answers of workers, and counts the failures of logs."""

    def __init__(
        self, settings: Settings, spool: Spool, workers: Workers, count: Callable[[Explained], None]
    ) -> None:
        self._settings = settings
        self._spool = spool
        self._workers = workers
        self._count = count

    async def answer(
        self,
        request: Request,
        media_type: str,
        headers: Callable[[Explained | None, Path], dict[str, str]],
        task: Callable[..., Explained | HttpProblem | None],
        *arguments: object,
    ) -> Response:
        """What a worker makes of a request's body.

        Args:
            headers: of the answer, by what the worker says of it, and its file.
            task: one of :mod:`archive.server.work`, which takes the files of body and answer.
        """
        with ExitStack() as stack:
            body, answer = (stack.enter_context(self._spool.file()) for _ in range(2))
            await receive(request, body, self._settings)
            explained = await self._worked(request, task, body.path, answer.path, *arguments)
            if explained is not None:
                self._count(explained)
            body.remove()
            answer.count(answer.path.stat().st_size)
            return _SpooledAnswer(answer, headers(explained, answer.path), media_type, stack.pop_all())

    async def _worked(
        self, request: Request, task: Callable[..., Explained | HttpProblem | None], *arguments: object
    ) -> Explained | None:
        """What a worker says, unless the client leaves before."""
        working = asyncio.ensure_future(self._workers.run(task, *arguments))
        leaving = asyncio.ensure_future(request.receive())
        try:
            await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                raise ClientDisconnect
            return await working
        finally:
            for future in (working, leaving):
                future.cancel()


class _SpooledAnswer(Response):
    """An answer that lies in a file; the file is removed when it is sent, or when it cannot be."""

    def __init__(self, answer: SpoolFile, headers: dict[str, str], media_type: str, stack: ExitStack) -> None:
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
