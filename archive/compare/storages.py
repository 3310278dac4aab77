"""The storages of two archives, pair by pair: equal or not, whatever crc is told of them.

Other threads read the next pairs while one is in use.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from archive.base.cores import Cores
from archive.base.errors import ArchiveError
from archive.compare.equality import SHARE, equal
from archive.container.record import Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from archive.reader.records import ReadableRecord
    from archive.reader.tensors import Tensors

    Names = tuple[str, str]
    Batch = list[tuple[Names, Record, Record]]

BATCH = 4 * SHARE
"""Bytes of storages that a thread takes at a time."""


class Storages:
    """The comparison of the storages of two archives.

    Args:
        old: the old archive's tensors.
        new: the new one's.
        pairs: names of records, the old archive's and the new one's, in the order of their use.
        may_read: whether so many bytes may be read.
    """

    def __init__(
        self, old: Tensors, new: Tensors, pairs: Iterable[Names], may_read: Callable[[int], bool]
    ) -> None:
        self._old, self._new, self._may_read = old, new, may_read
        self._known: dict[Names, bool] = {}
        self._ahead = Cores().map(_read_all, self._batches(pairs))

    def are_same(self, old: str, new: str) -> bool:
        """Whether two storages have the same bytes. Not, if too much was read already.

        Raises:
            ArchiveError: there is no such storage, or one that is deflated is broken.
        """
        pair = old, new
        while pair not in self._known:
            batch = next(self._ahead, None)
            if batch is None:
                self._known[pair] = self._read(pair)
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
            if _is_at_hand(was) and _is_at_hand(now) and self._may_read(was.size):
                batch.append((pair, was, now))
                size += was.size
            if size >= BATCH:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def inflate(self, old: str, new: str) -> None:
        """Inflate or fetch two storages, which costs of an allowance: so threads may ask for their bytes."""
        for record in self._records((old, new)):
            if not _is_at_hand(record):
                with suppress(ArchiveError):  # who asks for the bytes gets it again
                    record.view()

    def _read(self, pair: Names) -> bool:
        was, now = self._records(pair)
        return was.size == now.size and self._may_read(was.size) and equal(was.view(), now.view())

    def _records(self, pair: Names) -> tuple[ReadableRecord, ReadableRecord]:
        return self._old.record(pair[0]), self._new.record(pair[1])


def _read_all(batch: Batch) -> dict[Names, bool]:
    return {pair: equal(was.raw(), now.raw()) for pair, was, now in batch}


def _is_at_hand(record: ReadableRecord) -> bool:
    return isinstance(record, Record) and record.is_at_hand
