"""The notes about failures that a log's explanation leaves out, or is not certain of."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from archive.base.errors import LimitError
    from archive.base.spending import Spending

MAX_NOTES = 100
MAX_NOTE = 500
"""Characters of a note."""
EXPLAINED_BY = ("output", "work")
"""The bounds beyond which a failure stays unexplained; the log goes on."""


class Notes:
    """The notes about a log's failures: each once, with the number of its first line.

    Args:
        spending: counts the bytes of all explanations.
    """

    def __init__(self, spending: Spending) -> None:
        self._spending = spending
        self._counts: dict[str, tuple[int, int]] = {}
        self._more = 0
        self._left_out = 0

    @property
    def texts(self) -> list[str]:
        """The notes as they are printed; the last ones tell how many failures are not noted one by one."""
        texts = [
            f"line {line}: {note}" + (f" ({count} times)" if count > 1 else "")
            for note, (line, count) in self._counts.items()
        ]
        if self._more:
            texts.append(f"{self._more} more such failures")
        if self._left_out:
            failures = "1 failure" if self._left_out == 1 else f"{self._left_out} failures"
            why = f"the explanations would exceed {self._spending.most_output:,} bytes"
            texts.append(f"{failures} left unexplained: {why}; --limit output=… allows more")
        return texts

    def add(self, line: int, note: str) -> None:
        """Count a note; of more than 100 different ones only the number is kept."""
        note = note[:MAX_NOTE]
        first, count = self._counts.get(note, (line, 0))
        if count or len(self._counts) < MAX_NOTES:
            self._counts[note] = (first, count + 1)
        else:
            self._more += 1

    def may_write(self, size: int) -> bool:
        """Whether an explanation of so many bytes may be written; counted if not."""
        allowed = self._spending.write(size)
        self._left_out += not allowed
        return allowed


def why_left(error: LimitError) -> str:
    """A note about a failure that is left unexplained.

    Raises:
        LimitError: the error, where its bound is none of explanations.
    """
    if error.resource not in EXPLAINED_BY:
        raise error
    what = "the explanation would be too long" if error.resource == "output" else "too many steps"
    return f"left unexplained: {what}; --limit {error.resource}=… allows more"
