"""Opening an archive, a companion, or both together; the content tells which it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.bounded import bounded
from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Allowance, Limits
from archive.base.mapped import Mapped, in_memory
from archive.companion.magic import is_companion
from archive.formats.record_kinds import EMBEDDED
from archive.reader.archive import Archive
from archive.reader.recognition import COMPANION, check_companion, opened_archive

if TYPE_CHECKING:
    from archive.base.mapped import Source
    from archive.container.container import Container


@bounded
def open(  # noqa: A001 (archive.open, like gzip.open)
    source: Source,
    *,
    companion: Source | None = None,
    limits: Limits = DEFAULT_LIMITS,
    name: str | None = None,
    mapped: bool = True,
) -> Archive:
    """Open a model archive, or a companion of one, for reading.

    Args:
        source: a path, a bytes-like object, or a binary file.
        companion: the companion of an archive whose debug information was split off, likewise.
        limits: bounds on the memory and work that a hostile file may cost.
        name: how messages call the file; by default its path.
        mapped: map files on disk. A file that another process cuts short while it is mapped ends this
            process (SIGBUS); False reads it into memory first.

    Returns:
        The archive. Only the zip's directory is read yet; everything else is read when it is asked for.

    Raises:
        ArchiveError: the source is another kind of file (the message says which), it contradicts itself, or
            the companion is of another archive.
        OSError: a file cannot be read.

    Example:
        >>> with open("fixtures/oracles/plain_stack.ptl") as model:
        ...     print(model.symbolicate(1452).entries[0].op)
        prim::GetAttr
    """
    load = Mapped if mapped else _read
    file = load(source, name)
    if companion is None:
        return opened(file, limits.allowance(len(file.data)))
    if is_companion(file.data):
        file.close()
        raise COMPANION.refusal(file.name)
    inner = load(companion)
    container = opened_archive(file, limits.allowance(len(file.data) + len(inner.data)))
    check_companion(inner, limits)
    return _rejoined(container, inner)


def _read(source: Source, name: str | None = None) -> Mapped:
    """A source that is read where it could be mapped."""
    return Mapped(in_memory(source), name)


def opened(mapped: Mapped, allowance: Allowance) -> Archive:
    """An archive, or a companion, in a file that is mapped already.

    Args:
        mapped: the file.
        allowance: the memory that it may cost; of a file that was made of another one, what that one may.

    Raises:
        ArchiveError: the file is of another kind, or contradicts itself. Then it is closed.
    """
    if is_companion(mapped.data):
        from archive.reader.companion import Companion  # noqa: PLC0415 (most archives have none)

        return Archive(None, companion=Companion(mapped, allowance))
    container = opened_archive(mapped, allowance)
    if EMBEDDED in container.records:
        return _rejoined(container, _embedded(container))
    return Archive(container)


def _rejoined(container: Container, mapped: Mapped) -> Archive:
    """An archive and its companion, read as the archive that they were split from."""
    from archive.reader.companion import Companion, check_same_model  # noqa: PLC0415 (the same)

    companion = Companion(mapped, container.allowance)
    check_same_model(container.records, companion.archive_id, container.file, companion.file)
    return Archive(container, companion=companion)


def _embedded(container: Container) -> Mapped:
    inner = Mapped(container.records[EMBEDDED].view(), container.file)
    if not is_companion(inner.data):
        raise ArchiveError(
            expected="a companion", found="something else", file=container.file, record=EMBEDDED
        )
    return inner
