"""Files elsewhere, read by ranges, and always the same version.

Of each answer it is checked that it is whole, and of the version that was opened. An HTTP server names the
version (ETag, Last-Modified, size) in the answer itself; S3 is asked for this version alone (``If-Match``);
elsewhere the file's facts are asked for again after each range.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from archive.base.errors import ArchiveError
from archive.base.location import CHANGED, check_whole

if TYPE_CHECKING:
    from archive.base.location import Location, Version


class RemoteFile(Protocol):
    """A file that is read by ranges.

    Attributes:
        name: its URL for messages.
        size: in bytes.
        head: its first bytes, as far as they are known.
        version: that which was opened.
    """

    name: str
    size: int
    head: bytes
    version: Version

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from one place to another, all of them.

        Raises:
            ArchiveError: the file changed, or the answer is not whole.
            OSError: they cannot be read.
        """

    def check_unchanged(self) -> None:
        """Refuse a file that is not the version that was opened.

        Raises:
            ArchiveError: it is not.
            OSError: it cannot be read any more.
        """

    def close(self) -> None:
        """Close it."""


def opened_remote(place: Location) -> RemoteFile:
    """Open a file, which costs one or two requests.

    Raises:
        ArchiveError: the server's answer makes no sense, or is a large file as a whole.
        OSError: it cannot be read.
    """
    if not place.is_http:
        return _StoredFile(place)
    from archive.base.http import HttpFile  # noqa: PLC0415 (other places do without)

    return HttpFile(place)


class _StoredFile:
    """A file of any file system of fsspec but HTTP."""

    head = b""

    def __init__(self, place: Location) -> None:
        self.name = place.name
        self._place = place
        with place.told():
            place.fs.invalidate_cache(place.path)
            self._file = place.fs.open(place.path, "rb", cache_type="none")
            facts = getattr(self._file, "details", None) or place.facts()  # of which S3 is asked once
            if facts.get("type") == "directory":
                raise ArchiveError(expected="a file", found="a folder", file=self.name)
            self.version = place.version(facts)
            self.size = int(facts["size"])

    def read(self, start: int, stop: int) -> bytes:
        """The bytes from one place to another, all of them."""
        with self._place.told():
            self._file.seek(start)
            data: bytes = self._file.read(stop - start)
        if not self._place.is_s3:  # which is asked for the version that was opened
            self.check_unchanged()
        check_whole(self.name, data, stop - start)
        return data

    def check_unchanged(self) -> None:
        """Refuse a file that is not the version that was opened."""
        with self._place.told():
            now = self._place.version(self._place.facts())
        if now != self.version:
            raise ArchiveError(CHANGED, file=self.name)

    def close(self) -> None:
        """Close the file."""
        with self._place.told("closed"):
            self._file.close()
