"""The lines of source that a range stands for, and which of several is the model's own."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeAlias, TypeVar

from archive.base.errors import one_line, several
from archive.base.source_files import is_pytorchs
from archive.base.strings import decoded
from archive.debuginfo.frames import CALL
from archive.debuginfo.sites import GENERATED_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from archive.debuginfo.model import SourceRange

T = TypeVar("T")
MOST_LINES = 5
"""Most lines of one operation that are listed."""


class SourceLine(NamedTuple):
    """A line of source.

    Attributes:
        file: its file.
        number: its number in the file, from 1.
        text: its text without indentation.
        more: further lines, if the operation was made from several.
    """

    file: str
    number: int
    text: str
    more: tuple[SourceLine, ...] = ()

    def __str__(self) -> str:
        others = [str(line.number) if line.file == self.file else str(line) for line in self.more]
        return several([f"{self.file}:{self.number}", *others], MOST_LINES)

    @property
    def words(self) -> str:
        """Its text; if there are several lines, the first one's, with a mark."""
        return f"{self.text} …" if self.more else self.text


def joint_line(lines: Sequence[SourceLine]) -> SourceLine | None:
    """Several lines as one, without duplicates; None if there are none."""
    distinct = tuple(dict.fromkeys(lines))
    return distinct[0]._replace(more=distinct[1:]) if distinct else None


def model_line(lines: Iterable[SourceLine]) -> SourceLine | None:
    """The innermost line that is not in PyTorch's source; the innermost one if all are."""
    return innermost_line(lines).of_model


class Innermost(NamedTuple, Generic[T]):
    """The innermost of some places.

    Attributes:
        own: the innermost one that is not in PyTorch's source; None if all are.
        first: the innermost one; None of none.
    """

    own: T | None
    first: T | None

    @property
    def of_model(self) -> T | None:
        """The innermost one that is not in PyTorch's source; the innermost one if all are."""
        return self.own or self.first


IsPytorchs: TypeAlias = "Callable[[str], bool]"


def innermost_line(
    lines: Iterable[SourceLine], is_pytorchs: IsPytorchs = is_pytorchs
) -> Innermost[SourceLine]:
    """The innermost of some lines, which come first."""
    return innermost_of(lines, lambda line: line.file, is_pytorchs)


def innermost_of(
    places: Iterable[T], file_of: Callable[[T], str], is_pytorchs: IsPytorchs = is_pytorchs
) -> Innermost[T]:
    """The innermost of some places, which come first; what is further out is not looked at.

    Args:
        is_pytorchs: whether a file is PyTorch's.
    """
    first = None
    for place in places:
        first = first or place
        if not is_pytorchs(file_of(place)):
            return Innermost(place, first)
    return Innermost(None, first)


class LineReader:
    """Reads the lines of many ranges of one archive: what their texts share is parsed once."""

    def __init__(self) -> None:
        self._is_pytorchs = cache(is_pytorchs)
        self._call_of = cache(_call_of)

    def innermost(self, span: SourceRange) -> Innermost[SourceLine]:
        """The innermost lines of a range."""
        return innermost_line(lines_of(span, self._call_of), self._is_pytorchs)


def _call_of(line: str) -> SourceLine | None:
    """A line of a Python call stack; None for other lines."""
    call = CALL.fullmatch(one_line(line))
    if call is None or not call["function"]:
        return None
    return SourceLine(call["file"], int(call["line"]), call["function"])


CallOf: TypeAlias = "Callable[[str], SourceLine | None]"


def lines_of(span: SourceRange, call_of: CallOf = _call_of) -> list[SourceLine]:
    """The line where a range starts; all lines of a traced model's source, which is a Python call stack.

    Generated source has none.
    """
    return [line for line in _lines(span, call_of) if line.file not in ("", GENERATED_FILE)]


def stack_of(span: SourceRange, call_of: CallOf = _call_of) -> list[SourceLine]:
    """The lines of the Python call stack that a traced operation has as its source; none of others."""
    source = bytes(span.source.text)
    whole = span.end - span.start == len(source)
    calls = [*map(call_of, decoded(source).splitlines())] if whole else []
    stack = [call for call in calls if call is not None]
    return stack if len(stack) == len(calls) else []


def _lines(span: SourceRange, call_of: CallOf) -> list[SourceLine]:
    if stack := stack_of(span, call_of):
        return stack
    if span.source.filename is None:
        return []
    source = bytes(span.source.text)
    text = source[source.rfind(b"\n", 0, span.start) + 1 :].partition(b"\n")[0]
    return [SourceLine(one_line(str(span.source.filename)), span.line, one_line(decoded(text).strip()))]
