"""A failure of the lite interpreter without a debug handle: nothing gives its line, which a note says.

PyTorch prints handles with its own errors alone (``c10::Error``). ``raise`` and ``assert`` of the model, the
index of a list, ``//`` of integers and ``int("abc")`` throw others, of which only the message is printed. In
Python a frame of PyTorch's own stands above that message::

      File "/opt/py/lib/python3.11/site-packages/torch/jit/mobile/__init__.py", line 63, in __call__
        return self._c.forward(input)
               ^^^^^^^^^^^^^^^^^^^^^^
    IndexError: list index out of range

Elsewhere such a message can't be told from any other. Source: PyTorch 2.13, ``torch/jit/mobile/__init__.py``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from archive.base.errors import one_line
from archive.base.strings import decoded
from archive.failures.failure import Answer, Failure
from archive.failures.log.python_tracebacks import HEADING
from archive.failures.printed import FRAME, HIERARCHY, WHOLE_HEADING

if TYPE_CHECKING:
    from archive.failures.log.streams import LogStream
    from archive.failures.one_model import OneModel

CALL = re.compile(
    rb'(?P<prefix>.*?)  File "[^"]*\bjit[/\\]mobile[/\\]__init__\.py", line [0-9]{1,9}, '
    rb"in (?:__call__|forward|run_method)"
)
"""The frame that calls a lite model."""
SOURCE = b"    "
"""Begins a line of the frame's own."""
EXCEPTION = re.compile(rb"[A-Za-z_][\w.]*(?::.*)?")
"""The line of an exception below the last frame."""
HANDLES = b"Debug info for handle"
MOST_SOURCE, MOST_BELOW = 4, 16
"""Lines of a frame, and of an exception's message, that are looked at."""
MAX_MESSAGE = 100
"""Characters of a message in a note."""
WHY = "the lite interpreter prints no handle with it, so nothing gives its line"


class UnplacedFailure(Failure):
    """A frame that calls a lite model, with a message below that names no handle.

    Attributes:
        said: the first line of the message; "" where a handle or a source follows, or another frame.
    """

    def __init__(self, stream: LogStream) -> None:
        super().__init__(stream)
        self.said = decoded(_message(stream))
        self.problem = self.no_line = f"{self.what}: {WHY}"

    def answer(self, model: OneModel) -> Answer:  # noqa: ARG002 (none knows it)
        return Answer(self, None, ((0, self.problem),), is_lineless=True)

    @property
    def what(self) -> str:
        return f"failure {one_line(self.said[:MAX_MESSAGE])!r}"

    @property
    def key(self) -> str:
        return self.said


def _message(stream: LogStream) -> bytes:
    """The line of the exception below a frame; b"" where something else stands there, or a place below it."""
    at = next((at for at in range(1, 1 + MOST_SOURCE) if not _starts(stream, at, SOURCE)), 1 + MOST_SOURCE)
    said = stream.text(at) or b""
    if not EXCEPTION.fullmatch(said):
        return b""
    for below in range(at, at + MOST_BELOW):
        text = stream.text(below, is_patient=False)
        if text is None or text.startswith((HEADING, FRAME)):
            return said
        if HANDLES in text or HIERARCHY in text or WHOLE_HEADING in text:
            return b""
    return said


def _starts(stream: LogStream, at: int, words: bytes) -> bool:
    return (stream.text(at) or b"").startswith(words)
