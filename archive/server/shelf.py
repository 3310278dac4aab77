"""The models of a store, as a worker keeps them: opened once, and anew when the store has changed."""

from __future__ import annotations

from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.failures.models.sources import models_of
from archive.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.failures.models.models import Models


class UnreadableError(ArchiveError):
    """A store that cannot be read, for now or for good."""


class Shelf:
    """The models of a store.

    Args:
        path: the store's folder.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._models: Models | None = None
        self._digests: list[str] = []

    @cached_property
    def store(self) -> Store:
        """The store.

        Raises:
            ArchiveError: the folder is none.
            OSError: it cannot be read.
        """
        return Store.open(self._path)

    @contextmanager
    def models(self) -> Iterator[Models]:
        """The models as they are now, for the time of a request.

        Raises:
            UnreadableError: the store cannot be read.
        """
        try:
            models = self._current()
        except (ArchiveError, OSError) as error:
            raise UnreadableError(str(error)) from error
        try:
            yield models
        finally:
            if models.unread:  # for now, or for good: the next request asks again
                self.close()

    def _current(self) -> Models:
        digests = [entry.digest for entry in self.store.entries()]
        if self._models is None or digests != self._digests:
            self.close()
            self._models, self._digests = models_of(self.store), digests
        return self._models

    def close(self) -> None:
        """Close all models."""
        if self._models is not None:
            self._models.close()
            self._models = None
