"""A graph as TorchScript: one statement a line, so that each operation has a handle of its own.

Values are named ``r0``, ``r1`` …: no name may begin with ``in`` or ``is``, which TorchScript's lexer would
take for operators. What a loop carries on has one name, which is assigned before it and at the end of its
body. Tensors that are known beforehand are the items of a list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from archive.backend.errors import LoweringError
from archive.backend.graph.aliasing import Sharing, changes
from archive.backend.lower.literals import annotated, constant, placeholder
from archive.backend.lower.statements import statement

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch

    from archive.backend.graph.graphs import Block, Graph, Operation

CONSTANTS_ATTRIBUTE = "self.__constants"
UNBOUNDED_TRIPS = 2**63 - 1
"""How often TorchScript's ``while`` runs at most."""


@dataclass(slots=True, eq=False)
class Emitted:
    """The body of a method.

    Attributes:
        lines: its statements.
        operations: for each line the operation that it runs; None where it runs none.
        constants: tensors that it takes from the list of constants.
        unsupported: operations that cannot be written.
    """

    constants: list[torch.Tensor]
    lines: list[str] = field(default_factory=list)
    operations: list[Operation | None] = field(default_factory=list)
    unsupported: list[Operation] = field(default_factory=list)


def emitted(graph: Graph, parameters: list[str], constants: list[torch.Tensor]) -> Emitted:
    """The body of a method that does what a graph does.

    Args:
        graph: folded.
        parameters: names of the method's parameters.
        constants: those of the methods before; this one's are added.
    """
    emitter = _Emitter(graph, parameters, constants)
    emitter.block(graph.body, 0)
    (result,) = [emitter.word(value) for value in graph.body.results]
    emitter.line(f"return {result}", None, 0)
    return emitter.out


class _Move(NamedTuple):
    """A value that gets another name, and the type that the name has."""

    name: str
    kind: str
    value: int


class _Emitter:
    def __init__(self, graph: Graph, parameters: list[str], constants: list[torch.Tensor]) -> None:
        self.out = Emitted(constants)
        self._types = graph.types
        self._words = dict(zip(graph.body.parameters, parameters, strict=True))
        self._letter = "r"
        while any(re.match(rf"{self._letter}\d", name) for name in parameters):
            self._letter += "r"
        self._fixed = Sharing(graph).fixed
        operations = list(graph.operations())
        self._known = {one.outputs[0]: one.value for one in operations if one.kind == "prim::Constant"}
        self._taken = {value for one in operations for value in one.inputs}

    def line(self, text: str, operation: Operation | None, depth: int) -> None:
        self.out.lines.append("    " * depth + text)
        self.out.operations.append(operation)

    def word(self, value: int) -> str:
        """What stands for a value."""
        return self._words.get(value, self._name(value))

    def _name(self, value: int) -> str:
        return f"{self._letter}{value}"

    def block(self, block: Block, depth: int) -> None:
        for operation in block.operations:
            try:
                STATEMENTS.get(operation.kind, _Emitter._statement)(self, operation, depth)
            except LoweringError:
                self.out.unsupported.append(operation)

    def _statement(self, operation: Operation, depth: int) -> None:
        if self._fixed.intersection(changes(operation)):
            raise LoweringError("changes a constant")
        words = [self.word(value) for value in operation.inputs]
        outputs = [self._name(value) for value in operation.outputs]
        kind = self._types[operation.outputs[0]] if outputs else ""
        self.line(statement(operation, words, outputs, kind), operation, depth)

    def _uninitialized(self, operation: Operation, _: int) -> None:
        (output,) = operation.outputs
        self._words[output] = placeholder(self._types[output])

    def _constant(self, operation: Operation, depth: int) -> None:
        """A tensor has a name; whatever else is known is written where it is used."""
        (output,) = operation.outputs
        kind = self._types[output]
        text = constant(operation.value, kind, self._tensor)
        if operation.value is None and kind.startswith("Optional[") and "__torch__" not in kind:
            text = annotated(kind, text)  # TorchScript gives a bare None a type of its own
        if CONSTANTS_ATTRIBUTE in text:
            self.line(f"{self._name(output)} = {text}", None, depth)
        else:
            self._words[output] = text

    def _tensor(self, value: torch.Tensor) -> str:
        constants = self.out.constants
        place = next((place for place, one in enumerate(constants) if one is value), len(constants))
        if place == len(constants):
            constants.append(value)
        return f"{CONSTANTS_ATTRIBUTE}[{place}]"

    def _if(self, operation: Operation, depth: int) -> None:
        condition = self.word(operation.inputs[0])
        for block, head in zip(operation.blocks, (f"if {condition}:", "else:"), strict=True):
            self.line(head, operation, depth)
            self._body(block, self._moves(operation.outputs, block.results), operation, depth + 1)

    def _loop(self, operation: Operation, depth: int) -> None:
        (body,) = operation.blocks
        count, *carried = body.parameters
        times, going, *given = operation.inputs
        for move in self._moves(carried, given):
            self._assign(move, operation, depth)
        moves = self._moves(carried, body.results[1:])
        if self._always(going) and self._always(body.results[0]):
            self.line(f"for {self._name(count)} in range({self.word(times)}):", operation, depth)
            self._body(body, moves, operation, depth + 1)
        else:
            self._while(operation, moves, depth)
        self._words |= {
            output: self._name(value) for output, value in zip(operation.outputs, carried, strict=True)
        }

    def _while(self, operation: Operation, moves: list[_Move], depth: int) -> None:
        """A loop that may end early; it counts where the count is used."""
        (body,) = operation.blocks
        name, (times, going, *_) = self._name(body.parameters[0]), operation.inputs
        bounded = self._known.get(times) != UNBOUNDED_TRIPS
        counted = bounded or body.parameters[0] in self._taken
        self.line(f"{name}_go = {self.word(going)}", None, depth)
        if counted:
            self.line(f"{name} = 0", None, depth)
        end = f" and {name} < {self.word(times)}" if bounded else ""
        self.line(f"while {name}_go{end}:", operation, depth)
        self._body(body, [_Move(f"{name}_go", "bool", body.results[0]), *moves], operation, depth + 1)
        if counted:
            self.line(f"{name} = {name} + 1", None, depth + 1)

    def _always(self, value: int) -> bool:
        return self._known.get(value) is True

    def _body(self, block: Block, moves: list[_Move], operation: Operation, depth: int) -> None:
        """A block, then all its results assigned as if at once: a loop may swap what it carries."""
        before = len(self.out.lines)
        self.block(block, depth)
        moves = [move for move in moves if move.name != self.word(move.value)]
        overwritten = {move.name for move in moves}
        for value in dict.fromkeys(move.value for move in moves):
            word = self.word(value)
            if word in overwritten:
                self.line(f"{word}_was = {word}", None, depth)
                self._words[value] = f"{word}_was"
        for move in moves:
            self._assign(move, operation, depth)
        if len(self.out.lines) == before:
            self.line("pass", None, depth)

    def _moves(self, targets: list[int], values: list[int]) -> list[_Move]:
        return [
            _Move(self._name(target), self._types[target], value)
            for target, value in zip(targets, values, strict=True)
        ]

    def _assign(self, move: _Move, operation: Operation, depth: int) -> None:
        word = self.word(move.value)
        if move.kind != self._types[move.value]:
            try:
                word = annotated(move.kind, word)
            except LoweringError:
                self.out.unsupported.append(operation)
        self.line(f"{move.name} = {word}", None, depth)


STATEMENTS: dict[str, Callable[[_Emitter, Operation, int], None]] = {
    "prim::Constant": _Emitter._constant,
    "prim::If": _Emitter._if,
    "prim::Loop": _Emitter._loop,
    "prim::Uninitialized": _Emitter._uninitialized,
}
"""Operations that are more than a statement, or less."""
