"""Inlining: replaces each call of a method or function by the operations of its graph.

PyTorch inlines too, but Python cannot read the call stacks that it keeps. So this module walks the graphs
before PyTorch inlines them. An operation's call stack has one call for each graph that it was inlined from.

Gives ranges to operations for which PyTorch records none in the model's source.

An attribute of a tensor, such as ``x.mT``, is looked for in its function's text. Other operations take the
range of another operation of the same call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.graph.graphs import Block, Graph, Operation, StackCall
from archive.backend.graph.nodes import Graphs
from archive.backend.graph.objects import HeldObject, OwnObjects, attribute_of, class_of
from archive.backend.pytorch import shown
from archive.base.errors import LoweringError
from archive.debuginfo.model import SourceRange
from archive.debuginfo.sites import GENERATED_FILE, SELF
from archive.formats.mangling import MANGLED

if TYPE_CHECKING:
    from archive.backend.graph.nodes import GraphNode, GraphValue, NodeBlock
    from archive.backend.graph.range_finder import RangeFinder

    Module = Any
    """A ``torch._C.ScriptModule``."""
    from collections.abc import Collection, Iterable, Sequence

    from archive.debuginfo.model import Source

# --- filling

PLACELESS = ("prim::SetAttr", "prim::Enter", "prim::Exit", "prim::ListUnpack", "prim::TupleUnpack")
"""Operations without a range in PyTorch; they belong to the operation that makes their input.

The operation that follows may stand lines below: where unpacking a list fails, its line would be wrong.
"""
BUILTIN = re.compile(rb"def (\w+)\([^\n]*\n[^\n]*\Z")
"""The builtin function that an operation is in, given the text up to there."""


def fill_ranges(graph: Graph) -> None:
    """Give a range to the operations of a graph that have none."""
    operations = list(graph.operations())
    unknown = _take_ranges_of_attributes(operations)
    makers = {value: operation for operation in operations for value in operation.outputs}
    for operation in operations:
        is_placeless = operation.kind in PLACELESS and not operation.shown
        maker = makers.get(operation.inputs[-1]) if is_placeless else None
        if maker is not None and maker.stack is operation.stack:
            operation.shown, operation.range = maker.shown, maker.range
    _take_ranges_of_neighbours(graph.body, {}, unknown)


class _FunctionText:
    """The text of a function; the reads of an attribute are looked for once.

    Attributes:
        is_builtin: whether PyTorch compiled it from a string of its own.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = bytes(source.text)
        self.is_builtin = str(source.filename or "") == GENERATED_FILE
        self._reads: dict[bytes, tuple[SourceRange, str] | None] = {}

    def reads(self, name: bytes) -> tuple[SourceRange, str] | None:
        """From the first place that reads an attribute of this name to the last one, and as PyTorch shows it.

        None if the text reads none.
        """
        if name not in self._reads:
            pattern = rb"[\w.]*\.%b\b(?!\s*\()" % re.escape(name)
            places = list(re.finditer(pattern, self.text)) if b"." + name in self.text else []
            span = SourceRange(self.source, places[0].start(), places[-1].end()) if places else None
            self._reads[name] = (span, shown(span)) if span is not None else None
        return self._reads[name]


def _take_ranges_of_attributes(operations: Sequence[Operation]) -> set[Operation]:
    """Give operations that are attributes of tensors the range of the attribute in the function's text.

    PyTorch records no range for some attributes (``x.mT``); that of others (``x.shape``) is in the text of a
    builtin function, without a call that leads there.

    Returns:
        The operations whose line is not known: several lines of the text have the attribute.
    """
    unknown: set[Operation] = set()
    texts: dict[int, _FunctionText] = {}  # by id of the source
    for operation in operations:
        span = operation.range
        if span is not None and id(span.source) not in texts:
            texts[id(span.source)] = _FunctionText(span.source)
    functions = _functions(operations, texts)
    for operation in operations:
        function = functions.get(id(operation.stack))
        name = _attribute(operation, texts) if function is not None else None
        read = function.reads(name) if function is not None and name is not None else None
        if read is None:
            continue
        if b"\n" in bytes(read[0].text):
            unknown.add(operation)
        else:
            operation.range, operation.shown = read
    return unknown


def _functions(
    operations: Sequence[Operation], texts: dict[int, _FunctionText]
) -> dict[int, _FunctionText | None]:
    """For each call stack, by id, the text of the function that is called; None if there are several."""
    functions: dict[int, _FunctionText | None] = {}
    for operation in operations:
        text = texts[id(operation.range.source)] if operation.range is not None else None
        if text is None or text.is_builtin or not text.text:
            continue
        known = functions.setdefault(id(operation.stack), text)
        if known is not text and (known is None or known.text != text.text):
            functions[id(operation.stack)] = None
    return functions


def _attribute(operation: Operation, texts: dict[int, _FunctionText]) -> bytes | None:
    """The name of the attribute that an operation may be; None if it has a range in the model's source."""
    if not operation.shown:
        return operation.kind.partition("::")[2].encode()
    span = operation.range
    if span is None or not texts[id(span.source)].is_builtin:
        return None
    function = BUILTIN.search(texts[id(span.source)].text[: span.start])
    return function and function[1]


def _take_ranges_of_neighbours(
    block: Block, before: dict[int, Operation], unknown: Collection[Operation]
) -> None:
    """Give operations without a range that of the next operation in the same call, or else the last one.

    PyTorch records no range for nodes that it adds: dict literals, casts, some attributes of tensors. The
    next operation takes what they make.

    Args:
        before: for each call stack, by id, the last operation with a range before the block.
        unknown: operations that stay without a range.
    """
    known = [operation for operation in block.operations if operation not in unknown]
    _fill_ranges(reversed(known), {})
    _fill_ranges(known, dict(before))
    for operation in block.operations:
        if operation.shown:
            before[id(operation.stack)] = operation
        for inner in operation.blocks:
            _take_ranges_of_neighbours(inner, dict(before), unknown)


def _fill_ranges(operations: Iterable[Operation], neighbours: dict[int, Operation]) -> None:
    """Give operations without a range that of the last operation of the same call."""
    for operation in operations:
        if operation.shown:
            neighbours[id(operation.stack)] = operation
        elif id(operation.stack) in neighbours:
            neighbour = neighbours[id(operation.stack)]
            operation.shown, operation.range = neighbour.shown, neighbour.range


# --- inlining

MANGLING = re.compile(rf"{MANGLED}\.")
MAX_CALL_DEPTH = 200
"""Most calls within one another: TorchScript has no recursion, but modules may call in circles."""


def unmangled(type_name: str) -> str:
    """A qualified class without ``___torch_mangle_N``, which PyTorch inserts to distinguish equal names."""
    return MANGLING.sub("", type_name)


def compiled_name(module: Module, method: str) -> str:
    """The name by which TorchScript has compiled a method of a module.

    An overloaded method, like ``forward`` of ``nn.LSTM``, is compiled for each overload: ``forward__0``, ….
    The first one stands for all.
    """
    return method if module._has_method(method) else f"{method}__0"


def inlined(module: Module, method: str, places: RangeFinder) -> Graph:
    """The graph of a module's method, with all calls followed."""
    walk = _Inliner(places)
    graph = walk.graphs.read(module._get_method(compiled_name(module, method)).graph)
    itself, *inputs = graph.inputs
    scope = _Scope(graph, {}, {itself.name: _Known(module, "", SELF)}, ())
    parameters = [walk.new(value, scope) for value in inputs]
    body = Block(parameters)
    walk.nodes(graph, scope, body)
    body.results = [walk.number(value, scope) for value in graph.outputs]
    graph_of = Graph(method, body, walk.types)
    fill_ranges(graph_of)
    return graph_of


@dataclass(frozen=True, slots=True)
class _Known:
    """A module that a value stands for.

    Attributes:
        path: the attributes that lead from the top module to it, joined by dots.
        instance: the attributes that lead from the caller to it: ``down.0`` for a module in a list, of which
            PyTorch's call stacks keep only ``0``.
    """

    module: Module
    path: str
    instance: str


@dataclass(slots=True)
class _Scope:
    """A call that is being followed.

    Attributes:
        numbers: the number of each value, by the name that PyTorch gives it in its graph.
        modules: the module that a value stands for, by the same names.
    """

    graph: NodeBlock
    numbers: dict[str, int]
    modules: dict[str, _Known]
    stack: tuple[StackCall, ...]


def _is_followed(node: GraphNode, scope: _Scope) -> bool:
    """Whether a method or attribute belongs to a known module, and not to another object."""
    return node.inputs[0].name in scope.modules


class _Inliner:
    """Follows calls, and numbers values."""

    def __init__(self, places: RangeFinder) -> None:
        self.types: dict[int, str] = {}
        self.graphs = Graphs(places)
        self._objects = OwnObjects()
        self._paths: dict[Module, str] = {}

    def new(self, value: GraphValue, scope: _Scope) -> int:
        """Give a value its number."""
        number = len(self.types)
        self.types[number] = value.type_text
        scope.numbers[value.name] = number
        return number

    def number(self, value: GraphValue, scope: _Scope) -> int:
        """The number of a value that has one."""
        if value.name not in scope.numbers:
            place = f"Source code: {value.shown}" if value.shown else "A method returns it."
            raise LoweringError(f"a module is used as a value: {value.type_text}. {place}")
        return scope.numbers[value.name]

    def nodes(self, block: NodeBlock, scope: _Scope, out: Block) -> None:
        """Add the operations of a block to ``out``."""
        for node in block.nodes:
            kind = node.kind
            if kind == "prim::GetAttr" and self._get(node, scope, out):
                continue
            is_method = kind == "prim::CallMethod" and _is_followed(node, scope)
            if is_method or kind in ("prim::CallFunction", "prim::fork"):
                self._call(node, scope, out)
                continue
            if node.is_function:
                continue  # it is known by its type
            if kind == "aten::wait":  # what was forked has run
                scope.numbers[node.outputs[0].name] = self.number(node.inputs[0], scope)
                continue
            if not self._of_object(node, scope, out):
                self._operation(node, scope, out)

    def _get(self, node: GraphNode, scope: _Scope, out: Block) -> bool:
        """Follow a node that gets an attribute: add a constant, or note that its value is a module.

        Returns:
            False if the node gets an attribute of anything but a known module; nothing is done then.
        """
        holder = scope.modules.get(node.inputs[0].name)
        if holder is None:
            return False
        path = self._path(holder, node.name)
        value = attribute_of(holder.module, node)
        if isinstance(value, torch._C.ScriptModule):
            instance = node.name if holder.instance == SELF else f"{holder.instance}.{node.name}"
            scope.modules[node.outputs[0].name] = _Known(value, path, instance)
        else:
            self._attribute(value, path, node, scope, out)
        return True

    def _attribute(self, value: Any, path: str, node: GraphNode, scope: _Scope, out: Block) -> None:  # noqa: ANN401
        """Add the constant that an attribute is; an object's own attributes are constants, too."""
        (output,) = node.outputs
        number = self.new(output, scope)
        if of := class_of(output.type, value):
            self.types[number] = of
            self._objects.held[number] = HeldObject(value, path)
        constant = Operation("prim::Constant", [], [number], value=value, path=path)
        out.operations.append(self._placed(constant, node, scope))

    def _of_object(self, node: GraphNode, scope: _Scope, out: Block) -> bool:
        """Follow a node that uses an object of a class of the model's own.

        Returns:
            False if the object is missing, or the node has to run; nothing is done then.
        """
        if not node.inputs or scope.numbers.get(node.inputs[0].name, -1) not in self._objects:
            return False
        inputs = [scope.numbers.get(value.name, -1) for value in node.inputs]
        held = self._objects.held.get(inputs[0])
        if node.kind == "prim::CallMethod":
            self._call(node, scope, out)
        elif node.kind == "prim::GetAttr" and held is not None:
            value = getattr(held.value, node.name)
            self._attribute(value, f"{held.path}.{node.name}", node, scope, out)
        elif (results := self._objects.results(node, inputs, out)) is not None:
            names = [value.name for value in node.outputs]
            scope.numbers.update(zip(names, results, strict=True))
        else:
            return False
        return True

    def _path(self, holder: _Known, name: str) -> str:
        """The attributes that lead to an attribute of a module, by the first way to this module."""
        return f"{self._paths.setdefault(holder.module, holder.path)}.{name}".removeprefix(".")

    def _placed(self, operation: Operation, node: GraphNode, scope: _Scope) -> Operation:
        """The same operation, given the range and the call stack of a node."""
        operation.shown = node.shown
        operation.range = node.range
        operation.stack = scope.stack
        return operation

    def _operation(self, node: GraphNode, scope: _Scope, out: Block) -> None:
        """Add a node that isn't a call of a known method or function, with its inner blocks."""
        values, path = node.inputs, None
        if node.kind == "prim::SetAttr" and _is_followed(node, scope):
            module, *values = values
            path = self._path(scope.modules[module.name], node.name)
        numbers, inputs = scope.numbers, []
        for value in values:
            if value.name not in numbers and value.name in scope.modules:
                kind = value.type_text
                raise LoweringError(f"a module is used as a value: {kind}. Source code: {node.near}")
            inputs.append(numbers[value.name] if value.name in numbers else self.number(value, scope))
        operation = Operation(node.kind, inputs, [], node.schema, path=path)
        if operation.kind == "prim::Constant":
            operation.value = node.outputs[0].constant()
        elif operation.kind == "prim::isinstance":
            operation.value = node.types
        for block in node.blocks:
            inner = Block([self.new(value, scope) for value in block.inputs])
            self.nodes(block, scope, inner)
            inner.results = [self.number(value, scope) for value in block.outputs]
            operation.blocks.append(inner)
        operation.outputs = [self.new(value, scope) for value in node.outputs]
        self._objects.add(operation, out)
        if operation.kind == "prim::If":
            names = {scope.numbers[value.name]: value.name for value in node.outputs}
            for output, number in self._objects.take_out(operation).items():
                scope.numbers[names[output]] = number
        out.operations.append(self._placed(operation, node, scope))

    def _call(self, node: GraphNode, scope: _Scope, out: Block) -> None:
        """Add the operations of the graph that a node calls."""
        called, parameters = self._called(node, scope)
        if len(scope.stack) >= MAX_CALL_DEPTH:
            raise LoweringError(f"calls go deeper than {MAX_CALL_DEPTH}. Source code: {node.shown}")
        arguments = node.inputs[len(node.inputs) - len(parameters) :]
        for parameter, argument in zip(parameters, arguments, strict=True):
            if argument.name in scope.modules:
                called.modules[parameter.name] = scope.modules[argument.name]
            else:
                called.numbers[parameter.name] = self.number(argument, scope)
        self.nodes(called.graph, called, out)
        for value, result in zip(node.outputs, called.graph.outputs, strict=True):
            if result.name in called.modules:
                scope.modules[value.name] = called.modules[result.name]
            else:
                scope.numbers[value.name] = self.number(result, called)

    def _called(self, node: GraphNode, scope: _Scope) -> tuple[_Scope, list[GraphValue]]:
        """What a node calls, and its parameters without ``self``; what it forks runs at once."""
        if node.kind == "prim::fork":
            graph = self.graphs.read(node.forked)
            return _Scope(graph, {}, {}, scope.stack), graph.inputs
        is_method = node.kind == "prim::CallMethod" and _is_followed(node, scope)
        return self._method(node, scope) if is_method else self._function(node, scope)

    def _function(self, node: GraphNode, scope: _Scope) -> tuple[_Scope, list[GraphValue]]:
        """The function or method that a node calls, and its parameters without ``self``."""
        first, *_ = node.inputs
        name = first.type_text
        if node.kind == "prim::CallMethod":
            name = f"{name}.{node.name}"
        function = torch.jit._state._python_cu.find_function(name)
        if function is None:
            raise LoweringError(f"cannot follow the call of {name}. Source code: {node.shown}")
        call = StackCall(name.rpartition(".")[2], None, None, node.range)
        called = _Scope(self.graphs.read(function.graph), {}, {}, (*scope.stack, call))
        parameters = called.graph.inputs
        if node.kind == "prim::CallMethod":
            itself, *parameters = parameters
            called.numbers[itself.name] = scope.numbers[first.name]
        return called, parameters

    def _method(self, node: GraphNode, scope: _Scope) -> tuple[_Scope, list[GraphValue]]:
        """The method that a node calls, and its parameters without ``self``."""
        known = scope.modules[node.inputs[0].name]
        graph = self.graphs.read(known.module._get_method(node.name).graph)
        itself, *parameters = graph.inputs
        class_name = unmangled(known.module._type().annotation_str)
        call = StackCall(node.name, class_name, known.instance, node.range)
        modules = {itself.name: _Known(known.module, known.path, SELF)}
        return _Scope(graph, {}, modules, (*scope.stack, call)), parameters
