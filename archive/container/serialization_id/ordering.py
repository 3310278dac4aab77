"""The order in which an ``unordered_set`` hands out values that were inserted one by one.

In all three libraries the set is one linked list, in which the values of a bucket lie together, and a new
value goes to the front of its bucket. The libraries differ in the sizes of the table, in the end of the list
to which a bucket goes that was empty, and in what growing does to the order. Each function takes the hashes
in the order of insertion. The time is linear in their number, even if all fall into one bucket.
"""

from __future__ import annotations

from bisect import bisect_right
from math import isqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Buckets = dict[int, list[int]]
    """The values of each bucket that has any; the front of a bucket is last."""

_PRIMES = (
    *(13, 29, 59, 127, 257, 541, 1109, 2357, 5087, 10273, 20753, 42043, 85229),
    *(172933, 351061, 712697, 1447153, 2938679, 5967347, 12117689, 24607243),
)
_SMALLEST, _EIGHTFOLD_BELOW = 8, 512


def libstdcxx(hashes: Sequence[int]) -> list[int]:
    """Linux: a bucket that was empty goes to the front of the list; growing inserts all anew in that order.

    At most 24,607,243 values.
    """
    size = 0
    buckets: Buckets = {}
    for count, value in enumerate(hashes, 1):
        if count > size:
            size = _PRIMES[bisect_right(_PRIMES, size)]
            buckets = _inserted(_newest_first(buckets), size)
        buckets.setdefault(value % size, []).append(value)
    return _newest_first(buckets)


def libcxx(hashes: Sequence[int]) -> list[int]:
    """macOS: a bucket that was empty goes to the front of the list; growing keeps the order of the buckets.

    The table has 2 buckets, then each time the first prime from twice as many and one.
    """
    size = 0
    buckets: Buckets = {}
    for count, value in enumerate(hashes, 1):
        if count > size:
            size = _prime_from(2 * size + 1) if size else 2
            buckets = _moved(_newest_first(buckets), size)
        buckets.setdefault(value % size, []).append(value)
    return _newest_first(buckets)


def msvc(hashes: Sequence[int]) -> list[int]:
    """Windows: a bucket that was empty goes to the end of the list; growing inserts all anew in that order.

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
    """libc++'s ``rehash``: the first value of a bucket stays, and one right behind another of its bucket.

    Any other goes to the front of its bucket. The buckets are turned round, for `_newest_first`.
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


def _prime_from(value: int) -> int:
    while any(value % divisor == 0 for divisor in range(2, isqrt(value) + 1)):
        value += 1
    return value
