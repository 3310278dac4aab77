"""The kept companions of a store, read together with their bases."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError, in_file
from archive.base.mapped import Mapped, in_memory
from archive.base.spending import Recent
from archive.companion.layout import read_directory
from archive.store.kept import Base, Inflated, inflate, read_header

if TYPE_CHECKING:
    from pathlib import Path

    from archive.base.limits import Limits
    from archive.store.folder import Folder
    from archive.store.kept import KeptHeader

BYTES_KEPT = 1 << 25
"""Bytes of bodies that are kept in memory."""
MOST_SHARED = 1 << 24
"""Bytes of the largest body that is a base of others."""


class _File(NamedTuple):
    """A kept companion's file, read."""

    path: Path
    data: memoryview
    header: KeptHeader


class KeptFiles:
    """Reads kept companions; the bodies read last stay in memory.

    Args:
        folder: of the store.
        limits: what a companion may cost.
    """

    def __init__(self, folder: Folder, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._recent = Recent[bytes, bytes](BYTES_KEPT)
        self._lock = Lock()

    def read(self, archive_id: str) -> Inflated:
        """What is kept of a companion.

        Raises:
            ArchiveError: its file or one of its bases was changed, or it is another archive's.
            OSError: one cannot be read.
        """
        path = self._folder.kept_path(archive_id)
        found = self._inflated(_read(path))
        with in_file(str(path)):
            known = read_directory(found.plain, self._limits.allowance(len(found.plain))).archive_id.hex()
            if known != archive_id:
                raise ArchiveError(expected=f"archive id {archive_id}", found=known)
        return found

    def header(self, archive_id: str) -> KeptHeader:
        """The header of a kept companion, whose file is whole.

        Raises:
            ArchiveError: its file was changed.
            OSError: it cannot be read.
        """
        return _read(self._folder.kept_path(archive_id)).header

    def read_file(self, path: Path) -> Inflated:
        """The same of a base of which no companion is kept."""
        return self._inflated(_read(path))

    def base(self, archive_id: str) -> Base:
        """A companion as the base of others.

        Raises:
            ArchiveError: its file or one of its bases was changed.
            OSError: one cannot be read.
        """
        found = self.read(archive_id)
        return Base(bytes.fromhex(archive_id), found.header.depth, found.body)

    def _inflated(self, file: _File) -> Inflated:
        """A kept companion and, below it, its bases down to the last one whose body is at hand."""
        chain, words = [file], b""
        while chain[-1].header.depth:
            with self._lock:
                words = self._recent.get(chain[-1].header.base) or b""
            if words:
                break
            chain.append(self._base_of(chain[-1]))
        while True:
            one = chain.pop()
            with in_file(str(one.path)):
                held = inflate(one.data, one.header, words, self._limits.allowance(len(one.data)))
            if not chain:
                return held
            words = held.body
            if len(words) > MOST_SHARED:  # so that bases below one another do not multiply
                most, found = f"a base of up to {MOST_SHARED:,} bytes", f"{len(words):,}"
                raise ArchiveError(expected=most, found=found, file=str(one.path))
            with self._lock:
                self._recent.keep(one.header.body, words, len(words))

    def _base_of(self, file: _File) -> _File:
        """The base of a kept companion: another one, or what is left of one that was removed.

        Raises:
            ArchiveError: there is none, or another.
        """
        header = file.header
        for path in (self._folder.kept_path(header.base_id.hex()), self._folder.base_path(header.base.hex())):
            try:
                found = _read(path)
            except FileNotFoundError:
                continue
            if found.header.body == header.base and found.header.depth < header.depth:
                return found
        raise ArchiveError(f"its base is lost: {header.base.hex()}", file=str(file.path))


def _read(path: Path) -> _File:
    """A kept companion's file, checked to be whole.

    Raises:
        ArchiveError: it was changed.
        OSError: it cannot be read.
    """
    data = Mapped(in_memory(path)).data
    with in_file(str(path)):
        return _File(path, data, read_header(data))
