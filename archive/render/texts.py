"""Foreign names and long lists → text that can be printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_ITEMS = 8
"""Items of a list that are printed; the others are counted."""


def first_of(items: Sequence[str], what: str) -> str:
    """The first items of a list, and the number of further ones.

    Args:
        what: the name of the items, in the plural.
    """
    more = len(items) - MAX_ITEMS
    return ", ".join(items[:MAX_ITEMS]) + (f" [{more} more {what}]" if more > 0 else "")


def share(part: int, whole: int) -> str:
    """A part as percent of the whole; nothing where that is empty."""
    return f"{part / whole:.1%}" if whole else ""


def runs(numbers: Sequence[int]) -> str:
    """Numbers in order, neighbours as runs.

    >>> runs([7, 0, 1, 2, 3, 4])
    '0-4, 7'
    """
    ordered = sorted(set(numbers))
    joined: list[list[int]] = []
    for number in ordered:
        if joined and number == joined[-1][1] + 1:
            joined[-1][1] = number
        else:
            joined.append([number, number])
    return first_of([f"{low}" if low == high else f"{low}-{high}" for low, high in joined], "runs")
