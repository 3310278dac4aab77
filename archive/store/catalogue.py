"""The entries of a store, as its files are now: from the index where that agrees, else from the files."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from threading import RLock
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.errors import ArchiveError, in_file
from archive.io.mapped import FileInMemory, Mapped
from archive.reader import opening
from archive.reader.facts import facts_of
from archive.reader.line_digests import unpacked_lines
from archive.store.entries import StoreEntry
from archive.store.index import build_index, read_index
from archive.store.kept import base_name

if TYPE_CHECKING:
    from archive.base.limits import Limits
    from archive.reader.archive import Archive
    from archive.store.files import KeptFiles
    from archive.store.folder import Folder
    from archive.store.kept import Inflated
    from archive.store.opened import Signature

SETTLED = 2_000_000_000
"""Nanoseconds after its time of change in which a folder may change again without another time."""


class Catalogue:
    """The entries of a store. Threads may use one at once.

    Attributes:
        unread: the companions that cannot be read, by archive id, each with the reason.
        damaged: what the index says of those whose file has changed since, and cannot be read any more.
    """

    def __init__(self, folder: Folder, files: KeptFiles, limits: Limits) -> None:
        self.unread: dict[str, str] = {}
        self.damaged: dict[str, StoreEntry] = {}
        self._folder = folder
        self._files = files
        self._limits = limits
        self._lock = RLock()
        self._entries: dict[str, StoreEntry] | None = None
        self._prefixes: dict[int, set[str]] | None = None
        self._seen = self._left = 0  # the folder's time of change: when it was listed, and after our own
        self._unwritten = 0
        self._has_index = False

    def entries(self) -> dict[str, StoreEntry]:
        """All entries by archive id, as the files are now."""
        with self._lock:
            changed = self._folder.changed()
            is_recent = changed != self._seen or time.time_ns() - changed < SETTLED
            return self._listed() if self._entries is None or is_recent else self._kept()

    def known(self) -> dict[str, StoreEntry]:
        """All entries by archive id, as the files were when they were listed last."""
        with self._lock:
            return self._listed() if self._entries is None else self._kept()

    def while_locked(self, *, is_unchanged: bool) -> dict[str, StoreEntry]:
        """All entries by archive id, as the files are now, while this process has the lock.

        Args:
            is_unchanged: whether nobody took the lock since this process had it last. Then the files are as
                they were left, unless their folder's time says that somebody wrote into it without the lock.
        """
        with self._lock:
            if self._entries is None or not is_unchanged:
                return self._listed()
            return self._kept() if self._folder.changed() in {self._seen, self._left} else self._listed()

    def _listed(self) -> dict[str, StoreEntry]:
        changed = self._folder.changed()
        self._entries, self._prefixes = self._refreshed(self._entries), None
        self._seen = changed
        return self._kept()

    def _kept(self) -> dict[str, StoreEntry]:
        self._keep_index()
        return self._entries or {}

    def _keep_index(self) -> None:
        """Write the index again if it has vanished; only once, if it cannot be written."""
        with suppress(OSError, ArchiveError):  # a link in its place, say; reading the companions reports it
            is_there = self._folder.exists(self._folder.index)
            if self._has_index and not is_there:
                self._unwritten = max(self._unwritten, 1)
                self.write()
            self._has_index = is_there

    def _refreshed(self, before: dict[str, StoreEntry] | None) -> dict[str, StoreEntry]:
        """The entries of the files that there are now, of which some are known from before."""
        old = read_index(self._folder) if before is None else {**self.damaged, **before}
        names = self._folder.companion_names()
        files = names.files
        known = {key: entry for key, entry in old.items() if files.get(key) == entry.signature}
        self._unwritten += len(old) - len(known)
        for key in sorted(files.keys() & old.keys() - known.keys()):
            if self._is_copy(old[key], files[key]):
                known[key] = replace(old[key], signature=files[key])
        self.unread = dict(names.unread)
        for key in sorted(files.keys() - known.keys()):
            try:
                known[key] = entry_of(key, self._files.read(key), files[key], self._limits)
            except FileNotFoundError:  # it was removed meanwhile
                continue
            except (ArchiveError, OSError) as error:
                self.unread[key] = str(error)
            else:
                self._unwritten += 1
        self.damaged = {key: old[key] for key in self.unread.keys() & old.keys()}
        self._unwritten -= len(self.damaged)  # their rows stay: they say which failures may be theirs
        return dict(sorted(known.items(), key=lambda item: (item[1].added, item[1].depth)))

    def _is_copy(self, entry: StoreEntry, signature: Signature) -> bool:
        """Whether a file of another time has the content that an entry is of: the store was copied."""
        if signature.size != entry.kept_size:
            return False
        try:
            header = self._files.header(self._folder.kept_path(entry.archive_id))
        except (ArchiveError, OSError):  # reading it will say why
            return False
        return (header.body.hex(), base_name(header), header.depth) == (entry.body, entry.base, entry.depth)

    def note(self, entry: StoreEntry) -> None:
        """Take note of a companion that was added just now."""
        with self._lock:
            entries = dict(self._entries or {})  # a new one: what was given out stays as it is
            before = entries.pop(entry.archive_id, None)
            entries[entry.archive_id] = entry  # the last one added stands last
            self._entries = entries
            self._note_prefix(entry, before)
            self._left = self._folder.changed()
            self._unwritten += 1

    def owner_of(self, prefix: int, archive_id: str) -> StoreEntry | None:
        """The companion of another archive that has a prefix of unique handles."""
        with self._lock:
            entries = self._entries or {}
            if self._prefixes is None:
                self._prefixes = {}
                for entry in entries.values():
                    self._note_prefix(entry, None)
            owners = self._prefixes.get(prefix, set()) - {archive_id} if prefix else set()
            return entries[min(owners)] if owners else None

    def _note_prefix(self, entry: StoreEntry, before: StoreEntry | None) -> None:
        """Note whose an entry's prefix is, where it is known of all others."""
        if self._prefixes is None:
            return
        if before is not None:
            self._prefixes[before.prefix].discard(before.archive_id)
        self._prefixes.setdefault(entry.prefix, set()).add(entry.archive_id)

    def forget(self) -> None:
        """Rebuild the index: the one on the disk is wrong."""
        with self._lock:
            self._entries, self._prefixes = self._refreshed({}), None
            self._unwritten = 1
            self.write()

    def write(self, *, every: int = 1) -> None:
        """Write the index, if the store can be written at all; without it, the next process reads the files.

        With ``every``, write it only once it lacks this many changes, and a tenth of all entries.
        """
        with self._lock:
            if self._entries is None:
                return
            share = len(self._entries) // 10 if every > 1 else 0
            if self._unwritten >= max(every, share):
                entries = {**self.damaged, **self._entries}
                with suppress(OSError, ArchiveError):  # the latter of a link in its place, say
                    self._folder.write(self._folder.index, build_index(entries.values()))
                    self._unwritten = 0


def entry_of(archive_id: str, inflated: Inflated, signature: Signature, limits: Limits) -> StoreEntry:
    """The entry of a kept companion."""
    with opened_plain(inflated, archive_id, limits) as archive, memory.charged(archive.allowance):
        return StoreEntry.of(facts_of(archive), inflated.notes, inflated.header, signature)


def opened_plain(inflated: Inflated, name: str, limits: Limits) -> Archive:
    """The plain form of a kept companion, opened."""
    file = Mapped(FileInMemory(bytes(inflated.plain), name))
    with memory.charged(limits.allowance(inflated.weight)):
        archive = opening.opened(file)
    if inflated.notes.lines:
        with in_file(name):
            archive.line_digests = unpacked_lines(inflated.notes.lines)
    return archive
