"""The register machine: runs a program in Python, one call of a PyTorch operator for each instruction.

Use the register machine to profile and debug, TorchScript to deploy.

Making a machine finds, once for all runs, the function that runs each operation, the last reader of each
register, and the constants that an instruction might mutate: each run gets new copies of these. See
:mod:`archive.backend.aten.blocks`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.aten.blocks import basic_blocks
from archive.backend.aten.calls import PYTHON_CALLS
from archive.backend.aten.constants import copied, resolved
from archive.backend.aten.memory import Memory
from archive.backend.aten.operators import kind_of
from archive.backend.aten.program import MOVE
from archive.backend.errors import NO_HANDLE, OperationError
from archive.backend.tensors import storages_of, tensors_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.backend.aten.blocks import BasicBlock
    from archive.backend.aten.memory import EventSink
    from archive.backend.aten.program import MachineProgram


STORAGELESS = PYTHON_CALLS.keys() - {"aten::tensor"}
"""Kinds that make no storages: lists that grow need not be searched for new tensors each time."""


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
        self._strided = [tensor for tensor in tensors if tensor.layout == torch.strided]
        self._places: list[int] = []
        self._known: dict[int, Any] = {}
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
        handle = NO_HANDLE
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
        return registers[self._program.result]

    def run_observed(self, inputs: Sequence[Any], recording: EventSink) -> Any:  # noqa: ANN401
        """Run the program as :meth:`run` does, and record the times and memory of its operations.

        The loop is that of :meth:`run`, with clocks and notes, which unobserved runs do without.
        """
        registers = self._start(inputs)
        memory = None if recording.memory is None else Memory(self._storages(inputs))
        record, clock = recording.operations.append, time.perf_counter_ns
        block: BasicBlock | None = self._first
        handle = NO_HANDLE
        try:
            while block is not None:
                for call, take, out, outs, dead, handle, kind in block.steps:
                    given = take(registers)
                    start = clock()
                    value = call(*given)
                    end = clock()
                    del given
                    if kind is not None:
                        record((start, end, handle, kind))
                        if memory is not None and kind not in STORAGELESS:
                            memory.made(value, end, handle)
                    if outs is None:
                        registers[out] = value
                    else:
                        _scatter(registers, outs, value)
                    del value
                    for number in dead:
                        registers[number] = None
                    if memory is not None and memory.freed:
                        memory.gone(clock(), handle)
                handle = block.handle
                block = block.following(registers)
        except Exception as error:
            raise OperationError(_message(error), handle) from error
        finally:
            if memory is not None and recording.memory is not None:
                recording.memory.extend(memory.events())
        return registers[self._program.result]

    def _storages(self, inputs: Sequence[Any]) -> dict[int, Any]:
        """The storages of constants and inputs. Constants have new storages if they were given new values."""
        places = [tensor.data_ptr() for tensor in self._strided]
        if places != self._places:
            self._places, self._known = places, storages_of(self._strided)
        return self._known | storages_of(tensors_in(list(inputs)))

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
    """Write several values to their registers."""
    if outs:
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
