"""The lines of a log, read with lookahead."""

from __future__ import annotations

import re
from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from archive.failures.log.cut_lines import whole_lines
from archive.failures.log.log_line import LogLine
from archive.failures.log.recoding import Latin
from archive.failures.log.sieve import lines_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

MAX_LINE = 1 << 20
"""Bytes; a longer line is cut in pieces, so any input needs little memory."""
MAX_AHEAD = 8 << 20
"""Bytes of lines that are read ahead."""
CHUNK = 1 << 16
"""Bytes that are split into lines at once."""
# One that isn't closed reaches to the end, so a line is read only once.
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:(?P<closed>")|\\?\Z)', re.DOTALL)
IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+(?P<closed>"?)', re.DOTALL)


class Lines:
    """Reads a log line by line.

    Args:
        log: the log, in lines or any other pieces. An empty piece is a pause: no more arrived for a while.
        loud: gives places in whole lines, at least one in each that is to be taken alone: the others stay as
            they are, and say nothing of others. Without it each line is taken alone.
    """

    def __init__(self, log: Iterable[bytes], loud: Callable[[bytes], Iterable[int]] | None = None) -> None:
        self._lines = whole_lines(Splitter(loud).lines(log))
        self._latin = Latin()
        self._ahead: deque[LogLine] = deque()
        self._size = 0
        self._is_paused = False
        self._quiet: LogLine | None = None
        self._passed = 0

    def peek(self, at: int, *, is_patient: bool = True) -> LogLine | None:
        """A line without taking it.

        Args:
            at: how many lines after the next one it is.

        Returns:
            None past the last line, past too many bytes, or in a pause.
        """
        while len(self._ahead) <= at and self._size <= MAX_AHEAD and (is_patient or not self._is_paused):
            line = self._next()
            if line is None:
                return None
            self._is_paused = not line.data
            if line.data:
                self._ahead.append(line)
                self._size += len(line.data)
        return self._ahead[at] if at < len(self._ahead) else None

    def ahead(self, at: int, most: int) -> Iterator[LogLine]:
        """Some lines of those that were read ahead."""
        return islice(self._ahead, at, at + most)

    def _next(self) -> LogLine | None:
        """The next line that was not read ahead; the first one left where quiet ones are together."""
        if self._quiet is None:
            line = next(self._lines, None)
            if line is None or line.count == 1:
                return line and self._latin.read(line)
            self._quiet, self._passed = line, 0
        quiet, start = self._quiet, self._passed
        self._passed = quiet.data.index(b"\n", start) + 1
        line = LogLine(quiet.data[start : self._passed], quiet.number)
        quiet.number += 1
        quiet.count -= 1
        if not quiet.count:
            self._quiet = None
        return self._latin.read(line)

    def take(self) -> LogLine | None:
        """Take the next line, or several that are quiet; None past the last one."""
        if not self._ahead and (quiet := self._quiet) is not None:
            self._quiet = None
            rest = LogLine(quiet.data[self._passed :], quiet.number, count=quiet.count)
            self._latin.pass_by(rest)
            return rest
        while not self._ahead:
            line = next(self._lines, None)
            self._is_paused = line is not None and not line.data
            if line is None:
                return None
            if line.count > 1:
                self._latin.pass_by(line)
                return line
            if not self._is_paused:
                return self._latin.read(line)
        line = self._ahead.popleft()
        self._size -= len(line.data)
        return line


class InnerLines(Lines):
    """The lines of a text inside a line of a log; each has that line's number."""

    def __init__(self, text: bytes, number: int) -> None:
        super().__init__([text])
        self._lines = map(self._numbered, self._lines)
        self._number = number

    def _numbered(self, line: LogLine) -> LogLine:
        line.number = self._number
        return line


class Splitter:
    """Splits a log into lines. A long one is cut in pieces, where possible not within a string."""

    def __init__(self, loud: Callable[[bytes], Iterable[int]] | None) -> None:
        self._number = 1
        self._loud = loud
        self._rest = bytearray()
        self._is_cut = False
        self._is_in_string = False

    def lines(self, log: Iterable[bytes]) -> Iterator[LogLine]:
        """The lines of a log, and its pauses."""
        for piece in log:
            if not piece:
                yield LogLine(b"", self._number)
            for start in range(0, len(piece), CHUNK):
                chunk = piece[start : start + CHUNK]
                stop = chunk.rfind(b"\n") + 1
                first = chunk.find(b"\n") + 1 if self._rest or self._is_cut else 0
                if first:
                    yield from self._ended(chunk[:first])
                yield from self._whole(chunk[first:stop])
                self._rest += chunk[stop:]
                while len(self._rest) > MAX_LINE:
                    stop = self._stop()
                    yield LogLine(bytes(self._rest[:stop]), self._number, is_whole=False)
                    del self._rest[:stop]
                    self._is_cut = True
        if self._rest:
            yield from self._ended(b"")

    def _whole(self, lines: bytes) -> Iterator[LogLine]:
        """Whole lines, with quiet ones together."""
        if self._loud is None:
            for line in lines.split(b"\n")[:-1]:
                yield from self._ended(line + b"\n")
            return
        start = 0
        for place in sorted(self._loud(lines)):
            if place >= start:
                first = lines.rfind(b"\n", start, place) + 1 or start
                if first > start:
                    yield self._quiet(lines[start:first])
                start = lines.index(b"\n", place) + 1
                yield from self._ended(lines[first:start])
        if start < len(lines):
            yield self._quiet(lines[start:])

    def _quiet(self, lines: bytes) -> LogLine:
        quiet = LogLine(lines, self._number, count=lines_in(lines))
        self._number += quiet.count
        return quiet

    def _ended(self, end: bytes) -> Iterator[LogLine]:
        """The line with this end, or its last pieces."""
        data = bytes(self._rest) + end if self._rest else end
        self._rest.clear()
        if self._is_in_string:
            stop = _inside(data).end()
            yield LogLine(data[:stop], self._number, is_whole=False)
            data = data[stop:]
        if data:
            yield LogLine(data, self._number, is_whole=not self._is_cut)
        self._number += 1
        self._is_cut = self._is_in_string = False

    def _stop(self) -> int:
        """The end of the next piece: before a string that is still open, unless that itself is too long."""
        start = 0
        if not self._is_in_string:
            string = None
            for string in STRING.finditer(self._rest):  # noqa: B007 (the last one)
                pass
            if string is None or string["closed"]:
                return len(self._rest)
            start = string.start()
            if start:
                return start
            start = 1
        inside = _inside(self._rest, start)
        self._is_in_string = not inside["closed"]
        return inside.end()


def _inside(data: bytes | bytearray, start: int = 0) -> re.Match[bytes]:
    """The rest of a string whose beginning is missing, with its closing quote if it has one."""
    match = IN_STRING.match(data, start)
    assert match is not None  # noqa: S101 (it matches anything)
    return match
