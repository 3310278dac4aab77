"""Models that failures may come from: files, and the facts by which a failure names its model."""

from __future__ import annotations

import os
from collections import OrderedDict, defaultdict
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from archive.base.errors import ArchiveError
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.debuginfo.unique_handles import prefix_at_end
from archive.reader import opening
from archive.reader.facts import facts_of
from archive.reader.recognition import READ_KINDS, FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from archive.client.server import Server
    from archive.reader.archive import Archive
    from archive.reader.facts import Facts
    from archive.store.entries import Entry
    from archive.store.entry_json import Listed
    from archive.store.store import Store

K = TypeVar("K", int, str)
MOST_OPEN, LEAST_OPEN, BYTES_OPEN = 256, 32, 1 << 21
"""Models that are open at a time: as many as are asked about one failure, for each is asked in turn; fewer
where their files have more bytes together. Of the others, the facts alone are kept."""
BEGINNING = 8
"""Digits that the beginning of an archive id has at least."""
KINDS = {*READ_KINDS, FileKind.COMPANION}


class Model:
    """A model by its file, an archive or a companion.

    Args:
        file: the file's path.
        companion: the path of its companion, where it was split off.
        limits: what the file may cost.
        mapped: whether the file is mapped.

    Attributes:
        file: as given.
    """

    def __init__(
        self,
        file: str | os.PathLike[str],
        companion: str | os.PathLike[str] | None = None,
        *,
        limits: Limits,
        mapped: bool = True,
    ) -> None:
        self.file = os.fspath(file)
        self._companion = companion
        self._limits = limits
        self._mapped = mapped

    def __repr__(self) -> str:
        return f"<Model {self.file!r}>"

    def open(self) -> Archive:
        """The model's archive or companion.

        Raises:
            ArchiveError: the file is of another kind, or contradicts itself.
            OSError: it cannot be read.
        """
        return opening.open(self.file, companion=self._companion, limits=self._limits, mapped=self._mapped)

    @cached_property
    def facts(self) -> Facts:
        """The facts by which a failure names the model.

        Raises:
            ArchiveError: the file is of another kind, or contradicts itself.
            OSError: it cannot be read.
        """
        with self.open() as opened:
            return facts_of(opened)

    @cached_property
    def size(self) -> int:
        """Bytes of its file; many where it is elsewhere."""
        try:
            return Path(self.file).stat().st_size
        except OSError:
            return BYTES_OPEN

    @property
    def names(self) -> frozenset[str]:
        """What a log may call the model: its file, with and without folder and ending; its top class."""
        return self.facts.names(self.file) | {self.file}


class KeptModel(Model):
    """A model by its companion in a store, whose facts are known without opening it.

    Args:
        store: the store, here or behind a server.
        entry: what it knows of the companion.
    """

    def __init__(self, store: Store | Server, entry: Entry | Listed) -> None:
        super().__init__(entry.label, limits=DEFAULT_LIMITS)
        self.facts = entry.facts
        self.size = entry.size
        self._store = store
        self._entry = entry

    def open(self) -> Archive:
        """The companion.

        Raises:
            ArchiveError: its file was changed, or there is none any more.
            OSError: it cannot be read.
        """
        return self._store.opened(self._entry.archive_id)

    @property
    def names(self) -> frozenset[str]:
        """What a log may call the model: the file that was added, and the top class."""
        return self.facts.names(self._entry.file) | {self.file}


class Models:
    """Models, found by what a log says of them; those used last stay open.

    Args:
        models: the models; the order is that in which they are listed.

    Attributes:
        all: the models.
        unread: the files that could not be read, each with the reason.
    """

    def __init__(self, models: Iterable[Model]) -> None:
        self.all: Sequence[Model] = list(models)
        self.unread: dict[str, str] = {}
        self._open: OrderedDict[Model, Archive] = OrderedDict()
        self._open_bytes = 0

    def __len__(self) -> int:
        return len(self.all)

    def __add__(self, others: Models) -> Models:
        """These models and others, none of them open yet."""
        both = Models([*self.all, *others.all])
        both.unread = self.unread | others.unread
        return both

    @cached_property
    def by_prefix(self) -> Mapping[int, Sequence[Model]]:
        """The models whose unique handles have a prefix."""
        return self._grouped(lambda model: [model.facts.prefix] if model.facts.prefix else [])

    @cached_property
    def by_id(self) -> Mapping[str, Sequence[Model]]:
        """The models that an id stands for."""
        return self._grouped(lambda model: model.facts.ids)

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[Model]]:
        """The models that a log may call by a name."""
        return self._grouped(lambda model: model.names)

    def named_by(self, handles: Sequence[Sequence[int]]) -> Sequence[Model]:
        """The models that unique handles name, all of them the same; none where they name several or none.

        Args:
            handles: those of each failure, the outermost last.
        """
        prefixes = {prefix_at_end(str(chain[-1])) for chain in handles}
        return self.by_prefix.get(prefixes.pop(), ()) if len(prefixes) == 1 else ()

    def of_id(self, word: str) -> Sequence[Model]:
        """The models that an id stands for, or eight or more digits with which an archive id begins."""
        found = self.by_id.get(word)
        if found is not None:
            return found
        begun = (
            (self.by_id[one] for one in self.by_id if one.startswith(word)) if len(word) >= BEGINNING else ()
        )
        return list(dict.fromkeys(model for models in begun for model in models))

    def _grouped(self, keys: Callable[[Model], Iterable[K]]) -> Mapping[K, Sequence[Model]]:
        """The models of each key."""
        found: defaultdict[K, list[Model]] = defaultdict(list)
        for model in self.all:
            with self.noting_unread(model):
                for key in keys(model):
                    found[key].append(model)
        return dict(found)

    @contextmanager
    def noting_unread(self, model: Model) -> Iterator[None]:
        """Take note of a model that cannot be read, and go on without it."""
        try:
            yield
        except (ArchiveError, OSError) as error:
            self.unread.setdefault(model.file, str(error))

    def archive(self, model: Model) -> Archive:
        """The opened archive of a model; it is closed when enough others were opened since.

        Raises:
            ArchiveError: the file is of another kind, or contradicts itself.
            OSError: it cannot be read.
        """
        if model not in self._open:
            self._open[model] = model.open()
            self._open_bytes += model.size
        self._open.move_to_end(model)
        return self._open[model]

    def closed(self) -> Iterator[Model]:
        """Close the models that were not used for longest, and name them."""
        while len(self._open) > MOST_OPEN or (len(self._open) > LEAST_OPEN and self._open_bytes > BYTES_OPEN):
            model, opened = self._open.popitem(last=False)
            self._open_bytes -= model.size
            opened.close()
            yield model

    def close(self) -> None:
        """Close all models."""
        while self._open:
            self._open.popitem()[1].close()
        self._open_bytes = 0
