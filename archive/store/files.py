"""The kept companions of a store, read together with their bases."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError, in_file
from archive.base.spending import Recent
from archive.companion.layout import read_directory
from archive.store.kept import MAGIC, Base, Inflated, inflate, is_base, lost, read_header

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
        found = self._inflated(self._read(path))
        with in_file(str(path)):
            known = read_directory(found.plain, self._limits.allowance(len(found.plain))).archive_id.hex()
            if known != archive_id:
                raise ArchiveError(expected=f"archive id {archive_id}", found=known)
        return found

    def header(self, path: Path) -> KeptHeader:
        """The header of a kept companion, whose file is whole.

        Raises:
            ArchiveError: its file was changed, or is no regular one.
            OSError: it cannot be read.
        """
        return self._read(path).header

    def read_file(self, path: Path) -> Inflated:
        """The same as :meth:`read` of a base of which no companion is kept."""
        return self._inflated(self._read(path))

    def has_bases(self, header: KeptHeader, path: Path) -> bool:
        """Whether all bases below a file are there, be the file itself there or not."""
        try:
            while header.depth:
                found = self._base_of(header, path)
                header, path = found.header, found.path
        except (ArchiveError, OSError):
            return False
        return True

    def fresh(self) -> KeptFiles:
        """The same without what is in memory: what it reads is on the disk, bases too."""
        return KeptFiles(self._folder, self._limits)

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
            chain.append(self._base_of(chain[-1].header, chain[-1].path))
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

    def _base_of(self, header: KeptHeader, path: Path) -> _File:
        """The base of a kept companion: another one, or what is left of one that was removed.

        Raises:
            ArchiveError: there is none, or another.
        """
        why = ArchiveError(lost(header), file=str(path))
        for place in self._folder.base_paths(header):
            try:
                found = self._read(place)
            except FileNotFoundError:
                continue
            except ArchiveError as error:  # the base may be in the other place, too
                why = error
                continue
            if is_base(found.header, header):
                return found
        raise why

    def _read(self, path: Path) -> _File:
        """A kept companion's file, checked to be whole.

        Raises:
            ArchiveError: it was changed, or is no regular file.
            OSError: it cannot be read.
        """
        data = memoryview(self._folder.read(path, begins=MAGIC))
        with in_file(str(path)):
            return _File(path, data, read_header(data))
