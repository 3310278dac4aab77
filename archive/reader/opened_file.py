"""The file or two files that an archive is read from: records, kind, archive id."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from archive.base.bounded import bounded_members
from archive.base.errors import ArchiveError
from archive.formats.archive_id import archive_id
from archive.formats.record_kinds import place_of_companion
from archive.reader.recognition import COMPANION, recognise_zip
from archive.reader.records import Rejoined

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType
    from typing import Self

    from archive.base.limits import Limits
    from archive.base.output import Sink
    from archive.container.container import Container
    from archive.reader.companion import Companion
    from archive.reader.recognition import Recognised
    from archive.reader.records import ReadableRecord, Records


@bounded_members
class OpenedFile:
    """The zip, the companion, or both that an archive is read from.

    Args:
        container: the zip; None for a companion alone.
        companion: what the debug information is read from; None where the zip's own records have it.

    Attributes:
        companion: as given.
        allowance: the memory and sizes that the file may ask for, and that both may together.
    """

    def __init__(
        self,
        container: Container | None,
        *,
        companion: Companion | None = None,
    ) -> None:
        self.companion = companion
        self._container = container
        self._source = _records(container, companion)
        self.allowance = self._source.allowance

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; views in use stay valid."""
        self._source.close()

    @property
    def limits(self) -> Limits:
        """The bounds that the file was opened with."""
        return self.allowance.limits

    # The file

    @property
    def file(self) -> str:
        """The file's name, for messages."""
        return self._source.file

    @property
    def root(self) -> str:
        """The folder that all records are in."""
        return self._source.root

    @property
    def size(self) -> int:
        """Bytes of the file, without those of a companion that is a file of its own."""
        return self._source.size

    @property
    def has_code(self) -> bool:
        """Whether it has the model's own records; False for a companion alone."""
        return self._container is not None

    @property
    def container(self) -> Container:
        """The zip.

        Raises:
            ArchiveError: there is none: this is a companion alone.
        """
        if self._container is None:
            raise COMPANION.refusal(self.file)
        return self._container

    @property
    def is_embedded(self) -> bool:
        """Whether it is an archive with a companion inside."""
        records = {} if self._container is None else self._container.records
        return place_of_companion(records) in records

    @property
    def records(self) -> Mapping[str, ReadableRecord]:
        """The records by name, without root, in the file's order."""
        return self._source.records

    @cached_property
    def recognised(self) -> Recognised:
        """The kind of archive, in a sentence."""
        return recognise_zip(self._container) if self._container is not None else COMPANION

    @cached_property
    def archive_id(self) -> bytes:
        """16 bytes that an archive and its companion have in common."""
        return self.companion.archive_id if self.companion else archive_id(self.container.records)

    def save(self, path: Sink, *, force: bool = False) -> None:
        """Write the file again; unchanged content gives identical bytes.

        Args:
            path: the target: a path, or a binary file; written when complete.
            force: replace an existing file.

        Raises:
            ArchiveError: the companion is a file of its own (:func:`archive.join` makes both one), or the
                target exists and ``force`` is not given, or is no regular file; or the file was written to
                since it was opened.
            OSError: the target cannot be written; then it has not been touched.
        """
        if self.companion and self.has_code and not self.is_embedded:
            raise ArchiveError(
                "read together with a companion, which would be missing; write both as one with archive.join",
                file=self.file,
            )
        from archive.base.output import replacing, write_all  # noqa: PLC0415 (only those who write pay)

        with replacing(path, force=force) as file:
            write_all(self._source.data, file)
            self._source.check_unchanged()


def _records(container: Container | None, companion: Companion | None) -> Records:
    """The records of the one that there is, or of both as one."""
    if companion is None:
        if container is None:
            raise TypeError("an archive needs a container, a companion, or both")
        return container
    return companion if container is None else Rejoined(container, companion)
