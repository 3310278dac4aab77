"""The tensors of an archive → the bytes of its records that each has; a storage belongs to its first tensor.

Most storages are a record each. Those of a compiled model are stretches of a shared object or of one file,
and those of an older exported program are records of a zip that is a record itself.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

from archive.base.errors import ArchiveError, LimitError, forgiving
from archive.describe.sizes.account import Weight
from archive.describe.sizes.cells import Cell
from archive.formats.record_kinds import COMPILED
from archive.formats.tensors.dtypes import bytes_of, elements_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.describe.sizes.cells import RecordCells
    from archive.formats.tensors.tensor import Tensor
    from archive.reader.archive import Archive
    from archive.reader.records import RecordSpan
    from archive.reader.tensors import Tensors

MARKED = 1 << 24
"""The most elements of a storage that are marked one by one where views of it may overlap. A storage has at
most as many as bytes in the file, so all storages together have at most as many as the file has bytes."""
Stretch: TypeAlias = tuple[int, int, Weight]
"""The first byte of a tensor in its record, the byte after its last, and the tensor."""


def weights_of(archive: Archive) -> dict[str, list[Stretch]]:
    """The stretches of each record that are tensors, in order; none where names of tensors cannot be read."""
    stretches: dict[str, list[Stretch]] = {}
    try:
        tensors = archive.tensors
        for storage, names in tensors.storages.items():
            place = tensors.place_of(storage)
            if place is not None:
                size = _size(tensors, names, place)
                stretch = place.start, place.start + size, _weight(tensors, storage, names, size)
                stretches.setdefault(place.record, []).append(stretch)
    except LimitError:
        raise
    except ArchiveError:  # `verify` reports it
        return {}
    return {record: list(_apart(some)) for record, some in stretches.items()}


def _size(tensors: Tensors, names: Sequence[str], place: RecordSpan) -> int:
    """The bytes of a storage. After the last element of a compiled model's constant, they are padding."""
    if place.record.startswith(COMPILED):
        with forgiving():  # `verify` reports it
            return max(tensors[name].span(place.size)[1] for name in names)
    return place.size


def _weight(tensors: Tensors, storage: str, names: Sequence[str], size: int) -> Weight:
    """The first tensor of a storage, with the elements of all: each of the storage's counts once."""
    first = tensors[names[0]]
    views = {one.key: one for one in map(tensors.__getitem__, names)}
    count = _elements_of(list(views.values()), tensors.record(storage).stored_size)
    if bytes_of(first.dtype, 1) is not None:  # tensors may reach outside of the storage
        count = min(count, elements_in(first.dtype, size))
    return Weight(names[0], first.dtype, first.shape, count, len(names) - 1)


def _elements_of(views: Sequence[Tensor], most: int) -> int:
    """How many elements some views have; shared ones count once if there are at most this many."""
    total = sum(view.count for view in views)
    are_plain = len(views) == 1 and views[0].is_contiguous
    numbers = [number for view in views for number in (view.offset, *view.strides)]
    if are_plain or total > MARKED or min(numbers, default=0) < 0:
        return total
    marks = np.zeros(min(most, MARKED), bool)
    for view in filter(attrgetter("count"), views):
        pairs = zip(view.shape, view.strides, strict=False)
        steps = [(size, stride) for size, stride in pairs if size > 1 and stride]
        if view.offset + sum((size - 1) * stride for size, stride in steps) >= len(marks):
            return total
        sizes, strides = zip(*steps, strict=True) if steps else ((), ())
        as_strided(marks[view.offset :], sizes, strides)[...] = True
    return int(np.count_nonzero(marks))


def _apart(stretches: list[Stretch]) -> Iterator[Stretch]:
    """The stretches in order, without those that begin inside of another, as code that is made up has."""
    covered = 0
    for start, end, weight in sorted(stretches, key=itemgetter(0, 1)):
        if start >= covered and end > start:
            yield start, end, weight
            covered = end


def divided(start: int, end: int, stretches: Sequence[Stretch]) -> Iterator[tuple[int, Weight | None]]:
    """Bytes of a record, cut where tensors begin and end: how many each piece has, and whose they are.

    Args:
        stretches: the tensors of the record, in order and apart.
    """
    at = start
    for first, stop, weight in stretches:
        low, high = max(first, at), min(stop, end)
        if low >= high:
            continue
        if low > at:
            yield low - at, None
        yield high - low, weight if low == first else weight._replace(elements=0)
        at = high
    if at < end or start == end:
        yield end - at, None


def add_weights(contents: RecordCells, archive: Archive, weights: dict[str, list[Stretch]]) -> None:
    """Give the cells of records that are tensors, or hold some, their tensors.

    Args:
        contents: the cells of the records that are looked into; those with several cells stay.
        weights: as :func:`weights_of` gives them.
    """
    for name, stretches in weights.items():
        size = archive.records[name].size
        cells = contents.get(name, [Cell(None, None, size)])
        if len(cells) == 1:
            contents[name] = [
                cells[0]._replace(size=count, weight=weight) for count, weight in divided(0, size, stretches)
            ]
