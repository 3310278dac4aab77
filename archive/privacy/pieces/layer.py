"""A layer: strings as they stand in some bytes, each once, with how often each one is there.

Where a string stands is looked up when asked for alone, as nearly all strings tell nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from archive.base.columns import Ints
    from archive.base.limits import Allowance

SHORTEST = 6
"""Bytes of a string between other bytes that may give something away."""
PART = 64
"""Bytes of memory that a string costs while it is one of many."""
KEPT = 260
"""The same of a string that is kept, with its count and its place."""

Outer = Callable[[int], int]
"""The byte of the record that a position in some bytes comes from."""


class Layer:
    """Strings of some bytes.

    Args:
        data: the bytes.
        counts: the strings as they stand there, and how often.
        outer: tells where ``data`` comes from.

    Attributes: as arguments.
    """

    def __init__(self, data: bytes, counts: Mapping[bytes, int], outer: Outer = int) -> None:
        self.data = data
        self.counts = counts
        self.outer = outer

    def decoded(self, raw: bytes) -> bytes:
        """The text that a string stands for."""
        return raw

    def place(self, raw: bytes, position: int) -> int:
        """The byte of the record that a position in a decoded string comes from, at the first such string."""
        return self.outer(self.first[raw] + self.shift(raw, position))

    @property
    def first(self) -> Mapping[bytes, int]:
        """Where each string begins that is there first."""
        raise NotImplementedError

    def shift(self, _raw: bytes, position: int) -> int:
        """Bytes before a position in a decoded string, as the string stands there."""
        return position


class Spans(Layer):
    """Strings that are stretches of some bytes.

    Args:
        data: the bytes.
        begins: where each string begins.
        ends: where each one ends.
        allowance: takes the memory that they cost.
        outer: tells where the bytes come from.

    Raises:
        LimitError: they would take more memory than allowed.
    """

    def __init__(self, data: bytes, begins: Ints, ends: Ints, allowance: Allowance, outer: Outer) -> None:
        places = begins.tolist()
        with allowance.lent(len(data) + PART * len(places), "strings of a record"):
            strings = [data[begin:end] for begin, end in zip(places, ends.tolist(), strict=True)]
            super().__init__(data, counted(strings, allowance), outer)
            self._first = dict(zip(reversed(strings), reversed(places), strict=True))

    @property
    def first(self) -> Mapping[bytes, int]:
        """Where each string begins that is there first."""
        return self._first


def counted(strings: Iterable[bytes], allowance: Allowance) -> dict[bytes, int]:
    """Each string once, and how often it is there.

    Raises:
        LimitError: they would take more memory than allowed.
    """
    counts = Counter(strings)
    counts.pop(b"", None)
    allowance.take(KEPT * len(counts), "distinct strings")
    return counts
