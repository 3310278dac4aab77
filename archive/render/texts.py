"""Foreign names and long lists → text that can be printed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base.errors import escape_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAX_ITEMS = 8
"""Items of a list that are printed; the others are counted."""
OBEYED = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
"""Categories of characters that a terminal obeys or does not show."""
_NOT_PLAIN = re.compile(r"[^\n\t -~]")


def for_terminal(text: str, escape: Callable[[str], str] = escape_of) -> str:
    r"""Text of several lines with escapes for every character that a terminal obeys or does not show.

    These are the Unicode categories of ``OBEYED``: C0 and C1 controls and DEL, overrides of the direction
    of writing, zero-width characters, separators of lines and paragraphs. Newline and tab stay.

    >>> print(for_terminal("a\x1b[2J\u202eb"))
    a\x1b[2J\u202eb

    Args:
        text: the text.
        escape: character → its escape.
    """
    import unicodedata  # noqa: PLC0415 (pipes and files do without)

    def escaped_character(match: re.Match[str]) -> str:
        character = match[0]
        return escape(character) if unicodedata.category(character) in OBEYED else character

    return _NOT_PLAIN.sub(escaped_character, text)


def first_of(items: Sequence[str], what: str) -> str:
    """The first items of a list, and the number of further ones.

    Args:
        items: the items as text.
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
