"""The digests of an archive's file and of its records, each computed once, beside other work where it can be.

Hashing is most of the work on large archives, and lets other threads run. What is written is compared with
what was read: where the same bytes count for the archive id, the id is the same, and none is computed.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from archive.base.cores import cores, meanwhile
from archive.base.errors import ArchiveError
from archive.formats.archive_id import archive_id, digest_of, has_divided, plain_pieces, same_counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.container.container import Container
    from archive.reader.programs import Programs


FEW_CORES = 2
"""Cores that both digests and other work would share."""


class Digested(Protocol):
    """What an archive has that is digested."""

    @property
    def container(self) -> Container:
        """Its zip."""

    @property
    def programs(self) -> Programs:
        """Its exported programs."""

    @property
    def digests(self) -> Digests:
        """The digests of its file."""


class Digests:
    """The digests of an archive, without a companion that may be inside.

    Args:
        archive: the archive.

    Attributes:
        like: the source archive; its id is reused if the hashed records are equal.
    """

    def __init__(self, archive: Digested) -> None:
        self._archive = archive
        self.like: Digested | None = None
        self._id: Callable[[], bytes] | None = None
        self._file: Callable[[], bytes] | None = None

    def begin(self, *, file: bool = True, busy: bool = False) -> None:
        """Compute those of a large archive in threads of their own from now on.

        Args:
            file: whether that of the file is needed, too.
            busy: whether the caller has other work to do meanwhile. On few cores, one of these is left to it.
        """
        container = self._archive.container
        if file:
            self._file = meanwhile(self._of_file, container.size)
        if not has_divided(container.records):
            with suppress(ArchiveError):  # whoever asks for the id will know
                pieces = plain_pieces(container.records)
                takes_turns = file and busy and cores() <= FEW_CORES

                def of_records() -> bytes:
                    if takes_turns:
                        _ = self.file
                    return digest_of(pieces)

                self._id = meanwhile(of_records, container.size)

    @cached_property
    def id(self) -> bytes:
        """The archive id of the records, 16 bytes."""
        if self._id is not None:
            return self._id()
        archive = self._archive
        records = archive.container.records
        if self.like is not None and same_counted(records, self.like.container.records):
            return self.like.digests.id
        left = archive.programs.left if "programs" in vars(archive) else None
        return archive_id(records, left)

    @cached_property
    def file(self) -> bytes:
        """The digest of the file, 8 bytes."""
        return (self._file or self._of_file)()

    def _of_file(self) -> bytes:
        import hashlib  # noqa: PLC0415 (only those who ask for it pay)

        from archive.companion.members import FILE_DIGEST  # noqa: PLC0415 (the same)

        return hashlib.blake2b(self._archive.container.data, digest_size=FILE_DIGEST.size).digest()
