"""``/healthz`` and ``/metrics``, for those who run the server."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.responses import Response

from archive.base.errors import ArchiveError
from archive.server.problems import Problem

if TYPE_CHECKING:
    from archive.server.metrics import Metrics
    from archive.store.store import Store


class Operations:
    """The routes of operations.

    Args:
        store: the server's.
        metrics: likewise.

    Attributes:
        router: the routes.
    """

    def __init__(self, store: Store, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics
        self.router = APIRouter()
        self.router.add_api_route(
            "/healthz", self.health, summary="Whether the store can be read", responses={503: {}}
        )
        self.router.add_api_route(
            "/metrics", self.metrics, summary="Numbers for Prometheus", response_class=Response
        )

    def health(self) -> dict[str, object]:
        """Whether the store can be read, and how many companions it has."""
        try:
            return {"status": "ok", "companions": len(self._store.entries())}
        except (ArchiveError, OSError) as error:
            raise Problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None

    def metrics(self) -> Response:
        """The numbers, as text."""
        return Response(generate_latest(self._metrics.registry), media_type=CONTENT_TYPE_LATEST)
