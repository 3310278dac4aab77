"""Where models come from: files, folders, stores and servers → models."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.batches.inputs import OtherFiles, found, is_false_model, is_glob, is_manifest, other_files
from archive.failures.models.models import EXPLAINING_KINDS, KeptModel, Model, Models, why_unread
from archive.io.mapped import source_of
from archive.io.places import last_part
from archive.io.urls import is_server, is_url, name_of
from archive.reader.recognition import FileKind, listed_kind, recognise
from archive.reader.recognition.kinds import ADVICE, may_have_failed
from archive.store.folder import is_store
from archive.store.store import Store

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from archive.reader.facts import Facts
    from archive.store.folder import Waiting
    from archive.store.stores import AnyStore, EntryT, OwnStore


GIVE = "give archives, companions, folders of some, or stores by their folder or their server's address"


def models_of(store: AnyStore[EntryT]) -> Models:
    """The models in a store, here, in a bucket, or on a server."""
    entries = store.entries()
    ids = Counter(entry.archive_id for entry in entries)
    kept: list[Model] = [
        KeptModel(entry, partial(store.opened_of, entry), is_one_of_several=ids[entry.archive_id] > 1)
        for entry in entries
    ]
    unread: dict[str, str] = {}
    for key, why in store.unread.items():  # a failure may be of these, too; the index may know which
        entry = store.damaged.get(key)
        kept.append(
            KeptModel(entry, partial(store.opened_of, entry))
            if entry
            else Model(f"{store.file}: {key}", limits=DEFAULT_LIMITS)
        )
        unread[kept[-1].file] = why
    models = Models(kept)
    models.unread |= unread
    return models


def models_at(stores: str, *, limits: Limits = DEFAULT_LIMITS) -> Models:
    """The models in several stores.

    Args:
        stores: folders, URLs of buckets and addresses of servers, separated by blanks; a folder whose path
            has a blank stands by itself. A companion that several have is taken from the first.
        limits: what a companion may cost.
    """
    sources = [stores] if Path(stores).exists() else stores.split()
    if len(sources) == 1:
        return models_of(store_at(sources[0], limits=limits))
    models, unread = dict[tuple[str, str], Model](), dict[str, str]()
    for source in sources:
        try:
            found = models_of(store_at(source, limits=limits))
        except (ArchiveError, OSError) as error:  # a failure may be of one of its models: this is reported
            unread[name_of(source)] = str(error).removeprefix(f"{name_of(source)}: ")
            continue
        unread |= found.unread
        for model in found.all:
            models.setdefault(_identity(model), model)
    united = Models(models.values())
    united.unread |= unread
    return _named_apart(united)


def _named_apart(models: Models) -> Models:
    """The same models; those that several stores call the same get their digest into their name."""
    count = Counter(model.file for model in models.all)
    for model in models.all:
        if isinstance(model, KeptModel) and count[model.file] > 1:
            model.file = model.entry.titles[1]
    return models


def _identity(model: Model) -> tuple[str, str]:
    """What is the same for a companion in several stores."""
    return (model.entry.archive_id, model.entry.digest) if isinstance(model, KeptModel) else (model.file, "")


def store_at(
    source: str | os.PathLike[str], *, limits: Limits, waiting: Waiting | None = None
) -> AnyStore[Any]:
    """A store by its folder, by the URL of its bucket, or by the address of its server.

    Args:
        waiting: how long a process that changes the folder is waited for; by default 60 s, without a message.
    """
    if is_url(source) and source.lower().startswith(("http://", "https://")):
        from archive.store.client.server import Server  # noqa: PLC0415 (HTTP, which files do without)

        return Server(source, limits=limits)
    return own_store(source, limits=limits, waiting=waiting)


def own_store(
    source: str | os.PathLike[str],
    *,
    create: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    waiting: Waiting | None = None,
) -> OwnStore[Any]:
    """A store that is at hand itself, by its folder or the URL of its bucket."""
    if is_url(source):
        from archive.store.bucket import Bucket  # noqa: PLC0415 (files of fsspec, which others do without)

        return Bucket.open(source, create=create, limits=limits)
    return Store.open(source, create=create, limits=limits, waiting=waiting)


def models_in(
    sources: Sequence[str | os.PathLike[str]],
    *,
    companion: str | os.PathLike[str] | None = None,
    limits: Limits = DEFAULT_LIMITS,
    mapped: bool = True,
) -> Models:
    """The models in files and folders.

    A file of a folder that is named like a model and isn't one is listed as unread, and isn't counted as a
    model; if its name is that of a kind with debug info, a failure may be of the model that should be there.
    A file that is broken or cut is listed as unread, too, and is counted.

    Programs of ExecuTorch are counted and passed over, unless there is nothing else; so are other files of
    folders.

    Args:
        sources: files, here or by URL, which must be archives or companions; folders that are searched for
            some; stores, by their folder or the address of their server (``http://host:8080``).
        companion: of the only file, where it was split off.
        limits: what a file may cost.
        mapped: whether files are mapped.
    """
    if companion is not None and (len(sources) > 1 or is_server(sources[0]) or Path(sources[0]).is_dir()):
        raise ArchiveError("a companion is for one archive", file=os.fspath(companion))
    if not sources:
        raise ArchiveError(f"no models: {GIVE}")
    found: list[Model | Models] = []
    skipped = OtherFiles()
    false, broken, executorch = dict[str, str](), dict[str, str](), 0
    for source in sources:
        path = Path(source)
        if is_server(source) or is_store(path):
            found.append(models_of(store_at(source, limits=limits)))
            continue
        if not (is_url(source) or path.exists()):
            what = "a pattern, which is not searched for" if is_glob(str(path)) else "no such file or folder"
            raise ArchiveError(f"{what}: {GIVE}", file=os.fspath(source))
        if path.is_dir():
            files, others = _below(path, limits, mapped=mapped)
            if not files:
                raise ArchiveError(
                    f"no archive or companion in it{other_files(others)}", file=os.fspath(source)
                )
            executorch += others[FileKind.EXECUTORCH]
            skipped.add_all(others.without({FileKind.EXECUTORCH}))
            for file, kind in sorted(files.items()):
                if kind is None:
                    broken[file] = _why_broken(file, limits, mapped=mapped)
                elif kind not in EXPLAINING_KINDS:
                    false[file] = str(recognise(source_of(file, mapped=mapped), limits=limits))
                if kind is None or kind in EXPLAINING_KINDS or may_have_failed(file, kind):
                    found.append(Model(file, limits=limits, mapped=mapped))
            continue
        recognised = recognise(source_of(source, mapped=mapped), limits=limits)
        if recognised.kind is FileKind.EXECUTORCH and len(sources) > 1:
            executorch += 1
            continue
        if recognised.kind not in EXPLAINING_KINDS:
            raise recognised.refusal(name_of(source))
        found.append(Model(source, companion, limits=limits, mapped=mapped))
    paired = _paired([one for one in found if isinstance(one, Model)], limits, mapped=mapped)
    models = Models([])
    for one in found:
        models += one if isinstance(one, Models) else Models(paired[one])
    models.note_false(false)
    models.unread |= broken
    models.programs, models.skipped = executorch, skipped
    if executorch and not models.all:
        raise ArchiveError(ADVICE[FileKind.EXECUTORCH], file=name_of(sources[0]))
    return _named_apart(models)


def _paired(single: Sequence[Model], limits: Limits, *, mapped: bool) -> Mapping[Model, Sequence[Model]]:
    """The models that each of some files stands for: an archive and its companion are one model together.

    Wherever they lie: `split` puts companions into another folder. An archive stands for a model with each
    companion of its id, unless its unique handles are those of another one: builds of one code may differ in
    its source. Such companions stand for none by themselves.
    """
    kinds = [listed_kind(model.file, limits=limits, mapped=mapped) for model in single]
    lone = {model: [model] for model in single}
    if len({kind is FileKind.COMPANION for kind in kinds}) < 2:  # noqa: PLR2004 (both kinds)
        return lone
    unread = Models(single)
    companions, split = defaultdict[str, list[Model]](list), list[Model]()
    for model, kind in zip(single, kinds, strict=True):
        with unread.noting_unread(model):
            if kind is FileKind.COMPANION:
                companions[model.facts.archive_id].append(model)
            elif model.lacks_debug_info:
                split.append(model)
    paired: dict[Model, list[Model]] = {}
    used = set[Model]()
    for model in split:
        own = [one for one in companions[model.facts.archive_id] if _may_be_halves(model.facts, one.facts)]
        if own:
            paired[model] = [Model(model.file, one.file, limits=limits, mapped=mapped) for one in own]
            used.update(own)
        if len(own) > 1:
            for whole, companion in zip(paired[model], own, strict=True):
                whole.file = f"{model.file} with {companion.file}"
    return lone | paired | {model: [] for model in used}


def _may_be_halves(archive: Facts, companion: Facts) -> bool:
    """Whether an archive and a companion of its id may be of one file: they have the same unique handles."""
    return 0 in (archive.prefix, companion.prefix) or archive.prefix == companion.prefix


def _why_broken(file: str, limits: Limits, *, mapped: bool) -> str:
    """Why a file of a folder may be of any kind, and cannot be read."""
    try:
        return str(recognise(source_of(file, mapped=mapped), limits=limits))
    except (ArchiveError, OSError) as error:
        return why_unread(file, error)


def _below(folder: Path, limits: Limits, *, mapped: bool) -> tuple[dict[str, FileKind | None], OtherFiles]:
    """The archives and companions in a folder, at any depth, and what may or should be one: their kinds.

    Also the others, but for manifests.
    """
    files, others = dict[str, FileKind | None](), OtherFiles()
    for file in found([str(folder)]):
        kind = listed_kind(file.name, limits=limits, mapped=mapped)
        if kind is None or kind in EXPLAINING_KINDS or is_false_model(file.name, kind):
            files[file.name] = kind
        elif not is_manifest(last_part(file.name)):
            others.add(file, kind)
    return files, others
