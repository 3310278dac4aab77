"""What ``inspect`` says about the methods of an ExecuTorch program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.base.quick_dataclass import dataclass
from archive.formats.executorch.frames import read_frames
from archive.formats.executorch.program import read_program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from archive.formats.executorch.model import Method


@dataclass(frozen=True, slots=True)
class ExecutorchMethod:
    """One method of an ExecuTorch program.

    Attributes:
        inputs: the type of each: ``float32[3x4]``, where ``<=3`` is a size that varies up to 3, or ``Int``.
        outputs: likewise.
        instructions: of all kinds.
        framed: how many of them have the frames of their source.
        operators: how often each is called.
        backends: how often each is called.
        planned_bytes: of each buffer of planned memory.
    """

    inputs: Sequence[str]
    outputs: Sequence[str]
    instructions: int
    framed: int
    operators: Mapping[str, int]
    backends: Mapping[str, int]
    planned_bytes: Sequence[int]


def executorch_methods(data: memoryview) -> dict[str, ExecutorchMethod]:
    """The methods of a program, by name."""
    frames = read_frames(data)
    return {method.name: _facts(method, frames[method.name].framed) for method in read_program(data).methods}


def _facts(method: Method, framed: int) -> ExecutorchMethod:
    return ExecutorchMethod(
        [method.type_of(number) for number in method.inputs],
        [method.type_of(number) for number in method.outputs],
        len(method.instructions),
        framed,
        method.operator_calls,
        method.backend_calls,
        method.planned,
    )
