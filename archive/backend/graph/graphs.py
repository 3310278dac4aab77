"""TorchScript graphs as plain data, with all calls followed.

A :class:`Graph` says what runs, in which order, and where each operation comes from. A value is a number, its
place among the graph's values; operations take values and make them. Literals, and the parameters, buffers
and attributes of modules, are constants.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.debuginfo.model import SourceRange

UNPACKING = ("prim::ListUnpack", "prim::TupleUnpack")
"""Kinds of operations that give a value for each item, even if there is only one item."""
Schema: TypeAlias = Any
"""A ``torch._C.FunctionSchema``."""


@dataclass(frozen=True, slots=True)
class StackCall:
    """One call of an inlined call stack.

    Attributes:
        function: name of the function or method that is called.
        type_name: qualified class of the module that the method belongs to; None for functions.
        instance: attributes that lead from the caller to the module, or ``SELF``; None for functions.
        range: the call, in the caller's source; None if unknown.
    """

    function: str
    type_name: str | None
    instance: str | None
    range: SourceRange | None


@dataclass(slots=True, eq=False)
class Operation:
    """One node of a graph.

    Attributes:
        kind: ``aten::add``, ``prim::If`` …; ``prim::Constant`` for literals and attributes of modules.
        inputs: values it takes.
        outputs: values it makes.
        schema: the operator's schema as text; "" for nodes without one, such as ``prim::If``.
        value: the value of a constant; the types of a ``prim::isinstance``, as TorchScript writes them.
        path: for an attribute of a module, the attributes that lead from the top module to it, joined by
            dots; those of the first way on which its module was reached, if there are several. The operation
            is a constant, or it writes the attribute (``prim::SetAttr``). None for literals and the rest.
        blocks: its inner blocks: two branches of ``prim::If``, the body of ``prim::Loop``.
        range: its range in the model's source; None if unknown.
        shown: the text by which PyTorch shows that range; "" if unknown.
        stack: the calls that lead to it, outermost first.
        node: the name of the node of an exported program that it was made of; "" in other graphs.
    """

    kind: str
    inputs: list[int]
    outputs: list[int]
    schema: str = ""
    value: Any = None
    path: str | None = None
    blocks: list[Block] = field(default_factory=list)
    range: SourceRange | None = None
    shown: str = ""
    stack: tuple[StackCall, ...] = ()
    node: str = ""


@dataclass(slots=True, eq=False)
class Block:
    """Operations that run one after the other.

    Attributes:
        parameters: values that the block is given: the inputs of a method, or what a loop carries.
        operations: in the order in which they run.
        results: values that the block returns.
    """

    parameters: list[int] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    results: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Graph:
    """A method with all calls followed.

    Attributes:
        name: the method's name.
        body: its operations; the parameters are those of the method, without ``self``.
        types: the type of each value, as TorchScript writes it: ``List[int]``.
    """

    name: str
    body: Block
    types: dict[int, str]

    def operations(self) -> Iterator[Operation]:
        """All operations, in the order in which PyTorch gives out debug handles.

        All operations of a block come first, then those of its inner blocks, the last inner block first.
        """
        blocks = [self.body]
        while blocks:
            block = blocks.pop()
            for operation in block.operations:
                yield operation
                if operation.blocks:
                    blocks += operation.blocks


def elements(kind: str) -> list[str]:
    """The arguments of a type: ``Tensor`` and ``List[int]`` for ``Tuple[Tensor, List[int]]``."""
    arguments, depth = [""], 0
    for letter in kind[kind.index("[") + 1 : -1]:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            arguments.append("")
        else:
            arguments[-1] += letter
    return [argument.strip() for argument in arguments if argument.strip() not in ("", "()")]
