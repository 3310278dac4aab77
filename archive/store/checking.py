"""What ``check`` finds: files that are broken, facts that disagree, and what does not belong into a store."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from archive.base.drafts import DRAFT_NAME
from archive.base.errors import ArchiveError, one_line
from archive.check.diagnostic import Diagnostic
from archive.companion.parse import parse_companion
from archive.store.catalogue import entry_of
from archive.store.chains import chains_of
from archive.store.folder import BASES, COMPANIONS, INDEX
from archive.store.index import read_index
from archive.store.kept import companion_in, digest_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from archive.base.limits import Limits
    from archive.store.entries import Entry
    from archive.store.files import KeptFiles
    from archive.store.folder import Folder
    from archive.store.opened import Signature

INEXACT = "comes back with the same facts, but other bytes: the libraries that compress have changed"


def checked(folder: Folder, files: KeptFiles, limits: Limits) -> Iterator[Diagnostic]:
    """Look for what is wrong in a store.

    Yields:
        Diagnostics, by the file that each is about.
    """
    entries: dict[str, Entry] = {}
    names, bases = folder.companion_names(), folder.base_names()
    for where, unread in ((COMPANIONS, names.unread), (BASES, bases.unread)):
        for key, why in sorted(unread.items()):
            yield Diagnostic("error", f"{where}/{key}.kept", "", why)
    for archive_id, signature in sorted(names.files.items()):
        try:
            entries[archive_id], is_exact = _read(archive_id, signature, files, limits)
        except FileNotFoundError:  # it was removed meanwhile
            continue
        except (ArchiveError, OSError) as error:
            yield Diagnostic("error", f"{COMPANIONS}/{archive_id}.kept", "", one_line(str(error)))
            continue
        if not is_exact:
            yield Diagnostic("warning", f"{COMPANIONS}/{archive_id}.kept", "", INEXACT)
    chains = chains_of(folder, files)
    # Where a file cannot be read, nobody knows what is needed.
    unneeded = [] if chains.unread or chains.unread_bases else chains.unneeded
    yield from _bases(folder, files, unneeded)
    yield from _prefixes(entries)
    yield from _index(folder, entries)
    yield from _others(folder)
    for digest in unneeded:
        yield Diagnostic("note", f"{BASES}/{digest}.kept", "", "no companion needs it; `gc` removes it")


def _read(archive_id: str, signature: Signature, files: KeptFiles, limits: Limits) -> tuple[Entry, bool]:
    """The entry of a companion, all of which is read; and whether the companion comes back to the byte.

    Raises:
        ArchiveError: something is wrong.
    """
    found = files.read(archive_id)
    data = companion_in(found, limits)
    _ = parse_companion(memoryview(data), limits.allowance(len(data))).records
    return entry_of(archive_id, found, signature, limits), digest_of(data) == found.header.digest


def _bases(folder: Folder, files: KeptFiles, unneeded: Sequence[str]) -> Iterator[Diagnostic]:
    """Bases that cannot be read; those that nobody needs may lack a base of their own."""
    for digest in sorted(folder.base_names().files.keys() - set(unneeded)):
        path = folder.base_path(digest)
        try:
            found = files.read_file(path).header.body.hex()
        except (ArchiveError, OSError) as error:
            yield Diagnostic("error", f"{BASES}/{path.name}", "", one_line(str(error)))
        else:
            if found != digest:
                yield Diagnostic("error", f"{BASES}/{path.name}", "", f"is another base: {found}")


def _prefixes(entries: Mapping[str, Entry]) -> Iterator[Diagnostic]:
    """Prefixes that two companions have: the failures of both are ambiguous."""
    found: defaultdict[int, list[Entry]] = defaultdict(list)
    for entry in entries.values():
        found[entry.prefix].append(entry)
    for prefix, same in found.items():
        if prefix and len(same) > 1:
            labels = ", ".join(entry.label for entry in same)
            record = f"{COMPANIONS}/{same[1].archive_id}.kept"
            yield Diagnostic(
                "error", record, "", f"{len(same)} companions have the prefix {prefix}: {labels}"
            )


def _index(folder: Folder, entries: Mapping[str, Entry]) -> Iterator[Diagnostic]:
    """Rows of the index that are not what the files say. Whoever opens the store reads files without one."""
    try:
        if folder.signature(folder.index) is None:
            return
    except ArchiveError as error:
        yield Diagnostic("warning", INDEX, "", one_line(str(error)))
        return
    known = read_index(folder)
    if not known and entries:
        yield Diagnostic("warning", INDEX, "", "was broken, or of another version; it is made anew")
    for archive_id, entry in entries.items():
        row = known.get(archive_id)
        if row is None or (row.signature != entry.signature and row.body != entry.body):
            continue  # it is of another file, and not believed
        if replace(row, signature=entry.signature) != entry:
            yield Diagnostic("error", INDEX, archive_id, "was not what the file says; it is made anew")


def _others(folder: Folder) -> Iterator[Diagnostic]:
    """What a store has no use for: it is left alone."""
    for path in folder.foreign():
        where = one_line(str(path.relative_to(folder.path)))
        if DRAFT_NAME.fullmatch(path.name):
            yield Diagnostic("note", where, "", "a draft; `gc` removes it if its process is dead")
        else:
            yield Diagnostic("warning", where, "", "no file of a store; it is left alone")
