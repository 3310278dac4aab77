"""The test cases of a log: a report of tests shows one failure of a case more than once.

JUnit's XML has it as the message of ``<failure>``, as its text, and in what the test printed; pytest's report
on a terminal below the source, and in what the test printed. Both say where the next case begins. What a case
shows with the same cause is one failure.
"""

from __future__ import annotations

import re
from collections import deque

MARKS = (b"<testcase", b"</testsuite", b"___ ", b"=== ")
COLOURS = rb"^(?:\x1b\[[\d;]{0,9}m)*+"
BOUND = re.compile(
    rb"(?P<begins><testcase\b|%b___++ \S)|</testsuite\b|%b===++ \S" % (COLOURS, COLOURS), re.MULTILINE
)
"""Begins a test case, or ends the last one."""
FULL_REPORT = re.compile(rb"\[\+\d{1,9} more lines?; full report in element text\]")
"""Below a message that pytest has cut: all of it is the text of the element."""
MOST_WAITING = 1 << 20
"""Bytes of lines between two failures of one case."""
MOST_KEPT = 1_000
"""Failures of a case that are told apart."""


class TestCases:
    """The test case that a log is in, and what it has shown of it. Lines are looked at once one fails."""

    __test__ = False  # it is no test itself

    def __init__(self) -> None:
        self._shown: set[object] | None = None
        self._waiting = deque[bytes]()
        self._size = 0

    def saw(self, lines: bytes) -> None:
        """Note lines, whether they fail or not."""
        self._waiting.append(lines)
        self._size += len(lines)
        while self._size > MOST_WAITING and len(self._waiting) > 1:
            self._size -= len(self._waiting.popleft())
            self._shown = None  # nobody has looked for another case there

    @property
    def is_in_one(self) -> bool:
        """Whether the log is in a test case."""
        lines = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        if any(mark in lines for mark in MARKS):
            for bound in BOUND.finditer(lines):
                self._shown = set() if bound["begins"] else None
        return self._shown is not None

    def has_shown(self, *failures: object) -> bool:
        """Whether the test case has shown one of these before; all of them are noted."""
        if not self.is_in_one or self._shown is None:
            return False
        known = not self._shown.isdisjoint(failures)
        if len(self._shown) < MOST_KEPT:
            self._shown.update(failures)
        return known
