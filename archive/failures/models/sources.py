"""Where models come from: files, folders, stores and servers → models."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.urls import is_server, is_url, name_of
from archive.batches.inputs import found
from archive.failures.models.models import KINDS, KeptModel, Model, Models
from archive.reader.recognition import FileKind, listed_kind, recognise
from archive.store.folder import is_store
from archive.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.store.client.server import Server
    from archive.store.folder import Waiting


def models_of(store: Store | Server) -> Models:
    """The models in a store, here or behind a server.

    Raises:
        ArchiveError: the server cannot be reached, or says what cannot be.
        OSError: the store cannot be read.
    """
    kept: list[Model] = [KeptModel(store, entry) for entry in store.entries()]
    unread: dict[str, str] = {}
    for key, why in store.unread.items():  # a failure may be of these, too; the index may know which
        entry = store.damaged.get(key)
        kept.append(
            KeptModel(store, entry) if entry else Model(f"{store.file}: {key}", limits=DEFAULT_LIMITS)
        )
        unread[kept[-1].file] = why
    models = Models(kept)
    models.unread |= unread
    return models


def store_at(
    source: str | os.PathLike[str], *, limits: Limits = DEFAULT_LIMITS, waiting: Waiting | None = None
) -> Store | Server:
    """A store by its folder, or by the address of its server.

    Args:
        source: the folder, or the address.
        limits: what a companion may cost.
        waiting: how long a process that changes the folder is waited for; by default 60 s, untold.

    Raises:
        ArchiveError: the folder is no store, or the address none.
        OSError: the folder cannot be read.
    """
    if is_url(source):
        from archive.store.client.server import Server  # noqa: PLC0415 (HTTP, which files do without)

        return Server(source, limits=limits)
    return Store.open(source, limits=limits, waiting=waiting)


def models_in(
    sources: Sequence[str | os.PathLike[str]],
    *,
    companion: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    mapped: bool = True,
) -> Models:
    """The models in files and folders.

    Args:
        sources: files, here or by URL, which must be archives or companions; folders that are searched for
            some; stores, by their folder or the address of their server (``http://host:8080``).
        companion: of the only file, where it was split off.
        limits: what a file may cost.
        mapped: whether files are mapped.

    Raises:
        ArchiveError: a file is of another kind, or there is no model in a folder; a companion is given, and
            several files.
        OSError: a file or folder cannot be read.
    """
    if companion is not None and (len(sources) > 1 or Path(sources[0]).is_dir()):
        raise ArchiveError("a companion is for one archive", file=os.fspath(companion))
    models = Models([])
    for source in sources:
        path = Path(source)
        if is_server(source) or is_store(path):
            models += models_of(store_at(source, limits=limits))
            continue
        files: Sequence[str | os.PathLike[str]] = [source]
        if path.is_dir():
            files = sorted(_below(path, limits, mapped=mapped))
        else:
            recognised = recognise(source, limits=limits)
            if recognised.kind not in KINDS:
                raise recognised.refusal(name_of(source))
        if not files:
            raise ArchiveError("no archive or companion in it", file=os.fspath(source))
        if path.is_dir():
            models += Models(_paired(files, limits, mapped=mapped))
        else:
            models += Models([Model(source, companion, limits=limits, mapped=mapped)])
    return models


def _paired(files: Sequence[str | os.PathLike[str]], limits: Limits, *, mapped: bool) -> Iterator[Model]:
    """The models in the files of a folder: an archive beside its companion is one model with it."""
    single = [Model(file, limits=limits, mapped=mapped) for file in files]
    kinds = [listed_kind(model.file, limits=limits, mapped=mapped) for model in single]
    if len({kind is FileKind.COMPANION for kind in kinds}) == 1:
        yield from single
        return
    unread = Models(single)
    companions, split = dict[str, Model](), dict[str, list[Model]]()
    for model, kind in zip(single, kinds, strict=True):
        with unread.noting_unread(model):
            if kind is FileKind.COMPANION:
                companions.setdefault(model.facts.archive_id, model)
            elif model.lacks_debug_info:
                split.setdefault(model.facts.archive_id, []).append(model)
    both = {model: companions[key] for key in split.keys() & companions.keys() for model in split[key]}
    for model in single:
        if model in both:
            yield Model(model.file, both[model].file, limits=limits, mapped=mapped)
        elif model not in both.values():
            yield model


def _below(folder: Path, limits: Limits, *, mapped: bool) -> Iterator[Path]:
    """The archives and companions in a folder, at any depth, and what may be one."""
    for file in found([str(folder)]):
        if listed_kind(file.name, limits=limits, mapped=mapped) in {*KINDS, None}:
            yield Path(file.name)
