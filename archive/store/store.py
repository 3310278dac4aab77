"""The store: companions are added, found, given out, checked and removed."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from archive.base.bounded import bounded_members
from archive.base.closing import Closing
from archive.base.digests import digest_of
from archive.base.errors import ArchiveError, in_file
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.formats.archive_id import ID_TEXT
from archive.formats.release_label import labels_in_words
from archive.store.adding import (
    MadeCompanion,
    TakenError,
    check_labels,
    differing,
    holds_all,
    is_same,
    kin_of,
    made_of,
    new_of,
    smallest,
    taken_prefix,
    with_notes,
)
from archive.store.catalogue import Catalogue, opened_plain
from archive.store.entries import Addition, StoreEntry, name_of_kept
from archive.store.files import KeptFiles, chains_of
from archive.store.finding import StoreContents, meant_by, one_of
from archive.store.folder import INDEX, Folder
from archive.store.kept import Given, build_kept, read_header
from archive.store.upkeep import checked, clean, set_aside

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

    from archive.base.diagnostics import Diagnostic
    from archive.io.mapped import Source
    from archive.reader.archive import Archive
    from archive.store.adding import NewCompanion
    from archive.store.folder import Waiting
    from archive.store.kept import CompanionParts
    from archive.store.upkeep import Cleaned


UNWRITTEN = 64
"""Companions that are added before the index is written again."""


@bounded_members
class Store(Closing):
    """A folder of companions. :meth:`open` opens one; threads and processes may use one at once."""

    def __init__(self, folder: Folder, limits: Limits) -> None:
        self.folder = folder
        self.limits = limits
        self._files = KeptFiles(folder, limits)
        self._catalogue = Catalogue(folder, self._files, limits)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        create: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        waiting: Waiting | None = None,
    ) -> Store:
        """Open a store; ``create`` makes one of an empty folder, or of one that is not there."""
        folder = Folder(path, waiting)
        if create:
            folder.create()
        folder.check()
        return cls(folder, limits)

    def __repr__(self) -> str:
        return f"<Store {self.file!r}>"

    def close(self) -> None:
        """Write the index, if it is not up to date. The store stays usable."""
        self._catalogue.write()

    @property
    def file(self) -> str:
        """The path of the folder, for messages."""
        return str(self.folder.path)

    # What is in it

    def entries(self) -> Sequence[StoreEntry]:
        """All companions as they are on the disk now, in the order of their ids."""
        entries = self._catalogue.entries()
        return [entries[key] for key in sorted(entries)]

    @property
    def unread(self) -> Mapping[str, str]:
        """The companions that cannot be read, by archive id, each with the reason."""
        self._catalogue.entries()
        return self._catalogue.unread

    @property
    def damaged(self) -> Mapping[str, StoreEntry]:
        """What the index says of those among them that it knows, by archive id."""
        return self._catalogue.damaged

    def listing(self) -> StoreContents[StoreEntry]:
        """All companions, and all foreign names. This reads the headers of all files."""
        entries = self.entries()
        chains = chains_of(self.folder, self._files)
        unread = dict(sorted({**self.unread, **chains.unread}.items()))
        bases = sum(base.size for base in self.folder.base_names().files.values())
        foreign = [path for path in self.folder.foreign() if not path.name.startswith(".")]
        return StoreContents(
            [entry for entry in entries if entry.archive_id not in unread], unread, foreign, bases
        )

    def find(self, word: str) -> Sequence[StoreEntry]:
        """The companions that a word may mean: see :func:`~archive.store.finding.meant_by`."""
        return meant_by(self.entries(), word)

    def one(self, word: str) -> StoreEntry:
        """The only companion that a word means: see :func:`~archive.store.finding.meant_by`."""
        return one_of(self.entries(), word, self.file)

    def companion(self, archive_id: str) -> bytes:
        """A companion file, as it was added: the ``data`` of :meth:`given`."""
        return self.given(archive_id).data

    def given(self, archive_id: str) -> Given:
        """A companion file, as it was added, to the byte.

        Where the libraries that compress give other bytes than at that time, it is a companion of the same
        facts.
        """
        inflated = self._files.read(self._checked_id(archive_id))
        with in_file(str(self.folder.kept_path(archive_id))):
            return Given.of(inflated, self.limits)

    def opened(self, archive_id: str) -> Archive:
        """A companion, opened for reading: quicker than to open the bytes of :meth:`companion`."""
        inflated = self._files.read(self._checked_id(archive_id))
        return opened_plain(inflated, f"{self.file}/{archive_id}", self.limits)

    def given_of(self, entry: StoreEntry) -> Given:
        """The same as :meth:`given`, by an entry."""
        return self.given(entry.archive_id)

    def lines_of(self, entry: StoreEntry) -> Mapping[str, bytes]:
        """Digests of lines, by code record: see :class:`~archive.store.stores.OwnStore`."""
        return self._files.read(self._checked_id(entry.archive_id)).notes.lines

    def opened_of(self, entry: StoreEntry) -> Archive:
        """The same as :meth:`opened`, by an entry."""
        return self.opened(entry.archive_id)

    def _checked_id(self, archive_id: str) -> str:
        """An archive id of which a companion may be kept."""
        if not ID_TEXT.fullmatch(archive_id) or not self.folder.exists(self.folder.kept_path(archive_id)):
            raise ArchiveError(f"no companion has the archive id {archive_id!r}", file=self.file)
        return archive_id

    # Changes

    def add(
        self, source: Source | MadeCompanion, *, name: str = "", replace: bool = False, label: str = ""
    ) -> Addition[StoreEntry]:
        """Add a companion, or the companion of an archive: see :class:`~archive.store.stores.OwnStore`."""
        made = source if isinstance(source, MadeCompanion) else made_of(source, name, self.limits)
        new = new_of(made.labelled(label), self.limits)
        key, known = new.facts.archive_id, self._catalogue.known()
        new = self._with_notes(new)
        if key in known and key in (entries := self._catalogue.entries()) and self._holds(key, new):
            return Addition(entries[key], "same")
        check_labels(new.notes.labels, new.notes.file)
        data = smallest(new.parts, kin_of(new.facts, known), self._files)
        with self.folder.locked() as is_unchanged:
            entries = self._catalogue.while_locked(is_unchanged=is_unchanged)
            is_kept = self._holds(key, new, others=replace)
            if is_kept and key in entries:
                return Addition(entries[key], "same")
            if (owner := self._catalogue.owner_of(new.facts.prefix, key)) is not None:
                raise taken_prefix(new.facts.prefix, owner.name)
            path = self.folder.kept_path(key)
            if (again := self._with_notes(new)).notes.labels != new.notes.labels:  # it got one meanwhile
                check_labels(again.notes.labels, again.notes.file)
                new, data = again, build_kept(again.parts, None)
            if not is_unchanged and not self._files.has_bases(read_header(memoryview(data)), path):
                data = build_kept(new.parts, None)
            set_aside(self.folder, self._files, key)
            was_there = self.folder.exists(path)  # be it a file that cannot be read
            signature = self.folder.write(path, data)
            header = read_header(memoryview(data))
            entry = StoreEntry.of(new.facts, new.notes, header, signature)
            self._catalogue.note(entry)
        self._files.remember(header.body, new.parts.notes + new.parts.plain)
        self._catalogue.write(every=UNWRITTEN)
        before = entries.get(key)
        if before is not None and before.digest == entry.digest and before.labels != entry.labels:
            return Addition(entry, "labelled")
        return Addition(entry, "replaced" if was_there else "added")

    def _with_notes(self, new: NewCompanion) -> NewCompanion:
        """A companion, with what is noted of the one that is kept under its archive id."""
        with suppress(ArchiveError, FileNotFoundError):  # what is kept cannot be read, or there is nothing
            return with_notes(new, self._files.read(new.facts.archive_id), self.limits)
        return new

    def _holds(self, archive_id: str, new: NewCompanion, *, others: bool = True) -> bool:
        """Whether what is kept under an archive id has all of a new companion.

        If it has other facts, and may not (``others``), a TakenError is raised.
        """
        try:
            kept = self._files.read(archive_id)
        except FileNotFoundError:
            return False
        except ArchiveError as error:
            if not others and self._may_come_back(archive_id, new.parts):
                raise TakenError(
                    f"is kept already, and cannot be read: {error}; --force lets this companion "
                    "take its place",
                    file=f"archive {archive_id}",
                    in_python="replace=True",
                ) from error
            return False
        if not is_same(kept, new.parts) and not others:
            name = name_of_kept(kept.notes.file, archive_id)
            raise TakenError(
                f"is kept already with other debug info, {labels_in_words(name, kept.notes.labels)}: the "
                f"model's code is the same, but {differing(kept, new.parts)}; a folder keeps one companion "
                "of an archive id: --force lets this one take its place, and another --store keeps both",
                file=f"archive {archive_id}",
                in_python="replace=True",
            )
        return holds_all(kept, new)

    def _may_come_back(self, archive_id: str, parts: CompanionParts) -> bool:
        """Whether a file that cannot be read is whole, and of another companion: its base is lost, say."""
        try:
            header = self._files.header(self.folder.kept_path(archive_id))
        except (ArchiveError, OSError):  # it is broken, and the new one may take its place
            return False
        return bool(header.digest != digest_of(parts.data))

    def remove(self, archive_id: str) -> None:
        """Remove a companion; others that need it as a base stay whole."""
        self._checked_id(archive_id)
        with self.folder.locked():
            set_aside(self.folder, self._files, archive_id)
            self.folder.remove(self.folder.kept_path(archive_id))
        self._catalogue.write(every=UNWRITTEN)

    def gc(self) -> Cleaned:
        """Remove what killed processes left and what no companion needs.

        Related companions are stored as differences from each other.
        """
        errors = [diagnostic for diagnostic in self.check() if diagnostic.severity == "error"]
        if errors:
            why = f"`store check` finds errors, so nothing is removed: {errors[0]}"
            raise ArchiveError(why, file=self.file)
        with self.folder.locked():
            cleaned = clean(self.folder, self._catalogue.while_locked(is_unchanged=False), self._files)
        self._catalogue.entries()
        self._catalogue.write()
        return cleaned

    def check(self) -> Iterator[Diagnostic]:
        """Look for what is wrong: each file is read whole, and the index compared with the files.

        A wrong index is rebuilt, if the store can be written.
        """
        is_wrong = False
        for diagnostic in checked(self.folder, self._files.fresh(), self.limits):
            is_wrong |= diagnostic.record == INDEX
            yield diagnostic
        if is_wrong:
            self._catalogue.forget()
