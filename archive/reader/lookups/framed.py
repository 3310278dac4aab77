"""Names of instructions → the frames that a program of ExecuTorch has of them, in PyTorch's words."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import one_line
from archive.formats.executorch.frames import read_frames
from archive.formats.executorch.program import read_program
from archive.formats.exported.traces import build_trace
from archive.reader.lookups.instructions import NAME, ONLY_CHAIN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.executorch.model import Method
    from archive.formats.exported.traces import Trace
    from archive.reader.archive import Archive


class FramedInstruction(NamedTuple):
    """An instruction of a program.

    Attributes:
        method: its name.
        number: in the method's only chain.
        operation: the operator or backend that it calls; of others the kind of instruction, ``MoveCall``.
        trace: its frames; None where none are recorded.
    """

    method: str
    number: int
    operation: str
    trace: Trace | None

    @property
    def label(self) -> str:
        """Its name: ``forward/0:17``."""
        return f"{one_line(self.method)}/{ONLY_CHAIN}:{self.number}"

    @property
    def text(self) -> str:
        """The operation and the source that it comes from, as PyTorch prints it; ``None`` for none."""
        trace = None if self.trace is None else build_trace(self.trace)
        return f"{one_line(self.operation)}\nOriginal traceback:\n{trace}"


class FramedInstructions:
    """The instructions of a program, with their frames.

    Args:
        program: that is open.
    """

    def __init__(self, program: Archive) -> None:
        data = program._source.data  # noqa: SLF001 (the whole file)
        self._methods, self._frames = read_program(data).methods, read_frames(data)

    @property
    def framed(self) -> int:
        """How many instructions have frames."""
        return sum(frames.framed for frames in self._frames.values())

    def __iter__(self) -> Iterator[FramedInstruction]:
        """All of them, method by method."""
        for method in self._methods:
            for number in range(len(method.instructions)):
                yield self._one(method, number)

    def named(self, name: str) -> list[FramedInstruction]:
        """The instructions that a name stands for: those of every method, if it names none."""
        parts = NAME.fullmatch(name)
        if parts is None or int(parts["chain"]) != ONLY_CHAIN:
            return []
        number = int(parts["number"])
        return [
            self._one(method, number)
            for method in self._methods
            if parts["method"] in (None, method.name) and number < len(method.instructions)
        ]

    def _one(self, method: Method, number: int) -> FramedInstruction:
        instruction = method.instructions[number]
        operation = method.callee(instruction) or instruction.kind
        return FramedInstruction(method.name, number, operation, self._frames[method.name].trace(number))
