"""The record ``.data/serialization_id``: PyTorch 2.1 and later computes it from all records.

It is written by ``PyTorchStreamWriter::writeSerializationId`` in ``caffe2/serialize/inline_container.cc``:
forty decimal digits, twenty for the names and twenty for the crcs. Both halves fold 64-bit values, from 0 on,
with ``combine(s, v) = s ^ (v + 0x9e3779b9 + (s << 6) + (s >> 2))`` (``c10/util/hash.h``):

- names: ``std::hash`` of each name without root folder, in the iteration order of an ``unordered_set`` into
  which they were inserted in the order of writing;
- crcs: the crc32 of each non-empty record, in the order of writing.

The record itself does not count. Hash and order depend on the C++ standard library that PyTorch was built
with, so the id shows its writer's :class:`Platform`, which an archive keeps when it is rewritten. Readers
accept any value. The rules of 32-bit builds are unknown here.

``std::hash<std::string>`` maps bytes to an unsigned number of 64 bits:

- libstdc++ (Linux): MurmurHash64A with the seed 0xc70f6907.
- libc++ (macOS): CityHash64 1.0.0, where ``a << 3`` for names of 4 to 8 bytes is cut to 32 bits.
- MSVC's library (Windows): FNV-1a.

In all three libraries an ``unordered_set`` is one linked list, in which the values of a bucket are adjacent,
and a new value goes to the front of its bucket. The libraries differ in the sizes of the table, in the end of
the list to which a formerly empty bucket goes, and in what growing does to the order.
"""

from __future__ import annotations

from bisect import bisect_right
from math import isqrt
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    Buckets = dict[int, list[int]]
    """The values of each non-empty bucket; the front of a bucket is last."""

RECORD_NAME = ".data/serialization_id"
HALF_DIGITS = 20
"""Decimal digits of each half."""
U64 = 0xFFFF_FFFF_FFFF_FFFF
"""Cuts where C++ overflows."""

# --- order in a set: each function takes hashes in the order of insertion, in time linear in their number

LIBSTDCXX_BUCKETS = (
    *(13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229),
    *(172933, 351061, 712697, 1447153, 2938679, 5967347, 12117689, 24607243),
)
"""Numbers of buckets of a libstdc++ hash table, each time it grows."""
_SMALLEST, _EIGHTFOLD_BELOW = 8, 512


def libstdcxx(hashes: Sequence[int]) -> list[int]:
    """Linux: a formerly empty bucket goes to the front of the list; growing reinserts all in that order.

    At most 24,607,243 values.
    """
    size = 0
    buckets: Buckets = {}
    for count, value in enumerate(hashes, 1):
        if count > size:
            size = LIBSTDCXX_BUCKETS[bisect_right(LIBSTDCXX_BUCKETS, size)]
            buckets = _inserted(_newest_first(buckets), size)
        buckets.setdefault(value % size, []).append(value)
    return _newest_first(buckets)


def libcxx(hashes: Sequence[int]) -> list[int]:
    """macOS: a formerly empty bucket goes to the front of the list; growing keeps the order of the buckets.

    The table has 2 buckets, then each time the first prime from twice as many plus one.
    """
    size = 0
    buckets: Buckets = {}
    for count, value in enumerate(hashes, 1):
        if count > size:
            size = 2 * size + 1 if size else 2
            while any(size % divisor == 0 for divisor in range(2, isqrt(size) + 1)):
                size += 1
            buckets = _moved(_newest_first(buckets), size)
        buckets.setdefault(value % size, []).append(value)
    return _newest_first(buckets)


def msvc(hashes: Sequence[int]) -> list[int]:
    """Windows: a formerly empty bucket goes to the end of the list; growing reinserts all in that order.

    The table has 8, 64, 512 buckets, then each time twice as many.
    """
    size = _SMALLEST
    buckets: Buckets = {}
    for count, value in enumerate(hashes, 1):
        if count > size:
            size *= 8 if size < _EIGHTFOLD_BELOW else 2
            buckets = _inserted(_newest_last(buckets), size)
        buckets.setdefault(value % size, []).append(value)
    return _newest_last(buckets)


def _inserted(values: Iterable[int], size: int) -> Buckets:
    buckets: Buckets = {}
    for value in values:
        buckets.setdefault(value % size, []).append(value)
    return buckets


def _moved(values: Iterable[int], size: int) -> Buckets:
    """libc++'s ``rehash``: the first value of a bucket stays, as does one right after another of its bucket.

    Any other goes to the front of its bucket. The buckets are reversed, for `_newest_first`.
    """
    stayed: Buckets = {}
    to_front: Buckets = {}
    before = -1
    for value in values:
        number = value % size
        if number == before or number not in stayed:
            stayed.setdefault(number, []).append(value)
            before = number
        else:
            to_front.setdefault(number, []).append(value)
    return {number: stayed[number][::-1] + to_front.get(number, []) for number in reversed(stayed)}


def _newest_first(buckets: Buckets) -> list[int]:
    return [value for bucket in reversed(buckets.values()) for value in reversed(bucket)]


def _newest_last(buckets: Buckets) -> list[int]:
    return [value for bucket in buckets.values() for value in reversed(bucket)]


# --- hashes of strings

_MURMUR_FACTOR = 0xC6A4_A793_5BD1_E995
_MURMUR_SEED = 0xC70F_6907

_CITY_0 = 0xC3A5_C85C_97CB_3127
_CITY_1 = 0xB492_B66F_BE98_F273
_CITY_2 = 0x9AE1_6A3B_2F90_404F
_CITY_3 = 0xC949_D7C7_509E_6557
_CITY_PAIR = 0x9DDF_EA08_EB38_2D69

_FNV_START = 0xCBF2_9CE4_8422_2325
_FNV_FACTOR = 0x0100_0000_01B3


def murmur(data: bytes) -> int:
    """MurmurHash64A, as libstdc++ has it."""
    whole = len(data) & ~7
    state = _MURMUR_SEED ^ (len(data) * _MURMUR_FACTOR & U64)
    for at in range(0, whole, 8):
        word = int.from_bytes(data[at : at + 8], "little") * _MURMUR_FACTOR & U64
        state = (state ^ (_mixed(word) * _MURMUR_FACTOR & U64)) * _MURMUR_FACTOR & U64
    if whole < len(data):
        state = (state ^ int.from_bytes(data[whole:], "little")) * _MURMUR_FACTOR & U64
    return _mixed(_mixed(state) * _MURMUR_FACTOR & U64)


def fnv(data: bytes) -> int:
    """FNV-1a, as MSVC's library has it."""
    state = _FNV_START
    for byte in data:
        state = (state ^ byte) * _FNV_FACTOR & U64
    return state


def city(data: bytes) -> int:
    """CityHash64, as libc++ has it: a case for each class of lengths."""
    size = len(data)
    for longest, way in ((3, _city_3), (8, _city_8), (16, _city_16), (32, _city_32), (64, _city_64)):
        if size <= longest:
            return way(data)
    return _city_long(data)


def _city_3(data: bytes) -> int:
    size = len(data)
    if not size:
        return _CITY_2
    low = data[0] + (data[size >> 1] << 8)
    high = size + (data[-1] << 2)
    return _mixed((low * _CITY_2 ^ high * _CITY_3) & U64) * _CITY_2 & U64


def _city_8(data: bytes) -> int:
    first = int.from_bytes(data[:4], "little") << 3 & 0xFFFF_FFFF
    return _paired(len(data) + first, int.from_bytes(data[-4:], "little"))


def _city_16(data: bytes) -> int:
    size, last = len(data), _word(data, len(data) - 8)
    return _paired(_word(data, 0), _rotated(last + size, size)) ^ last


def _city_32(data: bytes) -> int:
    size = len(data)
    a, b = _word(data, 0) * _CITY_1, _word(data, 8)
    c, d = _word(data, size - 8) * _CITY_2, _word(data, size - 16) * _CITY_0
    return _paired(_rotated(a - b, 43) + _rotated(c, 30) + d, a + _rotated(b ^ _CITY_3, 20) - c + size)


def _city_64(data: bytes) -> int:
    size = len(data)
    front, back = _word(data, 24), _word(data, size - 8)
    first, other = _half(data, 0, _word(data, 0) + (size + _word(data, size - 16)) * _CITY_0, front)
    last, rest = _half(data, size - 32, _word(data, 16) + _word(data, size - 32), front + back)
    mixed = _mixed((first + rest) * _CITY_2 + (last + other) * _CITY_0 & U64)
    return _mixed(mixed * _CITY_0 + other & U64) * _CITY_2 & U64


def _half(data: bytes, at: int, a: int, z: int) -> tuple[int, int]:
    """One half of a name of 33 to 64 bytes; and the words at 8 and 16 of its 32 bytes."""
    b, c = _rotated(a + z, 52), _rotated(a, 37)
    a += _word(data, at + 8)
    c += _rotated(a, 7)
    a += _word(data, at + 16)
    return a + z, b + _rotated(a, 31) + c


def _city_long(data: bytes) -> int:
    size = len(data)
    x = _word(data, size - 40)
    y = _word(data, size - 16) + _word(data, size - 56)
    z = _paired(_word(data, size - 48) + size, _word(data, size - 24))
    v = _block(data, size - 64, size, z)
    w = _block(data, size - 32, y + _CITY_1, x)
    x = x * _CITY_1 + _word(data, 0)
    for at in range(0, size - 1 & ~63, 64):
        x = _rotated(x + y + v[0] + _word(data, at + 8), 37) * _CITY_1 & U64 ^ w[1]
        y = _rotated(y + v[1] + _word(data, at + 48), 42) * _CITY_1 + v[0] + _word(data, at + 40) & U64
        z = _rotated(z + w[0], 33) * _CITY_1 & U64
        v = _block(data, at, v[1] * _CITY_1, x + w[0])
        w = _block(data, at + 32, z + w[1], y + _word(data, at + 16))
        x, z = z, x
    return _paired(_paired(v[0], w[0]) + _mixed(y & U64) * _CITY_1 + z, _paired(v[1], w[1]) + x)


def _block(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """32 bytes with two seeds."""
    start = a + _word(data, at)
    b = _rotated(b + start + _word(data, at + 24), 21)
    a = start + _word(data, at + 8) + _word(data, at + 16)
    return a + _word(data, at + 24) & U64, b + _rotated(a, 44) + start & U64


def _paired(low: int, high: int) -> int:
    """Two numbers as one."""
    low, high = low & U64, high & U64
    a = _mixed((low ^ high) * _CITY_PAIR & U64)
    return _mixed((high ^ a) * _CITY_PAIR & U64) * _CITY_PAIR & U64


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _rotated(value: int, by: int) -> int:
    value &= U64
    return (value >> by | value << 64 - by) & U64


def _mixed(value: int) -> int:
    return value ^ value >> 47


# --- ids


class Platform(NamedTuple):
    """The platform whose rules an id follows.

    Attributes:
        name: the system for which PyTorch's own builds use this library.
        library: the C++ standard library.
        string_hash: its hash of a string.
        order: the order in which its ``unordered_set`` iterates over hashes, given in the order of insertion.
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
    """The 40 digits that PyTorch on a platform writes for an archive of these records, in this order.

    At most 24,607,243 of them.
    """
    counted = _counted(records)
    return _names_half(_names(counted), platform) + _crcs_half(counted)


def writers(records: Iterable[Described], recorded: bytes | memoryview) -> tuple[Platform, ...]:
    """The platforms whose rules give some records an id.

    Args:
        records: of an archive, in its order.
        recorded: the id in the archive.

    Returns:
        One platform, because each hashes names in its own way; none, if the id isn't that of these records or
        its writer is unknown; all of them, if no name is to be hashed.
    """
    counted = _counted(records)
    digits = bytes(recorded)
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


def renewed_id(
    members: Iterable[Described], before: Iterable[Described], recorded: bytes | memoryview
) -> bytes:
    """The id of a rewritten archive, by the rules of its writer.

    Args:
        members: what is written, in this order.
        before: the original records.
        recorded: their id.

    Returns:
        The new id; or the old one, if no platform's rules gave it, so that nothing says what it would be.
    """
    platform = next(iter(writers(before, recorded)), None)
    return bytes(recorded) if platform is None else serialization_id(members, platform).encode()


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
