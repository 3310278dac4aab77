"""Failures in a log, and what an archive answers to them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from archive.base.strings import decoded
from archive.verbs.logs.families import known_message
from archive.verbs.logs.lines import ending, has_shape

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.verbs.logs.lines import Window

# PyTorch 1.11 and later print braces around handles, 1.10 none around a single one, and 1.9 no "(s)".
HANDLES_NOT_FOUND = re.compile(
    rb"(?P<prefix>.*?)(?:  )?(?P<text>Debug info for handle(?:\(s\): |, )"
    rb"(?:debug_handles:\{(?P<joined>[-\d]+)\}|(?P<single>-?\d+)), (?:was )?not found\.)"
)


class Failure(Protocol):
    """A failure in a log."""

    @property
    def raw(self) -> Sequence[bytes]:
        """The lines of the log that it takes, as they are."""

    def size(self, text: bytes) -> int:
        """The bytes that an explanation has in the log, where it stands behind a logger's prefix."""

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The lines of the failure, with its explanation."""


class Cause(NamedTuple):
    """What failed: failures of one cause have the same one.

    Attributes:
        file: the source file of the innermost line; "" where it is not known.
        line: its number, from 1; 0 where it is not known.
        where: the module hierarchy, or the function of the innermost frame.
        message: the wording of the message; "" where it is not known.
    """

    file: str
    line: int
    where: str
    message: str


@dataclass(frozen=True, slots=True)
class Answer:
    """An archive's answer to a failure.

    Attributes:
        failure: the failure.
        text: its explanation; None where the archive has none.
        notes: the reason that there is none, or reservations: a line of the failure, from 0, and a text.
        is_named: whether the failure itself, or the log above it, names the archive.
        is_possible: whether the archive may have failed so: it explains the failure, or cannot tell.
        cause: what failed; None where it is not explained.
        models: the files of the models that explain it so, where there are several models.
    """

    failure: Failure
    text: bytes | None
    notes: tuple[tuple[int, str], ...] = ()
    is_named: bool = False
    is_possible: bool = False
    cause: Cause | None = None
    models: tuple[str, ...] = ()


class Answers(Protocol):
    """An archive, or several, that failures are explained by."""

    def saw(self, line: bytes, number: int) -> None:
        """Take note of a line of the log, whether or not a failure begins in it."""

    def of_handles(self, failure: LiteFailure) -> Answer:
        """The answer to a failure of the lite interpreter."""

    def of_traceback(self, lines: Window, heading: bytes) -> Answer | None:
        """The answer to a traceback of TorchScript; None where it needs no explanation.

        Args:
            lines: the log behind the heading.
            heading: the traceback's first line.
        """


class LiteFailure:
    """A line of the lite interpreter that names debug handles.

    Args:
        line: the line.
        before: the lines above it, the last one last.
        found: the line as ``HANDLES_NOT_FOUND`` matches it.

    Attributes:
        digits: the handles as they are printed.
        is_joined: whether they may be several, printed one behind the other.
        message: the error message above them; "" where ``families.txt`` lacks it.
    """

    def __init__(self, line: bytes, before: Sequence[bytes], found: re.Match[bytes]) -> None:
        self._line = line
        self._found = found
        self.digits = (found["joined"] or found["single"]).decode()
        self.is_joined = found["joined"] is not None
        self.message = _message(before, found["prefix"])
        # What stands before the text is a logger's prefix only if the line above has it, too.
        prefix = found["prefix"] if before and has_shape(before[-1], found["prefix"]) else b""
        self._between = ending(line) + prefix

    @classmethod
    def of(cls, line: bytes, before: Sequence[bytes]) -> LiteFailure | None:
        """The failure in a line; None where there is none."""
        found = HANDLES_NOT_FOUND.match(line)
        return cls(line, before, found) if found else None

    @property
    def raw(self) -> Sequence[bytes]:
        """The line."""
        return (self._line,)

    def size(self, text: bytes) -> int:
        """The bytes that an explanation has in the log."""
        return len(text) + text.count(b"\n") * (len(self._between) - 1)

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The line, with an explanation in the place of the handles."""
        start, end = self._found.span("text")
        yield self._line[:start] + text.replace(b"\n", self._between) + self._line[end:]


def _message(before: Sequence[bytes], prefix: bytes) -> str:
    """The message above the handles without the logger's prefix; "" if ``families.txt`` lacks it."""
    for line in reversed(before):
        text = line[len(prefix) :] if has_shape(line, prefix) else line
        if text.strip():
            return known_message(decoded(text).strip())
    return ""
