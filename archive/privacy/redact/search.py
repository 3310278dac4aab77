"""Many texts are looked for in bytes at once, in columns.

A text of 15 bytes or more has 8 bytes that begin at a multiple of 8, wherever it stands. So each eighth
place alone is looked up, in a table of the 8 bytes that begin at each text's first 8 places; what is in the
table is compared byte by byte. Shorter texts go by words of 4 and of 2 bytes in the same way.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.base.columns import Ints

WINDOW = 1 << 22
"""Bytes that are searched at once."""
WIDTHS = (8, 4, 2)
"""Bytes of words. A text is twice as long, less a byte, at least."""
SHORTEST = 2 * WIDTHS[-1] - 1
"""Bytes of the shortest text that can be looked for."""
LOAD = 8
"""Bytes that are compared at once, where a word was found."""
BITS = 20
MIX = np.uint64(0x9E3779B97F4A7C15)


class Search:
    """Finds texts.

    Args:
        texts: to look for, each of 3 bytes at least.
    """

    def __init__(self, texts: Iterable[bytes]) -> None:
        by_width: dict[int, list[bytes]] = defaultdict(list)
        for text in texts:
            by_width[next(width for width in WIDTHS if len(text) >= 2 * width - 1)].append(text)
        self._groups = [_Group(width, some) for width, some in by_width.items()]

    def found(self, data: memoryview) -> Iterator[tuple[int, bytes]]:
        """The texts that stand somewhere in some bytes, and where each begins."""
        padded = data if len(data) >= LOAD else memoryview(bytes(data) + bytes(LOAD - len(data)))
        for group in self._groups:
            for low in range(0, len(padded), WINDOW):
                for at in group.places(padded, low).tolist():
                    for text in group.at(data, at):
                        yield at, text


class _Group:
    """Texts that are found by words of one width.

    Args:
        width: bytes of a word.
        texts: of which none is shorter than twice that, less a byte.
    """

    def __init__(self, width: int, texts: list[bytes]) -> None:
        self._width = width
        self._type = np.dtype(f"<u{width}")
        self._head = min(LOAD, 2 * width - 1)
        self._texts = set(texts)
        self._lengths: dict[bytes, set[int]] = defaultdict(set)
        for text in texts:
            self._lengths[text[: self._head]].add(len(text))
        self._words, self._heads = _Table(), _Table()
        for shift in range(width):
            words = b"".join({text[shift : shift + width] for text in texts})
            self._words.add(np.frombuffer(words, self._type), 1 << shift)
        heads = b"".join(head + bytes(LOAD - self._head) for head in self._lengths)
        self._heads.add(np.frombuffer(heads, "<u8"), 1)

    def places(self, data: memoryview, low: int) -> Ints:
        """Where texts may begin whose first aligned word is in a window.

        Args:
            data: 8 bytes or more.
            low: the window's first byte.
        """
        width = self._width
        words = np.frombuffer(data, self._type, min(len(data) - low, WINDOW) // width, low)
        found, shifts = self._words.look_up(words)
        places = found * width + low
        starts = np.concatenate([places[shifts & 1 << shift > 0] - shift for shift in range(width)])
        starts = starts[(starts >= 0) & (starts + self._head <= len(data))]
        begun: Ints = starts[self._heads.look_up(self._loaded(data, starts))[0]]
        return begun

    def _loaded(self, data: memoryview, starts: Ints) -> np.ndarray:
        """The heads at some places, as numbers; bytes behind a head as 0."""
        last = len(data) - LOAD
        every = np.ndarray((last + 1,), "<u8", data, 0, (1,))
        behind = np.maximum(starts - last, 0)
        loaded = every[starts - behind] >> (8 * behind).astype(np.uint64)
        return loaded & np.uint64((1 << 8 * self._head) - 1)

    def at(self, data: memoryview, start: int) -> Iterator[bytes]:
        """The texts that begin at a byte."""
        for length in self._lengths.get(bytes(data[start : start + self._head]), ()):
            text = bytes(data[start : start + length])
            if text in self._texts:
                yield text


class _Table:
    """Bits for numbers; others have some by chance, few of them."""

    def __init__(self) -> None:
        self._bits = np.zeros((2, 1 << BITS), np.uint8)

    def add(self, numbers: np.ndarray, bits: int) -> None:
        """Give bits to some numbers."""
        for table, places in zip(self._bits, self._places(numbers), strict=True):
            table[places] |= np.uint8(bits)

    def look_up(self, numbers: np.ndarray) -> tuple[Ints, np.ndarray]:
        """The positions of numbers that have bits, and these."""
        found = np.flatnonzero(self._bits[0][_mixed(numbers) >> np.uint64(64 - BITS)])
        first, second = self._places(numbers[found])
        bits = self._bits[0][first] & self._bits[1][second]
        kept = bits != 0
        return found[kept], bits[kept]

    def _places(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Two places for each number."""
        mixed = _mixed(numbers)
        return mixed >> np.uint64(64 - BITS), mixed >> np.uint64(64 - 2 * BITS) & np.uint64((1 << BITS) - 1)


def _mixed(numbers: np.ndarray) -> np.ndarray:
    mixed: np.ndarray = numbers.astype(np.uint64) * MIX
    return mixed
