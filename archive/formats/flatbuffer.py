"""FlatBuffers: tables whose fields stand behind offsets, many tables at once, as columns.

    file      = [size U32] root identifier …        size: bytes that follow; root: a reference to a table
    table     = distance S32, fields                the vtable stands so many bytes before the table
    vtable    = size U16, table U16, field U16 …    bytes of both, and where each field stands in the table
    vector    = length U32, elements
    string    = a vector of bytes
    reference = U32                                 what it refers to stands so many bytes behind it

Numbers are little-endian. A field whose place is 0, or behind the vtable's end, has its default: of a
reference, that nothing is there. Fields behind those that are declared here are of later releases.

References lead forward and a declaration has no circle, so that reading ends; tables may still share bytes,
so whoever follows a vector of references compares how many there are with the file
(:meth:`Tables.vectors` does). Source: the binary format at https://flatbuffers.dev/internals/.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.errors import ArchiveError, LimitError, shown
from archive.base.strings import decoded
from archive.formats.flatbuffer_head import IDENTIFIER_BYTES, SIZE, identified_at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.base.limits import Allowance

VTABLE_HEAD = 4
"""Bytes of a vtable before the places of fields."""
NOTHING = 0
"""The place of what a field does not refer to: the file's head stands there."""
BYTES_A_TABLE = 128
"""Bytes of memory that reading a field of a table costs at most, while it lasts."""


class Field(NamedTuple):
    """A field of a table.

    Attributes:
        type: of its number in numpy: ``<u8``.
        default: where the table has none.
    """

    type: str
    default: int = 0

    @property
    def size(self) -> int:
        """Its bytes in the table."""
        return int(self.type[-1])


U16, S32, U32, U64 = Field("<u2"), Field("<i4"), Field("<u4"), Field("<u8")
REFERENCE = Field("<u4")
"""Of a string, a vector or a table."""


class TableLayout:
    """The fields of a table, in the order of the schema.

    Args:
        name: as the schema has it, for messages.
        fields: by name.
    """

    def __init__(self, name: str, fields: Mapping[str, Field]) -> None:
        self.name = name
        self.fields: Mapping[str, tuple[int, Field]] = {
            key: (number, field) for number, (key, field) in enumerate(fields.items())
        }


class FlatBuffer:
    """The bytes of a FlatBuffer, with or without its size before it.

    Args:
        data: the file.
        identifier: its four bytes.
        allowance: the memory that reading may cost.

    Raises:
        ArchiveError: the identifier is another, or the file ends before the buffer does.
    """

    def __init__(self, data: memoryview, identifier: bytes, allowance: Allowance) -> None:
        start = identified_at(data, identifier)
        if start is None:
            found = shown(bytes(data[SIZE : SIZE + IDENTIFIER_BYTES]))
            raise ArchiveError(place=f"byte {SIZE}", expected=shown(identifier), found=found)
        end = len(data)
        if start:
            end = SIZE + int.from_bytes(data[:SIZE], "little")
            if end > len(data):
                expected = f"{end:,} bytes, as the file says"
                raise ArchiveError("the file is cut short", expected=expected, found=f"{len(data):,}")
        self._bytes = np.frombuffer(data[:end], np.uint8)
        self._start, self.allowance = start, allowance

    def __len__(self) -> int:
        return len(self._bytes)

    def root(self, layout: TableLayout) -> Tables:
        """The table that all others are in."""
        place = np.array([self._start], np.int64)
        return Tables(self, layout, place + self.numbers(place, REFERENCE, "the root's reference"))

    def numbers(self, places: np.ndarray, field: Field, what: str) -> np.ndarray:
        """The numbers at some places (n), as int64; those of eight bytes as uint64.

        Args:
            places: of their first bytes (n, int64).
            field: the type of the numbers.
            what: the things that stand there, for messages.

        Raises:
            ArchiveError: one stands outside of the buffer.
        """
        self.check((places < 0) | (places + field.size > len(self)), places, self.within(what))
        with self.allowance.lent(BYTES_A_TABLE * len(places), "tables of a FlatBuffer"):
            found = self._bytes[places[:, None] + np.arange(field.size)].view(field.type).ravel()
        return found.astype(np.uint64 if field.type == U64.type else np.int64)

    def check(self, is_wrong: np.ndarray, places: np.ndarray, expected: str) -> None:
        """Refuse what is wrong at some places (n), of which a column of booleans tells (n).

        Raises:
            ArchiveError: at one place, it is not as expected.
        """
        if is_wrong.any():
            raise ArchiveError(place=f"byte {int(places[np.argmax(is_wrong)])}", expected=expected)

    def within(self, what: str) -> str:
        """What is expected of things that stand in the buffer."""
        return f"{what} within {len(self):,} bytes"

    def texts(self, places: np.ndarray, what: str) -> tuple[np.ndarray, Sequence[str]]:
        """The strings at some places (n): a number for each (n), -1 for none; and the text of each number.

        Raises:
            ArchiveError: a string ends outside of the buffer, or strings share bytes.
            LimitError: one is longer than ``name_bytes``.
        """
        distinct, which = np.unique(places, return_inverse=True)
        lengths = np.zeros(len(distinct), np.int64)
        is_there = distinct != NOTHING
        lengths[is_there] = self.numbers(distinct[is_there], U32, f"the length of {what}")
        self.check(is_there & (distinct + SIZE + lengths > len(self)), distinct, self.within(what))
        most, longest = self.allowance.limits.name_bytes, int(lengths.max(initial=0))
        if longest > most:
            raise LimitError("name_bytes", most, longest, what=what)
        if int(lengths.sum()) > len(self):
            raise ArchiveError(f"{what} share bytes")
        numbers: dict[str, int] = {}
        of_distinct = [
            numbers.setdefault(decoded(self._bytes[start : start + length].tobytes()), len(numbers))
            if start > NOTHING + SIZE
            else -1
            for start, length in zip((distinct + SIZE).tolist(), lengths.tolist(), strict=True)
        ]
        return np.array(of_distinct, np.int64)[which], tuple(numbers)


class Tables:
    """Tables of one layout.

    Args:
        buffer: that they stand in.
        layout: of each.
        places: of their first bytes (n, int64).

    Raises:
        ArchiveError: a table or its vtable does not stand in the buffer.
    """

    def __init__(self, buffer: FlatBuffer, layout: TableLayout, places: np.ndarray) -> None:
        self._buffer, self._layout, self._places = buffer, layout, places
        name, vtable = layout.name, f"the vtable of {layout.name}"
        self._vtables = places - buffer.numbers(places, S32, name)
        self._vtable_sizes = buffer.numbers(self._vtables, U16, vtable)
        self._sizes = buffer.numbers(self._vtables + 2, U16, vtable)
        is_wrong = (self._vtable_sizes < VTABLE_HEAD) | (self._vtables + self._vtable_sizes > len(buffer))
        buffer.check(is_wrong, self._vtables, buffer.within(vtable))
        is_wrong = (self._sizes < SIZE) | (places + self._sizes > len(buffer))
        buffer.check(is_wrong, places, buffer.within(name))

    def __len__(self) -> int:
        return len(self._places)

    def numbers(self, name: str) -> np.ndarray:
        """The numbers of a field (n); int64, those of eight bytes uint64.

        Raises:
            ArchiveError: a field does not stand in its table.
        """
        places, field = self._fields(name)
        is_there = places != NOTHING
        found = np.full(len(places), field.default, np.uint64 if field.type == U64.type else np.int64)
        found[is_there] = self._buffer.numbers(places[is_there], field, self._what(name))
        return found

    def references(self, name: str) -> np.ndarray:
        """The places that a field refers to (n), ``NOTHING`` where it does not.

        Raises:
            ArchiveError: a field does not stand in its table.
        """
        places, _ = self._fields(name)
        is_there = places != NOTHING
        places[is_there] += self._buffer.numbers(places[is_there], REFERENCE, self._what(name))
        return places

    def vectors(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """The vectors of references that a field refers to: how many each has (n), and what all lead to (m).

        Raises:
            ArchiveError: a vector or a reference leads out of the buffer, or they have more references
                together than the buffer has bytes for.
        """
        buffer, what, places = self._buffer, self._what(name), self.references(name)
        counts = np.zeros(len(places), np.int64)
        is_there = places != NOTHING
        counts[is_there] = buffer.numbers(places[is_there], U32, f"the length of {what}")
        total = int(counts.sum())
        if SIZE * total > len(buffer):
            raise ArchiveError(expected=buffer.within(what), found=f"{total:,}")
        before = np.repeat(np.cumsum(counts) - counts, counts)
        elements = np.repeat(places + SIZE, counts) + SIZE * (np.arange(total) - before)
        return counts, elements + buffer.numbers(elements, REFERENCE, what)

    def texts(self, name: str) -> tuple[np.ndarray, Sequence[str]]:
        """The strings that a field refers to: see :meth:`FlatBuffer.texts`.

        Raises:
            ArchiveError: as there.
        """
        return self._buffer.texts(self.references(name), self._what(name))

    def _what(self, name: str) -> str:
        return f"{self._layout.name}.{name}"

    def _fields(self, name: str) -> tuple[np.ndarray, Field]:
        """The places of a field in the buffer (n), ``NOTHING`` where a table has none."""
        number, field = self._layout.fields[name]
        entry = VTABLE_HEAD + 2 * number
        has_entry = self._vtable_sizes >= entry + 2
        within = np.zeros(len(self), np.int64)
        within[has_entry] = self._buffer.numbers(self._vtables[has_entry] + entry, U16, self._what(name))
        is_there = within != 0
        is_wrong = is_there & ((within < SIZE) | (within + field.size > self._sizes))
        self._buffer.check(is_wrong, self._places, f"{self._what(name)} in its table")
        return np.where(is_there, self._places + within, NOTHING), field
