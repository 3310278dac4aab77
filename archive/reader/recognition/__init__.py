"""A file is recognised by its content, never by its name. Every command begins with this.

A few bytes at its beginning and the zip's directory are read, and of files by ``torch.save`` one pickle;
nothing is executed. Files that are often found in the place of a model are recognised too: a web page that
says "404", a Git LFS pointer, a compressed file.
"""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Allowance, Limits
from archive.base.mapped import by_ranges, in_memory
from archive.base.urls import is_url
from archive.companion.magic import is_companion
from archive.container.container import Container
from archive.container.end import bytes_behind, has_end
from archive.formats.record_kinds import RecordKind, kind_of
from archive.reader.recognition.kinds import (
    ARCHIVE_KINDS,
    DAMAGED_KINDS,
    JOINED_KINDS,
    OPENED_KINDS,
    PACKAGE_KINDS,
    PROGRAM_KINDS,
    READ_KINDS,
    REDACTED_KINDS,
    SAVE_WITH_DEBUG_INFO,
    SAVED_KINDS,
    SHOWN,
    SHRUNK_KINDS,
    SPLIT_KINDS,
    FileKind,
    Recognised,
    kind_in,
)
from archive.reader.recognition.zips import is_slim, package_tensors, recognise_zip, saved_tensors, unpickled

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from archive.base.mapped import Fetched, Mapped, Source
    from archive.base.ranged import Bytes

__all__ = [
    "ARCHIVE_KINDS",
    "COMPANION",
    "DAMAGED_KINDS",
    "JOINED_KINDS",
    "OPENED_KINDS",
    "PACKAGE_KINDS",
    "PROGRAM_KINDS",
    "READ_KINDS",
    "REDACTED_KINDS",
    "SAVED_KINDS",
    "SAVE_WITH_DEBUG_INFO",
    "SHOWN",
    "SHRUNK_KINDS",
    "SPLIT_KINDS",
    "FileKind",
    "Recognised",
    "check_companion",
    "is_slim",
    "kind_in",
    "listed_kind",
    "opened_archive",
    "opened_zip",
    "package_tensors",
    "recognise",
    "recognise_zip",
    "saved_tensors",
    "unpickled",
]

ZIP = b"PK\3\4"


@bounded
def recognise(source: Source, *, limits: Limits = DEFAULT_LIMITS, look: bool = True) -> Recognised:
    """Recognise a file by its content.

    >>> str(recognise(b"version https://git-lfs.github.com/spec/v1"))
    'a Git LFS pointer: `git lfs pull` puts the file itself in its place'

    Args:
        source: a path or URL, a bytes-like object, or a binary file.
        limits: what hostile input may cost.
        look: read the pickle of a file by ``torch.save``, to name the kind of object in it.

    Returns:
        The kind of file, and a sentence about it.

    Raises:
        ArchiveError: the file is a zip that contradicts itself.
        OSError: the file cannot be read.
    """
    mapped = by_ranges(source)
    allowance = limits.allowance(mapped.weight)
    if is_companion(mapped.data):
        mapped.close()
        return COMPANION
    if not has_end(mapped.data):
        try:
            return _no_zip(mapped.data, allowance, look=look)
        finally:
            mapped.close()
    with Container(mapped, allowance, rooted=False) as container:
        return recognise_zip(container, look=look)


def listed_kind(file: str | Path, *, limits: Limits = DEFAULT_LIMITS, mapped: bool = True) -> FileKind | None:
    """The kind of a file that a folder lists.

    Args:
        file: its path.
        limits: what hostile input may cost.
        mapped: whether it is mapped.

    Returns:
        None for a file that may be of any kind: it is cut, broken or cannot be read, as opening it will tell.
    """
    try:
        mode = stat.S_IFREG if is_url(file) else os.stat(file).st_mode  # noqa: PTH116 (pathlib costs start-up)
        if not stat.S_ISREG(mode):
            return _kind_of_folder(file) if stat.S_ISDIR(mode) else FileKind.UNKNOWN
        kind = recognise(file if mapped else in_memory(file), limits=limits, look=False).kind
    except (ArchiveError, OSError):
        return None
    return None if kind is FileKind.CUT else kind


def _kind_of_folder(path: str | Path) -> FileKind:
    """The kind of a folder that a search names in the place of files: it follows no links."""
    return FileKind.LINK if os.path.islink(path) else FileKind.EMPTY_FOLDER  # noqa: PTH114 (pathlib costs start-up)


COMPANION = Recognised(FileKind.COMPANION, "a companion, the debug info of an archive")


def opened_archive(
    mapped: Mapped | Fetched, allowance: Allowance, kinds: Collection[FileKind] = ARCHIVE_KINDS
) -> Container:
    """Open a mapped archive.

    Args:
        mapped: the file.
        allowance: what it may cost.
        kinds: the kinds that are opened; others are refused.

    Raises:
        ArchiveError: the file is no archive (the message says what it is) or contradicts itself. The file
            is closed then.
    """
    container = opened_zip(mapped, allowance)
    found = recognise_zip(container)
    if found.kind not in kinds:
        container.close()
        raise found.refusal(mapped.name)
    # A damaged name makes a record seem to be missing, and tensors alone are many and far apart.
    container.check_names(name for name in container.records if kind_of(name) is not RecordKind.TENSOR)
    return container


def check_companion(mapped: Mapped | Fetched, limits: Limits) -> None:
    """Refuse a mapped file that is no companion.

    Raises:
        ArchiveError: the message says what the file is. The file is closed then.
    """
    if is_companion(mapped.data):
        return
    try:
        what = recognise(mapped.whole().data, limits=limits).what
    except ArchiveError:  # a zip that contradicts itself
        what = "a broken zip"
    finally:
        mapped.close()
    raise ArchiveError(expected="a companion", found=what, file=mapped.name)


def opened_zip(mapped: Mapped | Fetched, allowance: Allowance) -> Container:
    """Open a mapped zip of any kind.

    Raises:
        ArchiveError: the file is no zip (the message says what it is) or contradicts itself. The file is
            closed then.
    """
    if has_end(mapped.data):
        return Container(mapped, allowance, rooted=False)
    try:
        raise _no_zip(mapped.data, allowance).refusal(mapped.name)
    finally:
        mapped.close()


def _no_zip(data: Bytes, allowance: Allowance, *, look: bool = True) -> Recognised:
    if len(data) and ZIP.startswith(data[: len(ZIP)]):
        behind = bytes_behind(data)
        if behind:
            what = f"a zip with {behind:,} other byte{'s' * (behind != 1)} behind its end"
            whole = f"this tool wants it without them: `head -c {len(data) - behind}`"
            return Recognised(FileKind.ZIP, what, whole)
        return Recognised(FileKind.CUT, "a zip without its end, cut short or with many other bytes behind it")
    from archive.reader.recognition.heads import recognise_head  # noqa: PLC0415 (decompressors, for others)

    return recognise_head(data, allowance, look=look)
