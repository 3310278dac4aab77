"""The graph of an exported program: its nodes as operations, with all arguments in the order of the schema.

Parameters, buffers and other tensors of the program become constants where they are first used. An item that
``getitem`` takes from an operator's results is that result. The nodes of a region without gradients
(``wrap_with_set_grad_enabled``) become operations like others; what they return is detached.

Operators on sizes are refused, and so are the operators that hold other graphs (``cond``), and writes to the
program's own tensors. The sizes of a program's tensors are fixed; those of a partition may vary, and it is
given sizes as integers.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch.export.graph_signature import InputKind, OutputKind
from torch.utils import _pytree as pytree

from archive.backend.exported.aliases import usual
from archive.backend.exported.signature import SYMBOLS, is_symbolic
from archive.backend.exported.traces import Sites
from archive.backend.graph.graphs import Block, Graph, Operation, elements
from archive.backend.graph.placing import Placing
from archive.backend.lower.codegen import compile_error
from archive.base.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from archive.backend.exported.signature import Parameter, Tree
    from archive.backend.graph.graphs import Schema

Program: TypeAlias = Any
"""A ``torch.export.ExportedProgram``."""
Node: TypeAlias = Any
"""A ``torch.fx.Node``."""

GETITEM = "aten::__getitem__.t(t[](a) list, int idx) -> t(*)"
DICT_GETITEM = "aten::__getitem__.Dict_{key}(Dict({key}, t) self, {key} key) -> t(*)"
DETACH = "aten::detach(Tensor(a) self) -> Tensor(a)"
STATIC_CHECK = "aten::_assert_tensor_metadata"
"""The operator that makes the checks of each call's arguments; TorchScript leaves it out."""
REVERSED_SUB = torch.ops.aten.rsub.Scalar._schema
HARMLESS_WRITE = "aten::detach_"
"""The operator that export puts after constants; it writes no elements."""
MEMORY_FORMATS = {
    torch.contiguous_format: 0,
    torch.preserve_format: 1,
    torch.channels_last: 2,
    torch.channels_last_3d: 3,
}
"""PyTorch's numbers of memory formats (``c10/core/MemoryFormat.h``)."""
OWN_TENSORS = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
CHANGED = {
    "BUFFER_MUTATION": "the buffer {} changes",
    "PARAMETER_MUTATION": "the parameter {} changes",
    "USER_INPUT_MUTATION": "the argument {} changes",
}
"""What kinds of outputs, which only decomposed programs have, say of the model."""


class ProgramGraphBuilder:
    """Makes the graph of one program.

    Args:
        is_dynamic: whether the sizes of tensors may vary.

    Attributes:
        refused: why nodes cannot be lowered, each with its source.
    """

    def __init__(self, program: Program, *, is_dynamic: bool = False) -> None:
        self.refused: dict[str, None] = {}
        self._is_dynamic = is_dynamic
        self._program = program
        self._types: dict[int, str] = {}
        self._body = Block()
        self._values: dict[Node, int | list[int]] = {}
        self._own: dict[Node, tuple[str, torch.Tensor]] = {}  # tensors of the program that are not used yet
        self._of_program: dict[int, str] = {}  # their names, by all values that may share their elements
        self._sites = Sites()
        self._placing = Placing()

    def build(self, parameters: Sequence[Parameter], result: Tree, result_type: str) -> Graph:
        """The graph; it is valid only if nothing was refused."""
        program, nodes = self._program, list(self._program.graph.nodes)
        inputs = [node for node in nodes if node.op == "placeholder"]
        given: list[Node] = []
        for node, spec in zip(inputs, program.graph_signature.input_specs, strict=True):
            if spec.kind in OWN_TENSORS:
                held = program.state_dict if spec.target in program.state_dict else program.constants
                self._own[node] = spec.target, held[spec.target]
            elif spec.kind is InputKind.USER_INPUT:
                given.append(node)
                if self._varies(node):
                    self._refuse(f"the argument {node.name} is symbolic; export it without dynamic shapes")
            else:
                self._refuse(f"inputs of the kind {spec.kind.name} are not supported: {node.name}")
        for parameter in parameters:
            value = self._new(parameter.type.annotation_str)
            self._body.parameters.append(value)
            self._unpack(value, parameter.tree, given)
        *_, output = nodes
        self._nodes(nodes, program.graph_module)
        leaves = []
        for spec, value in zip(program.graph_signature.output_specs, output.args[0], strict=True):
            if spec.kind is OutputKind.USER_OUTPUT:
                leaves.append(value)
            else:
                kind = spec.kind.name
                said = CHANGED.get(kind, f"results of the kind {kind} are not supported: {{}}")
                self._refuse(said.format(spec.target or spec.arg.name), value)
        self._body.results = [] if self.refused else [self._packed(result, result_type, leaves)]
        return Graph("forward", self._body, self._types)

    # --- parameters and results

    def _unpack(self, value: int, tree: Tree, given: Sequence[Node]) -> None:
        """Give the leaves of a parameter to the graph's inputs."""
        if isinstance(tree, int):
            self._values[given[tree]] = value
            return
        kind = self._types[value]
        if isinstance(tree, Mapping):
            key_kind, item_kind = elements(kind)
            for key, item in tree.items():
                inputs = [value, self._constant(key, key_kind, None)]
                schema = DICT_GETITEM.format(key=key_kind)
                (output,) = self._add("aten::__getitem__", inputs, [item_kind], None, schema)
                self._unpack(output, item, given)
            return
        is_tuple = isinstance(tree, tuple)
        kinds = elements(kind) * (1 if is_tuple else len(tree))
        outputs = self._add("prim::TupleUnpack" if is_tuple else "prim::ListUnpack", [value], kinds, None)
        for output, item in zip(outputs, tree, strict=True):
            self._unpack(output, item, given)

    def _packed(self, tree: Tree, kind: str, leaves: Sequence[Any]) -> int:
        """The value of a result, or of a part of it."""
        if isinstance(tree, int):
            leaf = leaves[tree]
            return self._value(leaf) if isinstance(leaf, torch.fx.Node) else self._constant(leaf, kind, None)
        kinds = elements(kind)
        if isinstance(tree, Mapping):
            pairs = [
                number
                for key, item in tree.items()
                for number in (self._constant(key, kinds[0], None), self._packed(item, kinds[1], leaves))
            ]
            return self._add("prim::DictConstruct", pairs, [kind], None)[0]
        is_tuple = isinstance(tree, tuple)
        kinds = kinds if is_tuple else kinds * len(tree)
        items = [self._packed(item, of, leaves) for item, of in zip(tree, kinds, strict=True)]
        maker = "prim::TupleConstruct" if is_tuple else "prim::ListConstruct"
        return self._add(maker, items, [kind], None)[0]

    # --- nodes

    def _nodes(self, nodes: Sequence[Node], holder: Any) -> None:  # noqa: ANN401 (a GraphModule)
        """Add the operations of nodes; ``holder`` has the graphs that they hold."""
        for node in nodes:
            if node.op != "call_function":
                continue  # inputs, the output, and graphs that another node holds
            try:
                self._call(node, holder)
            except LoweringError as error:
                self.refused[str(error)] = None
                self._values[node] = self._new("Tensor")

    def _call(self, node: Node, holder: Any) -> None:  # noqa: ANN401
        """Add the operation of a node."""
        target = node.target
        if any(map(self._varies, node.all_input_nodes)):
            self._values[node] = self._new("Tensor")
            return  # what made it so is refused
        if self._varies(node) or isinstance(node.meta.get("val"), SYMBOLS):
            raise self._error("a size, or a number, is only known when it runs", node)
        if target is operator.getitem:
            source, place = node.args
            held = self._values[source]
            if isinstance(held, list):
                self._values[node] = held[place]
            else:
                inputs = [held, self._constant(place, "int", node)]
                (item,) = self._add("aten::__getitem__", inputs, ["Tensor"], node, GETITEM)
                self._share(inputs, [item])
                self._values[node] = item
        elif (overload := overload_of(target)) is not None:
            self._operator(node, overload._schema)
        elif target is torch.ops.higher_order.wrap_with_set_grad_enabled and node.args[0] is False:
            self._without_gradients(node, holder)
        else:
            raise self._unsupported(node, holder)

    def _varies(self, node: Node) -> bool:
        """Whether a value, or its size, is refused since it is known only when the program runs."""
        return not self._is_dynamic and is_symbolic(node.meta.get("val"))

    def _unsupported(self, node: Node, holder: Any) -> LoweringError:  # noqa: ANN401
        """The error for a node that calls no operator; one that holds graphs may have its source in these."""
        target = node.target
        kind = f"{getattr(target, 'namespace', target.__module__)}::{target.__name__}"
        held = [getattr(holder, each.target) for each in node.all_input_nodes if each.op == "get_attr"]
        inner = [each for graph in held if hasattr(graph, "graph") for each in graph.graph.nodes]
        traced = (each for each in (node, *node.users, *inner) if each.meta.get("stack_trace"))
        return LoweringError(compile_error(self._placed(Operation(kind, [], []), next(traced, node))))

    def _operator(self, node: Node, schema: Schema) -> None:
        names = [argument.name for argument in schema.arguments]
        given = dict(zip(names, node.args, strict=False)) | node.kwargs
        numbers = {
            argument.name
            for argument in schema.arguments
            if argument.type.annotation_str in ("Tensor", "Optional[Tensor]")
            and isinstance(given.get(argument.name), int | float | complex)
        }
        self._check_flags(schema, given, node)
        if schema.name == "aten::sub" and "self" in numbers:
            schema, numbers = REVERSED_SUB, set()
            given["self"], given["other"] = given["other"], given["self"]
        if numbers:
            schema = self._for_numbers(schema, numbers, node)
        values = [given.get(argument.name, argument.default_value) for argument in schema.arguments]
        schema = usual(schema)
        if schema.name == STATIC_CHECK:
            return
        if not schema.returns:
            raise self._error(f"TorchScript leaves out {schema.name}, which gives nothing", node)
        inputs = [
            self._argument(value, argument, node)
            for value, argument in zip(values, schema.arguments, strict=True)
        ]
        self._check_writes(schema, inputs, node)
        kinds = [returned.type.annotation_str for returned in schema.returns]
        outputs = self._add(schema.name, inputs, kinds, node, str(schema))
        if any(returned.alias_info is not None for returned in schema.returns):
            shared = [
                value
                for value, argument in zip(inputs, schema.arguments, strict=True)
                if argument.alias_info is not None
            ]
            self._share(shared, outputs)
        self._values[node] = outputs[0] if len(outputs) == 1 else outputs

    def _for_numbers(self, schema: Schema, numbers: set[str], node: Node) -> Schema:
        """The overload that takes numbers for some arguments, as that for tensors does in Python alone."""
        for other in torch._C._jit_get_schemas_for_operator(schema.name):
            pairs = list(zip(schema.arguments, other.arguments, strict=False))
            if len(pairs) == len(schema.arguments) == len(other.arguments) and all(
                own.name == its.name
                and ("number" in its.type.annotation_str if own.name in numbers else own.type == its.type)
                for own, its in pairs
            ):
                return other
        raise self._error(f"{schema.name} takes no number for {', '.join(sorted(numbers))}", node)

    def _check_flags(self, schema: Schema, given: Mapping[str, Any], node: Node) -> None:
        """Refuse True or False as a number, if 1 or 0 give another type of tensors: TorchScript has these."""
        flags = {
            argument.name: int(given[argument.name])
            for argument in schema.arguments
            if isinstance(given.get(argument.name), bool)
            and argument.type.annotation_str.removeprefix("Optional[").removesuffix("]")
            in ("number", "Tensor")
        }
        if not flags:
            return
        expected, *_ = tensors = pytree.tree_leaves(node.meta["val"])
        try:
            with expected.fake_mode:
                arguments = torch.fx.map_arg({**given, **flags}, lambda each: each.meta["val"])
                found = [each.dtype for each in pytree.tree_leaves(node.target(**arguments))]
        except RuntimeError:  # an integer does not fit into a tensor of bools
            found = []
        if found != [each.dtype for each in tensors]:
            reason = f"TorchScript has 1 and 0 for True and False, of which {schema.name} makes another type"
            raise self._error(reason, node)

    def _check_writes(self, schema: Schema, inputs: Sequence[int], node: Node) -> None:
        """Refuse a node that writes to a tensor of the program."""
        for value, argument in zip(inputs, schema.arguments, strict=True):
            writes = argument.alias_info is not None and argument.alias_info.is_write
            if writes and value in self._of_program and schema.name != HARMLESS_WRITE:
                path = self._of_program[value]
                raise self._error(f"{path}, a tensor of the program, changes in place", node)

    def _without_gradients(self, node: Node, holder: Any) -> None:  # noqa: ANN401
        """Add the operations of a region without gradients; results that it computes are detached."""
        _, held, *inputs = node.args
        inner = getattr(holder, held.target)
        *nodes, output = inner.graph.nodes
        places = [each for each in nodes if each.op == "placeholder"]
        for place, value in zip(places, inputs, strict=True):
            self._values[place] = self._value(value)
        for each in nodes:
            schema = getattr(each.target, "_schema", None)
            if schema is not None and schema.is_mutable:
                raise self._error("a tensor is changed in place, without gradients", each)
        self._nodes(nodes, inner)
        given = [self._values[place] for place in places]
        results = []
        for each in output.args[0]:
            value = self._value(each)
            if value not in given:
                (value,) = self._add("aten::detach", [value], ["Tensor"], each, DETACH)
            results.append(value)
        self._values[node] = results

    # --- values

    def _argument(self, value: Any, argument: Any, node: Node) -> int:  # noqa: ANN401
        kind = argument.type.annotation_str
        if isinstance(value, torch.fx.Node):
            return self._value(value)
        if isinstance(value, list | tuple) and any(isinstance(item, torch.fx.Node) for item in value):
            kind = _given(kind)
            (item_kind,) = elements(kind)
            items = [
                self._value(item)
                if isinstance(item, torch.fx.Node)
                else self._constant(item, item_kind, node)
                for item in value
            ]
            return self._add("prim::ListConstruct", items, [kind], node)[0]
        if _given(kind).startswith("List[") and isinstance(value, bool | int | float):
            value = [value] * (argument.N or 1)
        return self._constant(value, kind, node)

    def _value(self, node: Node) -> int:
        """The value of a node that has one; a tensor of the program becomes a constant here."""
        if node in self._own:
            path, tensor = self._own.pop(node)
            made = self._constant(tensor, "Tensor", next(iter(node.users), None), path)
            self._values[node] = made
            self._of_program[made] = path
        value = self._values[node]
        if isinstance(value, list):
            raise self._error("several results are used as one value", node)
        return value

    def _constant(self, value: Any, kind: str, node: Node | None, path: str | None = None) -> int:  # noqa: ANN401
        """Add a constant, which the operation of a node takes as an argument of a type."""
        made = _as_torchscript(value, kind)
        (output,) = self._add("prim::Constant", [], [_type_of(made, kind)], node)
        constant = self._body.operations[-1]
        constant.value, constant.path = made, path
        return output

    def _add(
        self, kind: str, inputs: list[int], types: list[str], node: Node | None, schema: str = ""
    ) -> list[int]:
        """Add an operation, of a node or of no line of the model; the values that it makes."""
        outputs = [self._new(of) for of in types]
        operation = Operation(kind, inputs, outputs, schema)
        self._body.operations.append(operation if node is None else self._placed(operation, node))
        return outputs

    def _placed(self, operation: Operation, node: Node) -> Operation:
        """The same operation, given the range and the call stack of a node."""
        self._placing.put(operation, self._sites.of(node, operation.kind))
        operation.node = node.name
        return operation

    def _new(self, kind: str) -> int:
        value = len(self._types)
        self._types[value] = kind
        return value

    def _share(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Note that values may share elements with a tensor of the program."""
        paths = [self._of_program[value] for value in inputs if value in self._of_program]
        self._of_program |= dict.fromkeys(outputs, paths[0]) if paths else {}

    # --- refusals

    def _error(self, reason: str, node: Node) -> LoweringError:
        place = self._placed(Operation("", [], []), node).shown
        return LoweringError(f"{reason}. Source code: {place}".rstrip() if place else reason)

    def _refuse(self, reason: str, node: object = None) -> None:
        """Note a reason why the program cannot be lowered, with the source of a node."""
        self.refused[str(self._error(reason, node)) if isinstance(node, torch.fx.Node) else reason] = None


def overload_of(target: object) -> Any:  # noqa: ANN401 (an OpOverload)
    """The operator that a node calls, in ExecuTorch's edge dialect too; None if it calls something else."""
    overload = target if isinstance(target, torch._ops.OpOverload) else getattr(target, "_op", None)
    return overload if isinstance(overload, torch._ops.OpOverload) else None


def _given(kind: str) -> str:
    """The type of a value that is not None, for an argument of a type."""
    return elements(kind)[0] if kind.startswith("Optional[") else kind


def _as_torchscript(value: Any, kind: str) -> Any:  # noqa: ANN401
    """An argument as TorchScript's graphs have it: types and layouts of tensors are numbers there."""
    kind = _given(kind)
    if isinstance(value, torch.memory_format):
        return MEMORY_FORMATS[value]
    if isinstance(value, torch.dtype | torch.layout):
        graph = torch._C.Graph()  # which has to outlive its nodes
        return graph.insertConstant(value).toIValue()
    if isinstance(value, list | tuple):
        return [_as_torchscript(item, elements(kind)[0]) for item in value]
    if kind in ("int", "float") and isinstance(value, bool | int):
        return int(value) if kind == "int" else float(value)
    return torch.device(value) if kind == "Device" and isinstance(value, str) else value


def _type_of(value: object, kind: str) -> str:
    """The type of a constant that is an argument of a type."""
    if value is None:  # the type of a list chooses among overloads (``upsample_bilinear2d.vec``)
        return kind if kind.startswith("Optional[List[") else "NoneType"
    kind = _given(kind)
    if "number" not in kind:
        return kind
    if isinstance(value, list):
        return f"List[{type(value[0]).__name__ if value else 'float'}]"
    return type(value).__name__
