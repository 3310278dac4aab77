"""Constant folding: computes what is known before a graph runs, chooses branches, drops unused operations.

Folded values are numbers, strings, ``None``, and lists and tuples of these. Tensors are never computed here.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from archive.backend.graph.aliasing import WRITE_MARK, Sharing
from archive.backend.graph.graphs import Block, Graph, Operation, elements

if TYPE_CHECKING:
    from collections.abc import Callable

NOT_KNOWN = object()
"""The value of what is only known when the module runs."""
INT64_LIMIT = 2**63
MAX_FOLDED_LENGTH = 1 << 12
"""Most items of a list, or letters of a text, that is folded; longer ones are made when the module runs."""
FOLDABLE_OPERATORS: dict[str, Callable[..., Any]] = {
    "aten::__not__": operator.not_,
    "aten::eq": operator.eq,
    "aten::ne": operator.ne,
    "aten::lt": operator.lt,
    "aten::gt": operator.gt,
    "aten::le": operator.le,
    "aten::ge": operator.ge,
    "aten::add": operator.add,
    "aten::sub": operator.sub,
    "aten::mul": operator.mul,
    "aten::neg": operator.neg,
    "aten::floordiv": operator.floordiv,
    "aten::len": len,
    "aten::__getitem__": operator.getitem,
    "aten::__and__": operator.and_,
    "aten::__or__": operator.or_,
    "aten::Bool": bool,
    "aten::Int": int,
    "aten::Float": float,
    "prim::unchecked_cast": lambda value: value,
    "prim::ListConstruct": lambda *values: list(values),
    "prim::TupleConstruct": lambda *values: tuple(values),
}
SAME_VALUE = ("prim::unchecked_cast",)
"""Operators whose result is their input."""
EFFECTFUL = (
    "aten::manual_seed",
    "aten::warn",
    "prim::CallMethod",
    "prim::Enter",
    "prim::Exit",
    "prim::Print",
    "prim::RaiseException",
    "prim::SetAttr",
)
"""Operations whose side effects no schema shows."""
PLAIN_TYPES = ("Tensor", "int", "float", "bool", "str", "complex", "Device")
"""Types that are a subtype of none but themselves, ``Any``, ``Optional`` and ``Union``."""
TUPLE_OPERATORS = ("prim::TupleConstruct", "prim::TupleUnpack", "prim::TupleIndex")
IMMUTABLE_TYPES = (int, str, bool, type(None))
FOLDABLE_TYPES = (int, float, str, bool, type(None), list, tuple)


def folded(graph: Graph) -> Graph:
    """A copy of a graph in which all that is known before it runs is computed.

    Most preprocessing begins with this: in eval mode, the branches of training are gone, and so is what
    depends only on sizes of layers, defaults, and None.
    """
    folding = _Folding(graph)
    body = folding.block(graph.body)
    graph = Graph(graph.name, body, folding.types)
    _drop_unused(body, set(body.results))
    return graph


class _Folding:
    """Folds the blocks of one graph.

    Attributes:
        types: of each value, as TorchScript writes them; more exact ones are noted on the way.
    """

    def __init__(self, graph: Graph) -> None:
        self.types = dict(graph.types)
        self._changed = Sharing(graph).changed
        self._values: dict[int, Any] = {}
        self._same: dict[int, int] = {}
        self._parts: dict[int, list[int]] = {}  # the items of tuples, named ones too

    def block(self, block: Block) -> Block:
        """The folded copy of a block."""
        made = Block(block.parameters)
        for operation in block.operations:
            self._operation(operation, made)
        made.results = [self._root(value) for value in block.results]
        return made

    def _root(self, value: int) -> int:
        """The value that a value is another name for, or the value itself."""
        while value in self._same:
            value = self._same[value]
        return value

    def _operation(self, operation: Operation, out: Block) -> None:
        inputs = [self._root(value) for value in operation.inputs]
        known = [self._known(value) for value in inputs]
        if operation.kind == "prim::Constant":
            if isinstance(operation.value, FOLDABLE_TYPES) and self.types[operation.outputs[0]] != "Tensor":
                self._values[operation.outputs[0]] = operation.value
            out.operations.append(operation)
            return
        if operation.kind == "prim::If" and known[0] is not NOT_KNOWN:
            branch = operation.blocks[0 if known[0] else 1]
            for inner in branch.operations:
                self._operation(inner, out)
            for output, result in zip(operation.outputs, branch.results, strict=True):
                self._same[output] = self._root(result)
            return
        if operation.kind in SAME_VALUE and known[0] is NOT_KNOWN:
            output, first = operation.outputs[0], inputs[0]
            if self.types[output] == self.types[first]:
                self._same[output] = first
                return
        value = self._fold(operation, inputs, known)
        if value is not NOT_KNOWN:
            self._values[operation.outputs[0]] = value
            out.operations.append(_constant(operation, operation.outputs[0], value))
            return
        if operation.kind in TUPLE_OPERATORS:
            self._note_nones(operation, inputs, known[-1] if known else None)
        blocks = [self.block(block) for block in operation.blocks]
        made = _copy(operation, inputs, blocks)
        out.operations.append(made)
        if operation.kind == "prim::If":
            self._fold_equal_results(made, out)

    def _note_nones(self, operation: Operation, inputs: list[int], place: Any) -> None:  # noqa: ANN401
        """Narrow types around tuples: ``NoneType`` for items that are None, made into or taken from one.

        Args:
            place: of a ``prim::TupleIndex`` the index, if that is known.
        """
        if operation.kind == "prim::TupleConstruct":
            (output,) = operation.outputs
            self._parts[output] = inputs
            kinds = ["NoneType" if self._known(value) is None else self.types[value] for value in inputs]
            if "NoneType" in kinds and self.types[output].startswith("Tuple["):
                self.types[output] = f"Tuple[{', '.join(kinds)}]"
            return
        kind = self.types[inputs[0]]
        parts = self._parts.get(inputs[0], [])
        items = [self.types[part] for part in parts] or (elements(kind) if kind.startswith("Tuple[") else [])
        chosen = range(len(items))
        if operation.kind == "prim::TupleIndex":
            chosen = chosen[place : place + 1 or None] if isinstance(place, int) else range(0)
        for output, number in zip(operation.outputs, chosen, strict=False):
            if items[number] == "NoneType" or (parts and self._known(parts[number]) is None):
                self.types[output] = "NoneType"
            if parts and parts[number] in self._parts:
                self._parts[output] = self._parts[parts[number]]

    def _fold_equal_results(self, branch: Operation, out: Block) -> None:
        """Turn results that are the same constant on both sides of an ``if`` into constants after it."""
        agreed: dict[int, Any] = {}
        for output, *results in zip(branch.outputs, *(block.results for block in branch.blocks), strict=True):
            value, other = map(self._known, results)
            if type(value) is type(other) and isinstance(value, IMMUTABLE_TYPES) and value == other:
                agreed[output] = value
        places = [place for place, output in enumerate(branch.outputs) if output not in agreed]
        for block in branch.blocks:
            block.results = [block.results[place] for place in places]
        out.operations += [_constant(branch, output, value) for output, value in agreed.items()]
        branch.outputs = [branch.outputs[place] for place in places]
        self._values |= agreed

    def _known(self, value: int) -> Any:  # noqa: ANN401
        """The constant that a value is, or ``NOT_KNOWN``."""
        if self.types[value] == "NoneType":
            return None
        return self._values.get(value, NOT_KNOWN)

    def _fold(self, operation: Operation, inputs: list[int], known: list[Any]) -> Any:  # noqa: ANN401
        """The result of an operation, computed now, or ``NOT_KNOWN``."""
        if operation.kind in ("aten::__is__", "aten::__isnot__"):
            return self._against_none(operation.kind, inputs, known)
        if operation.kind == "prim::isinstance":
            return _is_instance(self.types[inputs[0]], operation.value)
        compute = FOLDABLE_OPERATORS.get(operation.kind)
        if (
            compute is None
            or NOT_KNOWN in known
            or len(operation.outputs) != 1
            or operation.outputs[0] in self._changed
            or (operation.kind == "aten::mul" and _length(known) > MAX_FOLDED_LENGTH)
        ):
            return NOT_KNOWN
        if not all(value.isascii() for value in known if isinstance(value, str)):
            return NOT_KNOWN  # TorchScript counts the bytes of a text
        try:
            value = compute(*known)
        except (TypeError, ValueError, IndexError, KeyError, ArithmeticError):
            return NOT_KNOWN
        overflows = isinstance(value, int) and abs(value) >= INT64_LIMIT
        return value if isinstance(value, FOLDABLE_TYPES) and not overflows else NOT_KNOWN

    def _against_none(self, kind: str, inputs: list[int], known: list[Any]) -> Any:  # noqa: ANN401
        """The result of ``x is None`` or ``x is not None``, if the value of ``x`` or its type decides it."""
        for value, other in ((0, 1), (1, 0)):
            if known[other] is None:
                if known[value] is not NOT_KNOWN:
                    return (known[value] is None) == (kind == "aten::__is__")
                kind_of = self.types[inputs[value]]
                if not kind_of.startswith(("Optional", "NoneType", "Any", "Union")):
                    return kind == "aten::__isnot__"
        return NOT_KNOWN


def _is_instance(kind: str, others: list[str]) -> Any:  # noqa: ANN401
    """Whether a value of a type is one of other types; ``NOT_KNOWN`` if the type does not decide it."""
    if kind in others or (kind.startswith("List[") and "list" in others):
        return True
    decided = kind in PLAIN_TYPES or kind.startswith("List[")
    plain = all(other in (*PLAIN_TYPES, "list", "tuple") or other.startswith("List[") for other in others)
    return False if decided and plain else NOT_KNOWN


def _constant(operation: Operation, output: int, value: Any) -> Operation:  # noqa: ANN401
    """A constant that takes the place of an operation, for one of its outputs."""
    span, shown, stack, node = operation.range, operation.shown, operation.stack, operation.node
    return Operation("prim::Constant", [], [output], "", value, operation.path, [], span, shown, stack, node)


def _copy(operation: Operation, inputs: list[int], blocks: list[Block]) -> Operation:
    """The same operation with other inputs and blocks, in a fifth of the time of ``dataclasses.replace``."""
    kind, outputs, schema, value = operation.kind, operation.outputs, operation.schema, operation.value
    span, shown, stack, node = operation.range, operation.shown, operation.stack, operation.node
    return Operation(kind, inputs, outputs, schema, value, operation.path, blocks, span, shown, stack, node)


def _length(factors: list[Any]) -> int:
    """The length of a product of a list or text and a number; 0 for products of numbers."""
    items = [len(factor) for factor in factors if isinstance(factor, list | tuple | str)]
    return sum(items) * max((factor for factor in factors if isinstance(factor, int)), default=0)


def _drop_unused(block: Block, used: set[int]) -> None:
    """Take out operations whose results are unused and that have no side effects.

    Args:
        used: the values that are used after its operations; those that its operations use are added.
    """
    needed = []
    for operation in reversed(block.operations):
        if used.isdisjoint(operation.outputs) and not _acts(operation):
            continue
        needed.append(operation)
        used.update(operation.inputs)
        for inner in operation.blocks:
            used.update(inner.results)
            _drop_unused(inner, used)
    block.operations[:] = reversed(needed)


def _acts(operation: Operation) -> bool:
    """Whether an operation has side effects, itself or in its blocks."""
    inside = (inner for block in operation.blocks for inner in block.operations)
    makes_nothing = not operation.outputs and not operation.blocks
    return (
        makes_nothing
        or WRITE_MARK in operation.schema
        or operation.kind in EFFECTFUL
        or any(map(_acts, inside))
    )
