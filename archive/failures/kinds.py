"""The kinds of failures in logs: how each begins, and what reads it. A kind is a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from archive.failures.eval_frames import EVAL_FRAME, EvalFailure, statement_in
from archive.failures.guards import GUARD, PLACED, GuardFailure, PlacedFailure
from archive.failures.inputs import InputFailure, refusal_in
from archive.failures.instructions import INSTRUCTION, InstructionFailure, is_argument
from archive.failures.kernels import KernelFailure, named_line
from archive.failures.lite import LiteFailure
from archive.failures.log import marks
from archive.failures.log.log_line import without_end
from archive.failures.nodes import EXECUTING, NodeFailure
from archive.failures.nodes import HEADING as NODE_HEADING
from archive.failures.printed import FRAME_HEADER, HANDLES_NOT_FOUND, SERIALIZED_START, TRACEBACK_START
from archive.failures.pytest_frames import PYTEST_FRAME, PytestFailure, is_second_line
from archive.failures.traceback_failures import SerializedFailure, TracebackFailure
from archive.failures.unplaced import CALL, SOURCE, UnplacedFailure

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from archive.failures.failure import Failure
    from archive.failures.kernels import NamedLine
    from archive.failures.log.beginnings import Above, Beginning
    from archive.failures.log.marks import Mark


class FailureKind(NamedTuple):
    """A kind of failures.

    Attributes:
        mark: the words in its first line, for which every line of a log is searched.
        begins: what shows, in the text of a line, that such a failure begins there; None where none does.
        read: the failure, from its beginning, what ``begins`` found, and the lines above; None where it is
            none, or its source already stands below it.
        finds_document: whether ``read`` asks for the document that holds the line, by further lines.
    """

    mark: Mark
    begins: Callable[[bytes], Any]
    read: Callable[[Beginning, Any, Above], Failure | None]
    finds_document: bool = False

    def found_in(self, text: bytes) -> Any:  # noqa: ANN401 (what ``read`` takes)
        """What shows that such a failure begins in a text; None where none does."""
        return self.begins(text) if self.mark.is_in(text) else None


def failure_at(beginning: Beginning, above: Above) -> Failure | None:
    """The failure that begins in a line; None where there is none, or its source already stands below it."""
    in_document = beginning.in_document(above)
    for kind in FAILURE_KINDS:
        own = beginning if kind.finds_document else in_document
        if found := kind.found_in(own.text):
            return kind.read(own, found, above)
    for encoded in beginning.in_encodings():
        for kind in FAILURE_KINDS:
            if not kind.finds_document and (found := kind.found_in(encoded.text)):
                return kind.read(encoded, found, above)
    return None


def _handles(beginning: Beginning, match: re.Match[bytes], above: Above) -> LiteFailure | None:
    before = beginning.stream_by_lines_above(match["prefix"], beginning.text[match.end() :], above)
    if before and (not beginning.quotes or beginning.has_end or before.ends_message):
        return LiteFailure(before.stream, before.texts)
    return None


def _traceback(beginning: Beginning, match: re.Match[bytes], above: Above) -> TracebackFailure | None:
    stream = beginning.stream_by_frame(match["prefix"], match["tail"], above)
    return None if stream is None else TracebackFailure(stream, above.hierarchy)


def _serialized(beginning: Beginning, match: re.Match[bytes], _: Above) -> SerializedFailure:
    return SerializedFailure(beginning.stream_by_second_line(match["prefix"], FRAME_HEADER.fullmatch))


def _node(beginning: Beginning, match: re.Match[bytes], above: Above) -> NodeFailure:
    stream = beginning.stream_by_second_line(match["prefix"], NODE_HEADING.__eq__, tail=match["tail"])
    return NodeFailure(stream, above.nearest())


def _frames(beginning: Beginning, match: re.Match[bytes], above: Above) -> EvalFailure:
    stream = beginning.stream_by_second_line(match["prefix"], statement_in, tail=match["tail"])
    failure = EvalFailure(stream, above.nearest())
    failure.leave()
    return failure


def _pytest(beginning: Beginning, match: re.Match[bytes], above: Above) -> PytestFailure:
    failure = PytestFailure(beginning.stream_by_second_line(match["prefix"], is_second_line), above.nearest())
    failure.leave()
    return failure


def _kernel(beginning: Beginning, line: NamedLine, _: Above) -> KernelFailure | None:
    failure = KernelFailure(beginning.stream_by_second_line(line.prefix, lambda _: True, is_patient=False))
    if failure.is_explained:
        failure.leave()
        return None
    return failure


def _instruction(beginning: Beginning, match: re.Match[bytes], above: Above) -> InstructionFailure | None:
    stream = beginning.stream_by_second_line(match["prefix"], is_argument, is_patient=False)
    failure = InstructionFailure(stream, above.nearest())
    return None if failure.is_explained else failure


def _refusal(beginning: Beginning, match: re.Match[bytes], above: Above) -> InputFailure | None:
    stream = beginning.stream(match["prefix"])
    known = (text for line in above.nearest() if (text := stream.text_of(line)) is not None)
    failure = InputFailure(stream, map(without_end, known))
    return None if failure.is_explained else failure


def _guard(beginning: Beginning, match: re.Match[bytes], _: Above) -> GuardFailure | None:
    failure = GuardFailure(beginning.stream(match["prefix"]))
    if failure.is_explained:
        failure.leave()
        return None
    return failure


def _placed(beginning: Beginning, match: re.Match[bytes], _: Above) -> PlacedFailure | None:
    failure = PlacedFailure(beginning.stream(match["prefix"]))
    return None if failure.is_explained else failure


def _unplaced(beginning: Beginning, match: re.Match[bytes], _: Above) -> UnplacedFailure | None:
    failure = UnplacedFailure(
        beginning.stream_by_second_line(match["prefix"], lambda line: line.startswith(SOURCE))
    )
    return failure if failure.said else None


FAILURE_KINDS = (
    FailureKind(marks.HANDLES, HANDLES_NOT_FOUND.match, _handles, finds_document=True),
    FailureKind(marks.TRACEBACK, TRACEBACK_START.fullmatch, _traceback, finds_document=True),
    FailureKind(marks.TRACEBACK, SERIALIZED_START.fullmatch, _serialized),
    FailureKind(marks.NODE, EXECUTING.fullmatch, _node),
    FailureKind(marks.FRAME, EVAL_FRAME.fullmatch, _frames),
    FailureKind(marks.FRAME, PYTEST_FRAME.fullmatch, _pytest),
    FailureKind(marks.KERNEL, named_line, _kernel),
    FailureKind(marks.INSTRUCTION, INSTRUCTION.fullmatch, _instruction),
    FailureKind(marks.INPUT, refusal_in, _refusal),
    FailureKind(marks.GUARD, GUARD.fullmatch, _guard),
    FailureKind(marks.PLACED, PLACED.fullmatch, _placed),
    FailureKind(marks.LITE_CALL, CALL.fullmatch, _unplaced),
)
"""Every kind. No line begins failures of two kinds; the first one counts."""
