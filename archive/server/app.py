"""The application: routes, and what each answers."""

from __future__ import annotations

import errno
from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

import archive
from archive.base.errors import ArchiveError
from archive.server.companions import Companions
from archive.server.guard import GONE, Guard
from archive.server.logs import Logs
from archive.server.metrics import Metrics
from archive.server.operations import Operations
from archive.server.problems import Problem, answer_to
from archive.server.spool import Spool
from archive.server.workers import Workers
from archive.store.store import Store

if TYPE_CHECKING:
    from starlette.requests import Request

    from archive.server.settings import Settings

FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
DESCRIPTION = """\
Failures of PyTorch models, explained by the models' own source. A failure is explained by the model that its
handles or its log name, or by the only one that nothing contradicts; else it stays as it is, and is counted.
"""


class Service:
    """A store's application, and what works for it.

    Args:
        settings: the server's.

    Attributes:
        app: the application.
        workers: explain logs.

    Raises:
        ArchiveError: the folder is no store.
        OSError: it cannot be read.
    """

    def __init__(self, settings: Settings) -> None:
        self._store = Store.open(settings.store)
        self._spool = Spool(settings.spool)
        self.workers = Workers(settings)
        metrics = Metrics(self.workers, self._spool)
        app = FastAPI(
            title="debug-archive", version=archive.__version__, description=DESCRIPTION, redoc_url=None
        )
        for part in (
            Logs(settings, self._spool, self.workers, metrics),
            Companions(settings, self._spool, self.workers, self._store),
            Operations(self._store, metrics),
        ):
            app.include_router(part.router)
        _answer_refusals(app)
        self.app = Guard(app, metrics, settings)

    async def start(self) -> None:
        """Start the workers, each of which opens the store.

        Raises:
            ArchiveError: one does not start.
        """
        try:
            await self.workers.start()
        except Problem as problem:
            raise ArchiveError(problem.detail) from None

    async def stop(self) -> None:
        """End the workers, and remove what lies on the disk."""
        await self.workers.close()
        self._spool.close()
        self._store.close()


def _answer_refusals(app: FastAPI) -> None:
    """Let every refusal become a problem of one sentence."""

    @app.exception_handler(Problem)
    def _(_: Request, problem: Problem) -> Response:
        return answer_to(problem)

    @app.exception_handler(HTTPException)
    def _(_: Request, error: HTTPException) -> Response:
        return answer_to(Problem(error.status_code, str(error.detail), error.headers))

    @app.exception_handler(RequestValidationError)
    def _(_: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        return answer_to(Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"{place}: {first['msg']}"))

    @app.exception_handler(ClientDisconnect)
    def _(_: Request, __: ClientDisconnect) -> Response:
        return Response(status_code=GONE)

    @app.exception_handler(OSError)
    def _(_: Request, error: OSError) -> Response:
        if error.errno in FULL:
            return answer_to(Problem(HTTPStatus.INSUFFICIENT_STORAGE, "the server's disk is full"))
        raise error

    @app.exception_handler(Exception)
    def _(_: Request, error: Exception) -> Response:
        return answer_to(Problem(500, f"internal error: {type(error).__name__}; the server's log tells more"))
