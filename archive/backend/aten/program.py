"""Compiles a graph to a program for the register machine.

A program has registers. The first ones hold the parameters, the others constants and results of
instructions. An instruction is ``[op, outs, ins, handle, target]``: it reads the registers ``ins``, and
writes its results to the registers ``outs``. ``handle`` is the debug handle of its operation, or -1. ``op``
is the name of an operation, see :mod:`archive.backend.aten.operators`, or one of these:

- ``move``: copies n registers to n others; all are read before the first is written.
- ``jump``: continues at the target.
- ``jump_unless``: reads a condition; continues at the target unless it is true.
- ``each``: reads a counter, a limit and a condition. If the counter plus one is below the limit and the
  condition is true, it writes the counter plus one to the counter's register; otherwise it continues at the
  target.

``target`` is the number of an instruction, for jumps and ``each`` only. A target after the last instruction
ends the program, which then returns the value of its result's register. A loop of the model is a ``move`` of
the initial values (-1 for the counter), an ``each``, the body, a ``move`` of the carried values, and a
``jump`` back to ``each``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.aten.constants import HeldAt, HeldList, TensorAt, packed
from archive.backend.aten.operators import operator_name, supported
from archive.backend.errors import NO_HANDLE
from archive.backend.graph.attributes import READ, WRITE, is_object
from archive.base.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from archive.backend.graph.graphs import Block, Graph, Operation

MOVE, JUMP, JUMP_UNLESS, EACH = "move", "jump", "jump_unless", "each"
READ_ITEM, WRITE_ITEM = "aten::__getitem__.t", "aten::_set_item.t"
"""The operations on lists by which a program reads and writes state."""
CONTROL = {JUMP: (0, 0), JUMP_UNLESS: (0, 1), EACH: (1, 3)}
"""The instructions with a target: how many registers each writes and reads."""


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """One instruction.

    Attributes:
        op: name of an operation, or of an instruction that the module's docstring lists.
        handle: debug handle of its operation; -1 if it has none.
        target: number of the instruction to continue at; None if ``op`` takes none.
    """

    op: str
    outs: tuple[int, ...]
    ins: tuple[int, ...]
    handle: int = NO_HANDLE
    target: int | None = None


@dataclass(frozen=True, slots=True)
class MachineProgram:
    """The program of a method.

    Attributes:
        parameters: how many parameters it takes, in the registers 0 to ``parameters - 1``.
        constants: the constants by register; tensors are :class:`~archive.backend.aten.constants.TensorAt`.
    """

    method: str
    parameters: int
    registers: int
    instructions: tuple[MachineInstruction, ...]
    constants: dict[int, Any]
    result: int


def program_of(
    graph: Graph,
    handles: Mapping[Operation, int],
    tensors: list[torch.Tensor],
    held: Sequence[str] = (),
) -> tuple[MachineProgram, list[Operation]]:
    """Compile a graph.

    Args:
        tensors: the constant tensors of the methods before; those of this one are added, each once.

    Returns:
        The program, and the operations that cannot be run. The program is valid only if there are none.
    """
    writer = _ProgramBuilder(graph, handles, tensors, held)
    for value in graph.body.parameters:
        writer.out(value)
    writer.block(graph.body)
    (result,) = writer.ins(graph.body.results)
    program = MachineProgram(
        graph.name,
        len(graph.body.parameters),
        writer.count,
        tuple(writer.instructions),
        writer.constants,
        result,
    )
    return program, writer.unsupported


class _ProgramBuilder:
    """Builds the program of one method."""

    def __init__(
        self,
        graph: Graph,
        handles: Mapping[Operation, int],
        tensors: list[torch.Tensor],
        held: Sequence[str],
    ) -> None:
        self.count = 0
        self.instructions: list[MachineInstruction] = []
        self.constants: dict[int, Any] = {}
        self.unsupported: list[Operation] = []
        self._types = graph.types
        self._handles = handles
        self._tensors = tensors
        self._held = {path: index for index, path in enumerate(held)}
        self._places = {id(tensor): place for place, tensor in enumerate(tensors)}
        self._registers: dict[int, int] = {}
        self._shared: dict[str, int] = {}

    def new(self) -> int:
        """An unused register."""
        self.count += 1
        return self.count - 1

    def out(self, value: int) -> int:
        """The register of a value that an instruction writes."""
        return self._registers.setdefault(value, self.new())

    def ins(self, values: Iterable[int]) -> list[int]:
        """The registers of values that an instruction reads, or that an unsupported operation makes."""
        return [self._registers[value] if value in self._registers else self.out(value) for value in values]

    def constant(self, value: object) -> int:
        """The register of a constant; equal immutable constants share one."""
        stored = self._kept(value)
        text = json.dumps(packed(stored))
        if text not in self._shared or isinstance(stored, list | dict | tuple):
            self._shared[text] = self.new()
            self.constants[self._shared[text]] = stored
        return self._shared[text]

    def _kept(self, value: Any) -> Any:  # noqa: ANN401
        """A constant with indices in place of tensors."""
        if isinstance(value, torch.Tensor):
            if id(value) not in self._places:
                self._places[id(value)] = len(self._tensors)
                self._tensors.append(value)
            return TensorAt(self._places[id(value)])
        if isinstance(value, dict):
            return {key: self._kept(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            items = [self._kept(item) for item in value]
            return items if isinstance(value, list) else tuple(items)
        return value

    def add(self, op: str, outs: Iterable[int], ins: Iterable[int], operation: Operation) -> int:
        """Add an instruction; its number."""
        handle = self._handles.get(operation, NO_HANDLE)
        self.instructions.append(MachineInstruction(op, tuple(outs), tuple(ins), handle))
        return len(self.instructions) - 1

    def land(self, number: int, target: int | None = None) -> None:
        """Set the target of a jump; by default the next instruction to be added."""
        jump = self.instructions[number]
        there = len(self.instructions) if target is None else target
        self.instructions[number] = MachineInstruction(jump.op, jump.outs, jump.ins, jump.handle, there)

    def block(self, block: Block) -> None:
        """Add the operations of a block."""
        for operation in block.operations:
            try:
                self.operation(operation)
            except LoweringError:
                self.unsupported.append(operation)

    def operation(self, operation: Operation) -> None:
        """Add an operation."""
        kind = operation.kind
        if kind in (READ, WRITE) and operation.path in self._held:
            # an item of the list of attributes that the lowered module holds
            place = self.constant(HeldList()), self.constant(self._held[operation.path])
            if kind == READ:
                self.add(READ_ITEM, map(self.out, operation.outputs), place, operation)
            else:
                self.add(WRITE_ITEM, (self.new(),), (*place, *self.ins(operation.inputs)), operation)
        elif kind in ("prim::Constant", "prim::Uninitialized"):
            (output,) = operation.outputs
            value = operation.value
            if operation.path in self._held and is_object(operation, self._types[output]):
                value = HeldAt(self._held[operation.path])
            self._registers[output] = self.constant(value)
        elif kind == "prim::If":
            self._if(operation)
        elif kind == "prim::Loop":
            self._loop(operation)
        else:
            name = operator_name(kind, operation.schema)
            if operation.blocks or not supported(name):
                raise LoweringError(name)
            ins = self.ins(operation.inputs)
            self.add(name, map(self.out, operation.outputs), ins, operation)

    def _if(self, operation: Operation) -> None:
        """Add a branch: each block moves its results into the same registers."""
        outs = [self.new() for _ in operation.outputs]
        then, otherwise = operation.blocks
        unless = self.add(JUMP_UNLESS, (), self.ins(operation.inputs), operation)
        self.block(then)
        if outs:
            self.add(MOVE, outs, self.ins(then.results), operation)
        skip = self.add(JUMP, (), (), operation)
        self.land(unless)
        self.block(otherwise)
        if outs:
            self.add(MOVE, outs, self.ins(otherwise.results), operation)
        self.land(skip)
        self._registers.update(zip(operation.outputs, outs, strict=True))

    def _loop(self, operation: Operation) -> None:
        """Add a loop, as the module's docstring has it."""
        (body,) = operation.blocks
        limit, condition, *initial = self.ins(operation.inputs)
        counter, going, *carried = [self.new() for _ in (*body.parameters, None)]
        first = self.constant(-1)
        self.add(MOVE, (counter, going, *carried), (first, condition, *initial), operation)
        each = self.add(EACH, (counter,), (counter, limit, going), operation)
        self._registers.update(zip(body.parameters, (counter, *carried), strict=True))
        self.block(body)
        self.add(MOVE, (going, *carried), self.ins(body.results), operation)
        self.land(self.add(JUMP, (), (), operation), each)
        self.land(each)
        self._registers.update(zip(operation.outputs, carried, strict=True))
