r"""Lines that a container runtime cut into pieces, whole again.

Runtimes cut a line that a process prints at 16 KB, or where it arrives in parts. Kubernetes' runtimes mark
each piece but the last with P, and the last with F; Docker's pieces have no line end in their text:

    2026-03-01T10:00:00.5Z stderr P Traceback of TorchScript (most recent ca
    2026-03-01T10:00:00.5Z stdout F GET /index.html
    2026-03-01T10:00:00.5Z stderr F ll last):

    {"log":"{\"msg\":\"Traceback of TorchScript (most rec","stream":"stderr","time":"2026-03-01T10:00:00.5Z"}
    {"log":"ent call last):\\n\"}\n","stream":"stderr","time":"2026-03-01T10:00:00.5Z"}

Pieces belong together if everything around their text but the time is the same; each process's output is one
stream, so only lines of others stand between its pieces. With several files, ``tail`` says in lines of its
own (``==> FILE <==``) which one goes on: only pieces of one file belong together. The whole line takes the
place of the first piece. If nothing in it changes, each piece is written where it was.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from archive.failures.log.log_line import MOST_BETWEEN, without_end
from archive.failures.log.quiet import has_failure, may_be_cut
from archive.failures.log.sieve import LEAST, may_have, pair

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from archive.failures.log.log_line import LogLine

MOST_BYTES = 1 << 20
"""Bytes of a line's pieces and the lines between them."""

CRI = re.compile(
    rb"(?P<head>.*?\d\d:\d\d:\d\d\S* (?:stdout|stderr) )(?P<tag>[PF])(?::\S*)?(?: (?P<text>.*))?", re.DOTALL
)
"""A line of Kubernetes' container runtimes."""
JSON_FILE = re.compile(
    rb'(?P<head>.*?\{"log":")(?P<text>[^"\\]*+(?:\\.[^"\\]*+)*+)'
    rb'(?P<tail>","stream":"std(?:out|err)".*)',
    re.DOTALL,
)
"""A line of Docker's driver json-file."""
LOG = b'"log":'
ENDED = re.compile(rb"(?<!\\)(?:\\\\)*\\n\Z")
"""A text of JSON that ends with a line end."""
FILE = re.compile(rb"^==> (.+) <==\r?$", re.MULTILINE)
"""The line before lines of another file, as ``tail`` prints it."""
NAMED = (pair(b"=="), pair(b"=>"))
"""One of these stands where pairs do, in lines with such a line."""
TIME = re.compile(rb'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[^ "]*')


class Piece(NamedTuple):
    """What a process printed, as a container runtime logs it: a line, or a piece of one.

    Attributes:
        head: what stands before the text of a whole line.
    """

    head: bytes
    text: bytes
    tail: bytes
    is_last: bool

    @classmethod
    def of(cls, line: bytes) -> Piece | None:
        """A line of the log as such a piece; None if a container runtime didn't write it."""
        data = without_end(line)
        if LOG in data and (match := JSON_FILE.fullmatch(data)):
            is_last = ENDED.search(match["text"]) is not None
            return cls(match["head"], match["text"], match["tail"] + line[len(data) :], is_last)
        if match := CRI.fullmatch(data):
            return cls(
                match["head"] + b"F ", match["text"] or b"", line[len(data) :], is_last=match["tag"] == b"F"
            )
        return None

    @property
    def stream(self) -> tuple[bytes, bytes]:
        """What is the same around all pieces of a line."""
        return TIME.sub(b"", self.head), TIME.sub(b"", self.tail.rstrip(b"\r\n"))


class CutLine:
    """A line of which some pieces have been read."""

    def __init__(self, first: LogLine, piece: Piece, stream: tuple[bytes, ...]) -> None:
        self.lines = [first]
        self.stream = stream
        self.is_open = True
        self._pieces = [piece]

    def add(self, line: LogLine, piece: Piece) -> None:
        """Add the next piece; with the last one, the first becomes the whole line."""
        line.output = line.data  # it is not looked at by itself
        self.lines.append(line)
        self._pieces.append(piece)
        if piece.is_last:
            self.is_open = False
            first, *others = self.lines
            first.cut_in = first.data, others
            first.data = self._pieces[0].head + self._text + piece.tail

    def give_up(self) -> None:
        """Leave the pieces as they are; the first one reports a failure that only the whole line has."""
        self.is_open = False
        for line in self.lines[1:]:
            line.output = None
        self.lines[0].is_torn = has_failure(self._text) and not any(
            has_failure(line.data) for line in self.lines
        )

    @property
    def _text(self) -> bytes:
        return b"".join(piece.text for piece in self._pieces)


def whole_lines(lines: Iterable[LogLine]) -> Iterator[LogLine]:
    """The lines of a log, with cut ones made whole.

    A cut line is given up, and its pieces stay as they are, if the log ends, if it pauses after lines of
    others, or if too much stands between the pieces.
    """
    waiting = CutLines()
    for read in lines:
        if not read.data:
            if waiting.has_others:
                yield from waiting.released(is_over=True)
            yield read
            continue
        rest: LogLine | None = read
        while rest is not None:
            if not waiting and (rest.count > 1 or not may_be_cut(rest.data)):
                waiting.pass_by(rest.data)
                yield rest
                break
            line, rest = rest.parted()
            yield from waiting.add(line)
    yield from waiting.released(is_over=True)


class CutLines:
    """Lines of a log that wait for the pieces of a cut line; the first is one, if there are any."""

    def __init__(self) -> None:
        self._lines = deque["tuple[LogLine, CutLine | None]"]()
        self._open = dict[tuple[bytes, ...], CutLine]()
        self._size = self._between = 0
        self._file = b""

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def has_others(self) -> bool:
        """Whether lines wait that aren't pieces of an open line."""
        return any(cut is None or not cut.is_open for _, cut in self._lines)

    def pass_by(self, lines: bytes) -> None:
        """Note which file goes on after lines that don't wait."""
        if len(lines) > LEAST and not may_have(lines, NAMED):
            return
        if b"==> " in lines and (files := FILE.findall(lines)):
            self._file = files[-1]

    def add(self, line: LogLine) -> Iterator[LogLine]:
        """Add a line, and yield those that wait no longer."""
        self.pass_by(line.data)
        piece = Piece.of(line.data) if line.is_whole else None
        cut = None
        if piece is not None:
            stream = (self._file, *piece.stream)
            cut = self._open.get(stream)
            if cut is not None:
                cut.add(line, piece)
            elif not piece.is_last:
                cut = self._open[stream] = CutLine(line, piece, stream)
            if cut is not None and not cut.is_open:
                del self._open[stream]
        self._lines.append((line, cut))
        self._size += len(line.data)
        self._between += cut is None
        return self.released()

    def released(self, *, is_over: bool = False) -> Iterator[LogLine]:
        """The lines before the first piece of an open line; all, if none is open."""
        while self._lines:
            line, cut = self._lines[0]
            if cut is not None and cut.is_open:
                if not is_over and self._between <= MOST_BETWEEN and self._size <= MOST_BYTES:
                    return
                del self._open[cut.stream]
                cut.give_up()
            self._lines.popleft()
            self._size -= len(line.data)
            self._between -= cut is None
            yield line
