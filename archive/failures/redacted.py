"""What PyTorch prints of redacted source, line for line in the place of what it prints of the original.

``redact`` leaves each range on its line, so PyTorch prints as many lines as before, except for markings below
blank lines, which it leaves out. What it prints of a redacted archive that is at hand is known to the byte
(:data:`EXACTLY`). This is known of any other redaction (:class:`Loosely`):

- a frame's first line has the same number and function, or its hash; the last part of the path, or ``?``;
- a line of source is the same, perhaps without its comment, or as many blanks; one if no range is on it.

Loggers may cut blanks off the ends of lines. A *sign* in a log shows that its source was redacted: a blank
frame, blanks in the place of a line, or another path of a file.
"""

from __future__ import annotations

import re
from enum import IntEnum
from itertools import takewhile
from typing import TYPE_CHECKING

from archive.companion.hashed_names import HASH
from archive.debuginfo import frames
from archive.debuginfo.frames import BYTES_CALL
from archive.debuginfo.sites import FX_FILE, NO_FILE, last_part
from archive.failures.failure import written
from archive.failures.hashed_words import unhashed
from archive.failures.messages import message_of
from archive.failures.printed import FRAME_HEADER, HEADING, NOT_CODE, ORIGINAL, RANGE_MARKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from archive.failures.log.streams import LogStream

HEADER = re.compile(b"(?:  )?" + frames.HEADING.encode())
"""A frame's first line; that of a trace of ``torch.export`` may have no indentation."""
GENERATED = re.compile(rb"%b\.\d+" % FX_FILE.encode())
MOST_SERIALIZED = 500
"""Lines of serialized code that are skipped to find the original."""
ABSOLUTE = re.compile(rb"[/\\]|[A-Za-z]:[/\\]|<")
"""Begins the paths in Python stacks, and names of generated code."""
MOST_ABOVE = 4
"""Lines from a frame's heading to its first marking: two of context, and the marked one."""
MOST_FRAMES, MOST_SHOWN = 16, 16
"""Frames, and lines of each, that are looked at."""


# --- lines


class Likeness:
    """Whether lines of a log stand for lines of a text: here, if they are the same."""

    def key(self, line: bytes) -> bytes:
        """The same for a line of the log and each first line of a text that it may stand for."""
        return line.rstrip()

    def named(self, text: bytes) -> bytes:
        """A text of the log, with the names that hashes stand for; unchanged here, as both have hashes."""
        return text

    def fits(self, shown: bytes, line: bytes) -> bool:
        """Whether a line of the log stands for a line of the text; it may lack blanks at its end."""
        return shown in (line, line.rstrip())

    def may_lack(self, line: bytes) -> bool:  # noqa: ARG002 (no line)
        """Whether a log may lack a line of the text."""
        return False


EXACTLY = Likeness()


class Loosely(Likeness):
    """Lines of a log may stand for those of the original in some redaction.

    Args:
        names: names by their hashes; none where they are not known.
    """

    def __init__(self, files: Collection[bytes], names: Mapping[bytes, bytes]) -> None:
        self._files, self._names = files, names

    def key(self, line: bytes) -> bytes:
        """Line and function of a file, or the line without blanks at its end."""
        header = _header(line)
        return line.rstrip() if header is None else self.named(line[header.end("file") :]).rstrip()

    def named(self, text: bytes) -> bytes:
        return unhashed(text, self._names)

    def fits(self, shown: bytes, line: bytes) -> bool:
        if shown in (line, line.rstrip()):
            return True
        if header := _header(line):
            logged = _header(shown)
            return (
                logged is not None
                and self.key(shown) == self.key(line)
                and self.fits_path(logged["file"], header["file"])
            )
        source = shown.rstrip()
        if not source:
            return len(shown) in (0, 1, len(line)) and not self.may_lack(line)
        return line.startswith(source) and line[len(source) :].lstrip().startswith(b"#")

    def may_lack(self, line: bytes) -> bool:
        """Whether a line is a marking: blanks have none below them."""
        return RANGE_MARKING.fullmatch(line) is not None

    def fits_path(self, shown: bytes, path: bytes) -> bool:
        """Whether a path may stand for another.

        A path that is the end of a path of the model stands only for that.
        """
        # Option `--ids anew` changes the numbers of generated code.
        is_generated = GENERATED.fullmatch(shown) and GENERATED.fullmatch(path)
        if shown in (path, NO_FILE) or _is_end(shown, path) or is_generated:
            return True
        return last_part(shown) == last_part(path) and not any(_is_end(shown, file) for file in self._files)


class LooselyTraced(Loosely):
    """The same for a node's stack trace, which omits lines of code rather than having blank ones."""

    def fits(self, shown: bytes, line: bytes) -> bool:
        return shown == line or (bool(shown.strip()) and super().fits(shown, line))

    def may_lack(self, line: bytes) -> bool:
        """Whether a line names no file."""
        return _header(line) is None


def _header(line: bytes) -> re.Match[bytes] | None:
    """The parts of a line that names file, line and function; None for others."""
    return HEADER.fullmatch(line) or BYTES_CALL.fullmatch(line)


def _is_end(shown: bytes, path: bytes) -> bool:
    return path == shown or (path.endswith(shown) and path[-len(shown) - 1 : -len(shown)] in (b"/", b"\\"))


# --- tracebacks


class Sign(IntEnum):
    """A sign that source was redacted."""

    NONE = 0
    PARTLY = 1  # other paths, or blanks in the place of some lines
    BLANK = 2  # blanks in the place of all lines, so that none is marked


class RedactedTraceback:
    """Lines of a log that PyTorch printed of redacted source.

    Args:
        stream: the failure's lines.
        start: the first one of redacted source, from 0.
        stop: the one after the last.
        said: the message of the exception; "" where its line follows.

    Attributes:
        renamed: lines above in which hashes were replaced by names, by their place in ``stream``.
        hierarchy: the module hierarchy above; b"" where there is none, or it wasn't compared.
    """

    def __init__(self, stream: LogStream, start: int, stop: int, said: str = "") -> None:
        self.stream, self.start, self.stop, self.said = stream, start, stop, said
        self.renamed: Mapping[int, bytes] = {}
        self.hierarchy = b""

    is_cut_short = False

    @property
    def is_proof(self) -> bool:
        """Whether they or the hierarchy have hashes for names: no other redaction has the key."""
        lines = (self.stream.text(at) or b"" for at in range(self.start, self.stop))
        return bool(self.renamed) or any(map(HASH.search, (self.hierarchy, *lines)))

    @property
    def message(self) -> str:
        """The message of the exception."""
        return self.said or message_of(self.stream.text(self.stop, is_patient=False) or b"")

    def size(self, text: bytes) -> int:
        """The bytes that the original text takes in the log."""
        return len(text) + text.count(b"\n") * (self.stream.cost(self.start) - 1)

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The lines, with the original text in the place of the redacted one."""
        for at in range(self.start):
            yield written(self.stream, at, self.renamed)
        yield self.stream.written(self.start, text.removesuffix(b"\n"))
        yield from [b""] * (self.stop - self.start - 1)


def found_at(stream: LogStream, start: int, text: bytes, like: Likeness) -> RedactedTraceback | None:
    """The lines of a log that stand for a text; None where they do not.

    Args:
        start: the first one that may, from 0.
    """
    at = start
    for line in text.removesuffix(b"\n").split(b"\n"):
        logged = stream.text(at)
        if logged is not None and like.fits(logged, line):
            at += 1
        elif not like.may_lack(line):
            return None
    return RedactedTraceback(stream, start, at)


def sign_at(stream: LogStream, at: int, files: Collection[bytes]) -> Sign:
    """The sign of redaction in the first frames of a traceback of original code.

    Args:
        at: the first frame's heading, from 0.
        files: paths of the model's source files; none where they are not known.
    """
    call, sign = BYTES_CALL.fullmatch(stream.text(at) or b""), Sign.NONE
    if call and not ABSOLUTE.match(call["file"]):
        return Sign.PARTLY
    for _ in range(MOST_FRAMES):
        header = FRAME_HEADER.fullmatch(stream.text(at) or b"")
        if header is None:
            break
        below = (stream.text(at + 1 + place, is_patient=False) for place in range(MOST_SHOWN))
        shown = [*takewhile(lambda line: line is not None and not NOT_CODE.match(line), below)]
        sign = max(sign, _sign(header["file"], [line or b"" for line in shown], files))
        at += 1 + len(shown)
    return sign


def _sign(file: bytes, shown: Sequence[bytes], files: Collection[bytes]) -> Sign:
    """The sign of redaction in a frame of a file, by the lines below its heading."""
    near = shown[:MOST_ABOVE]
    if near and not near[0].strip() and not any(map(RANGE_MARKING.fullmatch, near)):
        return Sign.BLANK
    is_other = file not in files and last_part(file) in {NO_FILE, *map(last_part, files)}
    above = takewhile(lambda line: not RANGE_MARKING.fullmatch(line), near)
    has_blanks = any(line and not line.strip(b" ") for line in above)
    return Sign.PARTLY if has_blanks or (files and is_other) else Sign.NONE


def is_as_it_was(stream: LogStream, files: Collection[bytes]) -> bool:
    """Whether the original code of a traceback, after serialized code, has no sign of redaction.

    False where its heading isn't near: then the frames of serialized code lead there.

    Args:
        files: paths of the model's source files; none where they are not known.
    """
    for at in range(1, MOST_SERIALIZED):
        line = stream.text(at)
        if line is None or HEADING in line:
            is_heading = line is not None and line.endswith(ORIGINAL)
            return is_heading and sign_at(stream, at + 1, files) is Sign.NONE
    return False


def file_at(stream: LogStream, at: int) -> bytes:
    """The name of a frame's file, without folders; b"" where it names none."""
    header = FRAME_HEADER.fullmatch(stream.text(at) or b"")
    return last_part(header["file"]) if header else b""
