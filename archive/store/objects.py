"""The objects of a bucket by name: listed, read within a size, created if absent, replaced as read.

Objects that never change are kept in the user's cache (:mod:`~archive.store.client.cache`).
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

from archive.base.digests import digest_of
from archive.base.errors import ArchiveError
from archive.io.location import Location
from archive.io.remote import opened_remote
from archive.io.uploads import EXCLUSIVE
from archive.store.client.cache import Cache, folder_of

if TYPE_CHECKING:
    from collections.abc import Mapping

CREATING = EXCLUSIVE | {"memory"}
"""Schemes of buckets in which an object can be created only if it is absent."""
ETAG = "ETag"


class Objects:
    """The objects below a URL."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._place = Location(self._url)
        self.name = self._place.name
        self._cache = Cache(folder_of(os.environ))
        if self._place.is_local:
            raise ArchiveError("a folder of this machine: give its path", file=self.name)

    def listed(self, folder: str) -> dict[str, int]:
        """The sizes of all objects below a name, by their names."""
        place, root = self._at(folder), self._place.path.rstrip("/")
        with place.naming_errors("listed"):
            files = place.files()
        sizes = {path.removeprefix(f"{root}/"): facts.get("size") for path, facts in files.items()}
        return {name: size for name, size in sizes.items() if isinstance(size, int)}

    def facts(self, name: str) -> Mapping[str, Any]:
        """What the bucket says of an object."""
        place = self._at(name)
        with place.naming_errors():
            return place.facts()

    def read(self, name: str, most: int) -> bytes:
        """An object."""
        return self.versioned(name, most)[0]

    def found(self, name: str, most: int) -> bytes:
        """The same; b"" where there is none."""
        try:
            return self.read(name, most)
        except FileNotFoundError:
            return b""

    def versioned(self, name: str, most: int) -> tuple[bytes, str]:
        """The same, and its ETag; "" where the bucket has none."""
        with closing(opened_remote(self._at(name))) as remote:
            if remote.size > most:
                raise ArchiveError(f"has {remote.size:,} bytes; {most:,} are read at most", file=remote.name)
            return remote.read(0, remote.size), dict(remote.version.facts).get(ETAG, "")

    def kept(self, name: str) -> bytes | None:
        """What the cache has of an object that never changes; None if it has nothing."""
        return self._cache.latest(self._key(name))

    def keep(self, name: str, data: bytes) -> None:
        """Keep an object that never changes, and was found to be what its name says."""
        self._cache.keep(self._key(name), data)

    def _key(self, name: str) -> str:
        return digest_of(f"{self._url}/{name}".encode()).hex()

    def create(self, name: str, data: bytes) -> bool:
        """Create an object if it is absent; whether this did."""
        place = self._at(name)
        if not place.schemes & CREATING:
            known = ", ".join(f"{scheme}://" for scheme in sorted(EXCLUSIVE))
            raise ArchiveError(
                f"its file system may replace objects that are there; {known} do not", file=self.name
            )
        try:
            with place.naming_errors("written"):
                place.ask("pipe_file", place.path, data, mode="create", moved=len(data))
        except FileExistsError:
            return False
        size = self.facts(name)["size"]
        if size != len(data):
            raise ArchiveError(
                "was not written whole", expected=f"{len(data):,} bytes", found=f"{size:,}", file=place.name
            )
        return True

    def replace(self, name: str, data: bytes, version: str) -> None:
        """Put an object in the place of the one of this ETag, or create it."""
        place = self._at(name)
        with place.naming_errors("written"):
            condition = {"IfMatch": version} if version and place.is_s3 else {}
            if not version and place.schemes & CREATING and not place.exists():
                condition = {"mode": "create"}
            place.ask("pipe_file", place.path, data, moved=len(data), **condition)

    def remove(self, name: str) -> None:
        """Remove an object."""
        place = self._at(name)
        with place.naming_errors("removed"):
            place.ask("rm_file", place.path)

    def _at(self, name: str) -> Location:
        return Location(f"{self._url}/{name}")
