"""The models of a store, as a worker keeps them: opened once, and anew when the store has changed."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from archive.fleet.models import Models, models_of
from archive.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator


class Shelf:
    """The models of a store.

    Args:
        path: the store's folder.

    Attributes:
        store: the store.
    """

    def __init__(self, path: str) -> None:
        self.store = Store.open(path)
        self._models: Models | None = None
        self._digests: list[str] = []

    @contextmanager
    def models(self) -> Iterator[Models]:
        """The models as they are now, for the time of a request.

        Raises:
            ArchiveError: the store is broken.
            OSError: it cannot be read.
        """
        digests = [entry.digest for entry in self.store.entries()]
        if self._models is None or digests != self._digests:
            self.close()
            self._models, self._digests = models_of(self.store), digests
        try:
            yield self._models
        finally:
            if self._models.unread:  # for now, or for good: the next request asks again
                self.close()

    def close(self) -> None:
        """Close all models."""
        if self._models is not None:
            self._models.close()
            self._models = None
