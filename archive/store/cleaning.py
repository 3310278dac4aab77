"""What ``gc`` does: removes what no companion needs, and keeps companions smaller that were kept alone.

Only the headers of the files say what is needed; the index is not asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError
from archive.store.chains import chains_of
from archive.store.choosing import kin_of, smallest
from archive.store.kept import Companion, read_header

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from archive.store.chains import Chains
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


def clean(folder: Folder, entries: Mapping[str, Entry], files: KeptFiles) -> Cleaned:
    """Clean a store that nobody else changes meanwhile.

    Raises:
        ArchiveError: a file cannot be read, so that nobody knows which bases are needed.
        OSError: the store cannot be written.
    """
    chains = _checked(folder, files)
    drafts, unneeded, sizes = folder.remove_drafts(), chains.unneeded, folder.base_names().files
    for digest in unneeded:
        folder.remove(folder.base_path(digest))
    repacked, saved = _repacked(folder, entries, files, chains)
    if repacked:
        _checked(folder, files)
    return Cleaned(drafts, len(unneeded), repacked, sum(sizes[one].size for one in unneeded) + saved)


def _checked(folder: Folder, files: KeptFiles) -> Chains:
    """The chains of a store in which every file can be read.

    Raises:
        ArchiveError: one cannot be.
    """
    chains = chains_of(folder, files.fresh())
    for why in (*chains.unread.values(), *chains.unread_bases.values()):
        raise ArchiveError(f"`store check` finds errors, so nothing is removed: {why}", file=str(folder.path))
    return chains


def _repacked(
    folder: Folder, entries: Mapping[str, Entry], files: KeptFiles, chains: Chains
) -> tuple[int, int]:
    """Keep companions by one of their kin that were kept alone: how many, and the bytes that this saves.

    Processes that add kin at the same moment keep each alone. One by which others are kept stays as it is, so
    that no base leads back to itself; so kin that have a base or are one are asked first: of two pairs, two
    would stay alone.
    """
    built_upon, count, saved = chains.built_upon, 0, 0
    joined = {key for key, one in chains.companions.items() if one.depth or one.body.hex() in built_upon}
    for archive_id, header in chains.companions.items():
        if not header.depth and header.body.hex() not in built_upon and archive_id in entries:
            before = folder.read(folder.kept_path(archive_id))
            data = _smaller(entries[archive_id], entries, files, joined)
            if data and len(data) < len(before):
                _rewrite(folder, files, archive_id, before, data)
                base = read_header(memoryview(data))
                built_upon.add(base.base_name)
                joined |= {archive_id, base.base_id.hex()}
                count, saved = count + 1, saved + len(before) - len(data)
    return count, saved


def _smaller(entry: Entry, entries: Mapping[str, Entry], files: KeptFiles, joined: set[str]) -> bytes:
    """A companion's file by one of its kin, of those that are joined if one serves; empty without a frame."""
    kin = [one for one in entries.values() if one.facts.qualified_top == entry.facts.qualified_top]
    found = files.read(entry.archive_id)
    if found.data is None:
        return b""
    one = Companion(found.data, found.body[: found.header.notes], bytes(found.plain))
    data = smallest(one, kin_of(entry.facts, [other for other in kin if other.archive_id in joined]), files)
    return data if read_header(memoryview(data)).depth else smallest(one, kin_of(entry.facts, kin), files)


def _rewrite(folder: Folder, files: KeptFiles, archive_id: str, before: bytes, data: bytes) -> None:
    """Write a companion's file anew, and read it back; if that is not the same, it becomes what it was.

    Raises:
        ArchiveError: it was not the same.
    """
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
    raise ArchiveError(f"could not be kept by its kin: {why}", file=str(path))


def set_aside(folder: Folder, files: KeptFiles, archive_id: str) -> None:
    """Keep a companion that goes as a base, if others are, or may be, kept by it.

    Raises:
        ArchiveError: the base's place is taken by what is no regular file.
        OSError: the store cannot be written.
    """
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
        return files.read_file(path).header.body.hex() == body
    except (ArchiveError, OSError):
        return False
