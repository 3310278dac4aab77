"""The handles behind a traceback of redacted source.

The lite interpreter prints no handles where it finds their ranges. Those of a failure are found by the text
again: handle by handle, outermost first, those are taken whose frames the log shows next, and of these the
ones that give the module hierarchy above. Where several do, and their original source differs, none is taken;
and none where no hierarchy of the model is the one above.
"""

from __future__ import annotations

from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from archive.base.strings import decoded
from archive.debuginfo.symbolicate import TRACEBACK_HEADING
from archive.failures.handles import MAX_READINGS
from archive.failures.hashed_words import HASH
from archive.failures.redacted import RedactedTraceback, found_at
from archive.failures.redacted_lines import Exactly, Loosely

if TYPE_CHECKING:
    from archive.base.steps import Steps
    from archive.debuginfo.symbolicate import Style, Symbolication
    from archive.failures.operations import Operations
    from archive.failures.redacted_lines import Likeness
    from archive.failures.streams import Stream
    from archive.reader.archive import Archive

SEVERAL_NOTE = "a traceback of redacted source that may be of several places, and nothing tells which"
OTHER_NOTE = "a traceback of redacted source, below a module hierarchy that is another model's"
HASHES_NOTE = "a traceback of redacted source, below hashes of names that are none of this model's"


class Found(NamedTuple):
    """What a log shows of redacted source.

    Attributes:
        failure: its lines.
        original: the original in their place; None where there are several texts, or none.
        handles: the handles, inner ones first; one reading of several.
        note: why there is no original.
        is_shown: whether the log shows the original itself.
    """

    failure: RedactedTraceback
    original: bytes | None
    handles: tuple[int, ...] = ()
    note: str = ""
    is_shown: bool = False


class RedactedHandles:
    """The handles of an archive, by what the lite interpreter prints of them once it is redacted.

    Args:
        archive: the archive as it was.
        bare: the archive whose text the log has: the redacted one, or the same if that is not at hand.
        operations: its operations.
        style: the release whose wording it is.
    """

    def __init__(self, archive: Archive, bare: Archive, operations: Operations, style: Style) -> None:
        self._archive = archive
        self._bare = bare
        self._operations = operations
        self._style = style
        self._by_line: dict[bytes, list[int]] | None = None

    def of(self, stream: Stream, hierarchy: bytes, like: Likeness, steps: Steps) -> Found | None:
        """What a log shows of redacted source; None where it shows none.

        Args:
            stream: the failure's lines, the heading first.
            hierarchy: the module hierarchy above.
            like: tells whether a line of the log stands for one of the text.
            steps: those that the search may take.

        Raises:
            LimitError: it takes more.
        """
        choices, at = list[list[int]](), 1
        while known := self._at(stream, at, like, steps):
            at = max(known.values())
            choices.append([handle for handle, stop in known.items() if stop == at])
        if not choices:
            return None
        failure, are_all = RedactedTraceback(stream, 1, at), prod(map(len, choices)) < MAX_READINGS
        readings = self._readings(choices, decoded(like.named(hierarchy)), steps)
        if not readings and are_all:
            is_hashed = HASH.search(like.named(hierarchy)) is not None and isinstance(like, Loosely)
            return Found(failure, None, note=HASHES_NOTE if is_hashed else OTHER_NOTE)
        texts = {_frames(self._explained(self._archive, one, steps)) for one in readings}
        if len(texts) != 1 or not are_all:
            return Found(failure, None, note=SEVERAL_NOTE)
        text = texts.pop()
        return Found(failure, text, readings[0], is_shown=found_at(stream, 1, text, Exactly()) is not None)

    def _readings(self, choices: list[list[int]], hierarchy: str, steps: Steps) -> list[tuple[int, ...]]:
        """Handles that fit together, inner ones first: calls around the innermost, as the hierarchy says.

        All of them where the log has no hierarchy.
        """
        known = self._operations
        *outer, inner = choices
        calls = [[one for one in some if known[one].may_call] or some for some in outer]
        runs = [one for one in inner if not known.runs_nothing(one)]
        return self._said(calls, runs, hierarchy, steps) or self._said(calls, inner, hierarchy, steps)

    def _said(
        self, calls: list[list[int]], inner: list[int], hierarchy: str, steps: Steps
    ) -> list[tuple[int, ...]]:
        """The readings that a hierarchy names; all where there is none."""
        readings = [one[::-1] for one in islice(product(*calls, inner), MAX_READINGS)]
        if not hierarchy:
            return readings
        said = [self._explained(self._bare, one, steps).module_hierarchy for one in readings]
        return [one for one, its in zip(readings, said, strict=True) if its == hierarchy]

    def _at(self, stream: Stream, at: int, like: Likeness, steps: Steps) -> dict[int, int]:
        """The handles whose frames the log shows from a line on, with the line behind them."""
        if self._by_line is None:
            self._by_line = self._lines(like, steps)
        found = {}
        for one in self._by_line.get(like.key(stream.text(at) or b""), ()):
            text = _frames(self._explained(self._bare, (one,), steps))
            if traceback := found_at(stream, at, text, like):
                found[one] = traceback.stop
        return found

    def _lines(self, like: Likeness, steps: Steps) -> dict[bytes, list[int]]:
        """The handles by the first line of their frames; some have none."""
        by_line: dict[bytes, list[int]] = {}
        for handle in self._bare.handles:
            line = _frames(self._explained(self._bare, (handle,), steps)).partition(b"\n")[0].rstrip()
            if line:
                by_line.setdefault(like.key(line), []).append(handle)
        return by_line

    def _explained(self, archive: Archive, handles: tuple[int, ...], steps: Steps) -> Symbolication:
        found = archive.symbolicate(handles, self._style)
        steps.take(1 + found.steps)
        return found


def _frames(known: Symbolication) -> bytes:
    """The frames of an explanation."""
    return bytes(known).partition(TRACEBACK_HEADING)[2]
