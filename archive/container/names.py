"""The names of an archive's files: all are inside the one root folder.

Bytes that are not UTF-8 are kept as surrogate escapes.
"""

from __future__ import annotations

import re

from archive.base.errors import ArchiveError, shown

CALLSTACK_MAP, DELEGATED = "callstack_debug_map.pkl", "delegated_backends.debug_pkl"
CODE_FOLDERS = "code/", ".data/ts_code/code/"
"""Records that PyTorch deflates; ``formats.record_kinds`` has all names, and says what they are."""
STORAGE_ALIGNMENT = ".storage_alignment"
"""The record of the alignment of storages."""

_ESCAPES = re.compile(
    r"""
    \0                                           # ends the name early wherever C reads it
    | \A (?: [/\\] | [A-Za-z]:/ )                # absolute
    | \A [^/]* / (?: [/\\] | [A-Za-z]: )         # absolute once the root folder is removed
    | (?: \A | [/\\] ) \.\. (?: [/\\] | \Z )     # up
    """,
    re.VERBOSE,
)


def as_text(data: bytes) -> str:
    """Bytes as text; what isn't UTF-8 becomes surrogate escapes."""
    return data.decode("utf-8", "surrogateescape")


def as_bytes(text: str) -> bytes:
    """The same bytes again."""
    return text.encode("utf-8", "surrogateescape")


class OutsideError(ArchiveError):
    """A file that isn't in the root folder."""


def inside(root: str, path: str, *, rooted: bool = True) -> str:
    """The name of a file inside the root folder.

    Args:
        root: the folder; "" if there is none.
        path: the file's path in the directory.
        rooted: whether there must be a root folder.

    Raises:
        OutsideError: the path is somewhere else.
    """
    prefix = f"{root}/" if root or rooted else ""
    within = path.startswith(prefix)
    if within and not _ESCAPES.search(path):
        return path[len(prefix) :]
    folder = f"the folder {shown(root)}" if root else "a root folder"
    refused = ArchiveError if within else OutsideError
    raise refused(expected=f"a name inside {folder}", found=shown(path))
