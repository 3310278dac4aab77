"""A method as a program for the register machine.

A program has registers, each for one value: first the parameters, then constants and what instructions
make. An instruction is ``[op, outs, ins, handle, target]``: it takes the values of the registers ``ins``,
and puts what it makes into ``outs``. ``handle`` is the debug handle of its operation, or -1. ``op`` is an
operation by the name that :mod:`archive.backend.aten.operators` gives it, or one of these, which alone may
have a target, the number of the instruction that comes next:

- ``move``: puts the values of n registers into n others; all are read before the first is written.
- ``jump``: goes on at the target.
- ``jump_unless``: takes a condition; goes on at the target unless it holds.
- ``each``: takes a counter, a limit and a condition, and puts the counter, one higher, back into the same
  register, if that is below the limit and the condition holds; otherwise it goes on at the target.

A target may be the number behind the last instruction. There the program ends, and gives back the value of
its result's register. A loop of the model is a ``move`` of the initial values (-1 for the counter), an
``each``, the body, a ``move`` of the values that are carried over, and a ``jump`` back to ``each``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.aten.constants import TensorAt, packed
from archive.backend.aten.operators import operator_name, supported
from archive.backend.errors import NO_HANDLE, LoweringError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from archive.backend.graph.graphs import Block, Graph, Operation

MOVE, JUMP, JUMP_UNLESS, EACH = "move", "jump", "jump_unless", "each"
CONTROL = {JUMP: (0, 0), JUMP_UNLESS: (0, 1), EACH: (1, 3)}
"""What has a target: how many registers it writes and reads."""


@dataclass(frozen=True, slots=True)
class MachineInstruction:
    """One instruction.

    Attributes:
        op: name of an operation, or of what the module's docstring lists.
        outs: registers that it writes.
        ins: registers that it reads.
        handle: debug handle of its operation; -1 if it has none.
        target: number of the instruction to go on at; None where it has none.
    """

    op: str
    outs: tuple[int, ...]
    ins: tuple[int, ...]
    handle: int = NO_HANDLE
    target: int | None = None


@dataclass(frozen=True, slots=True)
class MachineProgram:
    """A method.

    Attributes:
        method: its name.
        parameters: how many it takes: registers 0 to ``parameters - 1``.
        registers: how many there are.
        instructions: in their order.
        constants: what registers hold beforehand: plain values, and tensors by their numbers.
        result: register of what it gives back.
    """

    method: str
    parameters: int
    registers: int
    instructions: tuple[MachineInstruction, ...]
    constants: dict[int, Any]
    result: int


def program_of(
    graph: Graph, handles: Mapping[Operation, int], tensors: list[torch.Tensor]
) -> tuple[MachineProgram, list[Operation]]:
    """The program that does what a graph does, and all operations that cannot be run.

    Args:
        graph: folded, or not.
        handles: of its operations.
        tensors: those of the methods before; this one's are added, each once.

    Returns:
        The program, which is one to run only if the list of operations is empty.
    """
    writer = _ProgramBuilder(handles, tensors)
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
    """Writes the instructions of one method."""

    def __init__(self, handles: Mapping[Operation, int], tensors: list[torch.Tensor]) -> None:
        self.count = 0
        self.instructions: list[MachineInstruction] = []
        self.constants: dict[int, Any] = {}
        self.unsupported: list[Operation] = []
        self._handles = handles
        self._tensors = tensors
        self._places = {id(one): place for place, one in enumerate(tensors)}
        self._registers: dict[int, int] = {}
        self._shared: dict[str, int] = {}

    def new(self) -> int:
        """A register of its own."""
        self.count += 1
        return self.count - 1

    def out(self, value: int) -> int:
        """The register of a value that is made now."""
        return self._registers.setdefault(value, self.new())

    def ins(self, values: Iterable[int]) -> list[int]:
        """The registers of values; those of operations that are not supported get one too."""
        return [self._registers[value] if value in self._registers else self.out(value) for value in values]

    def constant(self, value: object) -> int:
        """The register of a constant; those that nobody can change are shared.

        Raises:
            LoweringError: no text can hold it.
        """
        kept = self._kept(value)
        text = json.dumps(packed(kept))
        if text not in self._shared or isinstance(kept, list | dict | tuple):
            self._shared[text] = self.new()
            self.constants[self._shared[text]] = kept
        return self._shared[text]

    def _kept(self, value: Any) -> Any:  # noqa: ANN401
        """A constant with the numbers of tensors for these."""
        if isinstance(value, torch.Tensor):
            if id(value) not in self._places:
                self._places[id(value)] = len(self._tensors)
                self._tensors.append(value)
            return TensorAt(self._places[id(value)])
        if isinstance(value, dict):
            return {key: self._kept(one) for key, one in value.items()}
        if isinstance(value, list | tuple):
            kept = [self._kept(one) for one in value]
            return kept if isinstance(value, list) else tuple(kept)
        return value

    def add(self, op: str, outs: Iterable[int], ins: Iterable[int], operation: Operation) -> int:
        """Write an instruction; its number."""
        handle = self._handles.get(operation, NO_HANDLE)
        self.instructions.append(MachineInstruction(op, tuple(outs), tuple(ins), handle))
        return len(self.instructions) - 1

    def land(self, number: int, target: int | None = None) -> None:
        """Set the target of a jump; by default it is what comes next."""
        one = self.instructions[number]
        there = len(self.instructions) if target is None else target
        self.instructions[number] = MachineInstruction(one.op, one.outs, one.ins, one.handle, there)

    def block(self, block: Block) -> None:
        """Write the operations of a block."""
        for operation in block.operations:
            try:
                self.operation(operation)
            except LoweringError:
                self.unsupported.append(operation)

    def operation(self, operation: Operation) -> None:
        """Write an operation.

        Raises:
            LoweringError: it cannot be run.
        """
        kind = operation.kind
        if kind in ("prim::Constant", "prim::Uninitialized"):
            self._registers[operation.outputs[0]] = self.constant(operation.value)
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
