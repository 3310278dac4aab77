"""TorchScript graphs with all calls followed: what runs, in which order, and where each operation comes from.

A :class:`Graph` is plain data. Values are numbers; an operation takes and makes them. What is known before
anything runs are constants: literals, and the parameters, buffers and attributes of modules.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.debuginfo.model import SourceRange

Schema: TypeAlias = Any
"""A ``torch._C.FunctionSchema``."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of an inlined call stack.

    Attributes:
        function: name of what is called.
        type_name: qualified class of the module whose method it is; None for functions.
        instance: attributes that lead from the caller to the module, or ``SELF``; None for functions.
        range: the call, in the caller's source; None where that is not known.
    """

    function: str
    type_name: str | None
    instance: str | None
    range: SourceRange | None


@dataclass(slots=True, eq=False)
class Operation:
    """What one node of a graph does.

    Attributes:
        kind: ``aten::add``, ``prim::If`` …; ``prim::Constant`` for everything that is known beforehand.
        inputs: values it takes.
        outputs: values it makes.
        schema: of the operator, as text; "" where it has none.
        value: of a constant.
        path: of a constant that is an attribute of a module: its path from the top module.
        blocks: what it may run.
        range: its place in the model's source; None where that is not known.
        shown: the same as PyTorch shows it; "" where that is not known.
        stack: the calls that lead to it, outermost first.
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
    stack: tuple[Call, ...] = ()


@dataclass(slots=True, eq=False)
class Block:
    """Operations that run one after the other.

    Attributes:
        parameters: values that whoever runs it gives.
        operations: in their order.
        results: values that it gives back.
    """

    parameters: list[int] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    results: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Graph:
    """A method with all calls followed.

    Attributes:
        name: of the method.
        body: its operations; the parameters are those of the method, without the module itself.
        types: of each value, as TorchScript writes them.
    """

    name: str
    body: Block
    types: dict[int, str]

    def operations(self) -> Iterator[Operation]:
        """All operations, in the order in which PyTorch numbers them.

        First all of a block; then, of the blocks inside, the last one first.
        """
        blocks = [self.body]
        while blocks:
            block = blocks.pop()
            for operation in block.operations:
                yield operation
                blocks.extend(operation.blocks)


def elements(kind: str) -> list[str]:
    """The types inside of a type: ``Tensor`` and ``List[int]`` of ``Tuple[Tensor, List[int]]``."""
    found, depth = [""], 0
    for letter in kind[kind.index("[") + 1 : -1]:
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            found.append("")
        else:
            found[-1] += letter
    return [one.strip() for one in found if one.strip() not in ("", "()")]
