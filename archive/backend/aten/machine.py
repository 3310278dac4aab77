"""The register machine: runs a program in Python, one call of a PyTorch operator an instruction.

Whatever can be known beforehand is found when a machine is made: what runs each operation, where registers
are read for the last time, and which constants somebody could change, who then gets a new copy in each run.

A register is cleared behind the last instruction that reads it. Instructions stand in the order of the
model's source, so that is a place in the text of the program: no later one reads the register, unless a loop
goes back. A register that is written above a loop and read in it lives until the loop's end. Registers whose
last reader is jumped over are cleared by the jump.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch

from archive.backend.aten.calls import PYTHON_CALLS
from archive.backend.aten.constants import copied, resolved
from archive.backend.aten.memory import Memory
from archive.backend.aten.operators import kind_of, prepared
from archive.backend.aten.program import CONTROL, EACH, JUMP_UNLESS, MOVE
from archive.backend.errors import NO_HANDLE, OperationError
from archive.backend.tensors import storages_of, tensors_in

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.backend.aten.memory import EventSink
    from archive.backend.aten.program import MachineInstruction, MachineProgram

    Take: TypeAlias = Callable[[list[Any]], Sequence[Any]]
    Step: TypeAlias = tuple[
        Callable[..., Any], Take, int, tuple[int, ...] | None, tuple[int, ...], int, str | None
    ]


UNPACKING_KINDS = ("prim::TupleUnpack", "prim::ListUnpack")
"""Kinds that make as many values as there are items, even if it is one."""
STORAGELESS = PYTHON_CALLS.keys() - {"aten::tensor"}
"""Kinds that make no storages; lists are not looked through each time that they grow."""


class Machine:
    """A program that is ready to run.

    Args:
        program: one whose operations can all be run.
        tensors: those that its constants are numbers of.
    """

    def __init__(self, program: MachineProgram, tensors: Sequence[torch.Tensor]) -> None:
        self._program = program
        self._registers: list[Any] = [None] * program.registers
        self._strided = [tensor for tensor in tensors if tensor.layout == torch.strided]
        self._places: list[int] = []
        self._known: dict[int, Any] = {}
        known = {number: resolved(value, tensors) for number, value in program.constants.items()}
        for number, value in known.items():
            self._registers[number] = value
        self._fresh = [
            (number, known[number])
            for number in _changeable(program)
            if isinstance(known.get(number), list | dict | tuple)
        ]
        self._first = _blocks(program, known)

    def run(self, inputs: Sequence[Any]) -> Any:  # noqa: ANN401
        """Run the program, in the caller's grad mode.

        Args:
            inputs: one for each parameter.

        Returns:
            The value that the method returns.

        Raises:
            TypeError: there are more inputs or fewer.
            OperationError: an operation failed.
        """
        registers = self._start(inputs)
        block: _Block | None = self._first
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
        """Run the program, and record what its operations take. As :meth:`run` otherwise."""
        registers = self._start(inputs)
        memory = None if recording.memory is None else Memory(self._storages(inputs))
        record, clock = recording.operations.append, time.perf_counter_ns
        block: _Block | None = self._first
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
        """The storages of constants and inputs; constants have others if they were given new values."""
        places = [tensor.data_ptr() for tensor in self._strided]
        if places != self._places:
            self._places, self._known = places, storages_of(self._strided)
        return self._known | storages_of(tensors_in(list(inputs)))

    def _start(self, inputs: Sequence[Any]) -> list[Any]:
        """The registers as they are before the first instruction."""
        count = self._program.parameters
        if len(inputs) != count:
            raise TypeError(f"{self._program.method} takes {count} inputs, {len(inputs)} were given")
        registers = self._registers.copy()
        registers[:count] = inputs
        for number, value in self._fresh:
            registers[number] = copied(value)
        return registers


@dataclass(slots=True, eq=False)
class _Block:
    """Instructions without jumps, and the one behind them that says where to go on.

    Attributes:
        steps: what runs each: the call, what takes its values from the registers, the register of what it
            makes, or several if there is not just one, the registers to clear, debug handle,
            kind (of a move None).
        op: of the jump behind; "" if there is none.
        ins: the registers that it reads.
        handle: of the jump.
        target: where it may lead; None for the program's end.
        then: what comes next otherwise.
        skipped: registers to clear on a jump forward.
    """

    steps: list[Step]
    op: str = ""
    ins: tuple[int, ...] = ()
    handle: int = NO_HANDLE
    target: _Block | None = None
    then: _Block | None = None
    skipped: tuple[Sequence[int], int, int] = ((), 0, 0)

    def following(self, registers: list[Any]) -> _Block | None:
        """The block to go on with; None at the program's end."""
        if self.op == "":
            return self.then
        if self.op == JUMP_UNLESS:
            if registers[self.ins[0]]:
                return self.then
        elif self.op == EACH:
            counter, limit, condition = self.ins
            if registers[condition] and registers[counter] + 1 < registers[limit]:
                registers[counter] += 1
                return self.then
        ends, first, last = self.skipped
        for number in ends[first:last]:
            registers[number] = None
        return self.target


def _blocks(program: MachineProgram, known: dict[int, Any]) -> _Block:
    """The blocks of a program; the first one."""
    instructions = program.instructions
    ends = _ends(program)
    order = sorted(
        (number for number in range(program.registers) if number not in known), key=ends.__getitem__
    )
    sorted_ends = [ends[number] for number in order]

    def cleared(first: int, last: int) -> tuple[Sequence[int], int, int]:
        """Registers that are read for the last time by an instruction from ``first`` to before ``last``."""
        return order, bisect_left(sorted_ends, first), bisect_left(sorted_ends, last)

    jumps = {number for number, one in enumerate(instructions) if one.op in CONTROL}
    heads = {0, *(number + 1 for number in jumps), *(instructions[number].target for number in jumps)}
    blocks: dict[int | None, _Block] = {head: _Block([]) for head in heads if head is not None}
    nothing = blocks.pop(len(instructions), None)  # a target behind the last instruction is the end
    block = blocks.get(0, nothing or _Block([]))
    for number, one in enumerate(instructions):
        block = blocks.get(number, block)
        if one.op not in CONTROL:
            ending, first, last = cleared(number, number + 1)
            block.steps.append(_step(one, tuple(ending[first:last]), known))
            block.then = blocks.get(number + 1)
            continue
        block.op, block.ins, block.handle = one.op, one.ins, one.handle
        block.target, block.then = blocks.get(one.target), blocks.get(number + 1)
        if one.target is not None and one.target > number:
            block.skipped = cleared(number, one.target)
    return blocks.get(0, block)


def _step(one: MachineInstruction, dead: tuple[int, ...], known: dict[int, Any]) -> Step:
    """An instruction that is no jump, made ready."""
    if one.op == MOVE:
        call, ins = (_same if len(one.outs) == 1 else _all), one.ins
    else:
        call, ins = prepared(one.op, one.ins, known)
    take: Take = itemgetter(*ins) if len(ins) > 1 else itemgetter(slice(*_span(ins)))
    kind = kind_of(one.op)
    recorded = None if one.op == MOVE or one.handle == NO_HANDLE else kind
    if len(one.outs) == 1 and kind not in UNPACKING_KINDS:
        return call, take, one.outs[0], None, dead, one.handle, recorded
    return call, take, -1, one.outs, dead, one.handle, recorded


def _span(ins: Sequence[int]) -> tuple[int, int]:
    """One register, or none, as a slice of them."""
    return (ins[0], ins[0] + 1) if ins else (0, 0)


def _same(value: object) -> object:
    return value


def _all(*values: object) -> tuple[object, ...]:
    return values


def _scatter(registers: list[Any], outs: tuple[int, ...], values: Sequence[Any]) -> None:
    """Put several values into their registers."""
    if outs:
        for number, value in zip(outs, values, strict=True):
            registers[number] = value


def _ends(program: MachineProgram) -> list[int]:
    """For each register the instruction behind which nothing reads it."""
    starts, ends = np.full((2, program.registers), -1)
    for number, one in enumerate(program.instructions):
        for register in (*one.ins, *one.outs):
            ends[register] = number
        for register in one.outs:
            if starts[register] < 0 and register >= program.parameters:
                starts[register] = number
    ends[program.result] = len(program.instructions)
    for number, one in enumerate(program.instructions):
        if one.target is not None and one.target <= number:
            ends[(starts < one.target) & (ends >= one.target) & (ends < number)] = number
    found: list[int] = ends.tolist()
    return found


def _changeable(program: MachineProgram) -> set[int]:
    """Registers whose values may be changed or given away; operators of PyTorch get copies of lists."""
    found = {program.result}
    for one in program.instructions:
        if one.op == MOVE or one.op in PYTHON_CALLS or kind_of(one.op) in PYTHON_CALLS:
            found.update(one.ins)
    return found


def _message(error: Exception) -> str:
    return f"KeyError: {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
