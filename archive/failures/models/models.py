"""Models that failures may come from: files, and the facts by which a failure names its model."""

from __future__ import annotations

import os
import sys
from collections import OrderedDict, defaultdict
from contextlib import contextmanager
from functools import cache, cached_property
from pathlib import Path
from threading import TIMEOUT_MAX, RLock, local
from typing import TYPE_CHECKING, Any, Protocol, TypeVar
from weakref import WeakKeyDictionary

from archive.base.deadline import LateError, seconds_left
from archive.base.errors import ArchiveError, counted, shown
from archive.base.limits import DEFAULT_LIMITS, Limits
from archive.base.problems import problem_of
from archive.debuginfo.unique_handles import prefix_at_end
from archive.failures.models.ids import KnownIds
from archive.formats.release_label import release_names
from archive.io.urls import is_elsewhere
from archive.reader import opening
from archive.reader.facts import HandleOwners, facts_of
from archive.reader.lacking import is_split
from archive.reader.recognition.kinds import READ_KINDS, FileKind
from archive.reader.split_handles import logged_form

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from archive.reader.archive import Archive
    from archive.reader.facts import Facts

K = TypeVar("K", int, str)
T = TypeVar("T")
MOST_OPEN, BYTES_OPEN = 256, 1 << 27
"""Models that are open at a time; fewer where they take more bytes of memory together. Only facts are kept of
the others."""
PACKAGE = f"{__name__.partition('.')[0]}."
"""Begins the names of this project's modules."""
BEGINNING = 8
"""The least digits for the beginning of an archive id."""
EXPLAINING_KINDS = READ_KINDS | {FileKind.COMPANION}


def why_unread(file: str, error: ArchiveError | OSError) -> str:
    """An error of a model's file, without the file's name."""
    return problem_of(error).text.removeprefix(f"{file}: ")


class Model:
    """A model by its file, an archive or a companion.

    Attributes:
        file: what it is called in notes: its path, with the companion's where the archive has several.
        path: of the file.
        handle_digest: of all that it says about its handles, once they have been read: see
            :func:`~archive.reader.facts.handle_digest`; b"" until then.
        splitting_digest: likewise of all by which they are split.
    """

    def __init__(
        self,
        file: str | os.PathLike[str],
        companion: str | os.PathLike[str] | None = None,
        *,
        limits: Limits,
        mapped: bool = True,
    ) -> None:
        self.file = self.path = os.fspath(file)
        self.handle_digest = b""
        self.splitting_digest = b""
        self._companion = companion
        self._limits = limits
        self._mapped = mapped

    def __repr__(self) -> str:
        return f"<Model {self.file!r}>"

    def open(self) -> Archive:
        """The model's archive or companion."""
        return opening.open(self.path, companion=self._companion, limits=self._limits, mapped=self._mapped)

    @cached_property
    def facts(self) -> Facts:
        """The facts by which a failure names the model."""
        with self.open() as opened:
            return facts_of(opened)

    @property
    def has_facts(self) -> bool:
        """Whether the facts are known, so that they count even if the file can no longer be read."""
        return "facts" in vars(self)

    @cached_property
    def lacks_debug_info(self) -> bool:
        """Whether the file has no source ranges: a companion has them, if it was split."""
        with self.open() as opened:
            return opened.companion is None and not opened.range_records

    @cached_property
    def shows_code(self) -> bool:
        """Whether the file has what logs are compared with: the model's code, or digests of its lines."""
        with self.open() as opened:
            return opened.has_code or bool(opened.line_digests)

    @cached_property
    def split_prefix(self) -> int:
        """The prefix of the unique handles that `split` makes from its own; 0 where there are none."""
        with self.open() as opened:
            return logged_form(opened).prefix

    @cached_property
    def is_split(self) -> bool:
        """Whether its debug info was split off, and its companion isn't at hand."""
        with self.open() as opened:
            return is_split(opened)

    @cached_property
    def unmapped(self) -> int:
        """Bytes of memory that its file takes once it is open: none if it is mapped, or read by ranges."""
        return 0 if self._mapped or is_elsewhere(self.path) else Path(self.path).stat().st_size

    @property
    def names(self) -> frozenset[str]:
        """What a log may call the model: its file, with and without folder and ending; a class, a label.

        A label stands by itself or after the name: ``1.4.2``, ``Ranker@1.4.2``.
        """
        names = self.facts.names(self.path) | {self.path}
        return names | release_names(names, self.labels)

    @property
    def labels(self) -> frozenset[str]:
        """The labels of its releases, which other models may have, too."""
        return frozenset([self.label] if self.label else ())

    @cached_property
    def label(self) -> str:
        """The label of its release, which a companion may have."""
        with self.open() as opened:
            return "" if opened.companion is None else opened.companion.label


class StoredCompanion(Protocol):
    """What a store knows of a companion without opening it."""

    @property
    def facts(self) -> Facts:
        """The facts by which a failure names its model."""

    @property
    def file(self) -> str:
        """The name of the file that was added."""

    @property
    def size(self) -> int:
        """Bytes of the companion."""

    @property
    def archive_id(self) -> str:
        """The archive id, in hexadecimal digits."""

    @property
    def digest(self) -> str:
        """The digest of the companion, in hexadecimal digits."""

    @property
    def name(self) -> str:
        """Name and id."""

    @property
    def titles(self) -> tuple[str, str]:
        """Name, id and labels of releases; the same with the beginning of its digest."""

    @property
    def labels(self) -> Sequence[str]:
        """The labels of its releases."""

    @property
    def release_names(self) -> frozenset[str]:
        """What a log may call its releases."""


class KeptModel(Model):
    """A model by its companion in a store, whose facts are known without opening it.

    Args:
        is_one_of_several: whether the store has others of its archive id.
    """

    def __init__(
        self, entry: StoredCompanion, opened: Callable[[], Archive], *, is_one_of_several: bool = False
    ) -> None:
        super().__init__(entry.titles[is_one_of_several], limits=DEFAULT_LIMITS)
        self.facts = entry.facts
        self.unmapped = entry.size
        self._opened = opened
        self.entry = entry

    is_split = False
    split_prefix = 0
    label = ""  # its title has the labels of all its releases

    def open(self) -> Archive:
        """The companion."""
        return self._opened()

    @property
    def names(self) -> frozenset[str]:
        """What a log may call the model: the file that was added, the top class, a release of it."""
        return self.facts.names(self.entry.file) | self.entry.release_names | {self.file, self.entry.name}

    @property
    def labels(self) -> frozenset[str]:
        """The labels of its releases, which other models may have, too."""
        return frozenset(self.entry.labels)


class OpenModel:
    """A model that is open, or about to be.

    Attributes:
        archive: its archive; None until it is opened.
        users: how many threads use it or wait for it.
        made: what each user has made of the archive, as long as it is open and the user exists.
    """

    def __init__(self, archive: Archive | None = None, size: int = 0) -> None:
        self.lock = RLock()
        self.archive = archive
        self.users = 0
        self.bytes = size
        self.made: WeakKeyDictionary[object, Any] = WeakKeyDictionary()

    def close(self) -> None:
        """Close the archive."""
        if self.archive is not None:
            self.archive.close()
            self.archive = None


class OpenModels:
    """The models that one process has open, the least recently used first.

    Attributes:
        lock: held by the thread that changes which they are.
        bytes: memory that they take together.
    """

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.forked = dict[int, OpenModels]()
        self.lock = RLock()
        self.by_model: OrderedDict[Model, OpenModel] = OrderedDict()
        self.bytes = 0

    def of_this_process(self) -> OpenModels:
        """These, or in a forked process those of them that no thread was using, without connections."""
        pid = os.getpid()
        if pid == self.pid:
            return self
        child = OpenModels()
        for model, opened in self.by_model.items():
            if opened.archive is not None and not opened.users and not is_elsewhere(model.path):
                child.by_model[model] = OpenModel(opened.archive, opened.bytes)
                child.bytes += opened.bytes
        return self.forked.setdefault(pid, child)  # threads may ask at the same time

    @property
    def are_many(self) -> bool:
        """Whether too many models are open."""
        return len(self.by_model) > MOST_OPEN or self.bytes > BYTES_OPEN

    def take(self, model: Model) -> OpenModel:
        """A model for one more user."""
        with self.lock:
            opened = self.by_model.setdefault(model, OpenModel())
            self.by_model.move_to_end(model)
            opened.users += 1
            return opened

    def give_back(self, model: Model, opened: OpenModel) -> list[OpenModel]:
        """What to close after a user is done with a model: the least recently used ones."""
        with self.lock:
            opened.users -= 1
            if self.by_model.get(model) is not opened:  # all were closed meanwhile
                return [] if opened.users else [opened]
            if opened.archive is not None:
                before, opened.bytes = opened.bytes, opened.archive.allowance.taken + model.unmapped
                self.bytes += opened.bytes - before
            elif not opened.users:
                self._remove(model)
            closing = list[OpenModel]()
            unused = self.are_many and [one for one, other in self.by_model.items() if not other.users]
            while unused and self.are_many:
                closing.append(self._remove(unused.pop(0)))
            return closing

    def _remove(self, model: Model) -> OpenModel:
        opened = self.by_model.pop(model)
        self.bytes -= opened.bytes
        return opened

    def clear(self) -> list[OpenModel]:
        """What to close of all; the last user of one that is in use closes it."""
        with self.lock:
            unused = [opened for opened in self.by_model.values() if not opened.users]
            self.by_model.clear()
            self.bytes = 0
        return unused


class Models:
    """Models, found by what a log says about them; those used last stay open. Threads may share them.

    Attributes:
        unread: the files that could not be read, each with the reason.
        programs: how many programs of ExecuTorch were passed over: their ETRecords have the source.
        skipped: the other files of folders that are no models, by their kinds.
    """

    def __init__(self, models: Iterable[Model]) -> None:
        self.all: Sequence[Model] = list(models)
        self.unread: dict[str, str] = {}
        self.programs = 0
        self.skipped: Mapping[FileKind, int] = {}
        self._false: frozenset[str] = frozenset()
        self._opened = OpenModels()
        self._here = local()

    def __len__(self) -> int:
        """How many models there are, without files that aren't; an archive with several companions is one."""
        return len({model.path if type(model) is Model else model for model in self.all} - self._false)

    def __add__(self, others: Models) -> Models:
        """These models and others, none of them open yet."""
        both = Models([*self.all, *others.all])
        both.unread = self.unread | others.unread
        both._false = self._false | others._false
        both.programs = self.programs + others.programs
        return both

    def named(self, name: str) -> Models:
        """The models of a name.

        Raises:
            ArchiveError: none has it.
        """
        known = self.by_name.get(name, ())
        if not known:
            raise ArchiveError(f"none of {counted(len(self), 'model')} has the name {shown(name)}")
        named = Models(known)
        named.unread = dict(self.unread)
        return named

    def note_false(self, files: Mapping[str, str]) -> None:
        """Note files that should be models and aren't, each with what it is."""
        self.unread |= files
        self._false |= files.keys()

    @cached_property
    def by_prefix(self) -> Mapping[int, Sequence[Model]]:
        """The models whose unique handles have a prefix."""
        return self._grouped(lambda model: [model.facts.prefix] if model.facts.prefix else [])

    @cached_property
    def by_split_prefix(self) -> Mapping[int, Sequence[Model]]:
        """The models that have unique handles of a prefix once they are split."""
        return self._grouped(lambda model: [model.split_prefix] if model.split_prefix else [])

    def of_prefix(self, prefix: int) -> Sequence[Model]:
        """The models that a prefix of unique handles names: they print it, or would once they are split."""
        return self.by_prefix.get(prefix, ()) or (self.by_split_prefix.get(prefix, ()) if prefix else ())

    @cached_property
    def by_id(self) -> Mapping[str, Sequence[Model]]:
        """The models that an id stands for."""
        return self._grouped(lambda model: model.facts.ids)

    @cached_property
    def known_ids(self) -> KnownIds:
        """The ids as logs have them."""
        return KnownIds(map(str.encode, self.by_id))

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[Model]]:
        """The models that a log may call by a name."""
        return self._grouped(lambda model: model.names)

    @cached_property
    def handle_owners(self) -> HandleOwners:
        """The models by their plain handles, in their order."""
        known: dict[Model, Facts] = {}
        for model in self.all:
            with self.noting_unread(model):
                known[model] = model.facts
        return HandleOwners([*map(known.get, self.all)])

    def named_by(self, handles: Sequence[Sequence[int]]) -> Sequence[Model]:
        """The models that all unique handles name; none where they name different ones or none.

        Args:
            handles: each failure's, the outermost last.
        """
        prefixes = {prefix_at_end(str(chain[-1])) for chain in handles}
        return self.of_prefix(prefixes.pop()) if len(prefixes) == 1 else ()

    def of_id(self, word: str) -> Sequence[Model]:
        """The models that an id stands for, or eight or more digits that begin an archive id."""
        models = self.by_id.get(word)
        if models is not None:
            return models
        ids = [key for key in self.by_id if key.startswith(word)] if len(word) >= BEGINNING else []
        return list(dict.fromkeys(model for key in ids for model in self.by_id[key]))

    def _grouped(self, keys: Callable[[Model], Iterable[K]]) -> Mapping[K, Sequence[Model]]:
        grouped: defaultdict[K, list[Model]] = defaultdict(list)
        for model in self.all:
            with self.noting_unread(model):
                for key in keys(model):
                    grouped[key].append(model)
        return dict(grouped)

    @contextmanager
    def noting_unread(self, model: Model) -> Iterator[None]:
        """Note a model that can't be read, and go on without it."""
        try:
            yield
        except (ArchiveError, OSError) as error:
            self.unread.setdefault(model.file, why_unread(model.path, error))

    @contextmanager
    def using(self, model: Model, user: object, make: Callable[[Archive], T]) -> Iterator[T]:
        """What a user makes of a model's archive, for the block; until then no other thread gets the model.

        The archive stays open, and what was made of it is kept, until enough others were opened since.

        Args:
            user: it is made once for each.

        Raises:
            LateError: other threads use it until the deadline.
        """
        self._here.uses = self._uses_here + 1
        process = self.opened
        try:
            opened = process.take(model)
            try:
                with _held(opened.lock):
                    if opened.archive is None:
                        opened.archive = model.open()
                    if user not in opened.made:
                        opened.made[user] = make(opened.archive)
                    yield opened.made[user]
            finally:
                for closing in process.give_back(model, opened):
                    closing.close()
        finally:
            self._here.uses -= 1

    @property
    def opened(self) -> OpenModels:
        """The models that this process has open."""
        self._opened = self._opened.of_this_process()
        return self._opened

    @property
    def _uses_here(self) -> int:
        uses: int = getattr(self._here, "uses", 0)
        return uses

    @property
    def are_used_here(self) -> bool:
        """Whether this thread uses one: a signal, or a call of the garbage collector, came between."""
        return self._uses_here > 0

    def warm(self, make: Callable[[Archive], object]) -> None:
        """Read all facts, and open as many models as may be open."""
        _ = self.by_prefix, self.by_id, self.by_name, self.handle_owners
        for model in self.all[:MOST_OPEN]:
            with self.noting_unread(model), self.using(model, make, make):
                pass
            if self.opened.bytes > BYTES_OPEN // 2:  # the next one may take as much as all so far
                break

    def close(self) -> None:
        """Close all models; one that is in use, by its last user."""
        for opened in self.opened.clear():
            opened.close()


@contextmanager
def _held(lock: RLock) -> Iterator[None]:
    """Hold a lock.

    Raises:
        LateError: others hold it until the deadline.
    """
    if not lock.acquire(timeout=seconds_left(TIMEOUT_MAX)):
        raise LateError
    try:
        yield
    finally:
        lock.release()


@cache
def renew_locks_in_children() -> None:
    """Give the cached properties of our classes new locks in each forked child, if they have any.

    Before Python 3.12 each has one for all objects, which a thread that the child lacks may hold.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_renew_locks_of_properties)


def _renew_locks_of_properties() -> None:
    ours = [module for name, module in [*sys.modules.items()] if name.startswith(PACKAGE)]
    classes = {one for module in ours for one in [*vars(module).values()] if isinstance(one, type)}
    for member in [member for cls in classes for member in vars(cls).values()]:
        if isinstance(member, cached_property) and "lock" in vars(member):
            vars(member)["lock"] = RLock()
