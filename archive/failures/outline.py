"""A traceback as far as it can be told without any archive: equal ones get equal answers."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

from archive.base.strings import decoded
from archive.debuginfo.excerpt import CONTEXT
from archive.failures.code_records import CodeRecord
from archive.failures.tracebacks import Traceback

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.debuginfo.model import SourceRange
    from archive.failures.streams import Stream

DIGEST = 16
"""Bytes by which tracebacks are told apart."""


class AnyCode(CodeRecord):
    """A code record of which nothing is known: all lines are taken that may be its own."""

    most_unmarked = CONTEXT

    def __init__(self, file: bytes) -> None:
        self.name = decoded(file)
        self.lines = None

    def shows(self, shown: list[bytes], number: int) -> bool:  # noqa: ARG002 (nothing is known)
        """False."""
        return False

    def original(self, line: int, column: int) -> SourceRange | None:  # noqa: ARG002 (the same)
        """None."""
        return None


class Outline:
    """The lines of a traceback that some archive's answer may depend on.

    Args:
        stream: the traceback's lines, its heading first.

    Attributes:
        stream: as given.
        key: the same for tracebacks of the same lines, whatever a logger writes around them.
        names: the code records that its frames name.
        has_code: whether there are some.
        is_torn: whether a frame breaks off that names one.
        stop: the line behind its last frame.
    """

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        found = Traceback(stream, AnyCode)
        self.key = (blake2b(b"\n".join(found.raw[1:]), digest_size=DIGEST).digest(),)
        self.names = frozenset(decoded(frame.file) for frame in found.frames if frame.is_serialized)
        self.has_code = bool(self.names) or found.is_too_long
        self.is_torn = found.is_torn
        self.stop = found.frames[-1].stop if found.frames else 1

    def size(self, text: bytes) -> int:
        """The bytes that an explanation would have in the log."""
        return len(text)

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The heading, and an explanation."""
        yield self.stream.line(0).data
        yield text
