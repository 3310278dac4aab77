"""Failures of redacted archives: PyTorch explains them itself, by what is left of the source.

What PyTorch prints then stands for what it prints of the original, line for line: see ``redacted_lines``. A
log tells by a *sign* that its source was redacted: a frame that is blank, blanks in the place of a line, or
another path of a file.
"""

from __future__ import annotations

import re
from enum import IntEnum
from itertools import takewhile
from typing import TYPE_CHECKING

from archive.base.strings import decoded
from archive.failures.hashed_words import HASH
from archive.failures.redacted_lines import CALL, is_header, last_part
from archive.failures.tracebacks import FRAME_HEADER, NOT_CODE, RANGE_MARKING, written

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from archive.failures.redacted_lines import Likeness
    from archive.failures.streams import Stream

HIERARCHY = b"Module hierarchy:"
TOP = re.compile(rb"top\(([^)]*)\)")
"""Begins a hierarchy: the class of the top module."""
HEADED = 2
"""Lines between serialized and original code: an empty one, and a heading."""
HEADING = b"Traceback of TorchScript"
ORIGINAL = HEADING + b", original code (most recent call last):"
MOST_SERIALIZED = 500
"""Lines of serialized code that are passed over to its original."""
ABSOLUTE = re.compile(rb"[/\\]|[A-Za-z]:[/\\]|<")
"""Begins the paths that Python stacks have, and names of generated code."""
MOST_ABOVE = 4
"""Lines from a frame's first one to its first marking: two of context, and the marked one."""
MOST_FRAMES, MOST_SHOWN = 16, 16
"""Frames, and lines of each, that are looked at."""


class Sign(IntEnum):
    """A sign that source was redacted."""

    NONE = 0
    PARTLY = 1  # other paths, or blanks in the place of some lines
    BLANK = 2  # blanks in the place of all lines, so that none is marked


def may_begin(hierarchy: bytes, top: str) -> bool:
    """Whether a module hierarchy may be of a model with this top class: the same, or a hash."""
    found = TOP.match(hierarchy)
    return found is None or decoded(found[1]) == top or HASH.fullmatch(found[1]) is not None


class RedactedTraceback:
    """Lines of a log that PyTorch printed of redacted source.

    Args:
        stream: the failure's lines.
        start: the first one of redacted source, from 0.
        stop: the one behind the last.

    Attributes:
        renamed: lines above whose names were hashes, with their names, by their place in ``stream``.
    """

    def __init__(self, stream: Stream, start: int, stop: int) -> None:
        self.stream, self.start, self.stop = stream, start, stop
        self.renamed: Mapping[int, bytes] = {}

    @property
    def shows_code(self) -> bool:
        """Whether the log shows code of the model: a line of source, or a heading, behind generated code."""
        lines = (self.stream.text(at) or b"" for at in range(self.start, self.stop))
        return any(
            line.strip() and not is_header(line) and not RANGE_MARKING.fullmatch(line) for line in lines
        )

    def size(self, text: bytes) -> int:
        """The bytes that the original text has in the log."""
        return len(text) + text.count(b"\n") * (self.stream.cost(self.start) - 1)

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The lines, with the original text in the place of the redacted one."""
        for at in range(self.start):
            yield written(self.stream, at, self.renamed)
        yield self.stream.written(self.start, text.removesuffix(b"\n"))
        yield from [b""] * (self.stop - self.start - 1)


def found_at(stream: Stream, start: int, text: bytes, like: Likeness) -> RedactedTraceback | None:
    """The lines of a log that stand for a text; None where they do not.

    Args:
        stream: the lines.
        start: the first one that may, from 0.
        text: the text.
        like: tells whether a line stands for another one.
    """
    at = start
    for line in text.removesuffix(b"\n").split(b"\n"):
        logged = stream.text(at)
        if logged is not None and like.fits(logged, line):
            at += 1
        elif not like.may_lack(line):
            return None
    return RedactedTraceback(stream, start, at)


def sign_at(stream: Stream, at: int, files: Collection[bytes]) -> Sign:
    """The sign of redaction in the first frames of a traceback of original code.

    Args:
        stream: the lines.
        at: the first frame's first one, from 0.
        files: paths of the model's source files; none where they are not known.
    """
    call, found = CALL.fullmatch(stream.text(at) or b""), Sign.NONE
    if call and not ABSOLUTE.match(call["file"]):
        return Sign.PARTLY
    for _ in range(MOST_FRAMES):
        header = FRAME_HEADER.fullmatch(stream.text(at) or b"")
        if header is None:
            break
        below = (stream.text(at + 1 + place, is_patient=False) for place in range(MOST_SHOWN))
        shown = [*takewhile(lambda line: line is not None and not NOT_CODE.match(line), below)]
        found = max(found, _sign(header["file"], [line or b"" for line in shown], files))
        at += 1 + len(shown)
    return found


def _sign(file: bytes, shown: Sequence[bytes], files: Collection[bytes]) -> Sign:
    """The sign of redaction in a frame of a file, by the lines below its first one."""
    near = shown[:MOST_ABOVE]
    if near and not near[0].strip() and not any(map(RANGE_MARKING.fullmatch, near)):
        return Sign.BLANK
    is_other = file not in files and last_part(file) in {b"?", *map(last_part, files)}
    above = takewhile(lambda line: not RANGE_MARKING.fullmatch(line), near)
    has_blanks = any(line and not line.strip(b" ") for line in above)
    return Sign.PARTLY if has_blanks or (files and is_other) else Sign.NONE


def is_as_it_was(stream: Stream, files: Collection[bytes]) -> bool:
    """Whether the original code of a traceback, behind serialized code, bears no sign of redaction.

    False where its heading is not near: then the frames of serialized code lead there.

    Args:
        stream: the traceback's lines, its heading first.
        files: paths of the model's source files; none where they are not known.
    """
    for at in range(1, MOST_SERIALIZED):
        line = stream.text(at)
        if line is None or HEADING in line:
            is_heading = line is not None and line.endswith(ORIGINAL)
            return is_heading and sign_at(stream, at + 1, files) is Sign.NONE
    return False


def file_at(stream: Stream, at: int) -> bytes:
    """The name of the file that a frame is of, without folders; b"" where it names none."""
    found = FRAME_HEADER.fullmatch(stream.text(at) or b"")
    return last_part(found["file"]) if found else b""
