"""Graphs of TorchScript followed into all that they call.

PyTorch's own inlining keeps call stacks where Python cannot read them. So graphs are walked before it: each
call of a method or function is replaced by the operations of its graph, whose call stack has one call more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.errors import LoweringError
from archive.backend.graph.graphs import Block, Call, Graph, Operation

if TYPE_CHECKING:
    from archive.backend.graph.range_finder import RangeFinder

    Module = Any
    """A ``torch._C.ScriptModule``."""

SELF = "SELF"
MANGLING = re.compile(r"___torch_mangle_\d+\.")
PLACELESS = ("prim::SetAttr", "prim::Enter", "prim::Exit")
"""Operations that PyTorch records no place for, and that belong to what is before them."""
MAX_CALL_DEPTH = 200
"""Calls within calls; TorchScript has no recursion, but modules may call in circles."""


def unmangled(type_name: str) -> str:
    """A qualified class without the number by which PyTorch tells equal names apart in its process."""
    return MANGLING.sub("", type_name)


def inlined(module: Module, method: str, places: RangeFinder) -> Graph:
    """The graph of a module's method, with all calls followed.

    Args:
        module: the module.
        method: name of its method.
        places: tells where nodes stand in the model's source.

    Raises:
        LoweringError: a call cannot be followed.
    """
    walk = _Inliner(places)
    graph = module._get_method(method).graph
    _, *inputs = graph.inputs()
    scope = _Scope(graph, {}, {next(graph.inputs()).debugName(): _Known(module, "", SELF)}, ())
    parameters = [walk.new(value, scope) for value in inputs]
    body = Block(parameters)
    walk.nodes(graph, scope, body)
    body.results = [walk.number(value, scope) for value in graph.outputs()]
    graph_of = Graph(method, body, walk.types)
    _place_as_taken(graph_of)
    _settle(body, {})
    return graph_of


def _place_as_taken(graph: Graph) -> None:
    """Give operations without a place that make nothing for others the place of what they take."""
    makers = {value: one for one in graph.operations() for value in one.outputs}
    for one in graph.operations():
        maker = makers.get(one.inputs[-1]) if one.kind in PLACELESS and not one.shown else None
        if maker is not None and maker.stack is one.stack:
            one.shown, one.range = maker.shown, maker.range


def _settle(block: Block, before: dict[int, Operation]) -> None:
    """Give operations without a place that of their neighbour in the same call: the next one, or the last.

    PyTorch records none for nodes that it adds: dict literals, casts, some attributes of tensors. What they
    make is for the next operation.
    """
    for operations in (reversed(block.operations), block.operations):
        neighbours = {} if operations is not block.operations else dict(before)
        for one in operations:
            if one.shown:
                neighbours[id(one.stack)] = one
            elif id(one.stack) in neighbours:
                neighbour = neighbours[id(one.stack)]
                one.shown, one.range = neighbour.shown, neighbour.range
    for one in block.operations:
        if one.shown:
            before[id(one.stack)] = one
        for inner in one.blocks:
            _settle(inner, dict(before))


@dataclass(frozen=True, slots=True)
class _Known:
    """A module that a value stands for, its path from the top module, and its name in a call.

    The name is the path from the caller: ``down.0`` in a list. PyTorch takes its last step, ``0``, alone.
    """

    module: Module
    path: str
    instance: str


@dataclass(slots=True)
class _Scope:
    """One call that is being followed: which numbers and modules its values stand for."""

    graph: Any
    numbers: dict[str, int]
    modules: dict[str, _Known]
    stack: tuple[Call, ...]


def _is_followed(node: Any, scope: _Scope) -> bool:  # noqa: ANN401
    """Whether a method is that of a known module; those of other objects remain operations."""
    return next(node.inputs()).debugName() in scope.modules


class _Inliner:
    """Follows calls, and numbers values."""

    def __init__(self, places: RangeFinder) -> None:
        self.types: dict[int, str] = {}
        self._places = places

    def new(self, value: Any, scope: _Scope) -> int:  # noqa: ANN401 (a torch._C.Value)
        """The number of a value that is made now."""
        number = len(self.types)
        self.types[number] = value.type().annotation_str
        scope.numbers[value.debugName()] = number
        return number

    def number(self, value: Any, scope: _Scope) -> int:  # noqa: ANN401
        """The number of a value that has been made.

        Raises:
            LoweringError: it stands for a module, which is no value for a backend.
        """
        name = value.debugName()
        if name not in scope.numbers:
            raise LoweringError(f"a module is used as a value: {value.type().annotation_str}")
        return scope.numbers[name]

    def nodes(self, block: Any, scope: _Scope, out: Block) -> None:  # noqa: ANN401
        """Add the operations of a block."""
        for node in block.nodes():
            kind = node.kind()
            if kind == "prim::GetAttr" and self._get(node, scope, out):
                continue
            if kind == "prim::CallFunction" or (kind == "prim::CallMethod" and _is_followed(node, scope)):
                self._call(node, scope, out)
                continue
            if kind == "prim::Constant" and "name" in node.attributeNames():
                continue  # a function, which is known by its type
            self._operation(node, scope, out)

    def _get(self, node: Any, scope: _Scope, out: Block) -> bool:  # noqa: ANN401
        """Whether a node gets an attribute of a module; then it is a constant, or a module."""
        holder = scope.modules.get(next(node.inputs()).debugName())
        if holder is None:
            return False
        name = node.s("name")
        path = f"{holder.path}.{name}".removeprefix(".")
        value = holder.module.getattr(name)
        output = node.output()
        if isinstance(value, torch._C.ScriptModule):
            instance = name if holder.instance == SELF else f"{holder.instance}.{name}"
            scope.modules[output.debugName()] = _Known(value, path, instance)
        else:
            number = self.new(output, scope)
            out.operations.append(
                self._placed(Operation("prim::Constant", [], [number], value=value, path=path), node, scope)
            )
        return True

    def _placed(self, operation: Operation, node: Any, scope: _Scope) -> Operation:  # noqa: ANN401
        operation.shown = node.sourceRange()
        operation.range = self._places.find(operation.shown) if operation.shown else None
        operation.stack = scope.stack
        return operation

    def _operation(self, node: Any, scope: _Scope, out: Block) -> None:  # noqa: ANN401
        taken = list(node.inputs())[node.kind() == "prim::SetAttr" :]  # which module it sets is no value
        for value in taken:
            if value.debugName() in scope.modules:
                kind = value.type().annotation_str
                raise LoweringError(f"a module is used as a value: {kind}. Source code: {node.sourceRange()}")
        inputs = [self.number(value, scope) for value in taken]
        schema = "" if node.schema() == "(no schema)" else node.schema()
        operation = Operation(node.kind(), inputs, [], schema)
        if operation.kind == "prim::Constant":
            operation.value = node.output().toIValue()
        for block in node.blocks():
            inner = Block([self.new(value, scope) for value in block.inputs()])
            self.nodes(block, scope, inner)
            inner.results = [self.number(value, scope) for value in block.outputs()]
            operation.blocks.append(inner)
        operation.outputs = [self.new(value, scope) for value in node.outputs()]
        out.operations.append(self._placed(operation, node, scope))

    def _call(self, node: Any, scope: _Scope, out: Block) -> None:  # noqa: ANN401
        first, *arguments = node.inputs()
        shown = node.sourceRange()
        modules: dict[str, _Known] = {}
        if node.kind() == "prim::CallFunction":
            name = first.type().annotation_str
            function = torch.jit._state._python_cu.find_function(name)
            if function is None:
                raise LoweringError(f"cannot follow the call of {name}. Source code: {shown}")
            graph, called = (
                function.graph,
                Call(name.rpartition(".")[2], None, None, self._places.find(shown)),
            )
            parameters = list(graph.inputs())
        else:
            known = scope.modules[first.debugName()]
            name = node.s("name")
            graph = known.module._get_method(name).graph
            itself, *parameters = graph.inputs()
            modules[itself.debugName()] = _Known(known.module, known.path, SELF)
            class_name = unmangled(known.module._type().annotation_str)
            called = Call(name, class_name, known.instance, self._places.find(shown))
        if len(scope.stack) >= MAX_CALL_DEPTH:
            raise LoweringError(f"calls go deeper than {MAX_CALL_DEPTH}. Source code: {shown}")
        inner = _Scope(graph, {}, modules, (*scope.stack, called))
        for parameter, argument in zip(parameters, arguments, strict=True):
            if argument.debugName() in scope.modules:
                inner.modules[parameter.debugName()] = scope.modules[argument.debugName()]
            else:
                inner.numbers[parameter.debugName()] = self.number(argument, scope)
        self.nodes(graph, inner, out)
        for value, result in zip(node.outputs(), graph.outputs(), strict=True):
            if result.debugName() in inner.modules:
                scope.modules[value.debugName()] = inner.modules[result.debugName()]
            else:
                scope.numbers[value.debugName()] = self.number(result, inner)
