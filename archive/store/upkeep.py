"""What ``check`` finds in a store, and what ``gc`` removes from it.

``check`` finds files that are broken, facts that disagree, and what does not belong into a store. ``gc``
removes what no companion needs, and re-stores companions without a base as differences from one. Only the
headers of the files decide what is needed, not the index.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.diagnostics import Diagnostic
from archive.base.errors import ArchiveError, one_line
from archive.base.quick_dataclass import dataclass
from archive.companion.parse import parse_companion
from archive.io.drafts import DRAFT_NAME
from archive.store.adding import kin_of, smallest
from archive.store.catalogue import entry_of
from archive.store.files import chains_of
from archive.store.folder import BASES, COMPANIONS, INDEX
from archive.store.index import read_index
from archive.store.kept import CompanionParts, Given, base_name, read_header

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from archive.base.limits import Limits
    from archive.store.entries import StoreEntry
    from archive.store.files import Chains, KeptFiles
    from archive.store.folder import Folder

# --- check

INEXACT = "comes back with the same facts, but other bytes: the libraries that compress have changed"


def checked(folder: Folder, files: KeptFiles, limits: Limits) -> Iterator[Diagnostic]:
    """Look for what is wrong in a store."""
    entries: dict[str, StoreEntry] = {}
    names, bases = folder.companion_names(), folder.base_names()
    for where, unread in ((COMPANIONS, names.unread), (BASES, bases.unread)):
        for key, why in sorted(unread.items()):
            yield Diagnostic("error", f"{where}/{key}.kept", "", why)
    for archive_id, signature in sorted(names.files.items()):
        record = f"{COMPANIONS}/{archive_id}.kept"
        try:
            inflated = files.read(archive_id)
            data, is_exact = Given.of(inflated, limits)
            with memory.charged(limits.allowance(len(data))):
                _ = parse_companion(memoryview(data)).records  # reads all of it
            entries[archive_id] = entry_of(archive_id, inflated, signature, limits)
        except FileNotFoundError:  # it was removed meanwhile
            continue
        except (ArchiveError, OSError) as error:
            yield Diagnostic("error", record, "", one_line(str(error)))
            continue
        if not is_exact:
            yield Diagnostic("warning", record, "", INEXACT)
    chains = chains_of(folder, files)
    # While a file cannot be read, what it needs is not known.
    unneeded = [] if chains.unread or chains.unread_bases else chains.unneeded
    yield from _wrong_bases(folder, files, unneeded)
    yield from _shared_prefixes(entries)
    yield from _wrong_rows(folder, entries)
    for path in folder.foreign():
        where = one_line(str(path.relative_to(folder.path)))
        if DRAFT_NAME.fullmatch(path.name):
            yield Diagnostic("note", where, "", "a draft; `gc` removes it if its process is dead")
        else:
            yield Diagnostic("warning", where, "", "isn't a file of a store; ignored")
    for digest in unneeded:
        yield Diagnostic("note", f"{BASES}/{digest}.kept", "", "no companion needs it; `gc` removes it")


def _wrong_bases(folder: Folder, files: KeptFiles, unneeded: Sequence[str]) -> Iterator[Diagnostic]:
    """Bases that cannot be read; unneeded ones may lack a base of their own."""
    for digest in sorted(folder.base_names().files.keys() - set(unneeded)):
        path = folder.base_path(digest)
        try:
            own_digest = files.read_file(path).header.body.hex()
        except (ArchiveError, OSError) as error:
            yield Diagnostic("error", f"{BASES}/{path.name}", "", one_line(str(error)))
        else:
            if own_digest != digest:
                yield Diagnostic("error", f"{BASES}/{path.name}", "", f"is another base: {own_digest}")


def _shared_prefixes(entries: Mapping[str, StoreEntry]) -> Iterator[Diagnostic]:
    """Prefixes that two companions have: the failures of both are ambiguous."""
    by_prefix: defaultdict[int, list[StoreEntry]] = defaultdict(list)
    for entry in entries.values():
        by_prefix[entry.prefix].append(entry)
    for prefix, same in by_prefix.items():
        if prefix and len(same) > 1:
            names = ", ".join(entry.name for entry in same)
            record = f"{COMPANIONS}/{same[1].archive_id}.kept"
            yield Diagnostic("error", record, "", f"{len(same)} companions have the prefix {prefix}: {names}")


def _wrong_rows(folder: Folder, entries: Mapping[str, StoreEntry]) -> Iterator[Diagnostic]:
    """Rows of the index that are not what the files say. Whoever opens the store reads files without one."""
    try:
        if folder.signature(folder.index) is None:
            return
    except ArchiveError as error:
        yield Diagnostic("warning", INDEX, "", one_line(str(error)))
        return
    rows = read_index(folder)
    if not rows and entries:
        yield Diagnostic("warning", INDEX, "", "was broken, or of another version; it is rebuilt")
    for archive_id, entry in entries.items():
        row = rows.get(archive_id)
        if row is None or (row.signature != entry.signature and row.body != entry.body):
            continue  # it is of another file, and not believed
        if replace(row, signature=entry.signature) != entry:
            yield Diagnostic("error", INDEX, archive_id, "was not what the file says; it is rebuilt")


# --- gc


@dataclass(frozen=True, slots=True)
class Cleaned:
    """The result of cleaning a store.

    Attributes:
        drafts: files that killed processes had left.
        bases: bases that no companion needed any more.
        repacked: companions that are stored as a difference from a base now.
        freed: bytes.
        claims: claims of prefixes for archives of which nothing is kept; None in a folder, which has none.
    """

    drafts: int
    bases: int
    repacked: int
    freed: int
    claims: int | None = None


def clean(folder: Folder, entries: Mapping[str, StoreEntry], files: KeptFiles) -> Cleaned:
    """Clean a store while it is locked."""
    chains = _readable_chains(folder, files)
    drafts, unneeded, sizes = folder.remove_drafts(), chains.unneeded, folder.base_names().files
    for digest in unneeded:
        folder.remove(folder.base_path(digest))
    repacked, saved = _repacked(folder, entries, files, chains)
    if repacked:
        _readable_chains(folder, files)
    return Cleaned(drafts, len(unneeded), repacked, sum(sizes[digest].size for digest in unneeded) + saved)


def _readable_chains(folder: Folder, files: KeptFiles) -> Chains:
    """The chains of a store in which every file can be read."""
    chains = chains_of(folder, files.fresh())
    for why in (*chains.unread.values(), *chains.unread_bases.values()):
        raise ArchiveError(f"`store check` finds errors, so nothing is removed: {why}", file=str(folder.path))
    return chains


def _repacked(
    folder: Folder, entries: Mapping[str, StoreEntry], files: KeptFiles, chains: Chains
) -> tuple[int, int]:
    """Store companions that have no base as differences from their kin: how many, and the bytes this saves.

    Processes that add kin concurrently store each without a base. A companion that is a base stays as it is,
    so that no base leads back to itself. Kin that have a base or are one are tried first: otherwise two of
    four companions would stay without a base.
    """
    built_upon, count, saved = chains.built_upon, 0, 0
    joined = {
        key for key, header in chains.companions.items() if header.depth or header.body.hex() in built_upon
    }
    for archive_id, header in chains.companions.items():
        if not header.depth and header.body.hex() not in built_upon and archive_id in entries:
            before = folder.read(folder.kept_path(archive_id))
            data = _smaller(entries[archive_id], entries, files, joined)
            if data and len(data) < len(before):
                _rewrite(folder, files, archive_id, before, data)
                base = read_header(memoryview(data))
                built_upon.add(base_name(base))
                joined |= {archive_id, base.base_id.hex()}
                count, saved = count + 1, saved + len(before) - len(data)
    return count, saved


def _smaller(
    entry: StoreEntry, entries: Mapping[str, StoreEntry], files: KeptFiles, joined: set[str]
) -> bytes:
    """A companion's file with one of its kin as base, preferably a joined one; empty if it has no frame."""
    kin = {
        key: other for key, other in entries.items() if other.facts.qualified_top == entry.facts.qualified_top
    }
    inflated = files.read(entry.archive_id)
    if inflated.data is None:
        return b""
    parts = CompanionParts(inflated.data, inflated.body[: inflated.header.notes], bytes(inflated.plain))
    data = smallest(parts, kin_of(entry.facts, {key: kin[key] for key in kin if key in joined}), files)
    if read_header(memoryview(data)).depth:
        return data
    return smallest(parts, kin_of(entry.facts, kin), files)


def _rewrite(folder: Folder, files: KeptFiles, archive_id: str, before: bytes, data: bytes) -> None:
    """Write a companion's file again, and read it back; if that is not the same, it becomes what it was."""
    path = folder.kept_path(archive_id)
    body = files.read(archive_id).body
    folder.write(path, data)
    try:
        if files.fresh().read(archive_id).body == body:
            return
        why = "it came back as another"
    except (ArchiveError, OSError) as error:
        why = str(error)
    folder.write(path, before)
    raise ArchiveError(f"could not be stored as a difference from its kin: {why}", file=str(path))


# --- what is removed or replaced


def set_aside(folder: Folder, files: KeptFiles, archive_id: str) -> None:
    """Keep a removed companion as a base, if others need it, or may need it."""
    path, files = folder.kept_path(archive_id), files.fresh()
    try:
        header = files.header(path)
    except (ArchiveError, FileNotFoundError):  # it is broken or was never there: nothing is kept by it
        return
    body = header.body.hex()
    chains = chains_of(folder, files)
    if body not in chains.needed and not chains.unread:  # what a file that is broken needs is not known
        return
    base = folder.base_path(body)
    there = chains.bases.get(body)
    if (
        there is None
        or there.body != header.body
        or (
            _is_readable(files, path, body)
            and (there.depth > header.depth or not _is_readable(files, base, body))
        )
    ):  # others may need it as low as it is
        folder.write(base, folder.read(path))


def _is_readable(files: KeptFiles, path: Path, body: str) -> bool:
    """Whether a file can be read together with its bases, and is what it should be."""
    try:
        return bool(files.read_file(path).header.body.hex() == body)
    except (ArchiveError, OSError):
        return False
