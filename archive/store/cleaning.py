"""What ``gc`` does: removes what no companion needs, and keeps companions smaller that were kept alone."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from archive.base.drafts import remove_dead
from archive.base.errors import ArchiveError, in_file
from archive.base.mapped import Mapped, in_memory
from archive.store.choosing import kin_of, smallest
from archive.store.kept import Companion, read_header

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from archive.store.entries import Entry
    from archive.store.files import KeptFiles
    from archive.store.folder import Folder


class Cleaned(NamedTuple):
    """The result of cleaning a store.

    Attributes:
        drafts: files that killed processes had left.
        bases: bases that no companion needed any more.
        repacked: companions that are kept by a base now.
        freed: bytes.
    """

    drafts: int
    bases: int
    repacked: int
    freed: int


def needed_bases(folder: Folder) -> set[str]:
    """The digests of all bodies that a companion is kept by, directly or not.

    Raises:
        ArchiveError: a file is broken, so that nobody knows what it needs.
        OSError: one cannot be read.
    """
    needed = {_base_below(folder.kept_path(key)) for key in folder.kept()} - {""}
    below = {digest: _base_below(folder.base_path(digest)) for digest in folder.base_files()}
    left = [*needed]
    while left:
        base = below.get(left.pop(), "")
        if base and base not in needed:
            needed.add(base)
            left.append(base)
    return needed


def _base_below(path: Path) -> str:
    """The digest of the body that a file is kept by; "" where it stands alone."""
    with in_file(str(path)):
        return read_header(Mapped(in_memory(path)).data).base_name


def unneeded_bases(folder: Folder) -> dict[str, int]:
    """The bases that no companion needs, by digest, with their bytes.

    Raises:
        ArchiveError: as :func:`needed_bases`.
        OSError: likewise.
    """
    needed = needed_bases(folder)
    return {digest: one.size for digest, one in folder.base_files().items() if digest not in needed}


def clean(folder: Folder, entries: Mapping[str, Entry], files: KeptFiles) -> Cleaned:
    """Clean a store that nobody else changes meanwhile.

    Raises:
        ArchiveError: a file is broken, so that nobody knows which bases are needed.
        OSError: the store cannot be written.
    """
    drafts = sum(map(remove_dead, (folder.path, folder.companions, folder.bases)))
    unneeded = unneeded_bases(folder)
    for digest in unneeded:
        folder.base_path(digest).unlink(missing_ok=True)
    repacked, saved = _repacked(folder, entries, files)
    return Cleaned(drafts, len(unneeded), repacked, sum(unneeded.values()) + saved)


def _repacked(folder: Folder, entries: Mapping[str, Entry], files: KeptFiles) -> tuple[int, int]:
    """Keep companions by one of their kin that were kept alone: how many, and the bytes that this saves.

    Processes that add kin at the same moment keep each alone. One by which others are kept stays as it is.
    """
    bases, count, saved = needed_bases(folder), 0, 0
    for entry in entries.values():
        if not entry.depth and entry.body not in bases:
            data = _smaller(entry, entries, files)
            if data:
                folder.write(folder.kept_path(entry.archive_id), data, force=True)
                bases.add(read_header(memoryview(data)).base_name)
                count, saved = count + 1, saved + entry.kept_size - len(data)
    return count, saved


def _smaller(entry: Entry, entries: Mapping[str, Entry], files: KeptFiles) -> bytes:
    """A companion's file by one of its kin; empty where that is not smaller, or it cannot be read."""
    kin = [one for one in entries.values() if one.facts.qualified_top == entry.facts.qualified_top]
    with suppress(ArchiveError):  # `check` tells of it
        found = files.read(entry.archive_id)
        if found.data is not None:
            one = Companion(found.data, found.body[: found.header.notes], bytes(found.plain))
            data = smallest(one, kin_of(entry.facts, kin), files)
            return data if len(data) < entry.kept_size else b""
    return b""


def set_aside(folder: Folder, files: KeptFiles, archive_id: str) -> None:
    """Keep a companion that goes as a base, if others are, or may be, kept by it.

    Raises:
        OSError: the store cannot be written.
    """
    try:
        body = files.header(archive_id).body.hex()
    except (ArchiveError, FileNotFoundError):  # it is broken or was never there: nothing is kept by it
        return
    if not folder.base_path(body).exists() and _may_be_needed(folder, body):
        folder.write(folder.base_path(body), folder.kept_path(archive_id).read_bytes())


def _may_be_needed(folder: Folder, body: str) -> bool:
    """Whether a companion is, or may be, kept by a body."""
    try:
        return body in needed_bases(folder)
    except ArchiveError:  # a file is broken: what it needs is not known
        return True
