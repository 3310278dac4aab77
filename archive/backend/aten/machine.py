"""The register machine: runs a program in Python, one call of a PyTorch operator for each instruction.

Use the register machine to profile and debug, TorchScript to deploy.

Making a machine finds, once for all runs, the function that runs each operation, the last reader of each
register, and the constants that an instruction might mutate: each run gets new copies of these. See
:mod:`archive.backend.aten.blocks`.
"""

from __future__ import annotations

import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.aten.blocks import basic_blocks
from archive.backend.aten.calls import PYTHON_CALLS
from archive.backend.aten.constants import copied, resolved
from archive.backend.aten.memory import Memory
from archive.backend.aten.operators import kind_of
from archive.backend.aten.program import MOVE
from archive.backend.errors import NO_HANDLE, OperationError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from archive.backend.aten.blocks import BasicBlock
    from archive.backend.aten.memory import EventSink
    from archive.backend.aten.program import MachineProgram


class Machine:
    """A program that is ready to run.

    Args:
        program: a program without unsupported operations.
        tensors: the tensors that its constants refer to.
        held: the attributes that the lowered module holds; the program may replace items.
    """

    def __init__(
        self, program: MachineProgram, tensors: Sequence[torch.Tensor], held: list[Any] | None = None
    ) -> None:
        self._program = program
        self._registers: list[Any] = [None] * program.registers
        shared = [] if held is None else held
        known = {number: resolved(value, tensors, shared) for number, value in program.constants.items()}
        for number, value in known.items():
            self._registers[number] = value
        self._fresh = [
            (number, known[number])
            for number in _changeable(program)
            if isinstance(known.get(number), list | dict | tuple) and known[number] is not shared
        ]
        self._first = basic_blocks(program, known)

    def run(self, inputs: Sequence[Any]) -> Any:  # noqa: ANN401
        """Run the program, in the caller's grad mode.

        Args:
            inputs: a value for each parameter.

        Returns:
            The value that the method returns.

        Raises:
            TypeError: there are more inputs or fewer.
            OperationError: an operation failed.
        """
        registers = self._start(inputs)
        block: BasicBlock | None = self._first
        handle, with_gradients = NO_HANDLE, torch.is_grad_enabled()
        try:
            while block is not None:
                for call, take, out, outs, dead, handle, _ in block.steps:  # noqa: B007 (read on failure)
                    if outs is None:
                        registers[out] = call(*take(registers))
                    else:
                        _scatter(registers, outs, call(*take(registers)))
                    for number in dead:
                        registers[number] = None
                handle = block.handle
                block = block.following(registers)
        except Exception as error:
            raise OperationError(_message(error), handle) from error
        finally:
            torch._C._set_grad_enabled(with_gradients)
        return registers[self._program.result]

    def run_observed(self, inputs: Sequence[Any], recording: EventSink) -> Any:  # noqa: ANN401
        """Run the program as :meth:`run` does, and record the times and memory of its operations.

        The loop is that of :meth:`run`, with clocks and marks, which unobserved runs do without.

        Raises:
            TypeError: there are more inputs or fewer.
            OperationError: an operation failed.
            RuntimeError: memory is wanted, and PyTorch's profiler runs already.
        """
        registers = self._start(inputs)
        if recording.memory is None:
            return self._observed(registers, recording.operations, nullcontext())
        before = len(recording.operations)
        memory = Memory()
        try:
            with memory:
                return self._observed(registers, recording.operations, memory.mark)
        finally:
            recording.memory.extend(memory.events(recording.operations[before:]))

    def _observed(
        self,
        registers: list[Any],
        operations: list[tuple[int, int, int, str]],
        mark: AbstractContextManager[object],
    ) -> Any:  # noqa: ANN401
        """Run the program from its first block on, each recorded operation within ``mark``.

        Raises:
            OperationError: an operation failed.
        """
        record, clock = operations.append, time.perf_counter_ns
        block: BasicBlock | None = self._first
        handle, with_gradients = NO_HANDLE, torch.is_grad_enabled()
        try:
            while block is not None:
                for call, take, out, outs, dead, handle, kind in block.steps:
                    given = take(registers)
                    if kind is None:
                        value = call(*given)
                    else:
                        with mark:
                            start = clock()
                            value = call(*given)
                            end = clock()
                        record((start, end, handle, kind))
                    del given
                    if outs is None:
                        registers[out] = value
                    else:
                        _scatter(registers, outs, value)
                    del value
                    for number in dead:
                        registers[number] = None
                handle = block.handle
                block = block.following(registers)
        except Exception as error:
            raise OperationError(_message(error), handle) from error
        finally:
            torch._C._set_grad_enabled(with_gradients)
        return registers[self._program.result]

    def _start(self, inputs: Sequence[Any]) -> list[Any]:
        """The registers before the first instruction.

        Raises:
            TypeError: there are more inputs or fewer than parameters.
        """
        count = self._program.parameters
        if len(inputs) != count:
            raise TypeError(f"{self._program.method} takes {count} inputs, {len(inputs)} were given")
        registers = self._registers.copy()
        registers[:count] = inputs
        for number, value in self._fresh:
            registers[number] = copied(value)
        return registers


def _scatter(registers: list[Any], outs: tuple[int, ...], values: Sequence[Any]) -> None:
    """Write several values to their registers.

    Raises:
        ValueError: a list has another number of items, as PyTorch says it.
    """
    if outs:
        if len(values) != len(outs):
            raise ValueError(f"Expected {len(outs)} elements in a list but found {len(values)}")
        for number, value in zip(outs, values, strict=True):
            registers[number] = value


def _changeable(program: MachineProgram) -> set[int]:
    """Registers whose values may be mutated, or returned: PyTorch's operators get copies of lists."""
    found = {program.result}
    for one in program.instructions:
        if one.op == MOVE or one.op in PYTHON_CALLS or kind_of(one.op) in PYTHON_CALLS:
            found.update(one.ins)
    return found


def _message(error: Exception) -> str:
    """The text of an error; it names the class of a ``KeyError``, whose text is the key alone."""
    return f"KeyError: {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
