"""Foreign names and long lists → text that can be printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.errors import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_ITEMS = 8
"""Items of a list that are printed; the others are counted."""


def escaped(text: str) -> str:
    """Text with escapes for surrogates, which stand for bytes that are not UTF-8, or for nothing."""
    try:
        data = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        data = text.encode("utf-8", "backslashreplace")
    return data.decode("utf-8", "backslashreplace")


def printable(text: str) -> str:
    """Foreign text on one line, without control characters that would move a terminal's cursor."""
    return one_line(escaped(text))


def first_of(items: Sequence[str], what: str) -> str:
    """The first items of a list, and the number of further ones.

    Args:
        items: the items as text.
        what: the name of the items, in the plural.
    """
    more = len(items) - MAX_ITEMS
    return ", ".join(items[:MAX_ITEMS]) + (f" [{more} more {what}]" if more > 0 else "")


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
    return first_of([f"{low}" if low == high else f"{low}-{high}" for low, high in found], "runs")
