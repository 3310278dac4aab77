"""Links: the attributes and generated methods by which a lowered module runs its backend.

One function for each :class:`~archive.backend.registry.Link`: ``_inline``, ``_ahead_of_time``.

Lowered modules of the link ``ahead of time`` give and take the state ``(blob, tensors)``. A module that holds
attributes besides (see :mod:`archive.backend.graph.attributes`) has an attribute ``__held_0``, ``__held_1`` …
for each, and the state ``(blob, tensors, held)``, where ``held`` is the tuple of their values when the module
is saved.
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import typing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.graph.attributes import OBJECT_TYPE
from archive.backend.lower import codegen
from archive.backend.lower.by_handle import COPIED, by_handle
from archive.backend.lower.carried import HANDLE_COMMENT
from archive.backend.lower.codegen import compile_error
from archive.backend.lower.emitting import CONSTANTS_ATTRIBUTE, emitted
from archive.backend.registry import Link
from archive.base.errors import LoweringError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from archive.backend.graph.attributes import HeldAttribute
    from archive.backend.graph.graphs import Graph, Operation
    from archive.backend.registry import Backend


# --- ahead of time


@dataclass(frozen=True, slots=True)
class Ahead:
    """Graphs to write as TorchScript, and a program for the backend's own runtime.

    The state that the archive keeps is ``(blob, tensors)``, or ``(blob, tensors, held)``; ``held`` is the
    tuple of the values of :attr:`held`.

    Attributes:
        graphs: the graph of each method; each of its operations becomes a statement.
        handles: the debug handles of the graphs' operations.
        blob: the program for the runtime, as text.
        tensors: tensors that the runtime and the statements use; writing statements may add some.
        unsupported: operations that the runtime cannot execute. Lowering refuses them, together with those
            that TorchScript has no statement for.
        held: attributes of the original that the lowered module holds, by their paths: those that its methods
            write, and objects of C++ classes. None by default: then they are refused.
    """

    graphs: Mapping[str, Graph]
    handles: Mapping[Operation, int]
    blob: str
    tensors: list[torch.Tensor]
    unsupported: list[Operation] = field(default_factory=list)
    held: Mapping[str, HeldAttribute] = field(default_factory=dict)


TORCHSCRIPT_NAMES = {
    "torch": torch,
    "Tensor": torch.Tensor,
    "Exception": Exception,
    **{name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Tuple")},
}
PLAIN_STATE = "Tuple[str, List[Tensor]]"
EXPECTED = "'expected a text and tensors as state'"


def held_names(held: Mapping[str, HeldAttribute]) -> dict[str, str]:
    """The expression for each attribute that is held, by its path."""
    return {path: f"self.__held_{number}" for number, path in enumerate(held)}


def held_attributes(held: Mapping[str, HeldAttribute]) -> list[tuple[str, Any, Any]]:
    """Name, type (a ``torch._C.Type``) and value of each attribute that is held."""
    names = [name.removeprefix("self.") for name in held_names(held).values()]
    known = TORCHSCRIPT_NAMES | {"Device": torch.device}
    types = [
        attribute.value._type() if attribute.type.startswith(OBJECT_TYPE) else _type(attribute.type, known)
        for attribute in held.values()
    ]
    return list(zip(names, types, (attribute.value for attribute in held.values()), strict=True))


def get_state(held: Mapping[str, HeldAttribute]) -> str:
    """The method ``__getstate__``."""
    if not held:
        return codegen.GET_STATE
    values = codegen.tuple_literal(list(held_names(held).values()))
    return codegen.block(
        [
            "def __getstate__(self):",
            "    processed = self.__processed_module",
            f"    assert isinstance(processed, {PLAIN_STATE}), {EXPECTED}",
            f"    state: Any = (processed[0], processed[1], {values})",
            "    return self.__method_compile_spec, state, True",
        ]
    )


def set_state(held: Mapping[str, HeldAttribute]) -> str:
    """The method ``__setstate__``. When the module is made, its attributes hold their values already."""
    types = f"Tuple[{', '.join(attribute.type for attribute in held.values())}]"
    assignments = [f"{name} = held[{number}]" for number, name in enumerate(held_names(held).values())]
    with_held = [
        "    if state[2]:",
        f"        assert isinstance(given, Tuple[str, List[Tensor], {types}]), {EXPECTED}",
        "        held = given[2]",
        *(f"        {line}" for line in assignments),
        "        self.__processed_module = (given[0], given[1])",
    ]
    return codegen.block(
        [
            f"def __setstate__(self, {codegen.STATE_PARAMETER}):",
            "    self.__method_compile_spec = state[0]",
            f"    {'given' if held else 'processed'} = state[1]",
            f"    self.__processed_module = {'given' if held else 'processed'}",
            "    self.__handles = state[0]",
            "    if state[2]:",
            "        self.__create_backend()",
            "        self.__create_backend_debug_info()",
            "    if not self.__is_available():",
            f'        raise Exception("{codegen.UNAVAILABLE}")',
            *([*with_held, "    processed = self.__processed_module"] if held else []),
            f"    assert isinstance(processed, {PLAIN_STATE}), {EXPECTED}",
            f"    {CONSTANTS_ATTRIBUTE} = processed[1]",
        ]
    )


# --- links

STR_TYPE = torch._C.StringType.get()
TENSOR_LIST_TYPE = torch._C.ListType(torch._C.TensorType.get())


@dataclass(slots=True)
class Linked:
    """The parts of a lowered module that come from its backend.

    Attributes:
        attributes: name, type (a ``torch._C.Type``) and value of each.
        sources: the sources of methods that the lowered ones call, in this order.
        names: the objects that names in the sources stand for.
    """

    state: Any
    attributes: list[tuple[str, Any, Any]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)


def resolved(name: str, names: Mapping[str, Any]) -> object:
    """The object that a name in a source stands for; None if there is none.

    Args:
        name: a name, or a qualified class, ``__torch__.package.Class``, which is looked up among the modules
            that are imported.
    """
    if name in names:
        return names[name]
    module, _, attribute = name.removeprefix("__torch__.").rpartition(".")
    if name.startswith(OBJECT_TYPE):
        return getattr(getattr(torch.classes, module.removeprefix("torch.classes.")), attribute)
    home = "__main__" if name.startswith("__torch__.") else "builtins"  # PyTorch leaves out `__main__`
    return getattr(sys.modules.get(module or home), attribute, None)


RUNTIME_METHODS = ("is_available", "compile", "execute")
"""The methods that become part of a lowered module."""


def linked(
    backend: Backend,
    schemas: Mapping[str, Any],
    processed: Any,  # noqa: ANN401
    kinds: Mapping[int, str],
) -> Linked:
    """The parts of a lowered module that come from its backend.

    Args:
        kinds: the kinds of operations by the debug handles that preprocessing was given, ascending.
    """
    missing = [method for method in RUNTIME_METHODS if not callable(getattr(backend.runtime, method, None))]
    if missing and backend.link is not Link.AHEAD_OF_TIME:
        kind = backend.runtime.__name__
        raise LoweringError(f"the runtime {kind} of {backend.name} has no method {', '.join(missing)}")
    if backend.link is Link.INLINE:
        return _inline(backend, schemas, processed, kinds)
    return _ahead_of_time(backend, schemas, processed)


def _inline(
    backend: Backend,
    schemas: Mapping[str, Any],
    processed: Any,  # noqa: ANN401
    kinds: Mapping[int, str],
) -> Linked:
    """Link ``inline``: the runtime's attributes and methods become the module's own."""
    kind, instance = backend.runtime, backend.runtime()
    names = dict(TORCHSCRIPT_NAMES)
    for cls in reversed(kind.__mro__[:-1]):
        names |= vars(sys.modules[cls.__module__])
    fields = list(_fields(kind))
    methods = [method for method in _methods(kind) if method.name != "__init__"]
    for method in methods:
        if method.name == "is_available":
            _keep_open(method, backend.name)
    return Linked(
        processed,
        [
            ("__backend", STR_TYPE, backend.name),
            *((f"__{name}", _type(written, names), getattr(instance, name)) for name, written, _ in fields),
        ],
        [
            codegen.block(
                [
                    "def __create_backend(self):",
                    f'    self.__backend = "{backend.name}"',
                    *(f"    self.__{name} = torch.jit.annotate({of}, {value})" for name, of, value in fields),
                ]
            ),
            CREATE_DEBUG_INFO,
            _own(methods, kinds),
            codegen.GET_STATE,
            codegen.SET_STATE,
        ],
        [codegen.executing(method, schema) for method, schema in schemas.items()],
        names,
    )


def _ahead_of_time(backend: Backend, schemas: Mapping[str, Any], processed: Any) -> Linked:  # noqa: ANN401
    """Link ``ahead of time``: each operation is a statement, followed by a comment with its debug handle."""
    if not isinstance(processed, Ahead):
        raise LoweringError(f"expected {backend.name} to be preprocessed to an Ahead, found {processed!r}")
    tensors, methods = list(processed.tensors), []
    unsupported = dict.fromkeys(processed.unsupported)
    for method, schema in schemas.items():
        names = [argument.name for argument in codegen.arguments(schema)]
        body = emitted(processed.graphs[method], names, tensors, held_names(processed.held))
        unsupported |= dict.fromkeys(body.unsupported)
        check = ["if not self.__is_available():", f'    raise Exception("{codegen.UNAVAILABLE}")']
        handles = [operation and processed.handles.get(operation) for operation in body.operations]
        rows = zip(body.lines, handles, strict=True)
        lines = [line if handle is None else f"{line}{HANDLE_COMMENT}{handle}" for line, handle in rows]
        methods.append(codegen.method(method, schema, [*check, *lines]))
    if unsupported:
        raise LoweringError("\n".join(map(compile_error, unsupported)))
    tensors = tensors or [torch.empty(0)]  # an empty list has no type
    return Linked(
        (processed.blob, tensors),
        [
            ("__backend", STR_TYPE, backend.name),
            (CONSTANTS_ATTRIBUTE.removeprefix("self."), TENSOR_LIST_TYPE, tensors),
            *held_attributes(processed.held),
        ],
        [
            codegen.block(["def __create_backend(self):", f'    self.__backend = "{backend.name}"']),
            CREATE_DEBUG_INFO,
            # The runtime's method ``is_available``, as a method of the lowered module.
            _own([method for method in _methods(backend.runtime) if method.name == "is_available"], {}),
            get_state(processed.held),
            set_state(processed.held),
        ],
        methods,
        TORCHSCRIPT_NAMES,
    )


CREATE_DEBUG_INFO = codegen.block(
    [
        "def __create_backend_debug_info(self):",
        "    self.__backend_debug_info = torch.classes.backendutils.BackendDebugInfo()",
    ]
)


def _methods(kind: Any) -> list[ast.FunctionDef]:  # noqa: ANN401
    """The methods of a class as syntax trees, inherited ones first."""
    methods: dict[str, ast.FunctionDef] = {}
    for cls in reversed(kind.__mro__[:-1]):
        try:
            source = textwrap.dedent(inspect.getsource(cls))
        except (OSError, TypeError) as error:
            raise LoweringError(f"Python does not find the source of {cls.__name__}: {error}") from error
        (tree,) = ast.parse(source).body
        own = [method for method in ast.iter_child_nodes(tree) if isinstance(method, ast.FunctionDef)]
        methods |= {method.name: method for method in own}
    return list(methods.values())


def _fields(kind: Any) -> Iterator[tuple[str, str, str]]:  # noqa: ANN401
    """The attributes that ``__init__`` declares: name, type and initial value, as source."""
    for method in _methods(kind):
        for node in ast.walk(method) if method.name == "__init__" else []:
            if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute) and node.value:
                yield node.target.attr, ast.unparse(node.annotation), ast.unparse(node.value)


def _type(annotation: str, names: dict[str, Any]) -> Any:  # noqa: ANN401
    """The ``torch._C.Type`` of an annotation."""
    kind = torch.jit.annotations.try_ann_to_type(eval(annotation, dict(names)), None)  # noqa: S307 (the backend's own source, or TorchScript's)
    if kind is None:
        raise LoweringError(f"TorchScript has no type {annotation}")
    return kind


def _keep_open(is_available: ast.FunctionDef, backend: str) -> None:
    """Make PyTorch's compiler unable to compute the answer of a runtime's ``is_available`` ahead.

    PyTorch's inliner gives a call to the nodes that have results, and to all in the blocks of these; what
    stands in a loop without results loses the call. Lowered methods run ``execute`` in a block with results,
    ``if self.__is_available()``. If its condition were a constant, PyTorch would put the loops of ``execute``
    in its place, and the lite interpreter would show none of the calls that lead to the lowered module.
    """
    is_available.body[:0] = ast.parse(f"if self.backend != {backend!r}:\n    return False").body


def _own(methods: Iterable[ast.FunctionDef], kinds: Mapping[int, str]) -> str:
    """The source of a runtime's methods as methods of the lowered module."""
    source = ""
    for method in methods:
        renamed = _Renamed().visit(method)
        source += by_handle(renamed, kinds) if method.name in COPIED else f"{ast.unparse(renamed)}\n"
    return source + codegen.padding(source.encode(), body=4).decode()


class _Renamed(ast.NodeTransformer):
    """Puts two underscores before the names of a runtime's methods and attributes."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Rename a method."""
        node.name = f"__{node.name}"
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Rename an attribute of ``self``."""
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            node.attr = f"__{node.attr}"
        return self.generic_visit(node)
