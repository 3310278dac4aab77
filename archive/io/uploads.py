"""Remote targets, by fsspec URLs: first written to a file on this machine, then put there in one go.

A put is atomic for object stores (S3, Google Cloud Storage, Azure): the target is the old object or the new
one. File servers (SFTP, FTP, SMB) may show a part of a file for a time. S3 and Google Cloud Storage reject
the upload if the object appeared meanwhile; other stores overwrite an object that appeared between the last
check and the put. The file on this machine has a name in the folder for temporary files, and loses it at the
end; a process that is killed leaves it.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing, suppress
from typing import TYPE_CHECKING, BinaryIO, cast

from archive.base.errors import ArchiveError
from archive.io.remote import KEPT, copied, opened_remote

if TYPE_CHECKING:
    from archive.io.location import Location, Version

EXCLUSIVE = {"s3", "s3a", "gs", "gcs"}
"""Schemes of stores that can refuse a put over an object."""


class Upload:
    """A file to write and read on this machine, which becomes a remote target or leaves it untouched."""

    def __init__(self, place: Location) -> None:
        place.check_writable()
        self.path = place.name
        self._place = place
        self.file = _named_file()
        self._kept: BinaryIO | None = None
        self._version: Version | None = None

    def finish(self) -> None:
        """Write all that was written to the file on this machine."""
        self.file.flush()

    def take(self) -> None:
        """Become the target, if none exists."""
        place = self._place
        with place.naming_errors("written"):
            if place.exists():
                raise FileExistsError(self.path)
            self._put(self.file.name, {"mode": "create"} if place.schemes & EXCLUSIVE else {})

    def keep(self) -> None:
        """Keep a copy of the present target, for :meth:`give_back`."""
        self._kept = _named_file()
        with closing(opened_remote(self._place)) as remote, copied(remote) as copy:
            shutil.copyfileobj(copy, self._kept)
        self._kept.flush()

    def replace(self) -> None:
        """Replace the present target."""
        with self._place.naming_errors("written"):
            self._put(self.file.name, {})

    def _put(self, local: str, how: dict[str, str]) -> None:
        place = self._place
        size = self.file.seek(0, 2)
        place.ask("put_file", local, place.path, moved=size, **how)
        place.fs.invalidate_cache()
        facts = place.ask("info", place.path)
        if facts["size"] != size:
            raise ArchiveError("was not written whole", file=self.path)
        self._version = place.version(facts)
        KEPT.keep(self._version, self.file, facts["size"])

    def is_target(self) -> bool:
        """Whether the file has become the target."""
        return self._version is not None

    def give_back(self) -> None:
        """Restore the target as it was before, unless it is another file by now."""
        place = self._place
        with place.naming_errors("written"):
            if self._version is None or place.version(place.facts()) != self._version:
                return
            if self._kept is None:
                place.ask("rm_file", place.path)
            else:
                size = self._kept.seek(0, 2)
                place.ask("put_file", self._kept.name, place.path, moved=size)

    def close(self) -> None:
        """Close the file on this machine, which vanishes."""
        for file in (self.file, self._kept):
            if file is not None:
                with suppress(OSError):  # of bytes that are no longer wanted
                    file.close()


def _named_file() -> BinaryIO:
    """A file in the folder for temporary files, whose name it loses when it is closed."""
    file = tempfile.NamedTemporaryFile(prefix="debug-archive-")  # noqa: SIM115 (whoever asks closes it)
    return cast("BinaryIO", file)
