"""Patterns that a user gives for lines of a log: strangers may have written the lines."""

from __future__ import annotations

from time import thread_time

from archive.base.errors import ArchiveError, shown

MAX_PATTERN = 1_000
"""Characters of a pattern."""
SLOW = 0.01
"""Seconds; a search that takes longer is counted."""
MOST_SLOW = 2.0
"""Seconds that all counted searches of a pattern may take."""


class Pattern:
    """A regular expression, whose searches take a bounded time.

    Python's own ``re`` cannot be stopped: ``(a|a)*$`` takes it years on a line of a hundred letters. The
    library ``regex`` reads the same patterns, and stops.

    Args:
        text: the pattern.

    Raises:
        ArchiveError: it is no regular expression, or too long.
    """

    def __init__(self, text: str) -> None:
        import regex  # noqa: PLC0415 (40 ms, for few)

        if len(text) > MAX_PATTERN:
            raise ArchiveError(f"a pattern of {len(text):,} characters; at most {MAX_PATTERN:,} are allowed")
        try:
            self._compiled = regex.compile(text.encode("utf-8", "surrogateescape"))
        except (regex.error, ValueError, OverflowError, RecursionError, MemoryError) as error:
            raise ArchiveError(f"{shown(text)} is no regular expression: {error}") from None
        self._text = text
        self._left = MOST_SLOW

    def found_in(self, line: bytes, number: int) -> bytes | None:
        """The first group of what is found in a line, or all of it without groups; None if nothing is found.

        Args:
            line: the line.
            number: its number.

        Raises:
            ArchiveError: searches took too long.
        """
        start = thread_time()
        try:
            found = self._compiled.search(line, timeout=self._left)
        except TimeoutError:
            raise self._too_slow(number) from None
        taken = thread_time() - start
        if taken > SLOW:
            self._left -= taken
            if self._left <= 0:
                raise self._too_slow(number)
        text: bytes | None = found and found[1 if self._compiled.groups else 0]
        return text

    def _too_slow(self, number: int) -> ArchiveError:
        why = "parts of it that match the same text in many ways take long; name what stands between them"
        return ArchiveError(f"line {number}: the pattern {shown(self._text)} takes too long: {why}")
