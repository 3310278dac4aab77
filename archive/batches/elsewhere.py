"""The questions of ``places`` about URLs, answered by the file systems of fsspec.

A URL that ends with a slash is a folder's. HTTP knows no others: to ask would read whatever is there.
"""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from archive.base.globs import Globs
from archive.base.remote import Location, opened_remote

if TYPE_CHECKING:
    from collections.abc import Iterator

PUT_EVERY = 10.0
"""Seconds between two puts of a file that grows."""


def joined(folder: str, name: str) -> str:
    """The URL of a name below a folder."""
    return f"{folder}{name}" if folder.endswith("/") else f"{folder}/{name}"


def exists(url: str) -> bool:
    """Whether there is a file or folder.

    Raises:
        OSError: nobody can tell.
    """
    place = Location(url)
    with place.told():
        return place.exists()


def has_neighbours(url: str) -> bool:
    """Whether something may lie beside a folder: nothing lies beside a bucket."""
    return "/" in Location(url).path.rstrip("/")


def size_of(url: str) -> int:
    """Bytes of a file.

    Raises:
        OSError: it cannot be read.
    """
    with closing(opened_remote(Location(url))) as remote:
        return remote.size


def is_folder(url: str) -> bool:
    """Whether a URL is a folder's."""
    if url.endswith("/"):
        return True
    place = Location(url)
    if place.is_http:
        return False
    with place.told():
        return bool(place.fs.isdir(place.path))


def check_folder_of(url: str) -> None:
    """Refuse a URL that takes no files.

    Raises:
        ArchiveError: it is an HTTP server's.
    """
    Location(url).check_writable()


def below(folder: str) -> Iterator[tuple[str, str]]:
    """The URLs of all files in a folder, sorted, each with its path from there.

    Raises:
        OSError: the folder cannot be listed.
    """
    place = Location(folder)
    with place.told("listed"):
        place.fs.invalidate_cache(place.path)
        paths = sorted(place.fs.find(place.path))
    top = place.path.rstrip("/")
    for path in paths:
        relative = path.removeprefix(top).lstrip("/")
        yield joined(folder, relative), relative


def matching(pattern: str) -> Iterator[tuple[str, str]]:
    """The URLs of all files that a glob names, sorted, each with its path from the folder without patterns.

    Raises:
        OSError: the folder cannot be listed.
    """
    fixed = pattern[: pattern.index("*")].rpartition("/")[0]
    place, top = Location(pattern), Location(fixed).path.rstrip("/")
    parts = place.path.removeprefix(top).strip("/").split("/")
    globs, deepest = Globs([parts]), None if "**" in parts else len(parts)
    with place.told("listed"):
        place.fs.invalidate_cache()
        found = place.fs.find(top, maxdepth=deepest)
    for relative in sorted(path.removeprefix(top).lstrip("/") for path in found):
        if globs.fitting(relative.split("/")):
            yield f"{fixed}/{relative}", relative


def content(url: str) -> bytes:
    """All bytes of a file.

    Raises:
        OSError: it cannot be read.
    """
    place = Location(url)
    with place.told():
        place.fs.invalidate_cache(place.path)
        data: bytes = place.fs.cat_file(place.path)
    return data


class Growing:
    """A file elsewhere that grows by lines. It is put anew now and then, and at the end.

    Args:
        url: its URL.
        data: what is in it.

    Raises:
        ArchiveError: no file can be written there.
    """

    def __init__(self, url: str, data: bytes) -> None:
        self._place = Location(url)
        self._place.check_writable()
        self._data = bytearray(data)
        self._put_at = time.monotonic()
        self._is_put = True

    def write(self, line: bytes, /) -> int:
        """Add a line.

        Raises:
            OSError: the file cannot be written.
        """
        self._data += line
        self._is_put = False
        if time.monotonic() - self._put_at > PUT_EVERY:
            self._put()
        return len(line)

    def close(self) -> None:
        """Put what was added.

        Raises:
            OSError: the file cannot be written.
        """
        if not self._is_put:
            self._put()

    def _put(self) -> None:
        with self._place.told("written"):
            self._place.fs.pipe_file(self._place.path, bytes(self._data))
        self._put_at, self._is_put = time.monotonic(), True
