"""What a logger writes before each line: the same on all lines of a process, but for times and levels."""

from __future__ import annotations

import re
from typing import NamedTuple

MONTH = rb"(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
CLOCK = rb"\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z| ?[+-]\d\d:?\d\d(?!\d))?"
DATE = (
    rb"(?:\d{4}[-/]\d\d[-/]\d\d[T ]|\d\d-\d\d |(?<!\d)\d{4} |"
    + MONTH
    + rb" [ \d]\d |\d\d/"
    + MONTH
    + rb"/\d{4}:)"
)
# Seconds since 1970, and parts of them; the kernel's seconds since its start; journald's counters.
EPOCH = rb"(?<!\d)1\d{9}(?:\.\d{1,9}|\d{3}|\d{6}|\d{9})?(?!\d)"
UPTIME = rb"\[ *\d{1,9}\.\d{6}\]"
SEQUENCE = rb'"_\w*(?:MONOTONIC_TIMESTAMP|SEQNUM)": ?"\d+"'
CURSOR = rb"s=[0-9a-f]{32};i=[0-9a-f]+;b=[0-9a-f]{32};m=[0-9a-f]+;t=[0-9a-f]+;x=[0-9a-f]+"
WORD = rb"TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERR(?:OR)?|CRIT(?:ICAL)?|FATAL"
LEVEL = rb"\b(?:(?:" + WORD + rb")\b *|[VDIWEF](?=[ /]|\d{4} ))"
TIMES = re.compile(rb"|".join((DATE + CLOCK, CLOCK, CURSOR, SEQUENCE, EPOCH, UPTIME, LEVEL)))
"""What differs between lines of one process."""
NUMBERS = re.compile(TIMES.pattern + rb"| *\d+")
"""The same where lines are numbered, too."""


class Shape(NamedTuple):
    """A text in which some places differ from line to line.

    Attributes:
        literals: the text between these places.
        varying: what stands at these places.
    """

    literals: tuple[bytes, ...]
    varying: re.Pattern[bytes]

    def end(self, line: bytes, at: int = 0) -> int:
        """Where the shape ends, if a line has it at this byte; else -1."""
        first, *others = self.literals
        if not line.startswith(first, at):
            return -1
        at += len(first)
        for literal in others:
            place = self.varying.match(line, at)
            if place is None or not line.startswith(literal, place.end()):
                return -1
            at = place.end() + len(literal)
        return at


def shape_of(text: bytes, varying: re.Pattern[bytes] = TIMES) -> Shape:
    """The shape of a text."""
    return Shape(tuple(varying.split(text)), varying)
