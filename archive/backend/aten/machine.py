"""The register machine: runs a program in Python, one call of a PyTorch operator for each instruction.

Making a machine finds, once for all runs, the function that runs each operation, the last reader of each
register, and the constants that an instruction might mutate: each run gets new copies of these. The
instructions between jumps are *basic blocks*.

A register is cleared after its last reader, so that its tensor's memory is freed. Only loops jump back, so
the last reader is the last instruction in the program that reads the register. But if a register is written
above a loop and read in it, it is cleared at the loop's end. If a jump skips the last reader, the jump clears
the register.

The memory of a run is what PyTorch's allocator gives to operations, and takes back.
``torch.autograd.profiler`` records the allocator's events, those inside operators too. A mark around each
operation shows which one an event belongs to; memory that is freed after an operation belongs to it. What
libraries such as oneDNN allocate by themselves is not seen.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
import torch
from torch._C._profiler import RecordScope, _EventType

from archive.backend.aten.constants import copied, resolved
from archive.backend.aten.operators import PYTHON_CALLS, Kind, kind_of, prepared, recorded_kind
from archive.backend.aten.program import CONTROL, EACH, JUMP_UNLESS, MOVE
from archive.backend.errors import NO_HANDLE, OperationError
from archive.backend.graph.graphs import UNPACKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from archive.backend.aten.program import MachineInstruction, MachineProgram
    from archive.backend.recording import CallValues

    Take: TypeAlias = Callable[[list[Any]], Sequence[Any]]
    """Takes the values of an instruction's inputs from the registers."""
    Step: TypeAlias = tuple[
        Callable[..., Any], Take, int, tuple[int, ...] | None, tuple[int, ...], int, Kind | None
    ]
    """An instruction that isn't a jump, made ready; a tuple, because the loop that runs it unpacks it.

    - the function to call,
    - the function that takes its inputs from the registers,
    - the register of its result,
    - the registers of its results, or None if it has just one,
    - the registers to clear afterwards,
    - its debug handle,
    - its kind, by which it is recorded; None for moves and for operations without a handle.
    """

    TimedOperation = tuple[int, int, int, str]
    """Start (ns), end (ns), debug handle, kind."""
    MemoryEvent = tuple[int, int, int, int, int]
    """Time (ns), debug handle, bytes (negative when freed), bytes in use then, address."""

# --- memory

OPERATION_MARK = "debug-archive: an operation"
"""The name of marks around operations."""
begin_mark, end_mark = (
    torch._C._autograd._record_function_with_args_enter,
    torch._C._autograd._record_function_with_args_exit,
)


class AllocatorEvents:
    """The allocator's events in a ``with`` block, in which each operation runs between two marks.

    It notes nothing else that PyTorch's profiler knows: each event takes some 3 µs.
    """

    def __init__(self) -> None:
        if torch._C._autograd._profiler_enabled():
            raise RuntimeError("memory is recorded by torch.profiler, which runs already")
        self._profiler = torch.autograd.profiler.profile(profile_memory=True)
        self._results: Any = None

    def __enter__(self) -> Self:
        config, activities = self._profiler.config(), self._profiler.kineto_activities
        enable: Any = torch._C._autograd._enable_profiler  # its stub lacks the third argument
        torch._C._autograd._prepare_profiler(config, activities)
        enable(config, activities, {RecordScope.USER_SCOPE})
        return self

    def __exit__(self, *_: object) -> None:
        self._results = torch._C._autograd._disable_profiler()

    def events(self, operations: Sequence[TimedOperation]) -> Iterator[MemoryEvent]:
        """The events; memory from before the run does not count."""
        marks, changes = noted(self._results)
        starts = [start for start, _ in marks][: len(operations)]
        live: dict[int, int] = {}
        total = 0
        for at_time, size, address in changes:
            if size < 0 and address not in live:
                continue  # it was allocated before
            live[address] = size
            if size < 0:
                del live[address]
            total += size
            at = max(0, bisect_right(starts, at_time) - 1)
            if starts:
                start, end, handle, _ = operations[at]
                inside = min(max(at_time - marks[at][0], 0), end - start)
                yield start + inside + max(0, at_time - marks[at][1]), handle, size, total, address


def noted(results: Any) -> tuple[list[tuple[int, int]], list[tuple[int, int, int]]]:  # noqa: ANN401 (PyTorch's own)
    """What a profiler has noted: start and end of each mark, and the events of the CPU's allocator.

    Of these events: time in the profiler's own ns, bytes, address.

    Names are read of operators alone, which marks are among: these events own them. An event of a Python call
    has a view of the function's name, which may be freed by then: that of a module which an operator imports.
    """
    marks, changes = [], []
    left = [*results.experimental_event_tree()]
    while left:
        event = left.pop()
        left += event.children
        extra: Any = event.extra_fields
        if event.tag == _EventType.TorchOp:
            if event.name == OPERATION_MARK:
                marks.append((event.start_time_ns, event.end_time_ns))
        elif event.tag == _EventType.Allocation and extra.device.type == "cpu":
            changes.append((event.start_time_ns, extra.alloc_size, extra.ptr))
    return sorted(marks), sorted(changes)


# --- blocks


@dataclass(slots=True, eq=False)
class BasicBlock:
    """A basic block: instructions without jumps, and the jump after them.

    Attributes:
        steps: the instructions, made ready; a tuple each, as :data:`Step` describes.
        op: the name of the jump; "" if there is none.
        ins: the registers that the jump reads.
        handle: the debug handle of the jump.
        target: the block at the jump's target; None for the program's end.
        then: the block after this one; None for the program's end.
        skipped: ``(registers, first, last)``: a jump to the target clears ``registers[first:last]``.
    """

    steps: list[Step]
    op: str = ""
    ins: tuple[int, ...] = ()
    handle: int = NO_HANDLE
    target: BasicBlock | None = None
    then: BasicBlock | None = None
    skipped: tuple[Sequence[int], int, int] = ((), 0, 0)

    def following(self, registers: list[Any]) -> BasicBlock | None:
        """The block that runs next; None at the program's end."""
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


def basic_blocks(program: MachineProgram, known: dict[int, Any]) -> BasicBlock:
    """Make the blocks of a program.

    Returns:
        The first block, from which the others are reached.
    """
    instructions = program.instructions
    ends = _ends(program)
    order = sorted(
        (number for number in range(program.registers) if number not in known), key=ends.__getitem__
    )
    sorted_ends = [ends[number] for number in order]

    def cleared(first: int, last: int) -> tuple[Sequence[int], int, int]:
        """The registers whose last reader is an instruction from ``first`` to before ``last``, as a slice."""
        return order, bisect_left(sorted_ends, first), bisect_left(sorted_ends, last)

    jumps = {number for number, instruction in enumerate(instructions) if instruction.op in CONTROL}
    heads = {0, *(number + 1 for number in jumps), *(instructions[number].target for number in jumps)}
    blocks: dict[int | None, BasicBlock] = {head: BasicBlock([]) for head in heads if head is not None}
    nothing = blocks.pop(len(instructions), None)  # a target after the last instruction is the end
    block = blocks.get(0, nothing or BasicBlock([]))
    for number, instruction in enumerate(instructions):
        block = blocks.get(number, block)
        if instruction.op not in CONTROL:
            ending, first, last = cleared(number, number + 1)
            block.steps.append(_step(instruction, tuple(ending[first:last]), known))
            block.then = blocks.get(number + 1)
            continue
        block.op, block.ins, block.handle = instruction.op, instruction.ins, instruction.handle
        block.target, block.then = blocks.get(instruction.target), blocks.get(number + 1)
        if instruction.target is not None and instruction.target > number:
            block.skipped = cleared(number, instruction.target)
    return blocks.get(0, block)


def _step(instruction: MachineInstruction, dead: tuple[int, ...], known: dict[int, Any]) -> Step:
    """An instruction that isn't a jump, made ready; see :data:`Step`."""
    call: Callable[..., Any]
    if instruction.op == MOVE:  # copies of the registers
        call, ins = (
            (lambda value: value) if len(instruction.outs) == 1 else (lambda *values: values),
            instruction.ins,
        )
    else:
        call, ins = prepared(instruction.op, instruction.ins, known)
    if len(ins) > 1:
        take: Take = itemgetter(*ins)
    else:  # by a slice of one register or none, ``itemgetter`` gives a list, too
        take = itemgetter(slice(ins[0], ins[0] + 1) if ins else slice(0))
    is_recorded = instruction.op != MOVE and instruction.handle != NO_HANDLE
    recorded = recorded_kind(instruction.op, call) if is_recorded else None
    if len(instruction.outs) == 1 and kind_of(instruction.op) not in UNPACKING:
        return call, take, instruction.outs[0], None, dead, instruction.handle, recorded
    return call, take, -1, instruction.outs, dead, instruction.handle, recorded


def _ends(program: MachineProgram) -> list[int]:
    """For each register the number of the instruction after which it is cleared."""
    starts, ends = np.full((2, program.registers), -1)
    for number, instruction in enumerate(program.instructions):
        for register in (*instruction.ins, *instruction.outs):
            ends[register] = number
        for register in instruction.outs:
            if starts[register] < 0 and register >= program.parameters:
                starts[register] = number
    ends[program.result] = len(program.instructions)
    for number, instruction in enumerate(program.instructions):
        if instruction.target is not None and instruction.target <= number:
            ends[(starts < instruction.target) & (ends >= instruction.target) & (ends < number)] = number
    numbers: list[int] = ends.tolist()
    return numbers


# --- machine


class Machine:
    """A program that is ready to run.

    Args:
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
        """Run the program, in the caller's grad mode."""
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

    def run_observed(
        self,
        inputs: Sequence[Any],
        operations: list[TimedOperation],
        memory: list[MemoryEvent] | None = None,
        values: CallValues | None = None,
    ) -> Any:  # noqa: ANN401
        """Run the program as :meth:`run` does, and record the times, memory and values of its operations.

        The loop is that of :meth:`run`, with clocks and marks, which unobserved runs do without.

        Args:
            operations: gets the operations that have run.
            memory: gets the events of the allocator; None if they are not wanted.
            values: gets what PyTorch's operators compute, if ``memory`` is None; None if it is not wanted.
        """
        registers = self._start(inputs)
        if memory is None:
            return self._observed(registers, operations, values=values, is_marked=False)
        before = len(operations)
        allocator = AllocatorEvents()
        try:
            with allocator:
                return self._observed(registers, operations, values=None, is_marked=True)
        finally:
            memory.extend(allocator.events(operations[before:]))

    def _observed(
        self,
        registers: list[Any],
        operations: list[TimedOperation],
        *,
        values: CallValues | None,
        is_marked: bool,
    ) -> Any:  # noqa: ANN401
        """Run the program from its first block on; to record its memory, each operation between two marks."""
        record, clock = operations.append, time.perf_counter_ns
        block: BasicBlock | None = self._first
        handle, with_gradients = NO_HANDLE, torch.is_grad_enabled()
        try:
            while block is not None:
                for call, take, out, outs, dead, handle, kind in block.steps:
                    given = take(registers)
                    if kind is None:
                        value = call(*given)
                    elif is_marked:
                        mark = begin_mark(OPERATION_MARK)
                        try:
                            start = clock()
                            value = call(*given)
                            end = clock()
                        finally:  # before the profiler ends: the error's traceback keeps the mark
                            end_mark(mark)
                        record((start, end, handle, kind.name))
                    else:
                        before = values.before(given) if values is not None and kind.changes else ()
                        start = clock()
                        value = call(*given)
                        record((start, clock(), handle, kind.name))
                        if values is not None and kind.is_operator:
                            values.note(handle, kind.name, (given, kind.bound), value, before)
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
        """The registers before the first instruction."""
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
        if len(values) != len(outs):
            raise ValueError(f"Expected {len(outs)} elements in a list but found {len(values)}")
        for number, value in zip(outs, values, strict=True):
            registers[number] = value


def _changeable(program: MachineProgram) -> set[int]:
    """Registers whose values may be mutated, or returned: PyTorch's operators get copies of lists."""
    registers = {program.result}
    for instruction in program.instructions:
        if (
            instruction.op == MOVE
            or instruction.op in PYTHON_CALLS
            or kind_of(instruction.op) in PYTHON_CALLS
        ):
            registers.update(instruction.ins)
    return registers


def _message(error: Exception) -> str:
    """The text of an error; it names the class of a ``KeyError``, whose text is only the key."""
    return f"KeyError: {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
