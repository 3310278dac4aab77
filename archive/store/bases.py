"""Bases: companions that others resemble. What they have in common is kept once.

The first companion of its kind becomes a base: a file beside the companions, named by its digest. Every later
one, and the first one itself, is kept as what differs from a base. A base is no companion of the store: it
stays as long as a companion needs it, whichever companions are removed.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, in_file
from archive.base.mapped import Mapped, in_memory
from archive.base.spending import Recent
from archive.store.kept import digest_of
from archive.store.plain import plain_of

if TYPE_CHECKING:
    from archive.base.limits import Limits
    from archive.store.folder import Folder

BYTES_KEPT = 1 << 25
"""Bytes of plain forms that are kept in memory."""
MOST_SHARED = 1 << 24
"""Bytes of the largest plain form that is compared with others; larger companions are kept alone."""


class Bases:
    """The bases of a store, in their plain form; those used last stay in memory.

    Args:
        folder: of the store.
        limits: what a base may cost.
    """

    def __init__(self, folder: Folder, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._recent = Recent[str, bytes](BYTES_KEPT)
        self._lock = Lock()

    def plain(self, digest: str) -> bytes:
        """The plain form of a base; empty where ``digest`` is.

        Raises:
            ArchiveError: the base was changed.
            OSError: it cannot be read.
        """
        if not digest:
            return b""
        with self._lock:
            found = self._recent.get(digest)
        if found is None:
            found = self._read(digest)
            with self._lock:
                self._recent.keep(digest, found, len(found))
        return found

    def _read(self, digest: str) -> bytes:
        path = self._folder.base_path(digest)
        data = Mapped(in_memory(path)).data
        with in_file(str(path)):
            if digest_of(data).hex() != digest:
                raise ArchiveError("this base was changed; the companions that need it are lost with it")
            return plain_of(data, self._limits.allowance(len(data))).data
