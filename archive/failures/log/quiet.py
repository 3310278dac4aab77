"""Text of a log in which no failure can begin: almost all of it. It passes unread.

A failure's first line has one of a few words (``marks``), as they are or in an encoding that changes them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.failures.log.marks import LISTED, MARKS, OTHER_WORDS, WORDS, begins
from archive.failures.log.sieve import LEAST, Sieve

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

CUT = (b"stdout P", b"stderr P")
"""A piece of a line, as Kubernetes' runtimes write it."""
STREAM = b'","stream":'
"""Follows the text of a line as Docker writes it; the text ends with a line end unless it is a piece."""
DOCKER_PIECE = re.compile(rb'(?<!\\n)","stream":|\\\\n","stream":')
SIEVE = Sieve([*(mark.sought or mark.words for mark in MARKS), LISTED, (*CUT, STREAM)])
NUMBERED = range(len(MARKS))
IN_LIST, IN_PIECES = 1 << len(MARKS), 2 << len(MARKS)
"""The groups of the sieve after those of the marks."""


def is_quiet(lines: bytes) -> bool:
    """Whether no failure begins in whole lines, and a container runtime cut none of them."""
    return next(loud_places(lines), None) is None


def loud_places(lines: bytes) -> Iterator[int]:
    """Places in whole lines: at least one in each line in which a failure may begin, or that may be cut."""
    if len(lines) < LEAST:
        numbers: Sequence[int] = NUMBERED if any(word in lines for word in WORDS) else ()
        pieces = may_be_cut(lines)
    else:
        found = SIEVE.found_in(lines)
        if not found:
            return
        numbers = _sought(found)
        pieces = bool(found & IN_PIECES) and may_be_cut(lines)
    for number in numbers:
        if begins(lines, number):
            yield from _beginnings(lines, number)
    if pieces:
        for word in CUT:
            yield from _lines_with(lines, word)
        yield from (match.start() for match in DOCKER_PIECE.finditer(lines))


def _sought(found: int) -> list[int]:
    """The marks of which the sieve has found words."""
    return [at for at in NUMBERED if found >> at & 1 or (found & IN_LIST and MARKS[at].listed)]


def _beginnings(lines: bytes, number: int) -> Iterator[int]:
    """A place in each line in which a failure with the mark of a number may begin."""
    mark = MARKS[number]
    literals = {literal for way in OTHER_WORDS[number] for literal in way.literals}
    for word in {*mark.printed, *literals}:
        for place in _lines_with(lines, word):
            start = lines.rfind(b"\n", 0, place) + 1
            if begins(lines[start : _end(lines, place)], number):
                yield place


def _lines_with(lines: bytes, word: bytes) -> Iterator[int]:
    """The first place of a word in each line that has it."""
    place = lines.find(word)
    while place >= 0:
        yield place
        place = lines.find(word, _end(lines, place))


def _end(lines: bytes, place: int) -> int:
    end = lines.find(b"\n", place)
    return len(lines) if end < 0 else end


def may_be_cut(lines: bytes) -> bool:
    """Whether lines may have pieces that later ones continue, as a container runtime wrote them.

    Kubernetes' have ``P`` after stdout or stderr; Docker's have no line end in the text before that.
    """
    if b"std" not in lines:  # spares most logs the rest
        return False
    if any(word in lines for word in CUT):
        return True
    ends = lines.count(STREAM)
    return ends > 0 and (ends != lines.count(b'\\n","stream":') or b'\\\\n","stream":' in lines)


def has_failure(text: bytes) -> bool:
    """Whether a failure may begin in a text."""
    if len(text) >= LEAST:
        found = SIEVE.found_in(text)
        return found != 0 and any(begins(text, number) for number in _sought(found))
    for word in WORDS:  # any() takes twice as long on a line
        if word in text:
            return any(begins(text, number) for number in NUMBERED)
    return False
