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

_IS_ABSOLUTE = re.compile(
    r"""
      (?: [/\\] | [A-Za-z]:/ )                   # as it is
    | [^/]* / (?: [/\\] | [A-Za-z]: )            # once the root folder is removed
    """,
    re.VERBOSE,
).match
_LEADS_UP = re.compile(r"(?: \A | [/\\] ) \.\. (?: [/\\] | \Z )", re.VERBOSE).search


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
    if within and not _escapes(path):
        return path[len(prefix) :]
    folder = f"the folder {shown(root)}" if root else "a root folder"
    refused = ArchiveError if within else OutsideError
    raise refused(expected=f"a name inside {folder}", found=shown(path))


def _escapes(path: str) -> bool:
    """Whether a path leads out of its folder: it's absolute, leads up, or ends early wherever C reads it."""
    return "\0" in path or bool(_IS_ABSOLUTE(path)) or (".." in path and bool(_LEADS_UP(path)))
