"""Failures of redacted archives: PyTorch explains them itself, by what is left of the source.

What PyTorch prints then is known: it is what the redacted archive, without its companion, explains a failure
by. Where a log has this very text, what the companion explains the failure by takes its place.

The lite interpreter prints no handles where it finds their ranges. Those of a failure are found by the text
again: handle by handle, outermost first, those are taken whose frames the log shows next, and of these the
ones that give the module hierarchy above. Where several do, and the companion explains them in different
ways, none is taken; and none where no hierarchy of the model is the one above.
"""

from __future__ import annotations

from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from archive.base.strings import decoded
from archive.debuginfo.symbolicate import TRACEBACK_HEADING
from archive.verbs.logs.handles import MAX_READINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.base.steps import Steps
    from archive.debuginfo.symbolicate import Style, Symbolication
    from archive.reader.archive import Archive
    from archive.verbs.logs.operations import Operations
    from archive.verbs.logs.streams import Stream

HIERARCHY = b"Module hierarchy:"
SEVERAL_NOTE = "a traceback of redacted source that may be of several places, and nothing tells which"
OTHER_NOTE = "a traceback of redacted source, below a module hierarchy that is another model's"


class RedactedTraceback:
    """Lines of a log that PyTorch printed of redacted source.

    Args:
        stream: the failure's lines.
        start: the first one of redacted source, from 0.
        redacted: what PyTorch prints of it.
    """

    def __init__(self, stream: Stream, start: int, redacted: bytes) -> None:
        self.stream = stream
        self.stop = start
        self._start = start
        self.is_there = True
        for line in redacted.removesuffix(b"\n").split(b"\n"):
            logged = stream.text(self.stop)
            # Loggers cut blanks off the ends of lines, and redacted lines are blank.
            if logged is None or logged.rstrip() != line.rstrip():
                self.is_there = False
                return
            self.stop += 1

    def size(self, text: bytes) -> int:
        """The bytes that the original text has in the log."""
        return len(text) + text.count(b"\n") * (self.stream.cost(self._start) - 1)

    def explained(self, text: bytes) -> Iterator[bytes]:
        """The lines, with the original text in the place of the redacted one."""
        for at in range(self._start):
            yield self.stream.line(at).data
        yield self.stream.written(self._start, text.removesuffix(b"\n"))
        yield from [b""] * (self.stop - self._start - 1)


class Found(NamedTuple):
    """What a log shows of redacted source.

    Attributes:
        failure: its lines.
        original: what the companion has in their place; None where there are several texts, or none.
        handles: the handles, inner ones first; one reading of several.
        note: why there is no original.
    """

    failure: RedactedTraceback
    original: bytes | None
    handles: tuple[int, ...] = ()
    note: str = ""


class RedactedHandles:
    """The handles of a redacted archive, by what the lite interpreter prints of them.

    Args:
        archive: the archive with its companion.
        bare: the archive without.
        operations: its operations.
        style: the release whose wording it is.
    """

    def __init__(self, archive: Archive, bare: Archive, operations: Operations, style: Style) -> None:
        self._archive = archive
        self._bare = bare
        self._operations = operations
        self._style = style
        self._by_line: dict[bytes, list[int]] | None = None

    def of(self, stream: Stream, hierarchy: bytes, steps: Steps) -> Found | None:
        """What a log shows of redacted source; None where it shows none.

        Args:
            stream: the failure's lines, the heading first.
            hierarchy: the module hierarchy above.
            steps: those that the search may take.

        Raises:
            LimitError: it takes more.
        """
        redacted, choices, at = b"", list[list[int]](), 1
        while known := self._at(stream, at, steps):
            frames = max((_frames(one) for one in known.values()), key=len)
            choices.append([handle for handle, one in known.items() if _frames(one) == frames])
            redacted, at = redacted + frames, at + frames.count(b"\n")
        if not choices:
            return None
        failure, are_all = RedactedTraceback(stream, 1, redacted), prod(map(len, choices)) < MAX_READINGS
        readings = self._readings(choices, decoded(hierarchy), steps)
        if not readings and are_all:
            return Found(failure, None, note=OTHER_NOTE)
        texts = {_frames(self._explained(self._archive, one, steps)) for one in readings}
        if len(texts) != 1 or not are_all:
            return Found(failure, None, note=SEVERAL_NOTE)
        text = texts.pop()
        return None if text == redacted else Found(failure, text, readings[0])

    def _readings(self, choices: list[list[int]], hierarchy: str, steps: Steps) -> list[tuple[int, ...]]:
        """Handles that fit together, inner ones first: calls around the innermost, as the hierarchy says.

        All of them where the log has no hierarchy.
        """
        known = self._operations
        *outer, inner = choices
        calls = [[one for one in some if known[one].may_call] or some for some in outer]
        runs = [one for one in inner if not known.runs_nothing(one)] or inner
        readings = [one[::-1] for one in islice(product(*calls, runs), MAX_READINGS)]
        if not hierarchy:
            return readings
        said = [self._explained(self._bare, one, steps).module_hierarchy for one in readings]
        return [one for one, its in zip(readings, said, strict=True) if its == hierarchy]

    def _at(self, stream: Stream, at: int, steps: Steps) -> dict[int, Symbolication]:
        """The handles whose frames the log shows from a line on, with what the archive alone says of them."""
        if self._by_line is None:
            self._by_line = self._lines(steps)
        candidates = self._by_line.get((stream.text(at) or b"").rstrip(), ())
        known = {one: self._explained(self._bare, (one,), steps) for one in candidates}
        return {
            one: said for one, said in known.items() if RedactedTraceback(stream, at, _frames(said)).is_there
        }

    def _lines(self, steps: Steps) -> dict[bytes, list[int]]:
        """The handles by the first line of their frames; some have none."""
        by_line: dict[bytes, list[int]] = {}
        for handle in self._bare.handles:
            if line := _frames(self._explained(self._bare, (handle,), steps)).partition(b"\n")[0].rstrip():
                by_line.setdefault(line, []).append(handle)
        return by_line

    def _explained(self, archive: Archive, handles: tuple[int, ...], steps: Steps) -> Symbolication:
        found = archive.symbolicate(handles, self._style)
        steps.take(1 + found.steps)
        return found


def _frames(known: Symbolication) -> bytes:
    """The frames of an explanation."""
    return bytes(known).partition(TRACEBACK_HEADING)[2]
