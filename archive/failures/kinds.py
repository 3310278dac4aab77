"""The kinds of failures in logs: how each begins, and what reads it. A kind is a row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from archive.failures import marks
from archive.failures.eval_frames import EVAL_FRAME, EvalTraceback, statement_in
from archive.failures.failures import HANDLES_NOT_FOUND, LiteFailure
from archive.failures.instructions import INSTRUCTION, InstructionFailure, is_argument
from archive.failures.kernel_lines import named_line
from archive.failures.kernels import KernelLine
from archive.failures.nodes import EXECUTING, NodeFailure
from archive.failures.nodes import HEADING as NODE_HEADING
from archive.failures.outline import Outline, SerializedOutline
from archive.failures.tracebacks import FRAME_HEADER, SERIALIZED_START, TRACEBACK_START

if TYPE_CHECKING:
    import re
    from collections.abc import Callable

    from archive.failures.beginnings import Above, Beginning
    from archive.failures.failures import Failure
    from archive.failures.kernel_lines import NamedLine


class Kind(NamedTuple):
    """A kind of failures.

    Attributes:
        marks: its first line has one of them.
        begins: what tells, in the text of its first line, that it begins there; None where it does not.
        read: the failure, of its beginning, what ``begins`` gave, and the lines above; None where it is none,
            or has its source already.
    """

    marks: tuple[bytes, ...]
    begins: Callable[[bytes], Any]
    read: Callable[[Beginning, Any, Above], Failure | None]


def _handles(beginning: Beginning, found: re.Match[bytes], above: Above) -> LiteFailure | None:
    before = beginning.preceded(found["prefix"], beginning.text[found.end() :], above)
    if before and (not beginning.quotes or beginning.has_end or before.ends_message):
        return LiteFailure(before.stream, before.texts)
    return None


def _traceback(beginning: Beginning, found: re.Match[bytes], above: Above) -> Outline | None:
    stream = beginning.framed(found["prefix"], found["tail"])
    return None if stream is None else Outline(stream, above.hierarchy)


def _serialized(beginning: Beginning, found: re.Match[bytes], _: Above) -> SerializedOutline:
    return SerializedOutline(beginning.followed(found["prefix"], FRAME_HEADER.fullmatch))


def _node(beginning: Beginning, found: re.Match[bytes], _: Above) -> NodeFailure:
    return NodeFailure(beginning.followed(found["prefix"], NODE_HEADING.__eq__))


def _frames(beginning: Beginning, found: re.Match[bytes], _: Above) -> EvalTraceback | None:
    traceback = EvalTraceback(beginning.followed(found["prefix"], statement_in))
    traceback.leave()
    return None if traceback.is_explained or not traceback.statements else traceback


def _kernel(beginning: Beginning, found: NamedLine, _: Above) -> KernelLine | None:
    line = KernelLine(beginning.followed(found.prefix, lambda _: True, is_patient=False))
    if line.is_explained:
        line.leave()
        return None
    return line


def _instruction(beginning: Beginning, found: re.Match[bytes], _: Above) -> InstructionFailure | None:
    failure = InstructionFailure(beginning.followed(found["prefix"], is_argument, is_patient=False))
    return None if failure.is_explained else failure


KINDS = (
    Kind(marks.HANDLES, HANDLES_NOT_FOUND.match, _handles),
    Kind(marks.TRACEBACK, TRACEBACK_START.fullmatch, _traceback),
    Kind(marks.TRACEBACK, SERIALIZED_START.fullmatch, _serialized),
    Kind(marks.NODE, EXECUTING.fullmatch, _node),
    Kind(marks.EVAL_FRAME, EVAL_FRAME.fullmatch, _frames),
    Kind(marks.KERNEL, named_line, _kernel),
    Kind(marks.INSTRUCTION, INSTRUCTION.fullmatch, _instruction),
)
"""Every kind. No line begins failures of two of them; the first one counts."""
