"""Texts that a model prints: if numbers differ from call to call, replay makes the text.

Python's f-strings make a text at once. So a number of the graph returns a *mark* in place of its text, if the
text goes straight into a call, as in ``print(f"step {self.step}")``. The code shows this: nothing between the
number and the call could look at the text. If a table can hold the call, the marks become fields of a
template; otherwise the model is called again without marks.
"""

from __future__ import annotations

import dis
import re
import sys
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from archive.effects.capture.graph.sites import of_model

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import CodeType, FrameType


NUMBERED_MARK = re.compile("\0([0-9]+)\0")
PUSHES = frozenset(
    (
        "LOAD_FAST",
        "LOAD_FAST_CHECK",
        "LOAD_FAST_BORROW",
        "LOAD_FAST_LOAD_FAST",
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW",
        "LOAD_CONST",
        "LOAD_SMALL_INT",
        "LOAD_GLOBAL",
        "LOAD_NAME",
        "LOAD_DEREF",
        "LOAD_CLOSURE",
        "PUSH_NULL",
    )
)
"""Instructions that only push values."""
NO_OPCODES = frozenset(("CACHE", "NOP", "EXTENDED_ARG", "PRECALL", "KW_NAMES"))
"""Instructions that leave the stack as it is, or whose effect is counted with the following call."""
TAKES = {
    "LOAD_ATTR": 1,
    "LOAD_METHOD": 1,
    "BINARY_OP": 2,
    "BINARY_SUBSCR": 2,
    "COMPARE_OP": 2,
    "UNARY_NEGATIVE": 1,
    "UNARY_NOT": 1,
    "FORMAT_SIMPLE": 1,
    "FORMAT_WITH_SPEC": 2,
    "CONVERT_VALUE": 1,
}
"""Values that other instructions take from the top of the stack."""
OF_FUNCTION = 2
"""Values below a call's arguments: the function, and ``self`` or nothing."""
CALLS = {"CALL": 0, "CALL_KW": 1}
"""Values above them: since Python 3.13 the names of keyword arguments."""
FORMATTING = ("FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC")


class MarkedText(NamedTuple):
    """A text that contains values of the call."""

    template: str
    values: tuple[Any, ...]


class TextMark(NamedTuple):
    """A value that a text shows.

    Attributes:
        call: the offset of the instruction that calls with it.
    """

    value: Any
    spec: str
    code: CodeType
    call: int


class TextMarks:
    """Keeps the marks of one call.

    Args:
        other_calls: places of calls known to be others; ``close`` adds those of this attempt.
    """

    def __init__(
        self,
        other_calls: set[tuple[CodeType, int]],
        refuse: Callable[[str], NoReturn],
    ) -> None:
        self._other_calls, self._refuse = other_calls, refuse
        self._marks: list[TextMark] = []
        self._open: set[int] = set()

    def of(self, value: object, spec: str) -> str | None:
        """A mark in place of a value's text; None if the text does not go straight into a call."""
        frame: FrameType | None = sys._getframe(1)  # the innermost of the model
        while frame is not None and not of_model(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return None
        target = call_of(frame.f_code, frame.f_lasti)
        if target is None or (frame.f_code, target) in self._other_calls or NUMBERED_MARK.search(spec):
            return None
        self._open.add(len(self._marks))
        self._marks.append(TextMark(value, spec, frame.f_code, target))
        return f"\0{len(self._marks) - 1}\0"

    def resolved(self, text: str, caller: FrameType) -> str | MarkedText:
        """A text passed to a call that a table can hold; unchanged if it has no marks."""
        pieces = NUMBERED_MARK.split(text)
        if len(pieces) == 1:
            return text
        template: list[str] = []
        values: list[object] = []
        for place, piece in enumerate(pieces):
            if place % 2 == 0:
                template.append(piece.replace("{", "{{").replace("}", "}}"))
                continue
            mark = self._marks[int(piece)] if int(piece) < len(self._marks) else None
            here = _offset(caller.f_code, caller.f_lasti)
            if mark is None or mark.code is not caller.f_code or mark.call != here:
                self._refuse("a text that holds what differs from call to call")
            self._open.discard(int(piece))
            template.append(f"{{{len(values)}:{mark.spec}}}" if mark.spec else f"{{{len(values)}}}")
            values.append(mark.value)
        return MarkedText("".join(template), tuple(values))

    def close(self) -> None:
        """Note other calls that got texts with marks; the capture is then tried again."""
        self._other_calls |= {(self._marks[mark].code, self._marks[mark].call) for mark in self._open}


@cache
def _instructions(code: CodeType) -> list[dis.Instruction]:
    return list(dis.get_instructions(code))


def _offset(code: CodeType, last: int) -> int:
    """The offset of the instruction that a frame runs; its ``f_lasti`` may be at a cache after it."""
    return max(step.offset for step in _instructions(code) if step.offset <= last)


@cache
def call_of(code: CodeType, offset: int) -> int | None:
    """The offset of the call that takes the text formatted at an offset; None if none is certain to."""
    instructions = _instructions(code)
    at = _offset(code, offset)
    start = next(n for n, instruction in enumerate(instructions) if instruction.offset == at)
    if instructions[start].opname not in FORMATTING:
        return None
    if instructions[start].opname == "FORMAT_VALUE" and (instructions[start].arg or 0) & 3:
        return None  # `!r` and the like: the text is made before it is formatted
    return _followed(iter(instructions[start + 1 :]))


def _followed(instructions: Iterator[dis.Instruction]) -> int | None:
    """Follow a text on top of the stack to the call that takes it."""
    above: float = 0
    for instruction in instructions:
        name, arg = instruction.opname, instruction.arg or 0
        if instruction.is_jump_target:
            return None
        if name in CALLS and above < arg + CALLS[name]:
            return instruction.offset
        if name == "BUILD_STRING" and above < arg:
            above = 0
            continue
        if name in NO_OPCODES:
            continue
        taken = _taken(name, arg)
        if taken > above:
            return None
        is_call = name in CALLS
        above += 1 - taken if is_call else dis.stack_effect(instruction.opcode, instruction.arg)
    return None


def _taken(name: str, arg: int) -> float:
    """How many values an instruction takes; more than there are, if it is unknown."""
    if name in PUSHES:
        return 0
    if name in CALLS:
        return arg + OF_FUNCTION + CALLS[name]
    if name in ("BUILD_STRING", "BUILD_TUPLE", "BUILD_LIST"):
        return arg
    if name == "FORMAT_VALUE":
        return 2 if arg & 4 else 1
    return TAKES.get(name, float("inf"))
