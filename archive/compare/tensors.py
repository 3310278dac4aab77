"""The tensors of two archives: by name, then by content where a name is gone here and another came there.

Tensors that PyTorch numbers have no names of their own; ``diff`` pairs them.

C++ code has the names of a compiled model's tensors, and may be taken out. Tensors that only one archive
names are compared as a whole, where ``records`` compares their file.

Two tensors are *equal* if these are the same:

- dtype, shape, strides, ``requires_grad``, quantiser and math bits: ``sameness.properties_of``. Of a file
  that keeps no strides and gradients, such as safetensors, only those that it keeps are compared, and of a
  state dict beside a module no gradients: ``sameness.keeps_gradients``;
- which tensors they overlap, and where: ``sameness.aliases``. Sharing a storage without a common element is a
  difference of layout;
- their elements, by bits, so a NaN is equal to itself and 0.0 not to -0.0. Where both lie alike in their
  storages (strides, offset, byte order), the storages' bytes are compared, whatever the crcs say
  (:func:`~archive.compare.equality.equal`). If these differ, or the tensors lie otherwise, each element is
  compared, in logical order (:func:`~archive.compare.numbers.difference`).

What isn't read is *unchecked*, and never called equal: elements of unknown width, and those beyond
``READ_TIMES`` the files' sizes, as of a thousand views of one storage. Other threads read the next storages
while one is in use.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from archive.base.cores import Cores
from archive.base.errors import ArchiveError, counted, several
from archive.compare.changes import Status, TensorChange, added, changed, gone, renamed
from archive.compare.digest.weights import named_weights
from archive.compare.equality import SHARE, equal
from archive.compare.numbers import difference
from archive.compare.sameness import Level, aliases, keeps_gradients, properties_of, storage_key
from archive.container.record import Record
from archive.formats.record_kinds import COMPILED
from archive.formats.tensors.dtypes import BLOCKS
from archive.formats.tensors.elements import READ_BYTES, READ_TIMES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from archive.compare.changes import Change
    from archive.compare.numbers import Difference
    from archive.compare.sameness import AliasedTensor
    from archive.formats.tensors.tensor import Tensor
    from archive.reader.archive import Archive
    from archive.reader.records import ReadableRecord
    from archive.reader.tensors import Tensors

    Places = tuple[str, str]
    Names = tuple[str, str]
    Batch = list[tuple[Names, Record, Record]]


# --- storages

BATCH = 4 * SHARE
"""Bytes of storages that a thread takes at a time."""


class Storages:
    """The comparison of the storages of two archives; ``pairs`` of their records are in the order of use."""

    def __init__(
        self, old: Tensors, new: Tensors, pairs: Iterable[Names], may_read: Callable[[int], bool]
    ) -> None:
        self._old, self._new, self._may_read = old, new, may_read
        self._known: dict[Names, bool] = {}
        self._ahead = Cores().map(_read_all, self._batches(pairs))

    def are_same(self, old: str, new: str) -> bool:
        """Whether two storages have the same bytes. False if too much was read already."""
        pair = old, new
        while pair not in self._known:
            batch = next(self._ahead, None)
            if batch is None:
                was, now = self._records(pair)
                self._known[pair] = (
                    was.size == now.size and self._may_read(was.size) and equal(was.view(), now.view())
                )
                break
            self._known |= batch
        return self._known[pair]

    def _batches(self, pairs: Iterable[Names]) -> Iterator[Batch]:
        """Storages of one size in mapped files."""
        batch: Batch = []
        size = 0
        for pair in pairs:
            was, now = self._records(pair)
            if not (isinstance(was, Record) and isinstance(now, Record)) or was.size != now.size:
                continue
            if was.is_at_hand and now.is_at_hand and self._may_read(was.size):
                batch.append((pair, was, now))
                size += was.size
            if size >= BATCH:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def inflate(self, old: str, new: str) -> None:
        """Inflate or fetch two storages, with memory of an allowance: so threads may ask for their bytes."""
        for record in self._records((old, new)):
            if not (isinstance(record, Record) and record.is_at_hand):
                with suppress(ArchiveError):  # who asks for the bytes gets it again
                    record.view()

    def _records(self, pair: Names) -> tuple[ReadableRecord, ReadableRecord]:
        return self._old.record(pair[0]), self._new.record(pair[1])


def _read_all(batch: Batch) -> dict[Names, bool]:
    return {pair: equal(was.raw(), now.raw()) for pair, was, now in batch}


# --- tensors

GRADIENT = "requires_grad "
OF_WEIGHTS = ("dtype", "shape", "quantiser", "math_bits")
"""Properties of a tensor that count for the digest of weights, besides its elements."""


class TensorComparison:
    """The comparison of the tensors of two archives.

    Args:
        pairs: the new archive's names of the tensors that both have, by the old one's.
        plain: whether one of them keeps neither strides nor gradients nor shared storages.

    Attributes:
        unread: the pairs of storages of which elements were not compared, so far: nothing is known of what
            they say.
    """

    def __init__(self, old: Archive, new: Archive, pairs: Mapping[str, str], *, plain: bool = False) -> None:
        self._old, self._new, self._pairs, self._plain = old, new, pairs, plain
        self._with_gradients = keeps_gradients(old) == keeps_gradients(new)
        self._known_new = set(pairs.values())
        self._gone, self._came = without_names(old, new), without_names(new, old)
        self._left = READ_TIMES * (old.size + new.size) + READ_BYTES
        self._storages = Storages(old.tensors, new.tensors, self._expected(), self._may_read)
        self._found: dict[Places, Difference | str] = {}
        self._names: dict[Places, list[str]] = {}
        self._unchecked: dict[str, list[str]] = {}
        self.unread: set[Names] = set()

    def changes(self) -> Iterator[Change]:
        """The rows, in the order of the old archive's tensors, then of the new one's."""
        was, now = self._old.tensors, self._new.tensors
        self._found.update(Cores().map(self._counted, self._differing()))
        old_names = self._renamed()
        olds = {*old_names.values(), *self._gone}
        known = self._known_new | self._came
        rows: list[Change] = []
        for name, tensor in was.items():
            if name in self._pairs:
                shown = self._pairs[name]
                rows += (
                    changed(Level.MODEL, "tensor", shown, f"{word}{before}", f"{after}")
                    for word, before, after in _properties(tensor, now[shown], plain=self._plain)
                    if self._with_gradients or word != GRADIENT
                )
                self._compare(name, rows)
            elif name not in olds:
                rows.append(gone(Level.MODEL, "tensor", name, kind_of(tensor)))
        also = {names[0]: tuple(names[1:]) for names in self._names.values()}
        for row in rows:
            yield replace(row, also=also[row.name]) if isinstance(row, TensorChange) else row
        for name, tensor in now.items():
            if name in old_names:
                yield renamed(Level.MODEL, "tensor", name, old_names[name])
            elif name not in known:
                yield added(Level.MODEL, "tensor", name, kind_of(tensor))
        if not self._plain:
            yield from self._sharing()
        moved = [(name, other) for name, other in self._pairs.items() if name != other]
        if moved:
            tensors = counted(len(moved), "tensor")
            yield changed(Level.IDS, "numbers of constants", tensors, moved[0][0], moved[0][1])

    @property
    def unchecked(self) -> list[str]:
        """What was not compared so far, in words."""
        return [f"elements of {several(names)}: {reason}" for reason, names in self._unchecked.items()]

    def weights(self) -> str:
        """Whether the weights of both are the same, in words, after :meth:`changes`; "" if none have some.

        They are the same as the digest of weights has it: by name, dtype, shape and elements.
        """
        was, now = (dict(named_weights(archive)) for archive in (self._old, self._new))
        both = [(name, other) for name, other in self._pairs.items() if name in was and other in now]
        alike = [self._are_alike(was[name], now[other]) for name, other in both]
        same, unknown = alike.count(True), alike.count(None)
        only = [
            f"{len(weights) - len(both):,} only in {archive.file}"
            for weights, archive in ((was, self._old), (now, self._new))
            if len(weights) > len(both)
        ]
        if not both:
            return f"of other names: {', '.join(only)}" if only else ""
        if same == len(both) and not only:
            return f"the same {counted(same, 'tensor')}"
        words = [f"{same:,} of {counted(len(both), 'tensor')} that both have are the same"]
        words += [f"{unknown:,} not compared"] if unknown else []
        return ", ".join([*words, *only])

    def _are_alike(self, old: Tensor, new: Tensor) -> bool | None:
        """Whether two tensors are the same weight; None where that is not known."""
        was, now = properties_of(old), properties_of(new)
        if any(getattr(was, name) != getattr(now, name) for name in OF_WEIGHTS):
            return False
        outcome = self._found.get((old.key, new.key))
        if not (old.record and new.record) or isinstance(outcome, str):
            return None
        return outcome is None or not outcome.changed

    def _compare(self, name: str, rows: list[Change]) -> None:
        """Add how much the elements of a tensor differ. All names of the same elements are one row."""
        shown = self._pairs[name]
        old, new = self._old.tensors[name], self._new.tensors[shown]
        places = old.key, new.key
        outcome = self._found.get(places)
        if isinstance(outcome, str):
            self._unchecked.setdefault(outcome, []).append(name)
            self.unread.add((old.record, new.record))
        if isinstance(outcome, str) or outcome is None or not outcome.changed:
            return
        names = self._names.setdefault(places, [])
        names.append(shown)
        if len(names) > 1:
            return
        block, _ = BLOCKS.get(old.dtype, (1, 0))
        rows.append(
            TensorChange(
                level=Level.MODEL,
                what="tensor",
                name=shown,
                status=Status.CHANGED,
                count=-(-old.count // block),
                block=block,
                **asdict(outcome),
            )
        )

    def _differing(self) -> Iterator[tuple[Places, str]]:
        """The old names of tensors that do not lie alike in equal storages, each place once."""
        places: set[Places] = set()
        was, now = self._old.tensors, self._new.tensors
        for name, other in self._pairs.items():
            old, new = was[name], now[other]
            key = old.key, new.key
            if not _have_elements(old, new) or key in places:
                continue
            lie_alike = (old.strides, old.offset) == (new.strides, new.offset)
            lie_alike = lie_alike and was.is_big_endian == now.is_big_endian
            if lie_alike and self._storages.are_same(old.record, new.record):
                continue
            places.add(key)
            if old.bytes is None:
                self._found[key] = f"the width of {old.dtype} is not known"
            elif not self._may_read(old.bytes):
                self._found[key] = "too many views of one storage"
            else:
                self._storages.inflate(old.record, new.record)
                yield key, name

    def _counted(self, job: tuple[Places, str]) -> tuple[Places, Difference | str]:
        """How much the elements of a tensor differ, or why that is not known. Several threads do this."""
        places, name = job
        was, now = self._old.tensors, self._new.tensors
        try:
            pairs = _together(was.elements(name), now.elements(self._pairs[name]))
            return places, difference(was[name].dtype, pairs)
        except ArchiveError as error:
            return places, str(error)

    def _expected(self) -> Iterator[tuple[str, str]]:
        """The pairs of storages whose elements are going to be compared."""
        was, now = self._old.tensors, self._new.tensors
        pairs = ((was[name], now[other]) for name, other in self._pairs.items())
        yield from dict.fromkeys((old.record, new.record) for old, new in pairs if _have_elements(old, new))

    def _may_read(self, size: int) -> bool:
        self._left -= size
        return self._left >= 0

    def _renamed(self) -> dict[str, str]:
        """The old names of tensors that came and have the elements of one that is gone."""
        was, now = self._old.tensors, self._new.tensors
        left: dict[str, list[str]] = {}
        for name, tensor in was.items():
            if name not in self._pairs and tensor.record and name not in self._gone:
                left.setdefault(tensor.kind, []).append(name)
        came = [name for name in now if name not in self._known_new and now[name].kind in left]
        digests: dict[bytes, list[str]] = {}
        for kind in {now[name].kind for name in came}:
            for name in reversed(left[kind]):
                digests.setdefault(self._digest(self._old, name), []).append(name)
        old_names = {}
        for name in came:
            names = digests.get(self._digest(self._new, name))
            if names:
                old_names[name] = names.pop()
        return old_names

    def _digest(self, archive: Archive, name: str) -> bytes:
        """The digest of a tensor's dtype, shape and elements; of one that cannot be read, its name's."""
        tensor = archive.tensors[name]
        digest = blake2b(f"{tensor.dtype} {tensor.shape}".encode())
        if tensor.bytes is None or not tensor.record or not self._may_read(tensor.bytes):
            return f"{archive.file} {name}".encode("utf-8", "surrogateescape")
        try:
            for piece in archive.tensors.elements(name):
                digest.update(piece)
        except ArchiveError as error:
            self._unchecked.setdefault(str(error), []).append(name)
            return f"{id(archive)} {name}".encode("utf-8", "surrogateescape")
        return digest.digest()

    def _sharing(self) -> Iterator[Change]:
        """Tensors that share a storage with others than before; each with the first of them.

        They are the model's where elements are, or were, in common. Groups of such are compared once, not
        once for each tensor in them.
        """
        pairs = self._pairs
        was = {name: self._old.tensors[name] for name in pairs}
        now = {name: self._new.tensors[other] for name, other in pairs.items()}
        firsts, aliased = [_firsts(each) for each in (was, now)], [_aliased(each) for each in (was, now)]
        moved = {name for name in pairs if firsts[0][name] != firsts[1][name]}
        every = {id(group): group for each in aliased for group in each.values()}
        with_moved = {key for key, group in every.items() if any(tensor.name in moved for tensor in group)}
        equal: dict[tuple[int, int], bool] = {}
        alone: list[AliasedTensor] = []
        for name, other in pairs.items():
            was_in, now_in = (each.get(name, alone) for each in aliased)
            both = id(was_in), id(now_in)
            if both not in equal:
                equal[both] = was_in == now_in
            if name in moved:
                old, new = (
                    "a storage of its own" if first[name] == name else f"shared with {first[name]}"
                    for first in firsts
                )
                yield changed(Level.LAYOUT if equal[both] else Level.MODEL, "tensor", other, old, new)
            elif not equal[both] and with_moved.isdisjoint(both):
                yield changed(
                    Level.MODEL, "tensor", other, "overlaps others", "overlaps others in other places"
                )


def _have_elements(old: Tensor, new: Tensor) -> bool:
    """Whether two tensors have elements that can be compared one by one."""
    return (old.dtype, old.shape) == (new.dtype, new.shape) and bool(old.record and new.record)


def _properties(old: Tensor, new: Tensor, *, plain: bool) -> Iterator[tuple[str, object, object]]:
    """What differs in two tensors besides elements: a word, and both values."""
    was, now = properties_of(old), properties_of(new)
    if (was.dtype, was.shape) != (now.dtype, now.shape):
        yield "", kind_of(old), kind_of(new)
    if was.shape == now.shape and was.strides != now.strides and not plain:
        yield "strides ", list(old.strides), list(new.strides)
    for word, name in (
        (GRADIENT, "requires_grad"),
        ("quantised by ", "quantiser"),
        ("bits ", "math_bits"),
    ):
        if getattr(was, name) != getattr(now, name) and not (plain and name == "requires_grad"):
            yield word, getattr(was, name), getattr(now, name)
    if bool(old.record) != bool(new.record):
        before, after = ("with elements" if tensor.record else "without elements" for tensor in (old, new))
        yield "", before, after


def kind_of(tensor: Tensor) -> str:
    """A tensor's dtype and shape in words.

    >>> from archive.formats.tensors.tensor import Tensor
    >>> kind_of(Tensor("float32", (3, 2), (2, 1), 0, "data/0"))
    'float32 [3, 2]'
    """
    return f"{tensor.dtype} {list(tensor.shape)}"


def _firsts(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """For each name the first one whose tensor is in the same storage."""
    first: dict[tuple[str, bool], str] = {}
    return {
        name: first.setdefault(storage_key(name, tensor), name) if tensor.record else name
        for name, tensor in tensors.items()
    }


def _aliased(tensors: Mapping[str, Tensor]) -> dict[str, list[AliasedTensor]]:
    """The tensors that have elements in common with a tensor, for each that has some."""
    return {aliased.name: group for group in aliases(tensors) for aliased in group}


def _together(
    old: Iterator[memoryview], new: Iterator[memoryview]
) -> Iterator[tuple[memoryview, memoryview]]:
    """Two streams of as many bytes, cut at the same places."""
    was = now = memoryview(b"")
    while True:
        was, now = was or next(old, was), now or next(new, now)
        if not was or not now:
            if was or now:
                raise ArchiveError("one has fewer elements than the other")
            return
        size = min(len(was), len(now))
        yield was[:size], now[:size]
        was, now = was[size:], now[size:]


# --- compiled models


def names_tensors_of(archive: Archive, record: str) -> bool:
    """Whether an archive has tensors that lie in a file of a compiled model."""
    return any(_file_of(storage) == record for storage in archive.tensors.storages)


def without_names(archive: Archive, other: Archive) -> set[str]:
    """The tensors of compiled models that another archive has, too, but not their names."""
    files = {file for file in map(_file_of, archive.tensors.storages) if file in other.records}
    nameless = {file for file in files if not names_tensors_of(other, file)}
    return {name for name, tensor in archive.tensors.items() if _file_of(tensor.record) in nameless}


def _file_of(storage: str) -> str:
    """The file of a compiled model that a storage is a part of; "" for other storages."""
    return storage.rpartition(":")[0] if storage.startswith(COMPILED) else ""
