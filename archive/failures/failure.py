"""A failure in a log, the answer to it, and its cause."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple, Protocol

from archive.base.quick_dataclass import dataclass
from archive.debuginfo.source_lines import innermost_of, stack_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from archive.base.errors import LimitError
    from archive.debuginfo.model import SourceRange
    from archive.failures.log.streams import LogStream
    from archive.failures.one_model import OneModel
    from archive.reader.facts import Facts

MAX_LINES = 10_000
"""Lines of a failure, or of an explanation that a log has already, that are read."""
OTHER_TEXT = b"\0"
"""Placeholder: could explain the failure, but its text is not needed."""
EXPLAINED_BY = ("output", "work")
"""The bounds beyond which a failure stays unexplained, while the log goes on."""


class LoggedLines(Protocol):
    """Lines of a log that an explanation goes into."""

    stream: LogStream
    """The lines, from the first one on."""

    @property
    def is_proof(self) -> bool:
        """Whether no other version of the model could show what they show."""

    @property
    def message(self) -> str:
        """The error message that they show; "" where none is known."""

    @property
    def is_cut_short(self) -> bool:
        """Whether the log says that it shows the whole failure below."""

    def size(self, text: bytes) -> int:
        """The bytes that an explanation has in the log, with what a logger puts around each line."""

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The lines of the log that the failure takes, with its explanation in them."""


class Failure(ABC):
    """A failure in a log, as far as the log shows it. Its explanation stands below its lines.

    **Where a failure ends, its kind says**: in ``last``, the line above the explanation, or in ``explained``,
    which takes the lines that the failure has. Its stream ends before that where another form of lines, or
    too much of other processes, follows: :class:`~archive.failures.log.streams.InnerStream`. Lines that are
    no failure's, but a source that the log has already, are passed by :func:`leave`.
    """

    is_proof = False
    is_cut_short = False
    last = 0
    is_row = False
    """Whether it isn't a failure, but a row of a profile."""
    lacks_frame = False
    """Whether a frame should stand below its first line, and doesn't."""
    digits = ""
    """Its debug handles as printed; "" where it has none. With them its ``key`` decides the answer."""
    message = ""
    """The error message that it shows; "" where none is known."""
    problem = ""
    """Why no model can explain it; "" where one may."""
    no_line = ""
    """Why it shows no line of a model, unless a model knows better; "" where it shows one."""
    within: tuple[str, ...] = ()
    """The files of the models that explain a failure of which this one is the inner part."""
    lines_of_traceback = 0
    """Lines above it that are of its Python traceback."""

    def __init__(self, stream: LogStream) -> None:
        self.stream = stream

    @abstractmethod
    def answer(self, model: OneModel) -> Answer | None:
        """A model's answer; None where the log has its source, or the file has nothing of its kind."""

    def possible(self, model: OneModel) -> Answer | None:
        """The same, where the explanations of others differ already: its text may be :data:`OTHER_TEXT`."""
        return self.answer(model)

    def shows_model(self) -> bool:
        """Whether it shows something of a model; else it stays, whatever the models are."""
        return True

    def has_source(self, above: bytes) -> bool:  # noqa: ARG002 (of most kinds no line above says so)
        """Whether the log has its source already, given the line above it."""
        return False

    @property
    @abstractmethod
    def what(self) -> str:
        """The failure in words."""

    @property
    @abstractmethod
    def key(self) -> object:
        """The same for failures that get the same answer."""

    def may_be_of(self, facts: Facts) -> bool:  # noqa: ARG002 (for most kinds they say nothing)
        """Whether a model with these facts may have failed so."""
        return True

    def source_problem(self, model: OneModel) -> tuple[int, str] | None:  # noqa: ARG002 (most show none)
        """A line of the failure that shows source which the model has otherwise, and why; None for none."""
        return None

    def size(self, text: bytes) -> int:
        """The bytes that an explanation has in the log."""
        return len(text) + (text.count(b"\n") + 2) * self.stream.cost(0)

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The lines of the failure, with an explanation below the last one."""
        for at in range(self.last):
            yield self.stream.line(at).data
        yield self.stream.written(self.last, (self.stream.text(self.last) or b"") + b"\n" + text)


def leave(stream: LogStream, first: int, belongs: Callable[[bytes], bool]) -> None:
    """Leave the lines from one on as they are, as long as they belong together: none begins a failure."""
    for at in range(first, first + MAX_LINES):
        text = stream.text(at, is_patient=False)
        if text is None or not belongs(text):
            return
        stream.line(at).output = stream.line(at).data


def written(stream: LogStream, at: int, others: Mapping[int, bytes]) -> bytes:
    """A line of a log, or another text in its place."""
    return stream.written(at, others[at]) if at in others else stream.line(at).data


class FailureCause(NamedTuple):
    """What failed: failures with the same cause have an equal one.

    Attributes:
        file: the source file of the innermost line; "" where it is not known, or one of several.
        line: its number, from 1; 0 without a file.
        where: the module hierarchy, or the function of the innermost frame.
        message: the wording of the message; "" where it is not known.
    """

    file: str
    line: int
    where: str
    message: str


def place_of(spans: Iterable[SourceRange | None]) -> tuple[str, int]:
    """File and line of what failed: of the innermost line that is not in PyTorch's own files.

    The lines of a traced operation are those of its Python stack.

    Args:
        spans: the ranges of the frames, innermost first; None where none is known.

    Returns:
        Those of the innermost line where all are PyTorch's; "" and 0 where no file is known.
    """
    places = (place for span in spans if span and not span.source.is_null for place in _places(span))
    return innermost_of(places, lambda place: place[0]).of_model or ("", 0)


def _places(span: SourceRange) -> list[tuple[str, int]]:
    """File and line of each line that a range stands for, innermost first."""
    own = [] if span.source.filename is None else [(str(span.source.filename), span.line)]
    return [(line.file, line.number) for line in stack_of(span)] or own


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a failure, of one model or of several.

    Attributes:
        text: its explanation; None where there is none.
        notes: the reason that there is none, or reservations: a line of the failure, from 0, and a text.
        is_named: whether the failure itself, or the log above it, names the model.
        is_possible: whether the model may have failed so: it explains the failure, or can't rule it out.
        cause: what failed; None where it is not explained.
        models: the files of the models that explain it so, where there are several models.
        is_unproven: whether nothing that the log shows of the model's code could be compared.
        is_split: whether the log shows the model's code, whose source was split off.
        is_of_release: whether the log names it by the label of a release only, which others may have.
        is_lineless: whether the log shows no line of any model.
        is_unrecorded: whether a companion is asked for what only its archive has.
        is_final: whether the other half of the model, its archive or companion, would say no more.
        facts: what the explanation says, in whatever words; b"" where its text is compared.
        inner: the line of the failure that begins another one, which says why this one failed: they count as
            one; 0 for none.
    """

    failure: LoggedLines
    text: bytes | None
    notes: tuple[tuple[int, str], ...] = ()
    is_named: bool = False
    is_possible: bool = False
    cause: FailureCause | None = None
    models: tuple[str, ...] = ()
    is_unproven: bool = False
    is_split: bool = False
    is_of_release: bool = False
    is_lineless: bool = False
    is_unrecorded: bool = False
    is_final: bool = False
    facts: bytes = b""
    inner: int = 0

    @property
    def said(self) -> bytes | None:
        """What answers have in common that say the same; None where it explains nothing."""
        return self.facts or self.text


class Answers(Protocol):
    """One model, or many, that failures are explained by."""

    @property
    def notes(self) -> Sequence[str]:
        """What the log does not have that was looked for."""

    def saw(self, line: bytes, number: int, *, is_failing: bool = False) -> None:
        """Note a line of the log, and whether a failure may begin in it."""

    def naming_in(self, lines: bytes) -> Iterable[int]:
        """Places in whole lines, one at least in each that has something to note, or to name."""

    def named(self, line: bytes) -> bytes:
        """A line in which no failure begins, with the names that hashes in a module hierarchy stand for."""

    def answer(self, failure: Failure) -> Answer | None:
        """The answer to a failure; None where the log has its source, or the failure shows no model."""

    def source_problem(self, failure: Failure) -> tuple[int, str] | None:
        """A line of a failure that shows other source than the model's, and why; None for none."""


def why_left(error: LimitError) -> str:
    """A note about a failure that is left unexplained."""
    if error.resource not in EXPLAINED_BY:
        raise error
    what = "the explanation would be too long" if error.resource == "output" else "too many steps"
    return f"left unexplained: {what}; --limit {error.resource}=… allows more"
