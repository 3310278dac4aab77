"""Patterns that a user gives for lines of a log: strangers may have written the lines."""

from __future__ import annotations

import re
from time import thread_time

from archive.base.errors import ArchiveError, shown

MAX_PATTERN = 1_000
"""Characters of a pattern."""
MAX_WRITTEN_OUT = 50_000
"""Steps of a pattern whose counts are written out, as ``regex`` does with them: 300 bytes each."""
COUNT = re.compile(rb"\{(\d*)(?:,(\d*))?\}")
BEHIND_GROUPS = b")}?*+"
"""What stands before the count of a group, or before the second count of anything."""
ESCAPED = rb"(?<!\\)(?:\\\\)*"
UNBOUNDED = {
    "a call of a group": re.compile(ESCAPED + rb"\(\?(?:R|&|P\s*[>&]|[-+]?\d)"),
    "an approximate match": re.compile(ESCAPED + rb"\{[\d<=+,]*[deis](?:[<=+,][\d<=+,deis]*)?[:}]"),
    "a pattern with comments, (?x),": re.compile(ESCAPED + rb"\(\?[A-Za-z\d]*x[A-Za-z\d]*[-:)]"),
}
"""What ``regex`` has and where no count tells the size: the stack of a search then grows without bound."""
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
        ArchiveError: it is no regular expression, or too long, written out or not.
    """

    def __init__(self, text: str) -> None:
        import regex  # noqa: PLC0415 (40 ms, for few)

        if len(text) > MAX_PATTERN:
            raise ArchiveError(f"a pattern of {len(text):,} characters; at most {MAX_PATTERN:,} are allowed")
        pattern = text.encode("utf-8", "surrogateescape")
        _check_size(pattern, shown(text))
        try:
            self._compiled = regex.compile(pattern)
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
        except MemoryError:
            why = f"the pattern {shown(self._text)} takes too much memory"
            raise ArchiveError(f"line {number}: {why}") from None
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


def _check_size(pattern: bytes, name: str) -> None:
    """Refuse a pattern that would be long once its counts are written out, before it is compiled.

    Counts of groups may stand in one another, those of single characters may not. So the product of the
    former, times the sum of the latter, is no less than the steps, wherever the groups begin and end.

    Raises:
        ArchiveError: it is, or has what has no bound.
    """
    for what, found in UNBOUNDED.items():
        if found.search(pattern):
            raise ArchiveError(f"the pattern {name} is not allowed: {what} has no bound")
    outer, inner = 1, len(pattern)
    for one in COUNT.finditer(pattern):
        count = max(int(one[1] or 0), int(one[2] or 0), 1)
        if pattern[: one.start()][-1:] in BEHIND_GROUPS:
            outer *= count
        else:
            inner += count
    if outer * inner > MAX_WRITTEN_OUT:
        why = f"with its counts written out it may have more than {MAX_WRITTEN_OUT:,} steps"
        raise ArchiveError(f"the pattern {name} is too large: {why}")
