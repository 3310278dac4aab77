"""The kept companions of a store, read together with their bases; and which lies below which.

What is removed or written again is decided by the headers of the files only, whatever the index says.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING, NamedTuple

from archive.base import memory
from archive.base.errors import ArchiveError, in_file, one_line
from archive.base.spending import Recent
from archive.companion.layout import read_directory
from archive.store.kept import MAGIC, Base, Inflated, base_name, inflate, is_base, read_header, why_lost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from archive.base.limits import Limits
    from archive.store.folder import Folder
    from archive.store.kept import KeptHeader

BYTES_KEPT = 1 << 25
"""Bytes of bodies that are kept in memory."""
MOST_SHARED = 1 << 24
"""Bytes of the largest body that is a base of others."""


# --- one companion and its bases


class _File(NamedTuple):
    """A kept companion's file, read."""

    path: Path
    data: memoryview
    header: KeptHeader


class KeptFiles:
    """Reads kept companions; the bodies read last stay in memory."""

    def __init__(self, folder: Folder, limits: Limits) -> None:
        self._folder = folder
        self._limits = limits
        self._recent = Recent[bytes, bytes](BYTES_KEPT)
        self._lock = Lock()

    def fresh(self) -> KeptFiles:
        """The same without what is in memory: what it reads is on the disk, bases too."""
        return KeptFiles(self._folder, self._limits)

    def read(self, archive_id: str) -> Inflated:
        """What is kept of a companion."""
        path = self._folder.kept_path(archive_id)
        inflated = self.read_file(path)
        with in_file(str(path)):
            with memory.charged(self._limits.allowance(len(inflated.plain))):
                own_id = read_directory(inflated.plain).archive_id
            if own_id.hex() != archive_id:
                raise ArchiveError(expected=f"archive id {archive_id}", found=own_id.hex())
        return inflated

    def read_file(self, path: Path) -> Inflated:
        """The same as :meth:`read` of any file: also of a base of which no companion is kept.

        Bases below it are read down to the last one whose body is at hand.
        """
        chain, base = [self._read(path)], b""
        while chain[-1].header.depth:
            with self._lock:
                base = self._recent.get(chain[-1].header.base) or b""
            if base:
                break
            chain.append(self._base_of(chain[-1].header, chain[-1].path))
        while True:
            lowest = chain.pop()
            with in_file(str(lowest.path)), memory.charged(self._limits.allowance(len(lowest.data))):
                inflated = inflate(lowest.data, lowest.header, base)
            if not chain:
                return inflated
            base = inflated.body
            if len(base) > MOST_SHARED:  # so that bases below one another do not multiply
                most = f"a base of up to {MOST_SHARED:,} bytes"
                raise ArchiveError(expected=most, found=f"{len(base):,}", file=str(lowest.path))
            with self._lock:
                self._recent.keep(lowest.header.body, base, len(base))

    def header(self, path: Path) -> KeptHeader:
        """The header of a kept companion, whose file is whole."""
        return self._read(path).header

    def has_bases(self, header: KeptHeader, path: Path) -> bool:
        """Whether all bases below a file are there; the file itself may be missing."""
        try:
            while header.depth:
                base = self._base_of(header, path)
                header, path = base.header, base.path
        except (ArchiveError, OSError):
            return False
        return True

    def base(self, archive_id: str) -> Base:
        """A companion as the base of others."""
        header = self.header(self._folder.kept_path(archive_id))
        with self._lock:
            body = self._recent.get(header.body)
        return Base(bytes.fromhex(archive_id), header.depth, body or self.read(archive_id).body)

    def remember(self, digest: bytes, body: bytes) -> None:
        """Keep the body of a companion in memory: what is added next may have it as its base."""
        if len(body) <= MOST_SHARED:
            with self._lock:
                self._recent.keep(digest, body, len(body))

    def _base_of(self, header: KeptHeader, path: Path) -> _File:
        """The base of a kept companion: another one, or the body of a removed one."""
        why = ArchiveError(why_lost(header), file=str(path))
        for place in self._folder.base_paths(header):
            try:
                file = self._read(place)
            except FileNotFoundError:
                continue
            except ArchiveError as error:  # the base may be in the other place, too
                why = error
                continue
            if is_base(file.header, header):
                return file
        raise why

    def _read(self, path: Path) -> _File:
        """A kept companion's file, checked to be whole."""
        data = memoryview(self._folder.read(path, begins=MAGIC))
        with in_file(str(path)):
            return _File(path, data, read_header(data))


# --- all of them: which lies below which


class Chains(NamedTuple):
    """The headers of all files that are kept.

    Attributes:
        companions: by archive id.
        bases: by the digest in the name.
        unread: the companions that cannot be read, by archive id, each with the reason: the file isn't a kept
            companion, was changed, or a base below it is missing.
        unread_bases: the same for bases, by the digest in the name, whether any companion needs them or not.
    """

    companions: dict[str, KeptHeader]
    bases: dict[str, KeptHeader]
    unread: dict[str, str]
    unread_bases: dict[str, str]

    @property
    def built_upon(self) -> set[str]:
        """The digests of all bodies that a file is kept by."""
        headers = (*self.companions.values(), *self.bases.values())
        return {base_name(header) for header in headers if header.depth}

    @property
    def needed(self) -> set[str]:
        """The digests of all bodies that a companion is kept by, directly or not."""
        needed = {base_name(header) for header in self.companions.values() if header.depth}
        left = [*needed]
        while left:
            header = self.bases.get(left.pop())
            if header is not None and header.depth and base_name(header) not in needed:
                needed.add(base_name(header))
                left.append(base_name(header))
        return needed

    @property
    def unneeded(self) -> list[str]:
        """The digests of the bases that no companion needs: only of those whose own header names them."""
        needed = self.needed
        return sorted(
            digest
            for digest, header in self.bases.items()
            if digest not in needed and header.body.hex() == digest
        )


def chains_of(folder: Folder, files: KeptFiles) -> Chains:
    """Read the headers of all files that are kept, each of which is checked to be whole."""
    names, bases = folder.companion_names(), folder.base_names()
    chains = Chains({}, {}, dict(names.unread), dict(bases.unread))
    _read_headers(names.files, folder.kept_path, files, chains.companions, chains.unread)
    _read_headers(bases.files, folder.base_path, files, chains.bases, chains.unread_bases)
    known: dict[KeptHeader, bool] = {}
    for archive_id, header in chains.companions.items():
        if not _has_bases(header, chains, known):
            error = ArchiveError(why_lost(header), file=str(folder.kept_path(archive_id)))
            chains.unread[archive_id] = str(error)
    return chains


def _read_headers(
    keys: Iterable[str],
    path_of: Callable[[str], Path],
    files: KeptFiles,
    headers: dict[str, KeptHeader],
    unread: dict[str, str],
) -> None:
    for key in sorted(keys):
        try:
            headers[key] = files.header(path_of(key))
        except FileNotFoundError:  # it was removed meanwhile
            continue
        except (ArchiveError, OSError) as error:
            unread[key] = one_line(str(error))


def _has_bases(header: KeptHeader, chains: Chains, known: dict[KeptHeader, bool]) -> bool:
    """Whether all bases below a file are there; ``known`` has the answers for others, and gets this one."""
    path = []
    while header.depth and header not in known:
        path.append(header)
        places = chains.companions.get(header.base_id.hex()), chains.bases.get(header.base.hex())
        below = next((other for other in places if other is not None and is_base(other, header)), None)
        if below is None:
            known[header] = False
            break
        header = below
    known.update(dict.fromkeys(path, known.get(header, not header.depth)))
    return known.get(header, not header.depth)
