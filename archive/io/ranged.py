"""The bytes of a file by place: a map, or a remote file of which only what is asked for is fetched.

A :class:`memoryview` has all bytes of a file at hand. :class:`RangedBytes` fetches them in blocks, and
returns the same slices. It never returns bytes that were not fetched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

BLOCK = 1 << 16
"""Fewest bytes that are fetched."""
KEPT = 1 << 25
"""Most bytes of blocks that are kept."""
AT_ONCE = 1 << 24
"""Most bytes of one request."""


class Bytes(Protocol):
    """The bytes of a file, read only: a ``memoryview``, or :class:`RangedBytes`."""

    def __len__(self) -> int: ...

    def __getitem__(self, places: slice, /) -> memoryview: ...

    def release(self) -> None:
        """Release them; slices stay valid."""


class RangedBytes:
    """The bytes of a file that is read by ranges, in blocks; the last used ones, ``kept`` bytes, stay."""

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        size: int,
        *,
        head: bytes = b"",
        block: int = BLOCK,
        kept: int = KEPT,
    ) -> None:
        self._read = read
        self._size = size
        self._block = block
        self._most = max(kept // block, 2)
        self._blocks: dict[int, memoryview] = {}
        """Blocks by number, in the order of their last use."""
        self._keep(0, head[: len(head) - len(head) % block] if len(head) < size else head)

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, places: slice, /) -> memoryview:
        """The bytes of a slice without a step. Slices within one block share its memory."""
        start, stop, _ = places.indices(self._size)
        if start >= stop:
            return memoryview(b"")
        first, last = start // self._block, (stop - 1) // self._block
        if last - first >= self._most // 2:
            return self._long(start, stop)
        numbers = range(first, last + 1)
        for number in numbers:  # the last used ones: none of them is evicted for the others
            if number in self._blocks:
                self._blocks[number] = self._blocks.pop(number)
        self._fetch([number for number in numbers if number not in self._blocks])
        blocks = [self._blocks[number] for number in numbers]
        low = first * self._block
        whole = blocks[0] if first == last else memoryview(b"".join(blocks))
        return whole[start - low : stop - low]

    def prefetch(self, spans: Iterable[tuple[int, int]]) -> None:
        """Fetch what will be asked for in few requests; at most half of what is kept."""
        most = self._most // 2
        wanted = {
            number
            for start, stop in spans
            if stop - start <= most * self._block
            for number in range(start // self._block, -(-min(stop, self._size) // self._block))
            if number not in self._blocks
        }
        self._fetch(sorted(wanted)[:most])

    def release(self) -> None:
        """Release all blocks; slices stay valid."""
        self._blocks.clear()

    def _long(self, start: int, stop: int) -> memoryview:
        """More bytes than are kept."""
        whole = bytearray(stop - start)
        for low in range(start, stop, AT_ONCE):
            high = min(low + AT_ONCE, stop)
            whole[low - start : high - start] = self._read(low, high)
        return memoryview(whole).toreadonly()

    def _fetch(self, numbers: list[int]) -> None:
        """Fetch blocks that are not kept, adjacent ones in one request."""
        for first, last in _runs(numbers, AT_ONCE // self._block):
            start, stop = first * self._block, min((last + 1) * self._block, self._size)
            self._keep(first, self._read(start, stop))

    def _keep(self, first: int, data: bytes) -> None:
        """Keep blocks, each in memory of its own, and forget the least recently used ones."""
        for at in range(0, len(data), self._block):
            self._blocks[first + at // self._block] = memoryview(data[at : at + self._block])
        for number in list(self._blocks)[: -self._most]:
            del self._blocks[number]


def _runs(numbers: list[int], most: int) -> Iterator[tuple[int, int]]:
    """Split ascending numbers into runs of at most ``most``, by first and last; a gap of one ends no run."""
    begin = 0
    for at, number in enumerate(numbers):
        following = numbers[at + 1] if at + 1 < len(numbers) else None
        if following is None or following > number + 2 or following - numbers[begin] >= most:
            yield numbers[begin], number
            begin = at + 1
