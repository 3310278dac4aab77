"""Random changes of bytes, numbers and lists, all drawn from one seeded generator."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from random import Random

    Mutation = Callable[[Random, bytes], bytes]

T = TypeVar("T")

EDGES = sorted(
    {
        sign * (1 << bits) + step
        for bits in (0, 7, 8, 15, 16, 31, 32, 62, 63)
        for step in (-1, 0, 1)
        for sign in (1, -1)
    }
)
"""Numbers around the ends of each width."""
LONGEST = 1 << 14
"""Bytes of a mutated input, so that executions stay fast."""


def number(chance: Random, before: int) -> int:
    """Another number: an edge, a neighbour, a double, or a small one."""
    kind = chance.randrange(4)
    if kind == 0:
        return chance.choice(EDGES)
    if kind == 1:
        return before + chance.choice((-2, -1, 1, 2))
    return before * 2 if kind == 2 else chance.randrange(20)


def unsigned(chance: Random, before: int, size: int) -> bytes:
    """Another little-endian number of so many bytes."""
    return (number(chance, before) & ((1 << 8 * size) - 1)).to_bytes(size, "little")


def changed_bytes(chance: Random, data: bytes) -> bytes:
    """Bytes of which some are flipped, replaced, removed, repeated or cut off."""
    out = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(out) + 1)
        upto = min(len(out), at + chance.choice((1, 2, 4, 16)))
        kind = chance.randrange(5)
        if kind == 0 and out:
            out[at % len(out)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            out[at:upto] = chance.randbytes(upto - at)
        elif kind == 2:
            del out[at:upto]
        elif kind == 3:
            out[at:at] = out[at:upto]
        elif not chance.randrange(4):
            del out[at:]
    return bytes(out[:LONGEST])


def changed_list(chance: Random, items: list[T], pool: Sequence[T], change: Callable[[T], T]) -> list[T]:
    """Items of which some are removed, repeated, swapped, changed, or replaced by those of a pool."""
    out = list(items)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        if not out:
            return [chance.choice(pool)]
        at, other = chance.randrange(len(out)), chance.randrange(len(out))
        upto = at + chance.choice((1, 1, 1, 3, 9))
        kind = chance.randrange(7)
        if kind == 0:
            del out[at:upto]
        elif kind == 1:
            out[at:at] = out[at:upto]
        elif kind == 2:
            out[at], out[other] = out[other], out[at]
        elif kind == 3:
            out[at] = chance.choice(pool)
        elif kind == 4:
            out.insert(at, chance.choice(pool))
        else:
            out[at] = change(out[at])
    return out
