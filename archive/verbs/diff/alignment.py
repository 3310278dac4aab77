"""Which parts of two sequences belong together: those of equal keys in order, then what is left between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.verbs.diff.unified import Block, differing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


def aligned(was: Sequence[str], now: Sequence[str]) -> tuple[list[tuple[int, int]], list[Block]]:
    """The places of equal keys that are paired, and the blocks between them.

    >>> aligned("abc", "axbc")
    ([(0, 0), (1, 2), (2, 3)], [Block(old=1, old_end=1, new=1, new_end=2)])
    """
    blocks = differing(was, now)
    pairs: list[tuple[int, int]] = []
    old = new = 0
    for block in [*blocks, Block(len(was), len(was), len(now), len(now))]:
        pairs += zip(range(old, block.old), range(new, block.new), strict=True)
        old, new = block.old_end, block.new_end
    return pairs, blocks


def paired(was: Sequence[tuple[str, str]], now: Sequence[tuple[str, str]]) -> Iterator[tuple[int, int]]:
    """The places that belong together in two sequences whose parts have a fine and a coarse key.

    Parts of equal fine keys are paired first; between them, those of equal coarse keys; and between these, as
    many as there are on both sides.
    """
    pairs, blocks = aligned(*([fine for fine, _ in keys] for keys in (was, now)))
    yield from pairs
    for old, old_end, new, new_end in blocks:
        coarse = [key for _, key in was[old:old_end]], [key for _, key in now[new:new_end]]
        below, rest = aligned(*coarse)
        yield from ((old + one, new + other) for one, other in below)
        for left in rest:
            if left.old_end - left.old == left.new_end - left.new:
                for at in range(left.old_end - left.old):
                    yield old + left.old + at, new + left.new + at
