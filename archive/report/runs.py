"""Sorted numbers → runs of neighbours, in few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

SHOWN_RUNS = 8
"""Runs that are listed; the others are counted."""


def runs(numbers: Sequence[int]) -> str:
    """Numbers in order, neighbours as runs.

    >>> runs([7, 0, 1, 2, 3, 4])
    '0-4, 7'
    """
    ordered = sorted(set(numbers))
    found: list[list[int]] = []
    for number in ordered:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    words = [f"{low}" if low == high else f"{low}-{high}" for low, high in found]
    rest = len(words) - SHOWN_RUNS
    return ", ".join(words[:SHOWN_RUNS]) + (f" [{rest} more runs]" if rest > 0 else "")
