"""The time that a log gives a line, and counts over time in few intervals.

Times are the log's, no clock is asked: ``2026-11-27 04:20:09.123``, with ``T``, slashes, a comma, and a zone
or not (without one, UTC is assumed); ``11-27 04:20:09`` as logcat and ``Nov 27 04:20:09`` as syslog write it,
both without a year. In a log whose first time has a year, only such times count, and the other way round; but
a line that begins with a time of the other form is a line of another log, whose time it is. A time without a
year gets the year that brings it nearest to the time before: up to four months back, where logs of several
hosts are concatenated, or else later.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime
from itertools import islice
from math import ceil
from typing import TYPE_CHECKING, NamedTuple

from archive.failures.log.python_tracebacks import MOST_LINES, lines_of_traceback

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

FIRST_BYTES, LAST_BYTES = 512, 128
"""The parts of a line in which a time is looked for: Docker's JSON has it at the end."""
COLONS = 2
"""Of a clock."""
NEAREST = 8
"""Lines above a failure, or its Python traceback, in which its time is looked for."""
SHORT = 1 << 12
"""Bytes of these lines, if they are searched together before they are one by one."""
MOST_INTERVALS = 48
"""Intervals of a span in which failures are counted."""
LEAP_YEAR = 2000
"""The first year of a log that gives none."""
SECONDS_OF_YEAR = 366 * 86_400
"""Of each year of such a log."""
YEARS_TO_LEAP = 10
"""Among so many years in a row is at least one leap year that others follow."""
SECONDS_BACK = SECONDS_OF_YEAR // 3
"""How far a time without a year may be before the last one; one further back is in the next year."""
MONTHS = (b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec")
MONTH = b"(?:%b)" % b"|".join(MONTHS)
TIME_OF_DAY = rb"\d\d:\d\d:\d\d"
CLOCK = rb"(?P<clock>" + TIME_OF_DAY + rb")(?:[.,](?P<fraction>\d{1,9}))?"
WORD = re.compile(rb"\w")
SOME_CLOCK = re.compile(rb"\d:\d\d:\d\d")
WITH_YEAR = re.compile(
    rb"(?<!\d)(?P<year>\d{4})[-/](?P<month>\d\d)[-/](?P<day>\d\d)[T ]"
    + CLOCK
    + rb"(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
WITHOUT_YEAR = re.compile(
    rb"(?<![\d/-])(?:(?P<month>\d\d)-(?P<day>\d\d)|(?P<name>" + MONTH + rb") (?P<of_name>[ \d]\d)) " + CLOCK
)


class LogTime(NamedTuple):
    """A time in a log.

    Attributes:
        seconds: since 1970, in UTC; in a log without years, as if it began in a fixed one.
        text: as the log has it.
    """

    seconds: float
    text: str


class LogTimes:
    """Finds the times of lines: in the form of the first, or in the other one where a line begins so."""

    def __init__(self) -> None:
        self._form: re.Pattern[bytes] | None = None
        self._before: float | None = None
        self._is_dated = False

    def of(self, line: bytes, above: Iterable[bytes]) -> LogTime | None:
        """The time of a line in which a failure begins, or of the record that it stands in.

        That is the nearest line with a time above the line, or above its Python traceback.
        """
        others = list(islice(above, MOST_LINES + NEAREST))
        first = max(lines_of_traceback(others) - 1, 0)  # the heading may have the time
        lines = [line, *others[first : first + NEAREST]]
        together = b"\n".join(lines)
        if len(together) < SHORT and not SOME_CLOCK.search(together):
            return None
        for near in lines:
            time = self._in(near)
            if time is not None:
                return time
        return None

    def _in(self, line: bytes) -> LogTime | None:
        if line.count(b":") < COLONS:  # most lines: a search takes twenty times as long
            return None
        ends = line[:FIRST_BYTES], line[FIRST_BYTES:][-LAST_BYTES:]
        for end in filter(SOME_CLOCK.search, ends):
            for form in self._forms:
                match = form.search(end)
                is_other = form is not self._form and self._form is not None
                if match is None or (is_other and (end is not ends[0] or WORD.search(end, 0, match.start()))):
                    continue
                time = _time_of(match)
                if time is not None:
                    self._form = self._form or form
                    if form is WITH_YEAR and self._form is WITH_YEAR:
                        return self._dated(time)
                    return self._in_its_year(time._replace(seconds=_without_year(time.seconds)))
        return None

    @property
    def _forms(self) -> Sequence[re.Pattern[bytes]]:
        """The form of the log, and the other one."""
        return (WITHOUT_YEAR, WITH_YEAR) if self._form is WITHOUT_YEAR else (WITH_YEAR, WITHOUT_YEAR)

    def _dated(self, time: LogTime) -> LogTime:
        """A time with a year, from which the year of the next one without a year follows."""
        self._before, self._is_dated = time.seconds, True
        return time

    def _in_its_year(self, time: LogTime) -> LogTime:
        """A time without a year, in the year that follows from the time before."""
        if self._before is not None:
            earliest = self._before - SECONDS_BACK
            if self._is_dated:
                seconds = _in_calendar(time.seconds, earliest)
            else:
                seconds = time.seconds + ceil((earliest - time.seconds) / SECONDS_OF_YEAR) * SECONDS_OF_YEAR
            time = time._replace(seconds=seconds)
        self._before = time.seconds
        return time


def _without_year(seconds: float) -> float:
    """A moment in the first year of a log that gives none."""
    return datetime.fromtimestamp(seconds, UTC).replace(year=LEAP_YEAR).timestamp()


def _in_calendar(seconds: float, earliest: float) -> float:
    """The first moment from ``earliest`` on that has the month, day and clock of another year's moment."""
    moment = datetime.fromtimestamp(seconds, UTC)
    first = datetime.fromtimestamp(earliest, UTC).year
    for year in range(first, first + YEARS_TO_LEAP):
        with suppress(ValueError):  # only leap years have a 29th of February
            found = moment.replace(year=year).timestamp()
            if found >= earliest:
                return found
    return seconds


def _time_of(match: re.Match[bytes]) -> LogTime | None:
    """The time that a match says; None if the day or hour doesn't exist."""
    parts = match.groupdict()
    if parts.get("name"):
        month, day = 1 + MONTHS.index(parts["name"]), int(parts["of_name"])
    else:
        month, day = int(parts["month"]), int(parts["day"])
    hour, minute, second = map(int, parts["clock"].split(b":"))
    microseconds = int((parts["fraction"] or b"").ljust(6, b"0")[:6])
    try:
        year = int(parts.get("year", LEAP_YEAR))
        moment = datetime(year, month, day, hour, minute, second, microseconds, UTC)
    except ValueError:
        return None
    return LogTime(moment.timestamp() - _offset(parts.get("zone")), match[0].decode("ascii"))


def _offset(zone: bytes | None) -> int:
    """Seconds by which a zone is ahead of UTC."""
    if zone is None or zone == b"Z":
        return 0
    digits = zone[1:].replace(b":", b"")
    seconds = 3600 * int(digits[:2]) + 60 * int(digits[2:])
    return -seconds if zone.startswith(b"-") else seconds


class TimeCounts:
    """Counts in intervals of one span that all share: their width doubles as the span grows.

    Attributes:
        width: seconds of an interval.
    """

    def __init__(self) -> None:
        self.width = 1
        self._low = self._high = 0.0
        self._counts: list[dict[int, int]] = []

    def new(self) -> dict[int, int]:
        """The counts of one more thing: by the number of the interval, where they aren't 0."""
        counts: dict[int, int] = {}
        self._counts.append(counts)
        return counts

    def add(self, counts: dict[int, int], seconds: float) -> None:
        """Count something at a time."""
        if not any(self._counts):
            self._low = self._high = seconds
        self._low, self._high = min(self._low, seconds), max(self._high, seconds)
        while len(self._numbers) > MOST_INTERVALS:
            self.width *= 2
            for others in self._counts:
                _halve(others)
        number = int(seconds // self.width)
        counts[number] = counts.get(number, 0) + 1

    @property
    def _numbers(self) -> range:
        return range(int(self._low // self.width), int(self._high // self.width) + 1)

    def row(self, counts: dict[int, int]) -> list[int]:
        """The counts of one thing in all intervals of the span."""
        return [counts.get(number, 0) for number in self._numbers]


def _halve(counts: dict[int, int]) -> None:
    """Merge each two intervals into one."""
    old = list(counts.items())
    counts.clear()
    for number, count in old:
        counts[number // 2] = counts.get(number // 2, 0) + count
