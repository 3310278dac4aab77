"""Which parts of two sequences belong together: those of equal keys in order, then what is left between."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.compare.unified import Block, differing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Keys = tuple[str, ...]


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


def paired(was: Sequence[Keys], now: Sequence[Keys]) -> Iterator[tuple[int, int]]:
    """The places that belong together in two sequences whose parts have several keys, the finest first.

    Parts of equal finest keys are paired; between them, those of equal keys of the next kind, and so on; and
    between these, as many as there are on both sides.
    """
    depth = min(map(len, (*was, *now)), default=0)
    waiting = [(0, Block(0, len(was), 0, len(now)))]
    while waiting:
        level, (old, old_end, new, new_end) = waiting.pop()
        if level < depth:
            keys = [one[level] for one in was[old:old_end]], [one[level] for one in now[new:new_end]]
            pairs, blocks = aligned(*keys)
            yield from ((old + one, new + other) for one, other in pairs)
            waiting += [
                (level + 1, Block(old + gap.old, old + gap.old_end, new + gap.new, new + gap.new_end))
                for gap in blocks
            ]
        elif old_end - old == new_end - new:
            yield from zip(range(old, old_end), range(new, new_end), strict=True)
