"""The record ``.data/serialization_id``: PyTorch 2.1 and later computes it from all records.

It is written by ``PyTorchStreamWriter::writeSerializationId`` in ``caffe2/serialize/inline_container.cc``:
forty decimal digits, twenty for the names and twenty for the crcs. Both halves fold 64-bit values, from 0 on,
with ``combine(s, v) = s ^ (v + 0x9e3779b9 + (s << 6) + (s >> 2))`` (``c10/util/hash.h``):

- names: ``std::hash`` of each name without root folder, in the order of iteration over an ``unordered_set``
  into which they were inserted in the order of writing;
- crcs: the crc32 of each record that is not empty, in the order of writing.

The record itself does not count. Hash and order depend on the C++ standard library that PyTorch was built
with, so the id tells its writer's :class:`Platform`, which an archive keeps when it is rewritten. Readers
accept any value. The rules of 32-bit builds are not known here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from archive.container.serialization_id.hashing import U64, city, fnv, libcxx, libstdcxx, msvc, murmur

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

RECORD_NAME = ".data/serialization_id"
HALF_DIGITS = 20
"""Decimal digits of each half."""


class Platform(NamedTuple):
    """The platform whose rules an id follows.

    Attributes:
        name: the system that PyTorch's own builds with this library are for.
        library: the C++ standard library.
        string_hash: its hash of a string.
        order: the order in which its ``unordered_set`` hands out hashes that were inserted in this order.
    """

    name: str
    library: str
    string_hash: Callable[[bytes], int]
    order: Callable[[Sequence[int]], list[int]]


LINUX = Platform("Linux", "libstdc++", murmur, libstdcxx)
MACOS = Platform("macOS", "libc++", city, libcxx)
WINDOWS = Platform("Windows", "MSVC", fnv, msvc)
PLATFORMS = (LINUX, MACOS, WINDOWS)


class Described(Protocol):
    """The facts of a record that count; both ``Record`` and ``Member`` have them."""

    @property
    def name(self) -> str:
        """Its name, without the root folder."""

    @property
    def size(self) -> int:
        """Inflated size in bytes."""

    @property
    def crc32(self) -> int:
        """The crc32 of the inflated bytes."""


def serialization_id(records: Iterable[Described], platform: Platform = LINUX) -> str:
    """The 40 digits that PyTorch on a platform gives an archive of these records, in this order.

    At most 24,607,243 of them.
    """
    counted = _counted(records)
    return _names_half(_names(counted), platform) + _crcs_half(counted)


def writers(records: Iterable[Described], found: bytes | memoryview) -> tuple[Platform, ...]:
    """The platforms by whose rules records have an id.

    Args:
        records: of an archive, in its order.
        found: the id, as it stands in the archive.

    Returns:
        One, for each hashes names in its own way; none, if the id is not that of these records or its writer
        is not known; all of them, where there is no name to hash.
    """
    counted = _counted(records)
    digits = bytes(found)
    if digits[HALF_DIGITS:] != _crcs_half(counted).encode():
        return ()
    names = _names(counted)
    matching = (
        platform for platform in PLATFORMS if digits[:HALF_DIGITS] == _names_half(names, platform).encode()
    )
    if not names:
        return tuple(matching)
    first = next(matching, None)
    return () if first is None else (first,)


def renewed_id(members: Iterable[Described], before: Iterable[Described], found: bytes | memoryview) -> bytes:
    """The id of an archive that is rewritten: by the rules of its writer.

    Args:
        members: what is written, in this order.
        before: the records that they were.
        found: their id.

    Returns:
        The id as it was, if no platform's rules gave it: then none can tell what it would be.
    """
    platform = next(iter(writers(before, found)), None)
    return bytes(found) if platform is None else serialization_id(members, platform).encode()


def _counted(records: Iterable[Described]) -> list[Described]:
    return [record for record in records if record.name != RECORD_NAME]


def _names(counted: Sequence[Described]) -> list[bytes]:
    return [record.name.encode("utf-8", "surrogateescape") for record in counted]


def _names_half(names: Iterable[bytes], platform: Platform) -> str:
    return _fold(platform.order([platform.string_hash(name) for name in names]))


def _crcs_half(counted: Iterable[Described]) -> str:
    return _fold(record.crc32 for record in counted if record.size)


def _fold(values: Iterable[int]) -> str:
    state = 0
    for value in values:
        state ^= value + 0x9E37_79B9 + (state << 6) + (state >> 2) & U64
    return f"{state:0{HALF_DIGITS}d}"
