"""A graph as TorchScript: one statement a line, so that each operation has a handle of its own.

Values are named ``r0``, ``r1`` …: no name may begin with ``in`` or ``is``, which TorchScript's lexer would
take for operators. Operators are called through ``torch.ops``, with their keyword-only arguments by name.
Tensors that are known beforehand are the items of a list.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from archive.backend.codegen import literal
from archive.backend.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.backend.graphs import Block, Graph, Operation

CONSTANTS = "self.__constants"
NAME = re.compile(r"[A-Za-z_]\w*")
SPECIAL = {
    "prim::dtype": "{0}.dtype",
    "prim::device": "{0}.device",
    "prim::shape": "{0}.shape",
    "prim::type": "{0}.type",
    "prim::is_nested": "{0}.is_nested",
    "prim::is_cuda": "{0}.is_cuda",
    "prim::requires_grad": "{0}.requires_grad",
    "prim::TupleIndex": "{0}[{1}]",
    "prim::unchecked_cast": "torch.jit._unwrap_optional({0})",
    "aten::__getitem__": "{0}[{1}]",
    "aten::__is__": "{0} is {1}",
    "aten::__isnot__": "{0} is not {1}",
    "aten::__not__": "not {0}",
    "aten::__contains__": "{1} in {0}",
    "aten::len": "len({0})",
    "aten::Bool": "bool({0})",
    "aten::Int": "int({0})",
    "aten::Float": "float({0})",
    "aten::dim": "{0}.dim()",
    "prim::NumToTensor": "torch.tensor({0})",
    "prim::min": "min({0}, {1})",
    "prim::max": "max({0}, {1})",
    "prim::unchecked_unwrap_optional": "torch.jit._unwrap_optional({0})",
}
ANYTHING = {"Tensor": "torch.empty([0])", "bool": "False", "int": "0", "float": "0.", "str": '""'}


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
    emitter = _Emitter(graph, constants)
    for value, name in zip(graph.body.parameters, parameters, strict=True):
        emitter.words[value] = name
    emitter.block(graph.body, 0)
    (result,) = [emitter.word(value) for value in graph.body.results]
    emitter.line(f"return {result}", None, 0)
    return emitter.out


class _Emitter:
    def __init__(self, graph: Graph, constants: list[torch.Tensor]) -> None:
        self.out = Emitted(constants)
        self.words: dict[int, str] = {}
        self._types = graph.types

    def line(self, text: str, operation: Operation | None, depth: int) -> None:
        self.out.lines.append("    " * depth + text)
        self.out.operations.append(operation)

    def word(self, value: int) -> str:
        """What stands for a value."""
        return self.words.get(value, f"r{value}")

    def block(self, block: Block, depth: int) -> None:
        for operation in block.operations:
            try:
                self.operation(operation, depth)
            except LoweringError:
                self.out.unsupported.append(operation)

    def operation(self, operation: Operation, depth: int) -> None:
        """Write an operation.

        Raises:
            LoweringError: there is no statement for it.
        """
        kind = operation.kind
        if kind in STATEMENTS:
            STATEMENTS[kind](self, operation, depth)
            return
        names = [self.word(value) for value in operation.inputs]
        outputs = [f"r{value}" for value in operation.outputs]
        if kind in SPECIAL:
            self.line(f"{outputs[0]} = {SPECIAL[kind].format(*names)}", operation, depth)
        elif kind.startswith("aten::") and operation.schema and NAME.fullmatch(kind[6:]):
            self._operator(operation, names, outputs, depth)
        else:
            raise LoweringError(kind)

    def _made(self, operation: Operation, depth: int) -> None:
        """A list, a tuple, a text, an error: made of all values that are given."""
        words = [self.word(value) for value in operation.inputs]
        names = ", ".join(words)
        if operation.kind == "prim::RaiseException":
            self.line(f"raise Exception({words[0]})", operation, depth)
            return
        (output,) = operation.outputs
        if operation.kind == "prim::ListConstruct":
            made = f"torch.jit.annotate({self._types[output]}, [{names}])"
        elif operation.kind == "prim::TupleConstruct":
            made = f"({names}{',' * (len(words) == 1)})"
        else:
            made = f"{words[0]}.format({', '.join(words[1:])})"
        self.line(f"r{output} = {made}", operation, depth)

    def _appended(self, operation: Operation, depth: int) -> None:
        name, value = map(self.word, operation.inputs)
        self.line(f"{name}.append({value})", operation, depth)
        self.words[operation.outputs[0]] = name

    def _empty(self, operation: Operation, depth: int) -> None:
        """A dict; TorchScript has none that are known beforehand but empty ones."""
        if operation.inputs:
            raise LoweringError(operation.kind)
        (output,) = operation.outputs
        self.line(f"r{output} = torch.jit.annotate({self._types[output]}, {{}})", operation, depth)

    def _unpacked(self, operation: Operation, depth: int) -> None:
        outputs = " ".join(f"r{value}," for value in operation.outputs)
        self.line(f"{outputs} = {self.word(operation.inputs[0])}", operation, depth)

    def _uninitialized(self, operation: Operation, _: int) -> None:
        (output,) = operation.outputs
        self.words[output] = self._anything(self._types[output])

    def _anything(self, kind: str) -> str:
        """Any value of a type: where early returns meet, one is passed on that nobody reads."""
        if kind.startswith(("List[", "Dict[")):
            return f"torch.jit.annotate({kind}, {'[]' if kind[0] == 'L' else '{}'})"
        if kind.startswith(("Optional", "NoneType")):
            return "None"
        if kind.startswith("Tuple["):
            items = [self._anything(item) for item in elements(kind)]
            return f"({', '.join(items)}{',' * (len(items) == 1)})"
        if kind not in ANYTHING:
            raise LoweringError(kind)
        return ANYTHING[kind]

    def _constant(self, operation: Operation, depth: int) -> None:
        (number,) = operation.outputs
        value = operation.value
        if isinstance(value, torch.Tensor):
            place = next(
                (i for i, one in enumerate(self.out.constants) if one is value), len(self.out.constants)
            )
            if place == len(self.out.constants):
                self.out.constants.append(value)
            self.line(f"r{number} = {CONSTANTS}[{place}]", None, depth)
        elif isinstance(value, torch.device):
            self.words[number] = f'torch.device("{value}")'
        elif isinstance(value, list) and not value:
            self.words[number] = f"torch.jit.annotate({self._types[number]}, [])"
        elif value is None:
            self.words[number] = "None"
        else:
            self.words[number] = literal(value)

    def _operator(self, operation: Operation, names: list[str], outputs: list[str], depth: int) -> None:
        schema = torch._C.parse_schema(operation.schema)
        for one in schema.arguments:
            if one.alias_info is not None and one.alias_info.is_write and one.type.kind() != "TensorType":
                raise LoweringError(operation.kind)
        given = [
            f"{argument.name}={name}" if argument.kwarg_only else name
            for argument, name in zip(schema.arguments, names, strict=True)
        ]
        call = f"torch.ops.{operation.kind.replace('::', '.')}({', '.join(given)})"
        if not outputs:
            self.line(call, operation, depth)
        else:
            self.line(f"{', '.join(outputs)} = {call}", operation, depth)

    def _if(self, operation: Operation, depth: int) -> None:
        condition = self.word(operation.inputs[0])
        for block, word in zip(operation.blocks, (f"if {condition}:", "else:"), strict=True):
            self.line(word, operation, depth)
            before = len(self.out.lines)
            self.block(block, depth + 1)
            ends = any(inner.kind == "prim::RaiseException" for inner in block.operations)
            for output, result in zip(operation.outputs, block.results, strict=True):
                if not ends:
                    kind_of = self._types[output]
                    self.line(
                        f"r{output} = torch.jit.annotate({kind_of}, {self.word(result)})", None, depth + 1
                    )
            if len(self.out.lines) == before:
                self.line("pass", None, depth + 1)


STATEMENTS: dict[str, Callable[[_Emitter, Operation, int], None]] = {
    "prim::Constant": _Emitter._constant,
    "prim::If": _Emitter._if,
    "prim::ListConstruct": _Emitter._made,
    "prim::TupleConstruct": _Emitter._made,
    "aten::format": _Emitter._made,
    "prim::RaiseException": _Emitter._made,
    "prim::DictConstruct": _Emitter._empty,
    "aten::append": _Emitter._appended,
    "prim::TupleUnpack": _Emitter._unpacked,
    "prim::ListUnpack": _Emitter._unpacked,
    "prim::Uninitialized": _Emitter._uninitialized,
}
"""Operations that are not calls."""


def elements(kind: str) -> list[str]:
    """The types of a tuple's elements: ``Tensor`` and ``List[int]`` of ``Tuple[Tensor, List[int]]``."""
    found, depth = [""], 0
    for letter in kind[kind.index("[") + 1 : -1]:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found if one.strip()]
