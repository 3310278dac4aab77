"""Which kept files lie below which: as the header of each file says, whatever the index says.

What is removed or written anew is decided by this alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError, one_line
from archive.store.kept import is_base, lost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from archive.store.files import KeptFiles
    from archive.store.folder import Folder
    from archive.store.kept import KeptHeader


class Chains(NamedTuple):
    """The headers of all files that are kept.

    Attributes:
        companions: by archive id.
        bases: by the digest in the name.
        unread: the companions that cannot be read, by archive id, each with the reason: the file is none or
            was changed, or a base below it is not there.
        unread_bases: the same for bases, by the digest in the name, whether any companion needs them or not.
    """

    companions: dict[str, KeptHeader]
    bases: dict[str, KeptHeader]
    unread: dict[str, str]
    unread_bases: dict[str, str]

    @property
    def built_upon(self) -> set[str]:
        """The digests of all bodies that a file is kept by."""
        return {one.base_name for one in (*self.companions.values(), *self.bases.values()) if one.depth}

    @property
    def needed(self) -> set[str]:
        """The digests of all bodies that a companion is kept by, directly or not."""
        needed = {one.base_name for one in self.companions.values() if one.depth}
        left = [*needed]
        while left:
            one = self.bases.get(left.pop())
            if one is not None and one.depth and one.base_name not in needed:
                needed.add(one.base_name)
                left.append(one.base_name)
        return needed

    @property
    def unneeded(self) -> list[str]:
        """The digests of the bases that no companion needs: of those alone whose own header names them."""
        needed = self.needed
        return sorted(key for key, one in self.bases.items() if key not in needed and one.body.hex() == key)


def chains_of(folder: Folder, files: KeptFiles) -> Chains:
    """Read the headers of all files that are kept, each of which is checked to be whole.

    Raises:
        ArchiveError: a folder of the store is a link.
        OSError: one cannot be read.
    """
    names, bases = folder.companion_names(), folder.base_names()
    found = Chains({}, {}, dict(names.unread), dict(bases.unread))
    _read(names.files, folder.kept_path, files, found.companions, found.unread)
    _read(bases.files, folder.base_path, files, found.bases, found.unread_bases)
    known: dict[KeptHeader, bool] = {}
    for key, header in found.companions.items():
        if not _has_bases(header, found, known):
            found.unread[key] = str(ArchiveError(lost(header), file=str(folder.kept_path(key))))
    return found


def _read(
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


def _has_bases(header: KeptHeader, found: Chains, known: dict[KeptHeader, bool]) -> bool:
    """Whether all bases below a file are there.

    Args:
        header: the file's.
        found: all headers.
        known: what was found of others; it is added to.
    """
    path = []
    while header.depth and header not in known:
        path.append(header)
        places = found.companions.get(header.base_id.hex()), found.bases.get(header.base.hex())
        below = next((one for one in places if one is not None and is_base(one, header)), None)
        if below is None:
            known[header] = False
            break
        header = below
    known.update(dict.fromkeys(path, known.get(header, not header.depth)))
    return known.get(header, not header.depth)
