"""The frames of generated code as pytest prints them → the same failure as of a Python traceback.

pytest has a short form of a frame, whose heading stands above its statement, and a long one, whose heading
stands below it. Each line of the error's message has an ``E`` before it::

    <eval_with_key>.5:43: in forward                  >       gather = torch.ops.aten.gather.default(…
        gather = torch.ops.aten.gather.default(…
    .../torch/_ops.py:875: in __call__                <eval_with_key>.5:43:
        return self._op(*args, **kwargs)              _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ _
    E   RuntimeError: index 9 is out of bounds …      …

By default the first and the last frame are long, and those between them short. Below the last frame, if it
is long, stand the message, and then the heading with the error's type.

The source of the failing node is written as the first lines of the message. Source:
``_pytest/_code/code.py`` in pytest 9.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from archive.base.strings import decoded
from archive.failures.eval_frames import EVAL_FRAME, EvalFailure
from archive.failures.failure import MAX_LINES
from archive.failures.held_graphs import COLOUR, Caller, GraphCall
from archive.failures.nodes import HEADING, MOST_SAID
from archive.failures.printed import HIERARCHY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ESCAPES = rb"(?:\x1b\[[\d;]{0,12}m){0,4}"
"""Escapes for a terminal, fewer than a line may have: they are looked for at each byte of it."""
PYTEST_FRAME = re.compile(
    rb"(?P<prefix>.*?)%b<eval_with_key>\.\d{1,9}(?: from .{1,400}?)?%b"
    rb":\d{1,9}:(?! \w*Warning\b)(?: (?:in \w+|[\w.]+)?)?%b" % ((ESCAPES,) * 3)
)
"""The heading of a frame of generated code, in both forms."""
LOCATION = re.compile(
    rb"(?P<file>[^\s>].*?):(?P<line>\d{1,9}):(?: (?:in (?P<function>[\w<>.]+)|(?P<type>[\w.]+))?)?"
)
"""The heading of any frame. A long one has nothing after the line, or the error's type."""
MARKED = re.compile(rb">  +(?P<statement>\S.*)")
"""The line of a long frame that failed."""
FUNCTION = re.compile(rb"    (?:async )?def (?P<name>\w+)\(.*")
"""Begins the source of a long frame."""
MESSAGE = re.compile(rb"(?P<prefix>E {3,}).*")
SHORT_PREFIX = b"E   "
"""Begins the lines of a message below a short frame."""
SEPARATOR = b"_ _ _ "
"""Begins the line between two frames of which one is long."""
RULE = re.compile(rb"_+ (?!_ ).* _+|={3,}.*|(?:The above|During handling of the above) exception .*")
"""The line above all frames of an error."""
INDENT = b"    "
MOST_LOCALS = 200
"""Lines between the message and the last heading, which may be variables."""


def is_second_line(line: bytes) -> bool:
    """Whether a line may stand below the heading of a frame."""
    return line.startswith((INDENT, SEPARATOR))


class PytestFrame(NamedTuple):
    """A frame: its file, line and function, and its statement as far as it is shown."""

    file: bytes
    line: bytes
    function: bytes
    statement: bytes = b""

    @property
    def heading(self) -> bytes:
        """The heading as Python prints it."""
        return b'  File "%b", line %b, in %b' % (self.file, self.line, self.function)

    def called(self, call: GraphCall) -> GraphCall:
        """How code below this frame was called, if this frame was called so."""
        return call.then(self.heading).then(INDENT + self.statement)


class PytestFrames:
    """The frames in lines that are added one after the other.

    Attributes:
        is_over: whether the last line belongs to no frame.
        message: the last lines with an ``E``, without it.
        prefix: what stands before each of them.
    """

    def __init__(self) -> None:
        self.frames: list[PytestFrame] = []
        self.message: list[bytes] = []
        self.prefix = b""
        self.is_over = False
        self._marked, self._function = b"", b""
        self._is_open = self._is_long = False

    def add(self, text: bytes) -> None:
        """Add a line."""
        text = without_colour(text)
        is_open, self._is_open = self._is_open, False
        if text.startswith(SEPARATOR):
            self._is_long, self._marked, self._function = True, b"", b""
        elif location := LOCATION.fullmatch(text):
            self._add(location)
        elif message := MESSAGE.fullmatch(text):
            self.prefix = self.prefix or message["prefix"]
            self.message.append(text[len(self.prefix) :])
        elif marked := MARKED.fullmatch(text):
            self._marked = marked["statement"]
        elif function := FUNCTION.fullmatch(text):
            self._function = function["name"]
        elif is_open and text.startswith(INDENT):
            self.frames[-1] = self.frames[-1]._replace(statement=text.strip())
        else:
            self.is_over = not (self._is_long or text.startswith(INDENT))

    def _add(self, location: re.Match[bytes]) -> None:
        """Add a frame by its heading."""
        function, place = location["function"], (location["file"], location["line"])
        if function is None:
            self.frames.append(PytestFrame(*place, self._function or b"unknown", self._marked))
        else:
            self.frames.append(PytestFrame(*place, function))
        self._is_open, self._is_long = function is not None, False
        self._marked = self._function = b""


class PytestFailure(EvalFailure):
    """The frames of an error that pytest shows, from the first one on that is of a graph module."""

    def _read(self, above: Iterable[bytes]) -> None:
        frames, self._call = self._before(above)
        for frame in frames.frames:
            self._call = frame.called(self._call)
        known, self._ending = len(frames.frames), 0
        heading = LOCATION.fullmatch(without_colour(self.stream.text(0) or b""))
        if heading is None or not heading["type"]:
            frames.message.clear()
            frames.prefix = b""
        frames.add(self.stream.text(0) or b"")
        if frames.message:  # the error ends with this heading: only a source may follow
            source = [*self._marked_from(1)]
            frames.message = [text[len(frames.prefix) :] for text in source] or frames.message
        else:
            self._take(frames)
        for frame in frames.frames[known:]:
            if heading := EVAL_FRAME.fullmatch(frame.heading):
                self._add(heading, INDENT + frame.statement)
            self._call = frame.called(self._call)
        self._prefix, self._texts = frames.prefix or SHORT_PREFIX, frames.message

    def _before(self, above: Iterable[bytes]) -> tuple[PytestFrames, GraphCall]:
        """The frames in the lines above, and how the first of them was called."""
        call, texts = GraphCall(Caller.UNSEEN), list[bytes]()
        for line in above:
            text = without_colour(self.stream.text_of(line) or b"")
            if RULE.fullmatch(text):
                call = GraphCall()
                break
            texts.append(text)
        frames = PytestFrames()
        for text in reversed(texts):
            frames.add(text)
        return frames, call

    def _take(self, frames: PytestFrames) -> None:
        """Take the lines of the frames that follow, and of the message."""
        while self.length < MAX_LINES and (line := self.stream.text(self.length)) is not None:
            text = without_colour(line)
            if MESSAGE.fullmatch(text) or RULE.fullmatch(text):
                break
            frames.add(text)
            if frames.is_over:
                break
            self.length += 1
        for text in self._marked_from(self.length):
            frames.add(text)
        end = self.length + len(frames.message)
        for at in range(end, end + MOST_LOCALS * bool(frames.message)):
            line = self.stream.text(at, is_patient=False)
            if line is None or RULE.fullmatch(text := without_colour(line)):
                return
            if LOCATION.fullmatch(text):
                self._ending = at if PYTEST_FRAME.fullmatch(text) else 0
                frames.add(text)
                return

    def _marked_from(self, at: int) -> Iterator[bytes]:
        """The lines with an ``E`` from one on, without colours."""
        for number in range(at, MAX_LINES):
            line = self.stream.text(number, is_patient=False)
            if line is None or not MESSAGE.fullmatch(text := without_colour(line)):
                return
            yield text

    def _message(self) -> Iterator[str]:
        for text in self._texts[:MOST_SAID]:
            if not text:
                return
            yield decoded(text)

    def _has_source(self) -> bool:
        return self._texts[1:2] == [HEADING] and self._texts[0].startswith(HIERARCHY)

    def leave(self) -> None:
        """Leave the lines as they are, with those of a source."""
        stop = self.length + (len(self._texts) if self.is_explained else 0)
        for at in (*range(1, stop), *((self._ending,) if self._ending else ())):
            self.stream.line(at).output = self.stream.line(at).data

    def size(self, text: bytes) -> int:
        """The bytes that an explanation has in the log, each line with an ``E``."""
        return super().size(text) + (text.count(b"\n") + 1) * len(self._prefix)

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The lines of the frames, with an explanation as the first lines of the message."""
        yield from super().explained(b"\n".join(self._prefix + line for line in text.split(b"\n")))


def without_colour(line: bytes) -> bytes:
    """A line without escapes for a terminal."""
    return re.sub(COLOUR, b"", line) if b"\x1b" in line else line
