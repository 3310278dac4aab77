"""Opening an archive, a companion, or both together; the content decides which it is."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from archive.base import memory
from archive.base.bounded import bounded
from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.companion.magic import is_companion
from archive.formats.record_kinds import place_of_companion
from archive.io.mapped import Fetched, Mapped, by_ranges, in_memory
from archive.io.urls import is_url
from archive.reader.archive import Archive
from archive.reader.pickle_records import PickleRecords
from archive.reader.recognition import (
    ARCHIVE_KINDS,
    COMPANION,
    OPENED_KINDS,
    SAVED_KINDS,
    TENSOR_KINDS,
    FileKind,
    check_companion,
    head_kind,
    is_zip,
    opened_archive,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from archive.container.container import Container
    from archive.io.mapped import Source

FOLDER_FILES = (
    "model.safetensors.index.json",
    "model.safetensors",
    "pytorch_model.bin.index.json",
    "pytorch_model.bin",
)
"""Files that are the model of a folder, as Hugging Face's libraries write and look for them."""
SHARD_KINDS = {FileKind.SAFETENSORS, FileKind.LEGACY, *SAVED_KINDS}
"""Kinds of shards."""


@bounded
def open(  # noqa: A001 (archive.open, like gzip.open)
    source: Source,
    *,
    companion: Source | None = None,
    limits: Limits = DEFAULT_LIMITS,
    name: str | None = None,
    mapped: bool = True,
    kinds: Collection[FileKind] | None = None,
) -> Archive:
    """Open a model for reading: an archive, an exported program, a checkpoint, a file of tensors.

    A companion can be opened, too; and the index of a model in several files opens all of them.

    Args:
        source: a path, a bytes-like object, or a binary file; an fsspec URL (``s3://bucket/model.pt``), or a
            file that fsspec opened. Only what is needed of a remote file is fetched. In a folder, or a URL
            that ends with a slash, the first of ``FOLDER_FILES`` that exists is opened.
        companion: the companion of an archive whose debug information was split off, given likewise.
        limits: bounds on the memory and work that a hostile file may take.
        name: how messages call the file; by default its path.
        mapped: map files on disk. A file that another process cuts short while it is mapped ends this
            process (SIGBUS); False reads it into memory first.
        kinds: the kinds of files that are opened besides companions, by default all; others are refused.

    Returns:
        The archive. Only the zip's directory is read yet; everything else is read when it is asked for.

    Raises:
        ArchiveError: the source is another kind of file (the message says which), it contradicts itself, or
            the companion is of another archive.
        OSError: a file cannot be read.

    Examples:
        >>> with open("fixtures/oracles/plain_stack.ptl") as model:
        ...     print(model.symbolicate(1452).entries[0].op)
        prim::GetAttr
    """
    source = _in_folder(source)
    beside = None if companion is None else by_ranges(companion if mapped else in_memory(companion))
    file = by_ranges(source if mapped else in_memory(source), name)
    return _open_files(file, beside, limits, OPENED_KINDS if kinds is None else kinds)


def open_whole(
    source: Source,
    *,
    companion: Source | None = None,
    limits: Limits = DEFAULT_LIMITS,
    kinds: Collection[FileKind] = ARCHIVE_KINDS,
) -> Archive:
    """:func:`open` for work that reads all of the archive: remote files are copied first."""
    return _open_files(Mapped(source), None if companion is None else Mapped(companion), limits, kinds)


def _open_files(
    file: Mapped | Fetched, companion: Mapped | Fetched | None, limits: Limits, kinds: Collection[FileKind]
) -> Archive:
    if companion is None:
        with memory.charged(limits.allowance(file.weight)):
            return opened(file, kinds)
    if is_companion(file.data):
        file.close()
        raise COMPANION.refusal(file.name)
    with memory.charged(limits.allowance(file.weight + companion.weight)):
        container = opened_archive(file, kinds)
        check_companion(companion, limits)
        return _rejoined(container, companion.whole())


def opened(mapped: Mapped | Fetched, kinds: Collection[FileKind] = ARCHIVE_KINDS) -> Archive:
    """An archive, or a companion, in a file that is mapped already."""
    if is_companion(mapped.data):
        from archive.reader.companion import Companion  # noqa: PLC0415 (most archives have none)

        return Archive(None, companion=Companion(mapped.whole()))
    tensor_kinds = TENSOR_KINDS.intersection(kinds)
    if tensor_kinds and not is_zip(mapped.data):
        kind = head_kind(mapped)
        if kind in tensor_kinds:
            return _tensor_file(mapped, kind)
    return archive_in(opened_archive(mapped, kinds))


def _tensor_file(mapped: Mapped | Fetched, kind: FileKind) -> Archive:
    """A file of tensors that isn't a zip, or the shards that an index names."""
    from archive.reader.tensor_files import ShardedModel, model_file  # noqa: PLC0415 (others do without)

    if kind is not FileKind.SHARDED:
        return Archive(None, tensor_file=model_file(mapped, kind))

    def shard(file: Mapped | Fetched) -> Archive:
        return opened(file, SHARD_KINDS)

    return Archive(None, tensor_file=ShardedModel(mapped, shard))


def _in_folder(source: Source) -> Source:
    """The model's file in a folder; any other source, or a folder without one (for messages), as it is."""
    if is_url(source):
        return (
            next(filter(_exists, map(source.__add__, FOLDER_FILES)), source)
            if source.endswith("/")
            else source
        )
    if isinstance(source, (str, os.PathLike)) and os.path.isdir(source):  # noqa: PTH112 (pathlib costs start-up)
        files = (os.path.join(source, name) for name in FOLDER_FILES)  # noqa: PTH118 (the same)
        return next(filter(os.path.isfile, files), source)
    return source


def _exists(url: str) -> bool:
    """Whether there is a file at a URL."""
    try:
        by_ranges(url).close()
    except FileNotFoundError:
        return False
    return True


def archive_in(container: Container) -> Archive:
    """The archive in a zip, with the companion that it may have inside."""
    place = place_of_companion(container.records)
    if place not in container.records:
        return Archive(container)
    inner = Mapped(container.records[place].view(), container.file)
    if not is_companion(inner.data):
        raise ArchiveError(expected="a companion", found="something else", file=container.file, record=place)
    return _rejoined(container, inner)


def _rejoined(container: Container, mapped: Mapped) -> Archive:
    """An archive and its companion, read as the archive that they were split from."""
    from archive.reader.companion import Companion  # noqa: PLC0415 (most archives have none)

    companion = Companion(mapped)
    # The archive id takes all of a remote archive; unique handles, if it has any, serve as well.
    prefix = companion.handle_form.prefix if container.is_elsewhere else 0
    if not prefix or PickleRecords(container).handle_form.prefix != prefix:
        companion.check_fits(container.records, container.file)
    return Archive(container, companion=companion)
