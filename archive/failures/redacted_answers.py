"""An archive's answers to failures of redacted archives, in which PyTorch has printed what is left of source.

What a redacted archive prints is known to the byte where it is at hand, with its companion. Otherwise, and
for other redactions of the same model, lines, functions, last parts of paths and the module hierarchy show
the place; in a traceback of serialized code, that code does.

Handles may lie under a traceback of redacted source: the lite interpreter prints none where it finds their
ranges. The text leads back to them: handle by handle, outermost first, those are taken whose frames the log
shows next, and among these the ones that give the module hierarchy above. If several do, and their original
source differs, none is taken; nor if the model has no such hierarchy.
"""

from __future__ import annotations

from functools import cached_property
from itertools import islice, product
from math import prod
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import LimitError
from archive.base.strings import decoded
from archive.companion.hashed_names import HASH
from archive.debuginfo.sites import last_part
from archive.debuginfo.symbolicate import TRACEBACK_HEADING
from archive.failures.failure import Answer, FailureCause, place_of, why_left
from archive.failures.handles import MAX_READINGS
from archive.failures.hashed_words import names_of
from archive.failures.lite import lite_answers
from archive.failures.messages import wording
from archive.failures.printed import HEADED
from archive.failures.redacted import (
    EXACTLY,
    Loosely,
    RedactedTraceback,
    Sign,
    file_at,
    found_at,
    sign_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.base.limits import Steps
    from archive.debuginfo.symbolicate import Style, Symbolication
    from archive.failures.handles import HandleOperations
    from archive.failures.log.streams import LogStream
    from archive.failures.one_model import OneModel
    from archive.failures.redacted import Likeness
    from archive.failures.tracebacks import Traceback
    from archive.reader.archive import Archive


# --- redacted handles

SEVERAL_NOTE = "a traceback of redacted source that may be of several places, and nothing says which"
OTHER_NOTE = "a traceback of redacted source, below a module hierarchy that is another model's"
HASHES_NOTE = "a traceback of redacted source, below hashes of names that aren't this model's"


class RedactedMatch(NamedTuple):
    """What a log shows of redacted source.

    Attributes:
        original: the original in their place; None where there are several texts, or none.
        handles: the handles, inner ones first; the first of several readings.
        is_shown: whether the log shows the original itself.
    """

    failure: RedactedTraceback
    original: bytes | None
    handles: tuple[int, ...] = ()
    note: str = ""
    is_shown: bool = False


class RedactedHandles:
    """The handles of an archive, by what the lite interpreter prints for them once it is redacted.

    Args:
        bare: the archive whose text the log has: the redacted one, or the same if that isn't at hand.
    """

    def __init__(self, archive: Archive, bare: Archive, operations: HandleOperations, style: Style) -> None:
        self._archive = archive
        self._bare = bare
        self._operations = operations
        self._style = style
        self._by_line: dict[bytes, list[int]] | None = None

    def of(self, stream: LogStream, hierarchy: bytes, like: Likeness, steps: Steps) -> RedactedMatch | None:
        """What a log shows of redacted source; None where it shows none."""
        choices, at = list[list[int]](), 1
        while stops := self._at(stream, at, like, steps):
            at = max(stops.values())
            choices.append([handle for handle, stop in stops.items() if stop == at])
        if not choices:
            return None
        failure, are_all = RedactedTraceback(stream, 1, at), prod(map(len, choices)) < MAX_READINGS
        failure.hierarchy = hierarchy
        readings = self._readings(choices, decoded(like.named(hierarchy)), steps)
        if not readings and are_all:
            is_hashed = HASH.search(like.named(hierarchy)) is not None and isinstance(like, Loosely)
            return RedactedMatch(failure, None, note=HASHES_NOTE if is_hashed else OTHER_NOTE)
        texts = {_frames(self._symbolicated(self._archive, handles, steps)) for handles in readings}
        if len(texts) != 1 or not are_all:
            return RedactedMatch(failure, None, note=SEVERAL_NOTE)
        text = texts.pop()
        is_shown = found_at(stream, 1, text, EXACTLY) is not None
        return RedactedMatch(failure, text, readings[0], is_shown=is_shown)

    def _readings(self, choices: list[list[int]], hierarchy: str, steps: Steps) -> list[tuple[int, ...]]:
        """Handles that fit together, inner ones first: calls around the innermost, as the hierarchy says.

        All of them where the log has no hierarchy.
        """
        known = self._operations
        *outer, inner = choices
        calls = [[handle for handle in handles if known[handle].may_call] or handles for handles in outer]
        for innermost in ([handle for handle in inner if not known.runs_nothing(handle)], inner):
            readings = [chain[::-1] for chain in islice(product(*calls, innermost), MAX_READINGS)]
            if hierarchy:
                readings = [
                    handles
                    for handles in readings
                    if self._symbolicated(self._bare, handles, steps).module_hierarchy == hierarchy
                ]
            if readings:
                return readings
        return []

    def _at(self, stream: LogStream, at: int, like: Likeness, steps: Steps) -> dict[int, int]:
        """The handles whose frames the log shows from a line on, with the line after them."""
        if self._by_line is None:
            by_line: dict[bytes, list[int]] = {}
            for handle in self._bare.handles:
                frames = _frames(self._symbolicated(self._bare, (handle,), steps))
                if line := frames.partition(b"\n")[0].rstrip():
                    by_line.setdefault(like.key(line), []).append(handle)
            self._by_line = by_line
        stops = {}
        for handle in self._by_line.get(like.key(stream.text(at) or b""), ()):
            text = _frames(self._symbolicated(self._bare, (handle,), steps))
            if traceback := found_at(stream, at, text, like):
                stops[handle] = traceback.stop
        return stops

    def _symbolicated(self, archive: Archive, handles: tuple[int, ...], steps: Steps) -> Symbolication:
        symbolication = archive.symbolicate(handles, self._style)
        steps.take(1 + symbolication.steps)
        return symbolication


def _frames(symbolication: Symbolication) -> bytes:
    """The frames of an explanation; some have none."""
    return bytes(symbolication).partition(TRACEBACK_HEADING)[2]


# --- redacted answers

NOT_HERE = "redacted source that no place of this model gives: the failure is another model's, or version's"
OTHER_SOURCE = "source that this model doesn't have there: the failure is another model's, or version's"
OTHER_REDACTION = "not as this redacted archive prints it, but as another redaction of the model may"


class RedactedAnswers:
    """The answers of a model to failures whose source is redacted."""

    def __init__(self, model: OneModel) -> None:
        self._archive, self._spending = model.archive, model.spending
        self._lite, self._names = model.made(lite_answers), model.made(names_of)

    # The lite interpreter

    def of_lite(self, stream: LogStream, hierarchy: bytes) -> Answer | None:
        """The answer to a traceback of the lite interpreter; None where it shows no redacted source.

        Args:
            hierarchy: the module hierarchy above; b"" where there is none.
        """
        if not self._archive.handles:
            return None
        sign = sign_at(stream, 1, self.files)
        with self._spending.one_failure() as steps:
            try:
                if match := self._exact.of(stream, hierarchy, EXACTLY, steps) if self._exact else None:
                    return self._answer(match)
                if sign is Sign.NONE:
                    return None
                match = self._loose.of(stream, hierarchy, self._like, steps)
            except LimitError as error:
                return Answer(
                    RedactedTraceback(stream, 1, 1), None, ((0, why_left(error)),), is_possible=True
                )
        if match:
            return self._answer(match, OTHER_REDACTION if self._exact else "")
        return self._not_here(stream, 1, sign)

    def _not_here(self, stream: LogStream, at: int, sign: Sign) -> Answer | None:
        """The answer to redacted source that isn't this model's; None where that is uncertain."""
        is_ours = file_at(stream, at) in map(last_part, self.files)
        if sign is Sign.PARTLY and not (self._exact and is_ours):
            return None
        return Answer(
            RedactedTraceback(stream, 1, 1), None, ((0, NOT_HERE if sign is Sign.BLANK else OTHER_SOURCE),)
        )

    def _answer(self, match: RedactedMatch, note: str = "") -> Answer | None:
        """The answer by the handles that match; None where the log shows the original itself."""
        if match.is_shown:
            return None
        if match.original is None:
            return Answer(match.failure, None, ((0, match.note),), is_possible=match.note == SEVERAL_NOTE)
        known = self._archive.symbolicate(match.handles, self._lite.style)
        place = place_of(frame.range for frame in reversed(known.frames))
        cause = FailureCause(*place, known.module_hierarchy, wording(match.failure.message))
        notes = ((0, note),) if note else ()
        return Answer(match.failure, match.original, notes, is_possible=True, cause=cause)

    # Serialized code

    def of_serialized(
        self, stream: LogStream, traceback: Traceback, original: Callable[[], bytes]
    ) -> Answer | None:
        """The answer to a traceback of serialized and original code; None where the latter isn't redacted."""
        is_whole = traceback.frames and not traceback.is_too_long
        stop = traceback.frames[-1].stop if is_whole else 0
        sign = sign_at(stream, stop + HEADED, self.files) if is_whole else Sign.NONE
        if sign is Sign.NONE:
            return None
        foreign = next((frame for frame in traceback.frames if frame.is_foreign), None)
        if foreign is not None:
            return (
                Answer(traceback, None, ((foreign.first, foreign.problem),)) if sign is Sign.BLANK else None
            )
        try:
            text = original()
        except LimitError as error:
            return Answer(traceback, None, ((0, why_left(error)),), is_possible=True)
        if found_at(stream, stop, text, EXACTLY):
            return None
        failure = found_at(stream, stop, text, self._like)
        if failure is None:
            return self._not_here(stream, stop + HEADED, sign)
        failure.renamed = traceback.renamed
        cause = traceback.cause._replace(message=wording(failure.message))
        return Answer(failure, text, is_possible=True, cause=cause)

    # Facts

    @cached_property
    def _exact(self) -> RedactedHandles | None:
        """By what the redacted archive prints; None where it isn't at hand, or prints nothing."""
        bare = self._archive.redacted
        if bare is None or not bare.range_records:
            return None
        return RedactedHandles(self._archive, bare, self._lite.splits.operations, self._lite.style)

    @cached_property
    def _loose(self) -> RedactedHandles:
        return RedactedHandles(self._archive, self._archive, self._lite.splits.operations, self._lite.style)

    @cached_property
    def files(self) -> frozenset[bytes]:
        """The paths of the model's source files."""
        sources = self._archive.range_table.sources
        filenames = {string for string in sources.filename.tolist() if string >= 0}
        return frozenset(bytes(sources.strings.data(string)) for string in filenames)

    @cached_property
    def _like(self) -> Loosely:
        return Loosely(self.files, self._names)
