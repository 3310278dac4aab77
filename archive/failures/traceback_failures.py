"""A traceback of TorchScript as a failure: what it shows without any model, and a model's answer."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cached_property, partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from archive.base.errors import LimitError
from archive.base.strings import decoded
from archive.companion.hashed_names import HASH
from archive.debuginfo.excerpt import CONTEXT
from archive.failures.code_records import FrameCode, ModelCode
from archive.failures.failure import MAX_LINES, OTHER_TEXT, Answer, Failure, why_left
from archive.failures.messages import EXCEPTION
from archive.failures.printed import FRAME_HEADER, HEADED, HIERARCHY, RETHROWN, is_source
from archive.failures.redacted import Sign, is_as_it_was, sign_at
from archive.failures.redacted_answers import RedactedAnswers
from archive.failures.shown_source import ModelSources, frames_at
from archive.failures.tracebacks import CUT_NOTE, MAX_BYTES, Traceback
from archive.reader.lacking import why_no_ranges

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.debuginfo.model import SourceRange
    from archive.failures.log.streams import LogStream
    from archive.failures.one_model import OneModel
    from archive.reader.facts import Facts

UNCHECKED = "nothing proves it: not checked against the model's code, which a companion doesn't have"
OF_OTHER_CODE = "the companion is another build's, unless its archive beside it shows the same code"
"""Of what failed, the innermost frame. Those above it may be without source: tracing gives calls none."""
FRAMELESS_NOTE = "PyTorch printed no frame here, so nothing says which line of the model failed"
"""Of an instruction without a source range of its own, as one that unpacks a list."""
TORN_NOTE = "a traceback that breaks off within its first frame, or has lines of others in it"
DIGEST = 16
"""Bytes of a traceback's digest."""
REDACTED = "traceback of redacted source"
TOP = re.compile(rb"top\(([^)]*)\)")
"""Begins a module hierarchy: the class of the top module."""


class AnyCode(FrameCode):
    """A code record of which nothing is known: all lines are taken that may be code."""

    most_unmarked = CONTEXT

    def __init__(self, file: bytes) -> None:
        self.name = decoded(file)
        self.lines = None

    def shows(self, shown: list[bytes], number: int) -> bool:  # noqa: ARG002 (nothing is known)
        return False

    def original(self, line: int, column: int) -> SourceRange | None:  # noqa: ARG002 (the same)
        return None


class TracebackFailure(Failure):
    """A traceback of TorchScript. Its lines are read once they are needed.

    Args:
        hierarchy: the module hierarchy above, which the lite interpreter prints; b"" where there is none.
    """

    def __init__(self, stream: LogStream, hierarchy: bytes = b"") -> None:
        super().__init__(stream)
        self.hierarchy = hierarchy

    def answer(self, model: OneModel) -> Answer | None:
        """A model's answer; None where no frame is of serialized code, and none of redacted source."""
        return self._answer(model, _of_code)

    def possible(self, model: OneModel) -> Answer | None:
        """The same without the explanation of the model's code."""
        return self._answer(model, _of_possible_code)

    def _answer(self, model: OneModel, of_code: Callable[[Traceback, OneModel], Answer]) -> Answer | None:
        traceback = Traceback(self.stream, model.made(ModelCode).of)
        frames = [frame for frame in traceback.frames if frame.is_serialized]
        if traceback.is_too_long:
            why = f"a traceback of more than {MAX_LINES} lines or {MAX_BYTES} bytes"
            return Answer(traceback, None, ((0, why),))
        if not frames:
            redacted = model.made(RedactedAnswers).of_lite(self.stream, self.hierarchy)
            if redacted is not None:
                return redacted
            why = TORN_NOTE if traceback.is_torn else FRAMELESS_NOTE if self._is_frameless else ""
            return Answer(traceback, None, ((0, why),)) if why else None
        if foreign := next((frame for frame in frames if frame.is_foreign), None):
            return Answer(traceback, None, ((foreign.first, foreign.problem),))
        innermost = frames[-1]
        if model.made(ModelCode).is_unchecked and not (innermost.is_placed or traceback.cut):
            note = innermost.first, f"{innermost.problem}; {OF_OTHER_CODE}"
            return Answer(traceback, None, (note,), is_possible=True, is_unproven=True)
        if not any(frame.original for frame in frames):
            why = why_no_ranges(model.archive)
            note = frames[0].first, why or frames[0].problem
            return Answer(traceback, None, (note,), is_possible=bool(why), is_split=bool(why))
        return of_code(traceback, model)

    def source_problem(self, model: OneModel) -> tuple[int, str] | None:
        if sign_at(self.stream, self.source_at, ()) is not Sign.NONE:
            return None
        sources = model.made(ModelSources)
        frames = frames_at(self.stream, self.source_at)
        return next(((at, why) for at, frame in frames if (why := sources.problem_of(frame))), None)

    @property
    def source_at(self) -> int:
        """The line at which source begins, if the log shows some."""
        return 1

    def shows_model(self) -> bool:
        """Whether it has code, or signs of redacted source."""
        return self.has_code or sign_at(self.stream, 1, ()) is not Sign.NONE

    @property
    def problem(self) -> str:  # type: ignore[override]
        """Why no model can explain it: it has no frame of code that is whole."""
        if self._is_frameless:
            return FRAMELESS_NOTE
        return TORN_NOTE if not self.has_code and self._traceback.is_torn else ""

    @property
    def _is_frameless(self) -> bool:
        """Whether the error follows its heading; it isn't another traceback's, which is then explained."""
        second = self.stream.text(1, is_patient=False) or b""
        return EXCEPTION.match(second) is not None and RETHROWN.fullmatch(second) is None

    def has_source(self, above: bytes) -> bool:
        """Whether it shows the model's own source, and no generated code."""
        first = self.stream.text(1, is_patient=False)
        return HIERARCHY in above or (first is not None and is_source(first))

    @property
    def lacks_frame(self) -> bool:  # type: ignore[override]
        """Whether the line below its heading doesn't begin a frame."""
        return FRAME_HEADER.fullmatch(self.stream.text(1) or b"") is None

    @cached_property
    def _traceback(self) -> Traceback:
        return Traceback(self.stream, AnyCode)

    @cached_property
    def names(self) -> frozenset[str]:
        """The code records that its frames name."""
        return frozenset(decoded(frame.file) for frame in self._traceback.frames if frame.is_serialized)

    @property
    def has_code(self) -> bool:
        """Whether there are any; true where it is too long to read."""
        return bool(self.names) or self._traceback.is_too_long

    @property
    def what(self) -> str:
        return "traceback" if self.has_code else REDACTED

    @property
    def key(self) -> object:
        if not self.has_code:
            return object()  # only a model knows where its lines of source end
        return blake2b(b"\n".join(self._traceback.raw[1:]), digest_size=DIGEST).digest()

    def may_be_of(self, facts: Facts) -> bool:
        """Whether a model may have this code, or, where there is only source, the module hierarchy."""
        if self.has_code:
            return facts.may_have_code(self.names)
        if not facts.handles:
            return False
        top = TOP.match(self.hierarchy)  # a hash, in a redacted archive
        return top is None or decoded(top[1]) == facts.top or HASH.fullmatch(top[1]) is not None


class SerializedFailure(TracebackFailure):
    """A traceback of TorchScript that goes on with its original code; its first heading says *serialized*."""

    what = REDACTED
    lacks_frame = False
    problem = ""

    def answer(self, model: OneModel) -> Answer | None:
        if is_as_it_was(self.stream, model.made(RedactedAnswers).files):
            return None
        traceback = Traceback(self.stream, model.made(ModelCode).of)
        original = partial(_original, traceback, model)
        answer = model.made(RedactedAnswers).of_serialized(self.stream, traceback, original)
        if answer and answer.text is not None and model.made(ModelCode).is_unchecked:
            return replace(answer, notes=(*answer.notes, (0, UNCHECKED)), is_unproven=True)
        return answer

    possible = answer

    @property
    def source_at(self) -> int:
        return self._traceback.frames[-1].stop + HEADED if self.names else 1

    def shows_model(self) -> bool:
        """Whether it has code, and signs that its original code is redacted."""
        if is_as_it_was(self.stream, ()) or not self.names:
            return False
        return sign_at(self.stream, self._traceback.frames[-1].stop + HEADED, ()) is not Sign.NONE

    def has_source(self, above: bytes) -> bool:  # noqa: ARG002 (its source may be redacted)
        return False

    @property
    def key(self) -> object:
        return object()

    def may_be_of(self, facts: Facts) -> bool:
        return facts.may_have_code(self.names)


def _of_possible_code(traceback: Traceback, model: OneModel) -> Answer:
    """The same without its text."""
    is_unproven = model.made(ModelCode).is_unchecked
    return Answer(traceback, OTHER_TEXT, is_possible=True, is_unproven=is_unproven)


def _of_code(traceback: Traceback, model: OneModel) -> Answer:
    """The answer to a traceback of the model's code, of which a frame has a source range."""
    notes = [
        (frame.first, frame.problem)
        for frame in traceback.frames
        if frame.is_serialized and not frame.original
    ]
    try:
        original = _original(traceback, model)
    except LimitError as error:
        return Answer(traceback, None, (*notes, (0, why_left(error))), is_possible=True)
    if traceback.cut:
        notes.append((traceback.cut, CUT_NOTE))
    if model.made(ModelCode).is_unchecked:
        notes.append((0, UNCHECKED))
    return Answer(
        traceback,
        original,
        tuple(notes),
        inner=traceback.inner,
        is_possible=True,
        is_unproven=model.made(ModelCode).is_unchecked,
        cause=traceback.cause,
    )


def _original(traceback: Traceback, model: OneModel) -> bytes:
    """The traceback of the original code."""
    with model.spending.one_failure() as steps:
        return traceback.original(model.archive.limits, steps)
