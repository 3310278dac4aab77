"""Many tables of a FlatBuffer at once, as columns; :mod:`~archive.formats.schema.flatbuffer` declares them.

A column has an entry for each of n tables. What a field refers to is found for all of them in one step:
:meth:`Tables.tables` and :meth:`Tables.vectors` return the tables that a field leads to, one for each table
that has the field, or as many as each vector has; :meth:`Tables.number_vectors` the numbers of vectors.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from construct import FormatField

from archive.base import memory
from archive.base.errors import ArchiveError, LimitError
from archive.base.strings import decoded
from archive.formats.schema.flatbuffer import (
    NOTHING,
    SIZE,
    VTABLE_HEAD,
    Table,
    Text,
    Union,
    Vector,
    bounds,
    number_type,
    size_of,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence


DISTANCE, PLACE, REFERENCE = "<i4", "<u2", "<u4"
"""The types of a vtable's distance from its table, of a field's place in its table, and of references."""
DIGEST_SIZE = hashlib.sha256().digest_size


class FlatBuffer:
    """The bytes of a FlatBuffer, with or without its size before it.

    Args:
        identifier: its four bytes.
    """

    def __init__(self, data: memoryview, identifier: bytes) -> None:
        self._start, end = bounds(data, identifier)
        self._bytes = np.frombuffer(data[:end], np.uint8)

    def __len__(self) -> int:
        return len(self._bytes)

    def root(self, declared: Table) -> Tables:
        """The root table."""
        place = np.array([self._start], np.int64)
        return Tables(self, declared, place + self.numbers(place, REFERENCE, "the root's reference"))

    def numbers(self, places: np.ndarray, form: str, what: str) -> np.ndarray:
        """The numbers at some places (n), of the type that :func:`column_type` gives.

        Args:
            places: of their first bytes (n, int64).
            form: their type in numpy: ``<u8``.
            what: what is there, for messages.
        """
        size = np.dtype(form).itemsize
        self.check((places < 0) | (places + size > len(self)), places, self.within(what))
        with memory.lent(16 * memory.NUMBER * len(places), "tables of a FlatBuffer"):
            found = self._bytes[places[:, None] + np.arange(size)].view(form).ravel()
        return found.astype(column_type(form))

    def check(self, is_wrong: np.ndarray, places: np.ndarray, expected: str) -> None:
        """Refuse the first of some places (n) that a column of booleans (n) calls wrong."""
        if is_wrong.any():
            raise ArchiveError(place=f"byte {int(places[np.argmax(is_wrong)])}", expected=expected)

    def within(self, what: str) -> str:
        """What is expected of things in the buffer."""
        return f"{what} within {len(self):,} bytes"

    @property
    def data(self) -> memoryview:
        """All bytes."""
        return self._bytes.data

    def texts(self, places: np.ndarray, what: str) -> tuple[np.ndarray, Sequence[str]]:
        """The strings at some places (n): a number for each (n), -1 for none; and the text of each number."""
        which, strings = self._strings(places, what)
        numbers: dict[str, int] = {}
        of_distinct = [
            -1 if string is None else numbers.setdefault(decoded(string), len(numbers)) for string in strings
        ]
        return np.array(of_distinct, np.int64)[which], tuple(numbers)

    def text_digests(self, places: np.ndarray, what: str) -> bytes:
        """A digest of the string at each of some places (n), concatenated."""
        which, strings = self._strings(places, what)
        digests = [hashlib.sha256(b"" if string is None else b"'" + string).digest() for string in strings]
        memory.take(len(which) * DIGEST_SIZE, what)
        return b"".join(digests[number] for number in which.tolist())

    def _strings(self, places: np.ndarray, what: str) -> tuple[np.ndarray, list[bytes | None]]:
        """The number of each place among the distinct ones (n), and the bytes at each of these."""
        distinct, which = np.unique(places, return_inverse=True)
        lengths = np.zeros(len(distinct), np.int64)
        is_there = distinct != NOTHING
        lengths[is_there] = self.numbers(distinct[is_there], REFERENCE, f"the length of {what}")
        self.check(is_there & (distinct + SIZE + lengths > len(self)), distinct, self.within(what))
        most, longest = memory.limits().name_bytes, int(lengths.max(initial=0))
        if longest > most:
            raise LimitError("name_bytes", most, longest, what=what)
        if int(lengths.sum()) > len(self):
            raise ArchiveError(f"{what} share bytes")
        starts = (distinct + SIZE).tolist()
        strings = [
            self._bytes[start : start + length].tobytes() if start > NOTHING + SIZE else None
            for start, length in zip(starts, lengths.tolist(), strict=True)
        ]
        return which, strings


def column_type(form: str) -> type[np.generic]:
    """The type of a column of numbers: int64; for unsigned eight-byte ones uint64, for floats float64."""
    if form[1] == "f":
        return np.float64
    return np.uint64 if form[1:] == "u8" else np.int64


def _elements(starts: np.ndarray, counts: np.ndarray, size: int) -> np.ndarray:
    """The places of the elements of vectors (n), all in one column."""
    total = int(counts.sum())
    memory.take(2 * memory.NUMBER * total, "tables of a FlatBuffer")
    before = np.repeat(np.cumsum(counts) - counts, counts)
    places: np.ndarray = np.repeat(starts, counts) + size * (np.arange(total) - before)
    return places


class NumberVectors(NamedTuple):
    """Vectors of numbers, one for each of n tables.

    Attributes:
        starts: where the numbers of each begin in the buffer (n).
        counts: how many each has (n).
        numbers: those of all (m).
    """

    starts: np.ndarray
    counts: np.ndarray
    numbers: np.ndarray

    def lists(self) -> list[list[int]]:
        """The numbers of each vector."""
        numbers, stops = self.numbers.tolist(), np.cumsum(self.counts).tolist()
        return [numbers[stop - count : stop] for count, stop in zip(self.counts.tolist(), stops, strict=True)]


class Tables:
    """Tables of one declaration.

    Args:
        buffer: that they are in.
        declared: what each is.
        places: of their first bytes (n, int64).
    """

    def __init__(self, buffer: FlatBuffer, declared: Table, places: np.ndarray) -> None:
        self._buffer, self._declared, self.places = buffer, declared, places
        name, vtable = declared.name, f"the vtable of {declared.name}"
        self._vtables = places - buffer.numbers(places, DISTANCE, name)
        self._vtable_sizes = buffer.numbers(self._vtables, PLACE, vtable)
        self._sizes = buffer.numbers(self._vtables + 2, PLACE, vtable)
        is_wrong = (self._vtable_sizes < VTABLE_HEAD) | (self._vtables + self._vtable_sizes > len(buffer))
        buffer.check(is_wrong, self._vtables, buffer.within(vtable))
        is_wrong = (self._sizes < SIZE) | (places + self._sizes > len(buffer))
        buffer.check(is_wrong, places, buffer.within(name))

    def __len__(self) -> int:
        return len(self.places)

    def one(self, number: int) -> Tables:
        """One of them."""
        return Tables(self._buffer, self._declared, self.places[number : number + 1])

    @property
    def stops(self) -> np.ndarray:
        """The bytes after their last ones (n)."""
        stops: np.ndarray = self.places + self._sizes
        return stops

    def numbers(self, name: str) -> np.ndarray:
        """The numbers of a field (n), of the type that :func:`column_type` gives."""
        places, field = self._fields(name), self._declared.fields[name]
        is_there = places != NOTHING
        found = np.full(len(places), field.default, column_type(field.type))
        found[is_there] = self._buffer.numbers(places[is_there], field.type, self._what(name))
        return found

    def references(self, name: str) -> np.ndarray:
        """The places that a field refers to (n), ``NOTHING`` where it refers to none."""
        places = self._fields(name)
        is_there = places != NOTHING
        places[is_there] += self._buffer.numbers(places[is_there], REFERENCE, self._what(name))
        return places

    def tables(self, name: str) -> tuple[np.ndarray, Tables]:
        """The tables that a field refers to: whether each exists (n), and those that do (m)."""
        places, item = self.references(name), self._declared.fields[name].item
        is_there = places != NOTHING
        return is_there, Tables(self._buffer, item, places[is_there])

    def vectors(self, name: str) -> tuple[np.ndarray, Tables]:
        """The vectors of tables that a field refers to: how many each has (n), and the tables of all (m)."""
        vector: Vector = self._declared.fields[name].item
        buffer, what = self._buffer, self._what(name)
        starts, counts = self.stretches(name)
        elements = _elements(starts, counts, SIZE)
        return counts, Tables(buffer, vector.item, elements + buffer.numbers(elements, REFERENCE, what))

    def number_vectors(self, name: str) -> NumberVectors:
        """The vectors of numbers that a field refers to."""
        form = number_type(self._declared.fields[name].item.item)
        starts, counts = self.stretches(name)
        elements = _elements(starts, counts, np.dtype(form).itemsize)
        return NumberVectors(starts, counts, self._buffer.numbers(elements, form, self._what(name)))

    def stretches(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The vectors that a field refers to: where the elements begin (n), and how many each has (n)."""
        size = size_of(self._declared.fields[name].item.item)
        buffer, what, places = self._buffer, self._what(name), self.references(name)
        counts = np.zeros(len(places), np.int64)
        is_there = places != NOTHING
        counts[is_there] = buffer.numbers(places[is_there], REFERENCE, f"the length of {what}")
        total = int(counts.sum())
        if size * total > len(buffer):
            raise ArchiveError(expected=buffer.within(what), found=f"{total:,}")
        buffer.check(places + SIZE + size * counts > len(buffer), places, buffer.within(what))
        return places + SIZE, counts

    def union(self, name: str) -> Iterator[tuple[Table, np.ndarray, Tables]]:
        """Each kind of table that a union refers to, the tables (n) that have it, and what these refer to."""
        kinds, places = self.numbers(f"{name}_type"), self.references(name)
        item: Union = self._declared.fields[name].item
        is_wrong = (kinds > len(item.tables)) | ((kinds != NOTHING) != (places != NOTHING))
        self._buffer.check(is_wrong, self.places, f"one of {len(item.tables)} kinds of {self._what(name)}")
        for kind, table in item.tables.items():
            which = np.flatnonzero(kinds == kind)
            if len(which):
                yield table, which, Tables(self._buffer, table, places[which])

    def texts(self, name: str) -> tuple[np.ndarray, Sequence[str]]:
        """The strings that a field refers to: see :meth:`FlatBuffer.texts`."""
        return self._buffer.texts(self.references(name), self._what(name))

    def text_places(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The strings that a field refers to, with lengths and zeros: where they start and stop (m)."""
        places = self.references(name)
        starts = places[places != NOTHING]
        stops = starts + SIZE + self._buffer.numbers(starts, REFERENCE, f"the length of {self._what(name)}")
        self._buffer.check(stops > len(self._buffer), starts, self._buffer.within(self._what(name)))
        return starts, np.minimum(-(-(stops + 1) // SIZE) * SIZE, len(self._buffer))

    def content(self, without: Collection[str]) -> Iterator[bytes | memoryview]:
        """What the tables and all those in them say, as bytes that are the same wherever it is in the buffer.

        If one of them has a field that isn't declared, all bytes of the buffer count.

        Args:
            without: fields that are left out: ``Chain.stacktrace``.
        """
        if (self._vtable_sizes > VTABLE_HEAD + 2 * len(self._declared.fields)).any():
            yield self._buffer.data
        for name, field in self._declared.fields.items():
            item = field.item
            if self._what(name) in without:
                continue
            if isinstance(item, FormatField):
                yield self.numbers(name).tobytes()
            elif item is Text:
                yield self._buffer.text_digests(self.references(name), self._what(name))
            elif isinstance(item, Union):
                for _, _, tables in self.union(name):
                    yield from tables.content(without)
            elif isinstance(item, Vector) and isinstance(item.item, FormatField):
                _, counts, numbers = self.number_vectors(name)
                yield counts.tobytes()
                yield numbers.tobytes()
            else:
                found, tables = self.vectors(name) if isinstance(item, Vector) else self.tables(name)
                yield found.tobytes()
                yield from tables.content(without)

    def _what(self, name: str) -> str:
        return f"{self._declared.name}.{name}"

    def _fields(self, name: str) -> np.ndarray:
        """The places of a field in the buffer (n), ``NOTHING`` where a table has none."""
        field = self._declared.fields[name]
        entry = VTABLE_HEAD + 2 * field.number
        has_entry = self._vtable_sizes >= entry + 2
        within = np.zeros(len(self), np.int64)
        within[has_entry] = self._buffer.numbers(self._vtables[has_entry] + entry, PLACE, self._what(name))
        is_there = within != 0
        is_wrong = is_there & ((within < SIZE) | (within + field.size > self._sizes))
        self._buffer.check(is_wrong, self.places, f"{self._what(name)} in its table")
        return np.where(is_there, self.places + within, NOTHING)
