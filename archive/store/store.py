"""The store: companions are added, found, given out, checked and removed."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from threading import RLock
from typing import TYPE_CHECKING, Literal, NamedTuple

from archive.base.bounded import bounded_members
from archive.base.errors import ArchiveError, in_file
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.mapped import FileInMemory, Mapped, in_memory
from archive.reader import opening
from archive.reader.facts import facts_of
from archive.store.bases import Bases
from archive.store.entries import Entry
from archive.store.folder import Folder
from archive.store.index import build_index, read_index
from archive.store.kept import Notes, build_kept, digest_of, read_header, read_parts
from archive.store.making import made_of
from archive.store.plain import companion_of, plain_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType
    from typing import Self

    from archive.base.mapped import Source
    from archive.reader.archive import Archive
    from archive.store.folder import Signature
    from archive.store.kept import KeptHeader, KeptParts

EPOCH = "SOURCE_DATE_EPOCH"
"""The environment variable that has the time to note, where builds are to be the same each time."""
UNWRITTEN = 64
"""Companions that are added before the index is written again."""
SETTLED = 2_000_000_000
"""Nanoseconds after which a folder whose time of change is the same has not changed."""


class Kept(NamedTuple):
    """The result of adding a file.

    Attributes:
        entry: what the store knows of the companion.
        outcome: whether it is new, was there already, or took the place of another one.
    """

    entry: Entry
    outcome: Literal["added", "same", "replaced"]


class _Read(NamedTuple):
    """A kept companion that was read."""

    header: KeptHeader
    parts: KeptParts


@bounded_members
class Store:
    """A folder of companions. :meth:`open` opens one; threads and processes may use one at once.

    Args:
        folder: the folder, which is a store.
        limits: what a companion may cost.

    Attributes:
        folder: as given.
        unread: the companions that cannot be read, by archive id, each with the reason.
    """

    def __init__(self, folder: Folder, limits: Limits) -> None:
        self.folder = folder
        self.unread: dict[str, str] = {}
        self._limits = limits
        self._bases = Bases(folder, limits)
        self._lock = RLock()
        self._entries: dict[str, Entry] = {}
        self._broken: dict[str, Signature] = {}
        self._unwritten = 0
        self._is_loaded = False

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, create: bool = False, limits: Limits = DEFAULT_LIMITS
    ) -> Store:
        """Open a store.

        Args:
            path: the folder.
            create: make a store of an empty folder, or one that is not there.
            limits: what a companion may cost.

        Raises:
            ArchiveError: the folder is no store, or one of an unknown version.
            OSError: it cannot be read, or made.
        """
        folder = Folder(path)
        if create:
            folder.create()
        folder.check()
        return cls(folder, limits)

    def __repr__(self) -> str:
        return f"<Store {self.file!r}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write the index, if it is not up to date. The store may be used further on."""
        with self._lock:
            if self._unwritten:
                self._write_index()

    @property
    def file(self) -> str:
        """The path of the folder, for messages."""
        return str(self.folder.path)

    # What is in it

    def entries(self) -> Sequence[Entry]:
        """All companions as they are on the disk now, in the order of their ids.

        Raises:
            OSError: the folder cannot be read.
        """
        with self._lock:
            self._refresh()
            return [self._entries[key] for key in sorted(self._entries)]

    def entry(self, archive_id: str) -> Entry | None:
        """The companion of an archive id, 32 hexadecimal digits; None where there is none."""
        with self._lock:
            self._refresh()
            return self._entries.get(archive_id)

    def companion(self, archive_id: str) -> bytes:
        """A companion file, as it was added, to the byte.

        Raises:
            ArchiveError: there is none of that archive id, its file was changed, or the libraries that
                compress give other bytes today.
            OSError: it cannot be read.
        """
        read = self._read(archive_id)
        with in_file(self._label(archive_id)):
            data = companion_of(
                read.parts.plain, read.parts.notes.recipe, self._limits.allowance(read.header.size)
            )
            if digest_of(data) != read.header.digest:
                raise ArchiveError("would not be the bytes that were added")
            return data

    def opened(self, archive_id: str) -> Archive:
        """A companion, opened for reading. This is quicker than to open the bytes of :meth:`companion`.

        Raises:
            ArchiveError: there is none of that archive id, or its file was changed.
            OSError: it cannot be read.
        """
        read = self._read(archive_id)
        plain = read.parts.plain
        allowance = self._limits.allowance(min(read.header.size, len(plain)))
        file = Mapped(FileInMemory(bytes(plain), self._label(archive_id)))
        return opening.opened(file, allowance)

    # Changes

    def add(self, source: Source, *, name: str = "", replace: bool = False) -> Kept:
        """Add a companion, or the companion of an archive.

        Args:
            source: the file.
            name: how it is called; by default by its path.
            replace: let it take the place of another companion with that archive id.

        Raises:
            NoDebugInfoError: it is an archive without debug info.
            ArchiveError: it is of another kind, or contradicts itself; its archive id or its prefix is
                another one's.
            OSError: a file cannot be read, or the store cannot be written.
        """
        made = made_of(source, name, self._limits)
        plain = plain_of(memoryview(made.companion), self._limits.allowance(len(made.companion)))
        notes = Notes(made.file, _now(), made.root, made.serialization_id, plain.recipe)
        with opening.open(made.companion, limits=self._limits, name=made.file) as opened:
            facts = facts_of(opened)
        data = build_kept(made.companion, notes, plain.data)
        with self.folder.locked(), self._lock:
            self._refresh()
            known = self._entries.get(facts.archive_id)
            if known is not None and known.digest == digest_of(made.companion).hex():
                return Kept(known, "same")
            self.folder.write(self.folder.kept_path(facts.archive_id), data, force=replace)
            self._refresh()
            self._unwritten += 1
            if self._unwritten >= UNWRITTEN:
                self._write_index()
            return Kept(self._entries[facts.archive_id], "added" if known is None else "replaced")

    # The index

    def _refresh(self) -> None:
        """Let the entries be those of the files that there are now."""
        if not self._is_loaded:
            self._entries = read_index(self.folder.index)
            self._is_loaded = True
        files = self.folder.kept()
        if {key: entry.signature for key, entry in self._entries.items()} == files:
            return
        known = {key: one for key, one in self._entries.items() if files.get(key) == one.signature}
        self._unwritten += len(self._entries) - len(known)
        for key, signature in files.items():
            if key not in known and self._broken.get(key) != signature:
                entry = self._read_entry(key, signature)
                if entry is not None:
                    known[key] = entry
                    self._unwritten += 1
        self._entries = known

    def _read_entry(self, archive_id: str, signature: Signature) -> Entry | None:
        """The entry of a file; None if it cannot be read, of which note is taken."""
        try:
            read = self._read(archive_id)
            with self.opened(archive_id) as opened:
                return Entry.of(facts_of(opened), read.parts.notes, read.header, signature)
        except (ArchiveError, OSError) as error:
            self._broken[archive_id] = signature
            self.unread[archive_id] = str(error)
            return None

    def _write_index(self) -> None:
        """Write the index, if the store can be written; without, the next process reads the files again."""
        with suppress(OSError):
            self.folder.write(self.folder.index, build_index(self._entries.values()), force=True)
            self._unwritten = 0

    # Files

    def _read(self, archive_id: str) -> _Read:
        """A kept companion, read and checked."""
        path = self.folder.kept_path(archive_id)
        data = Mapped(in_memory(path)).data
        with in_file(self._label(archive_id)):
            header = read_header(data)
            words = self._bases.plain(header.base_name)
            return _Read(
                header, read_parts(data, header, words, self._limits.allowance(len(data) + len(words)))
            )

    def _label(self, archive_id: str) -> str:
        return str(self.folder.kept_path(archive_id))


def _now() -> int:
    """The time to note, in seconds since 1970."""
    given = os.environ.get(EPOCH, "")
    return int(given) if given.isdecimal() else int(time.time())
