"""The strings of a text, each once: JSON repeats a stack trace at every node, and a search need not."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import accumulate

import numpy as np

SHORTEST = 4
"""Bytes of a string that may give something away."""


class Distinct:
    """The strings between the NULs of a text, each once, with NULs between them.

    Attributes:
        data: the strings.
    """

    def __init__(self, text: bytes) -> None:
        parts = text.split(b"\0")
        starts = np.flatnonzero(np.frombuffer(text, np.uint8) == 0) + 1
        first = dict(zip(reversed(parts), reversed([0, *starts.tolist()]), strict=True))
        kept = sorted((part for part in first if len(part) >= SHORTEST), key=first.__getitem__)
        counts = Counter(parts)
        self.data = b"\0".join(kept)
        self._at = [0, *accumulate(len(part) + 1 for part in kept)]
        self._first = [first[part] for part in kept]
        self._times = [counts[part] for part in kept]

    def source(self, position: int) -> tuple[int, int]:
        """The first place in the text of what stands at a position here, and how often it is there."""
        part = bisect_right(self._at, position) - 1
        return self._first[part] + position - self._at[part], self._times[part]
