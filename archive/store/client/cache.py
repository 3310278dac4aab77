"""The user's cache of what servers and buckets gave.

It has companions by id and digest, and answers by the addresses of their requests. Each file is written
atomically and checked when it is read; a file that was changed is removed. When all files together are too
long, the least recently used go first. A cache that cannot be written isn't an error.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from archive.base.digests import digest_of
from archive.base.errors import ArchiveError
from archive.io.output import replacing

if TYPE_CHECKING:
    from collections.abc import Mapping

VARIABLE = "DEBUG_ARCHIVE_CACHE"
"""The environment variable that names the cache's folder."""
MOST_KEPT = 1 << 30
"""Bytes of all files together."""
ENDING = ".kept"
OWN = 0o700


def folder_of(environment: Mapping[str, str]) -> Path:
    """The folder of the cache: what the environment names, or else what XDG's rules give."""
    if environment.get(VARIABLE):
        return Path(environment[VARIABLE])
    base = environment.get("XDG_CACHE_HOME", "")
    # XDG: a relative path is invalid.
    return (Path(base) if Path(base).is_absolute() else Path.home() / ".cache") / "debug-archive"


class Cache:
    """A folder of files, each with the digest of its content in its name."""

    def __init__(self, folder: Path, most: int = MOST_KEPT) -> None:
        self._folder = folder
        self._most = most

    def get(self, key: str, digest: str) -> bytes | None:
        """A file that is kept; None if it is not there, or was changed."""
        path = self._path(key, digest)
        try:
            if not stat.S_ISREG(path.stat().st_mode):  # others may write here: a pipe has no end
                return None
            with path.open("rb") as file:
                data = file.read(self._most + 1)
        except OSError:
            return None
        with suppress(OSError):  # a cache of others may be read
            if digest_of(data).hex() == digest:
                os.utime(path)  # used last now
                return data
            path.unlink()
        return data if digest_of(data).hex() == digest else None

    def latest(self, key: str) -> bytes | None:
        """The file of a name that was used last, whatever its digest; None if there isn't any."""

        def used(path: Path) -> int:
            """When a file was used last; 0 if it is gone."""
            try:
                return path.stat().st_mtime_ns
            except OSError:
                return 0

        for path in sorted(self._folder.glob(f"{key}-*{ENDING}"), key=used, reverse=True):
            data = self.get(key, path.stem.partition("-")[2])
            if data is not None:
                return data
        return None

    def keep(self, key: str, data: bytes) -> None:
        """Keep a file in the place of others of its name, if the cache can be written."""
        if len(data) > self._most:
            return
        with suppress(OSError, ArchiveError):  # a full disk, another file in the way: then nothing is cached
            self._folder.mkdir(OWN, parents=True, exist_ok=True)
            files = [(path.stat(), path) for path in self._folder.glob(f"*{ENDING}")]
            held = len(data) + sum(status.st_size for status, _ in files)
            for status, path in sorted(files, key=lambda file: file[0].st_mtime_ns):  # used longest ago first
                if held <= self._most:
                    break
                path.unlink(missing_ok=True)
                held -= status.st_size
            with replacing(self._path(key, digest_of(data).hex()), force=True) as file:
                file.write(data)
            for path in self._folder.glob(f"{key}-*{ENDING}"):
                if path != self._path(key, digest_of(data).hex()):
                    path.unlink(missing_ok=True)

    def _path(self, key: str, digest: str) -> Path:
        return self._folder / f"{key}-{digest}{ENDING}"
