"""Which parts of two sequences belong together, and the lines that differ between two texts.

The time grows with their length.

Lines that are unique in both texts are anchors, as in *patience diff*. What lies between two anchors is
compared by Myers' greedy algorithm, which finds the fewest lines that differ, in a time that grows with their
number. Where they are too many for it, ``difflib`` compares what is short, as its time grows with the square
of the length; a longer stretch is replaced as a whole: right, if not minimal.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    Keys = tuple[str, ...]

MOST_PAIRS = 1 << 14
"""Pairs of lines that ``difflib`` may compare between two anchors."""
STEPS = 16
"""Pairs of lines, for each line between two anchors, that may be compared to find the fewest that differ."""
CONTEXT = 3
"""Equal lines that are shown before and after each difference."""


class DifferingBlock(NamedTuple):
    """Lines ``old`` to ``old_end`` became ``new`` to ``new_end``; both counted from 0."""

    old: int
    old_end: int
    new: int
    new_end: int


class Unified(NamedTuple):
    """A unified difference: lines with their hunks' headers, and how many came and went."""

    lines: tuple[str, ...]
    added: int
    gone: int


def unified(old: str, new: str, old_first: int = 1, new_first: int = 1) -> Unified:
    r"""The unified difference of two texts.

    >>> unified("a\nb", "a\nc").lines
    ('@@ -1,2 +1,2 @@', ' a', '-b', '+c')
    """
    was, now = old.split("\n"), new.split("\n")
    blocks = differing(was, now)
    lines: list[str] = []
    for hunk in _hunks(blocks):
        lines += _hunk(hunk, was, now, old_first, new_first)
    added = sum(block.new_end - block.new for block in blocks)
    return Unified(tuple(lines), added, sum(block.old_end - block.old for block in blocks))


def differing(was: Sequence[str], now: Sequence[str]) -> list[DifferingBlock]:
    """The blocks of lines that differ, in order."""
    blocks: list[DifferingBlock] = []
    old = new = 0
    for old_at, new_at in [*_anchors(was, now), (len(was), len(now))]:
        blocks += _between(was, now, DifferingBlock(old, old_at, new, new_at))
        old, new = old_at + 1, new_at + 1
    return blocks


def _anchors(was: Sequence[str], now: Sequence[str]) -> list[tuple[int, int]]:
    """Places of lines that are unique in both texts: the longest sequence that is in order in both."""
    places = {line: at for at, line in enumerate(now)}
    once = [{line for line, count in Counter(text).items() if count == 1} for text in (was, now)]
    pairs = [(at, places[line]) for at, line in enumerate(was) if line in once[0] and line in once[1]]
    ends: list[int] = []  # of the sequences of each length, the least last place
    last: list[int] = []  # the pair at that place
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        at = bisect_left(ends, place)
        before.append(last[at - 1] if at else -1)
        ends[at : at + 1], last[at : at + 1] = [place], [number]
    chain = []
    number = last[-1] if last else -1
    while number >= 0:
        chain.append(pairs[number])
        number = before[number]
    return chain[::-1]


def _between(was: Sequence[str], now: Sequence[str], gap: DifferingBlock) -> Iterator[DifferingBlock]:
    """The blocks that differ between two anchors."""
    old, old_end, new, new_end = gap
    while old < old_end and new < new_end and was[old] == now[new]:
        old, new = old + 1, new + 1
    while old < old_end and new < new_end and was[old_end - 1] == now[new_end - 1]:
        old_end, new_end = old_end - 1, new_end - 1
    if old == old_end and new == new_end:
        return
    fewest = _fewest(was[old:old_end], now[new:new_end])
    if fewest is not None:
        yield from (
            DifferingBlock(old + block.old, old + block.old_end, new + block.new, new + block.new_end)
            for block in fewest
        )
        return
    if (old_end - old) * (new_end - new) > MOST_PAIRS:
        yield DifferingBlock(old, old_end, new, new_end)
        return
    matcher = SequenceMatcher(None, was[old:old_end], now[new:new_end], autojunk=False)
    for tag, low, high, new_low, new_high in matcher.get_opcodes():
        if tag != "equal":
            yield DifferingBlock(old + low, old + high, new + new_low, new + new_high)


def _fewest(was: Sequence[str], now: Sequence[str]) -> list[DifferingBlock] | None:
    """The blocks with the fewest lines that differ; None if finding them takes too long.

    E. W. Myers, "An O(ND) Difference Algorithm and Its Variations" (1986): of the paths with ``edits`` lines
    that differ, the one that leads farthest on each diagonal ``old - new``.
    """
    left = STEPS * (len(was) + len(now))
    farthest = {1: 0}
    before: list[dict[int, int]] = []
    for edits in range(len(was) + len(now) + 1):
        before.append(farthest)
        farthest = {}
        for diagonal in range(-edits, edits + 1, 2):
            old = begun = _stepped(before[-1], diagonal)
            while old < len(was) and old - diagonal < len(now) and was[old] == now[old - diagonal]:
                old += 1
            left -= old - begun + 1
            if old >= len(was) and old - diagonal >= len(now):
                return _blocks_back(before, len(was), len(now))
            farthest[diagonal] = old
        if left < 0:
            return None
    return None


def _stepped(farthest: Mapping[int, int], diagonal: int) -> int:
    """The old line after one more that differs: one that came from the diagonal above, or went from below."""
    return max(farthest.get(diagonal + 1, -1), farthest.get(diagonal - 1, -2) + 1)


def _blocks_back(before: list[dict[int, int]], old: int, new: int) -> list[DifferingBlock]:
    """The blocks on the path to the ends, from the farthest places with each number of lines that differ."""
    blocks: list[DifferingBlock] = []
    for farthest in before[:0:-1]:
        diagonal = old - new
        to_old = _stepped(farthest, diagonal)
        to_new = to_old - diagonal
        went = to_old == farthest.get(diagonal - 1, -2) + 1 and to_old > farthest.get(diagonal + 1, -1)
        from_old, from_new = (to_old - 1, to_new) if went else (to_old, to_new - 1)
        if blocks and (blocks[-1].old, blocks[-1].new) == (to_old, to_new):
            last = blocks.pop()
            blocks.append(DifferingBlock(from_old, last.old_end, from_new, last.new_end))
        else:
            blocks.append(DifferingBlock(from_old, to_old, from_new, to_new))
        old, new = from_old, from_new
    return blocks[::-1]


def _hunks(blocks: Sequence[DifferingBlock]) -> Iterator[list[DifferingBlock]]:
    """Blocks whose context touches belong together."""
    hunk: list[DifferingBlock] = []
    for block in blocks:
        if hunk and block.old - hunk[-1].old_end > 2 * CONTEXT:
            yield hunk
            hunk = []
        hunk.append(block)
    if hunk:
        yield hunk


def _hunk(
    blocks: Sequence[DifferingBlock], was: Sequence[str], now: Sequence[str], old_first: int, new_first: int
) -> Iterator[str]:
    first, last = blocks[0], blocks[-1]
    before = min(CONTEXT, first.old, first.new)
    after = min(CONTEXT, len(was) - last.old_end, len(now) - last.new_end)
    start, end = first.old - before, last.old_end + after
    new_start, new_end = first.new - before, last.new_end + after
    old_span = f"{start + old_first},{end - start}"
    yield f"@@ -{old_span} +{new_start + new_first},{new_end - new_start} @@"
    at = start
    for block in blocks:
        yield from (f" {line}" for line in was[at : block.old])
        yield from (f"-{line}" for line in was[block.old : block.old_end])
        yield from (f"+{line}" for line in now[block.new : block.new_end])
        at = block.old_end
    yield from (f" {line}" for line in was[at:end])


def aligned(was: Sequence[str], now: Sequence[str]) -> tuple[list[tuple[int, int]], list[DifferingBlock]]:
    """The places of equal keys that are paired, and the blocks between them.

    >>> aligned("abc", "axbc")
    ([(0, 0), (1, 2), (2, 3)], [DifferingBlock(old=1, old_end=1, new=1, new_end=2)])
    """
    blocks = differing(was, now)
    pairs: list[tuple[int, int]] = []
    old = new = 0
    for block in [*blocks, DifferingBlock(len(was), len(was), len(now), len(now))]:
        pairs += zip(range(old, block.old), range(new, block.new), strict=True)
        old, new = block.old_end, block.new_end
    return pairs, blocks


def paired(was: Sequence[Keys], now: Sequence[Keys]) -> Iterator[tuple[int, int]]:
    """The places that belong together in two sequences whose parts have several keys, the finest first.

    Parts of equal finest keys are paired; between them, those of equal keys of the next kind, and so on; and
    between these, as many as there are on both sides.
    """
    depth = min(map(len, (*was, *now)), default=0)
    waiting = [(0, DifferingBlock(0, len(was), 0, len(now)))]
    while waiting:
        level, (old, old_end, new, new_end) = waiting.pop()
        if level < depth:
            keys = (
                [levels[level] for levels in was[old:old_end]],
                [levels[level] for levels in now[new:new_end]],
            )
            pairs, blocks = aligned(*keys)
            yield from ((old + old_at, new + new_at) for old_at, new_at in pairs)
            waiting += [
                (
                    level + 1,
                    DifferingBlock(old + gap.old, old + gap.old_end, new + gap.new, new + gap.new_end),
                )
                for gap in blocks
            ]
        elif old_end - old == new_end - new:
            yield from zip(range(old, old_end), range(new, new_end), strict=True)
