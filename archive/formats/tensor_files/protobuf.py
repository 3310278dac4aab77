"""Protobuf's wire format: the fields of a message, one behind the other; none is known here.

A field begins with its *tag*, an integer in variable form: ``number << 3 | wire type``.

==========  ==============================================
wire type   the field's value
==========  ==============================================
0           an integer in variable form: 7 bits a byte, the lowest first; all but the last have the top bit
1           8 bytes
2           a length in variable form, and as many bytes: a text, a message, packed numbers
5           4 bytes
==========  ==============================================

Groups (3 and 4) are refused: no format that is read here has them.

Source: "Encoding" in Protocol Buffers' documentation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from archive.base.errors import ArchiveError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.ranged import Bytes

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
FIXED = {FIXED64: 8, FIXED32: 4}
LONGEST = 10
"""Bytes of an integer in variable form."""
MOST_FIELDS = 1 << 24
"""Fields of a file that are looked at. The largest real model seen has less than a million."""
CHUNK = 4096
"""Bytes of a file elsewhere that are looked at together."""
DECODED_BYTES = 64
"""Bytes of memory that an integer costs while it is decoded."""


class Field(NamedTuple):
    """A field of a message.

    Attributes:
        number: of the field.
        wire: its wire type.
        value: of an integer, its value; else 0.
        start: the first byte of its value, behind tag and length.
        stop: the byte behind its value.
    """

    number: int
    wire: int
    value: int
    start: int
    stop: int


class Message:
    """The fields of a file that is one message.

    Args:
        data: the file. Of one elsewhere, only the blocks are fetched in which a field begins.
    """

    def __init__(self, data: Bytes) -> None:
        self._data = data
        self._buffer = data if isinstance(data, memoryview) else memoryview(b"")
        self._base = 0
        self._left = MOST_FIELDS

    def fields(self, start: int, stop: int) -> Iterator[Field]:
        """The fields between two bytes.

        Raises:
            ArchiveError: they are no fields, or too many.
        """
        at = start
        while at < stop:
            self._left -= 1
            if self._left < 0:
                raise ArchiveError(expected=f"at most {MOST_FIELDS:,} fields", found="more")
            begin = at
            tag, at = self._integer(at, stop)
            number, wire, value = tag >> 3, tag & 7, 0
            first = at
            if wire == VARINT:
                value, at = self._integer(at, stop)
            elif wire == LENGTH:
                length, first = self._integer(at, stop)
                at = first + length
            elif wire in FIXED:
                at += FIXED[wire]
            if not number or wire not in {VARINT, LENGTH, *FIXED}:
                found = f"field {number}, wire type {wire}"
                raise ArchiveError(place=f"byte {begin:,}", expected="a field of protobuf", found=found)
            if at > stop:
                found = f"{stop - first:,} bytes"
                raise ArchiveError(
                    place=f"byte {begin:,}", expected=f"a field of {at - first:,}", found=found
                )
            yield Field(number, wire, value, first, at)

    def data(self, field: Field) -> memoryview:
        """The bytes of a field's value."""
        return self._data[field.start : field.stop]

    def integers(self, start: int, stop: int) -> Iterator[int]:
        """Integers in variable form, one behind the other.

        Raises:
            ArchiveError: the bytes are none.
        """
        at = start
        while at < stop:
            value, at = self._integer(at, stop)
            yield value

    def _integer(self, at: int, stop: int) -> tuple[int, int]:
        """An integer in variable form, and the place behind it."""
        place = at - self._base
        if not 0 <= place <= len(self._buffer) - LONGEST and not isinstance(self._data, memoryview):
            self._buffer, self._base, place = self._data[at : at + CHUNK], at, 0
        value = shift = 0
        for byte in self._buffer[place : min(place + LONGEST, place + stop - at)]:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:  # noqa: PLR2004 (the last one)
                return value, at + shift // 7
        raise ArchiveError(place=f"byte {at:,}", expected="an integer in variable form", found="none")


def signed(value: int) -> int:
    """An integer of 64 bits as one with a sign, which its highest bit is."""
    value &= (1 << 64) - 1
    return value - (value >> 63 << 64)


def decoded_integers(data: memoryview, width: int) -> np.ndarray:
    """Integers in variable form as little-endian ones of ``width`` bytes each: n times ``width`` bytes.

    Args:
        data: the integers, one behind the other.
        width: 1, 2, 4 or 8; higher bits go, as protobuf writes a negative int32 as one of 64 bits.

    Raises:
        ArchiveError: the bytes are none.
    """
    stored = np.frombuffer(data, np.uint8)
    ends = np.flatnonzero(stored < 0x80)  # noqa: PLR2004 (the last byte of each)
    starts = np.concatenate([np.zeros(min(len(ends), 1), np.int64), ends[:-1] + 1])
    lengths = ends - starts + 1
    if len(stored) and (not len(ends) or ends[-1] != len(stored) - 1 or lengths.max() > LONGEST):
        raise ArchiveError(expected="integers in variable form", found="other bytes")
    values = np.zeros(len(ends), np.uint64)
    for place in range(int(lengths.max(initial=0))):
        longer = np.flatnonzero(lengths > place)
        part = (stored[starts[longer] + place] & 0x7F).astype(np.uint64)
        values[longer] |= part << np.uint64(7 * place)
    return values.astype(f"<u{width}").view(np.uint8)


def packed(integers: np.ndarray, bits: int) -> np.ndarray:
    """Integers of some bits each without gaps, the first in the lowest bits: as many bytes as these take.

    Args:
        integers: n bytes.
        bits: of each; the others are 0.

    Raises:
        ArchiveError: one has more bits.
    """
    most = int(integers.max(initial=0))
    if most >> bits:
        raise ArchiveError(expected=f"integers of {bits} bits", found=f"{most:,}")
    apart = np.unpackbits(integers[:, None], axis=1, bitorder="little")[:, :bits]
    return np.packbits(apart, bitorder="little")
