"""The `.data/serialization_id` record: what PyTorch computes from an archive's records, 2.1 and later.

Forty decimal digits: twenty for the names, twenty for the crcs. Both fold 64-bit values with
``combine(s, v) = s ^ (v + 0x9e3779b9 + (s << 6) + (s >> 2))``, starting from 0:

- names: libstdc++'s ``std::hash`` (MurmurHash64A, seed 0xc70f6907) of each name, without root folder, in
  the order in which an ``unordered_set`` hands them out that got them in the order of writing;
- crcs: the crc32 of each record that is not empty, in the order of writing.

The record itself is left out. Readers accept any value, so archives whose id differs (a PyTorch built on
another standard library writes the names in another order) are none the worse.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RECORD_NAME = ".data/serialization_id"

_U64 = 0xFFFF_FFFF_FFFF_FFFF
_MURMUR_FACTOR = 0xC6A4_A793_5BD1_E995
_MURMUR_SEED = 0xC70F_6907

_TABLE_SIZES = (
    *(13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229),
    *(172933, 351061, 712697, 1447153, 2938679, 5967347, 12117689, 24607243),
)
"""The primes that an ``unordered_set`` of libstdc++ grows through, one insertion at a time."""


class Described(Protocol):
    """What counts of a record: both ``Record`` and ``Member`` know it."""

    @property
    def name(self) -> str:
        """Without the root folder."""

    @property
    def size(self) -> int:
        """Inflated size in bytes."""

    @property
    def crc32(self) -> int:
        """Of the inflated bytes."""


def serialization_id(records: Iterable[Described]) -> str:
    """The 40 digits that PyTorch would put into an archive of these records, in this order.

    At most 24,607,243 of them.
    """
    counted = [record for record in records if record.name != RECORD_NAME]
    hashes = [string_hash(record.name.encode("utf-8", "surrogateescape")) for record in counted]
    names = _fold(unordered(hashes))
    crcs = _fold(record.crc32 for record in counted if record.size)
    return f"{names:020d}{crcs:020d}"


def string_hash(data: bytes) -> int:
    """``std::hash<std::string>`` of 64-bit libstdc++."""
    whole = len(data) & ~7
    state = _MURMUR_SEED ^ (len(data) * _MURMUR_FACTOR & _U64)
    for at in range(0, whole, 8):
        word = int.from_bytes(data[at : at + 8], "little") * _MURMUR_FACTOR & _U64
        state = (state ^ (_mixed(word) * _MURMUR_FACTOR & _U64)) * _MURMUR_FACTOR & _U64
    if whole < len(data):
        state = (state ^ int.from_bytes(data[whole:], "little")) * _MURMUR_FACTOR & _U64
    return _mixed(_mixed(state) * _MURMUR_FACTOR & _U64)


def unordered(hashes: Sequence[int]) -> list[int]:
    """The order in which libstdc++'s ``unordered_set`` iterates over values that were inserted in this order.

    The set is one linked list, in which the values of a bucket lie together. A value goes to the front of
    its bucket, and a bucket that was empty goes to the front of the list. When there are more values than
    buckets, all are moved to a larger table in the order of the list.
    """
    size = 0
    buckets: dict[int, list[int]] = {}
    for count, value in enumerate(hashes, 1):
        if count > size:
            size = _TABLE_SIZES[bisect_right(_TABLE_SIZES, size)]
            buckets = _filled(_listed(buckets), size)
        buckets.setdefault(value % size, []).append(value)
    return _listed(buckets)


def _filled(values: Iterable[int], size: int) -> dict[int, list[int]]:
    """Buckets, the front of the list last and the front of each bucket last."""
    buckets: dict[int, list[int]] = {}
    for value in values:
        buckets.setdefault(value % size, []).append(value)
    return buckets


def _listed(buckets: dict[int, list[int]]) -> list[int]:
    return [value for bucket in reversed(buckets.values()) for value in reversed(bucket)]


def _mixed(value: int) -> int:
    return value ^ value >> 47


def _fold(values: Iterable[int]) -> int:
    state = 0
    for value in values:
        state ^= value + 0x9E37_79B9 + (state << 6) + (state >> 2) & _U64
    return state
