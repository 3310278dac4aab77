"""The lines of source that a range stands for, and which of several is the model's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

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
    return of_model(lines, lambda line: line.file)


def of_model(innermost: Iterable[T], file_of: Callable[[T], str]) -> T | None:
    """The first of some places, innermost first, whose file is not PyTorch's; the first if all are."""
    first = None
    for place in innermost:
        if not is_pytorchs(file_of(place)):
            return place
        first = place if first is None else first
    return first


def lines_of(span: SourceRange) -> list[SourceLine]:
    """The line where a range starts; all lines of a traced model's source, which is a Python call stack.

    Generated source has none.
    """
    return [line for line in _lines(span) if line.file not in ("", GENERATED_FILE)]


def stack_of(span: SourceRange) -> list[SourceLine]:
    """The lines of the Python call stack that a traced operation has as its source; none of others."""
    source = bytes(span.source.text)
    whole = span.end - span.start == len(source)
    calls = [CALL.fullmatch(one_line(line)) for line in decoded(source).splitlines()] if whole else []
    stack = [SourceLine(call["file"], int(call["line"]), call["function"]) for call in calls if call]
    return stack if len(stack) == len(calls) and all(line.text for line in stack) else []


def _lines(span: SourceRange) -> list[SourceLine]:
    if stack := stack_of(span):
        return stack
    if span.source.filename is None:
        return []
    source = bytes(span.source.text)
    text = source[source.rfind(b"\n", 0, span.start) + 1 :].partition(b"\n")[0]
    return [SourceLine(one_line(str(span.source.filename)), span.line, one_line(decoded(text).strip()))]
