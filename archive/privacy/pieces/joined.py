"""Many texts as one, so that a search goes through all of them at once."""

from __future__ import annotations

from bisect import bisect_right
from functools import cached_property
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.base.columns import Ints


class Joined:
    """Consecutive texts, with a seam between any two.

    Attributes:
        texts: as given.
        data: all of them.
    """

    def __init__(self, texts: Sequence[bytes], seam: bytes) -> None:
        self.texts = texts
        self.data = seam.join(texts)
        self._seam = len(seam)

    @cached_property
    def _starts(self) -> list[int]:
        """Where each text begins, and where another would."""
        return [0, *accumulate(len(text) + self._seam for text in self.texts)]

    def number(self, position: int) -> int:
        """The number of the text that a position is in, or, in a seam, of the one before."""
        return bisect_right(self._starts, position) - 1

    def numbers(self, positions: Sequence[int]) -> Ints:
        """The numbers of the texts that some positions are in."""
        numbers: Ints = np.searchsorted(self._starts_in_column, positions, "right") - 1
        return numbers

    @cached_property
    def _starts_in_column(self) -> Ints:
        return np.array(self._starts, np.int64)

    def place(self, position: int) -> tuple[int, int]:
        """The same number, and the position in that text."""
        number = self.number(position)
        return number, position - self._starts[number]
