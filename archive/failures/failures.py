"""Failures in a log, and what an archive answers to them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from archive.base.strings import decoded
from archive.failures.families import known_message

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.failures.streams import Stream
    from archive.reader.facts import Facts

# PyTorch 1.11 and later print braces around handles, 1.10 none around a single one, and 1.9 no "(s)".
HANDLES_NOT_FOUND = re.compile(
    rb"(?P<prefix>.*?)(?:  )?(?P<text>Debug info for handle(?:\(s\): |, )"
    rb"(?:debug_handles:\{(?P<joined>[-\d]+)\}|(?P<single>-?\d+)), (?:was )?not found\.)"
)


class FailedLines(Protocol):
    """Lines of a log that an explanation goes into."""

    @property
    def shows_code(self) -> bool:
        """Whether they show code of the model, which can be compared."""

    @property
    def stream(self) -> Stream:
        """The lines, from the first one on."""

    def size(self, text: bytes) -> int:
        """The bytes that an explanation has in the log, with what a logger puts around each line."""

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The lines of the log that the failure takes, with its explanation in them."""


class Failure(FailedLines, Protocol):
    """A failure in a log, as far as the log tells of it."""

    @property
    def what(self) -> str:
        """It in words."""

    @property
    def key(self) -> object:
        """The same for failures that get the same answer."""

    def may_be_of(self, facts: Facts) -> bool:
        """Whether a model of which these facts are known may have failed so."""


class Cause(NamedTuple):
    """What failed: failures of one cause have the same one.

    Attributes:
        file: the source file of the innermost line; "" where it is not known, or one of several.
        line: its number, from 1; 0 where there is no file.
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
        failure: the lines of the failure.
        text: its explanation; None where the archive has none.
        notes: the reason that there is none, or reservations: a line of the failure, from 0, and a text.
        is_named: whether the failure itself, or the log above it, names the archive.
        is_possible: whether the archive may have failed so: it explains the failure, or cannot tell.
        cause: what failed; None where it is not explained.
        models: the files of the models that explain it so, where there are several models.
        is_unproven: whether nothing that the log shows of the model's code could be compared.
    """

    failure: FailedLines
    text: bytes | None
    notes: tuple[tuple[int, str], ...] = ()
    is_named: bool = False
    is_possible: bool = False
    cause: Cause | None = None
    models: tuple[str, ...] = ()
    is_unproven: bool = False


class Answers(Protocol):
    """An archive, or several, that failures are explained by."""

    def saw(self, line: bytes, number: int) -> None:
        """Take note of a line of the log, whether or not a failure begins in it."""

    def is_quiet(self, lines: bytes) -> bool:
        """Whether there is nothing to take note of in lines, and nothing to name; false if unsure."""

    def named(self, line: bytes) -> bytes:
        """A line in which no failure begins, with the names that hashes in a module hierarchy stand for."""

    def answer(self, failure: Failure) -> Answer | None:
        """The answer to a failure; None where the log has its source, or it has nothing of a model."""


class LiteFailure:
    """A line of the lite interpreter that names debug handles.

    Args:
        stream: the line.
        above: the texts of the lines above it, the nearest first.

    Attributes:
        stream: as given.
        digits: the handles as they are printed.
        is_joined: whether they may be several, printed one behind the other.
        message: the error message above them; "" where ``families.txt`` lacks it.
    """

    shows_code = False

    def __init__(self, stream: Stream, above: Sequence[bytes] = ()) -> None:
        self.stream = stream
        self._text = stream.text(0) or b""
        found = HANDLES_NOT_FOUND.match(self._text)
        assert found is not None  # noqa: S101 (else it is no failure)
        self._start, self._stop = found.span("text")
        self.digits = (found["joined"] or found["single"]).decode()
        self.is_joined = found["joined"] is not None
        self.message = _message(above)

    @property
    def what(self) -> str:
        """The handles."""
        return f"handles {{{self.digits:.40}}}"

    @property
    def key(self) -> object:
        """The same for the same handles and message."""
        return self.digits, self.is_joined, self.message

    def may_be_of(self, facts: Facts) -> bool:
        """Whether a model may have these handles."""
        return facts.may_have_handles(self.digits)

    def size(self, text: bytes) -> int:
        """The bytes that an explanation has in the log."""
        return len(text) + text.count(b"\n") * (self.stream.cost(0) - 1)

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The line, with an explanation in the place of the handles."""
        yield self.stream.written(0, self._text[: self._start] + text + self._text[self._stop :])


def _message(above: Sequence[bytes]) -> str:
    """The message above the handles; "" if ``families.txt`` lacks it."""
    nearest = next((text for text in above if text.strip()), b"")
    return known_message(decoded(nearest).strip())
