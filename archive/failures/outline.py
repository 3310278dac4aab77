"""A traceback as far as it can be told without any archive: equal ones get equal answers."""

from __future__ import annotations

from functools import cached_property
from hashlib import blake2b
from typing import TYPE_CHECKING

from archive.base.strings import decoded
from archive.debuginfo.excerpt import CONTEXT
from archive.failures.code_records import CodeRecord
from archive.failures.redacted import may_begin
from archive.failures.tracebacks import Traceback

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.debuginfo.model import SourceRange
    from archive.failures.streams import Stream
    from archive.reader.facts import Facts

DIGEST = 16
"""Bytes by which tracebacks are told apart."""
REDACTED = "traceback of redacted source"


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
    """A traceback of TorchScript. It is read when something is asked of its lines.

    Args:
        stream: the traceback's lines, its heading first.
        hierarchy: the module hierarchy above, which the lite interpreter prints; b"" where there is none.
    """

    shows_code = True

    def __init__(self, stream: Stream, hierarchy: bytes = b"") -> None:
        self.stream, self.hierarchy = stream, hierarchy

    @cached_property
    def _traceback(self) -> Traceback:
        return Traceback(self.stream, AnyCode)

    @cached_property
    def names(self) -> frozenset[str]:
        """The code records that its frames name."""
        return frozenset(decoded(frame.file) for frame in self._traceback.frames if frame.is_serialized)

    @property
    def has_code(self) -> bool:
        """Whether there are some; true where it is too long to tell."""
        return bool(self.names) or self._traceback.is_too_long

    @property
    def is_torn(self) -> bool:
        """Whether a frame breaks off that names one."""
        return self._traceback.is_torn

    @property
    def stop(self) -> int:
        """The line behind its last frame."""
        return self._traceback.frames[-1].stop if self._traceback.frames else 1

    @property
    def what(self) -> str:
        """Whether it has code, or source."""
        return "traceback" if self.has_code else REDACTED

    @property
    def key(self) -> object:
        """The same for tracebacks of the same lines of code, whatever a logger writes around them."""
        if not self.has_code:
            return object()  # where lines of source end is known to a model alone
        return blake2b(b"\n".join(self._traceback.raw[1:]), digest_size=DIGEST).digest()

    def may_be_of(self, facts: Facts) -> bool:
        """Whether a model may have this code; or, of source, the module hierarchy."""
        if self.has_code:
            return facts.may_have_code(self.names)
        return bool(facts.handles) and may_begin(self.hierarchy, facts.top)

    def size(self, text: bytes) -> int:
        """The bytes that an explanation would have in the log."""
        return len(text)

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The heading, and an explanation."""
        yield self.stream.line(0).data
        yield text


class SerializedOutline(Outline):
    """A traceback of TorchScript that goes on with its original code; its first heading says *serialized*."""

    what = REDACTED

    @property
    def key(self) -> object:
        """No other failure's."""
        return object()

    def may_be_of(self, facts: Facts) -> bool:
        """Whether a model may have this code."""
        return facts.may_have_code(self.names)
