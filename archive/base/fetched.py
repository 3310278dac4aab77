"""Sources that are read by ranges where they are elsewhere, and mapped where they are here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import one_line
from archive.base.mapped import Mapped
from archive.base.urls import is_elsewhere

if TYPE_CHECKING:
    from archive.base.mapped import Source
    from archive.base.remote import RemoteFile

CLAIMED = 1 << 24
"""Bytes of a file elsewhere, at most, that its allowance of memory follows from."""


class Fetched:
    """The bytes of a file elsewhere, read by ranges when they are asked for.

    Attributes:
        data: the bytes.
        name: the file's URL, for messages.
    """

    __slots__ = ("_file", "data", "name")

    def __init__(self, file: RemoteFile, name: str | None = None) -> None:
        """Read a file by ranges.

        Args:
            file: the file.
            name: for messages; by default the file's own.
        """
        from archive.base.ranged import RangedBytes  # noqa: PLC0415 (files elsewhere alone)

        self.name = one_line(name) if name else file.name
        self.data = RangedBytes(file.read, file.size, head=file.head)
        self._file = file

    @property
    def weight(self) -> int:
        """Bytes of file that its allowance of memory follows from: its size, a claim, only up to a bound."""
        return min(len(self.data), CLAIMED)

    def whole(self) -> Mapped:
        """The whole file, copied; this one is closed.

        Raises:
            ArchiveError: it changed meanwhile.
            OSError: it cannot be read, or there is no space for the copy.
        """
        from archive.base.copies import copied  # noqa: PLC0415 (files elsewhere alone)

        with copied(self._file) as copy:
            self.close()
            return Mapped(copy, self.name)

    def check_unchanged(self) -> None:
        """Refuse a file that is not the version that was opened.

        Raises:
            ArchiveError: it is not.
        """
        self._file.check_unchanged()

    def close(self) -> None:
        """Close the file; views in use stay valid. Closing twice does nothing."""
        self.data.release()
        self._file.close()


def by_ranges(source: Source, name: str | None = None) -> Mapped | Fetched:
    """A source whose bytes are at hand, or if it is elsewhere, read when they are asked for.

    Args:
        source: as for :class:`Mapped`.
        name: the same.

    Raises:
        ArchiveError: the path is no file, or a URL leads nowhere.
        OSError: the source cannot be read.
    """
    if not is_elsewhere(source):
        return Mapped(source, name)
    from archive.base.location import Location  # noqa: PLC0415 (files elsewhere alone)
    from archive.base.remote import opened_remote  # noqa: PLC0415 (files elsewhere alone)

    place = Location(source)
    return Mapped(place.path, name) if place.is_local else Fetched(opened_remote(place), name)
