"""How a backend becomes part of a lowered module: its attributes and methods, by the backend's link."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import typing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.errors import LoweringError
from archive.backend.lower import codegen
from archive.backend.lower.ahead import Ahead
from archive.backend.lower.codegen import compile_error
from archive.backend.lower.emitting import CONSTANTS_ATTRIBUTE, emitted
from archive.backend.registry import Link

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from archive.backend.registry import Backend


TORCHSCRIPT_NAMES = {
    "torch": torch,
    "Tensor": torch.Tensor,
    "Exception": Exception,
    **{name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Tuple")},
}
STR_TYPE = torch._C.StringType.get()
TENSOR_LIST_TYPE = torch._C.ListType(torch._C.TensorType.get())
DEBUG_TABLE = "__debug_table"
HANDLE_COMMENT = "  # debug handle "
"""What stands behind a statement that runs one operation, before that one's handle."""


FAIL_METHOD = "fail"
FAILING_OPERATOR = "aten::_functional_assert_scalar"
"""A runtime's method that ends a run because an operation failed, and the operator that does it."""


@dataclass(slots=True)
class Linked:
    """What a lowered module has of its backend.

    Attributes:
        state: what the archive keeps of it.
        attributes: names, types and values.
        sources: of methods, in the order in which they refer to each other.
        names: what names in there stand for.
    """

    state: Any
    attributes: list[tuple[str, Any, Any]] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    names: dict[str, Any] = field(default_factory=dict)


def resolved(name: str, names: Mapping[str, Any]) -> object:
    """What a name stands for in a source; a qualified class (``__torch__.package.Class``) is Python's own."""
    module, _, attribute = name.removeprefix("__torch__.").rpartition(".")
    home = "__main__" if name.startswith("__torch__.") else "builtins"  # PyTorch leaves out `__main__`
    return names.get(name) or getattr(sys.modules.get(module or home), attribute, None)


def linked(
    backend: Backend,
    schemas: Mapping[str, Any],
    processed: Any,  # noqa: ANN401
    handles: Iterable[int],
) -> Linked:
    """What a module that is lowered to a backend has of it.

    Args:
        backend: it.
        schemas: of the methods that are lowered.
        processed: what the backend's preprocessing made.
        handles: the debug handles that it was given.

    Raises:
        LoweringError: operations cannot be written, or the runtime is not in TorchScript's language.
    """
    if backend.link is Link.INLINE:
        return _inline(backend, schemas, processed, handles)
    ways = {Link.CLASS: _as_class, Link.AHEAD_OF_TIME: _ahead_of_time}
    return ways[backend.link](backend, schemas, processed)


def _as_class(backend: Backend, schemas: Mapping[str, Any], processed: Any) -> Linked:  # noqa: ANN401
    kind, instance = backend.runtime, backend.runtime()
    try:
        torch.jit.script(kind)
    except RuntimeError as error:
        raise LoweringError(f"the runtime of {backend.name} is no TorchScript class: {error}") from error
    return Linked(
        processed,
        [("__backend", torch._C._jit_try_infer_type(instance).type(), instance)],
        [
            codegen.block(["def __create_backend(self):", f"    self.__backend = {kind.__name__}()"]),
            CREATE_DEBUG_INFO,
            codegen.IS_AVAILABLE,
            codegen.GET_STATE,
            codegen.set_state(state=codegen.STATE_PARAMETER),
            *(codegen.executing(method, schema) for method, schema in schemas.items()),
        ],
        TORCHSCRIPT_NAMES | {kind.__name__: kind},
    )


def _inline(
    backend: Backend,
    schemas: Mapping[str, Any],
    processed: Any,  # noqa: ANN401
    handles: Iterable[int],
) -> Linked:
    kind, instance = backend.runtime, backend.runtime()
    names = TORCHSCRIPT_NAMES | vars(sys.modules[kind.__module__])
    fields = list(_fields(kind))
    own = [method for method in _methods(kind) if method.name != "__init__"]
    failing = "".join(_failing(handles) for method in own if method.name == FAIL_METHOD)
    own = [method for method in own if method.name != FAIL_METHOD]
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
            _own(own) + failing,
            codegen.GET_STATE,
            codegen.set_state(codegen.METHOD_PREFIX, codegen.STATE_PARAMETER),
            *(codegen.executing(method, schema, codegen.METHOD_PREFIX) for method, schema in schemas.items()),
        ],
        names,
    )


def _failing(handles: Iterable[int]) -> str:
    """The method ``fail``: for each handle a statement, which fails and stands for that operation alone.

    It is an operator that fails, as the lite interpreter shows no source for what code raises; and its result
    is used, or it would be left out.
    """
    lines = [f"def __{FAIL_METHOD}(self, message: str) -> Tensor:", "    token = torch.empty([0])"]
    operator = FAILING_OPERATOR.replace("::", ".")
    for handle in handles:
        lines += [
            f"    if self.__last_handle == {handle}:",
            f"        token = torch.ops.{operator}(0, message, token){HANDLE_COMMENT}{handle}",
        ]
    lines += ["    if token.numel() == 0:", "        raise AssertionError(message)", "    return token"]
    return "\n".join(lines) + "\n"


def _ahead_of_time(backend: Backend, schemas: Mapping[str, Any], processed: Any) -> Linked:  # noqa: ANN401
    if not isinstance(processed, Ahead):
        raise LoweringError(f"expected {backend.name} to be preprocessed to an Ahead, found {processed!r}")
    made = Linked(None, names=TORCHSCRIPT_NAMES)
    tensors, methods = list(processed.tensors), []
    unsupported = dict.fromkeys(processed.unsupported)
    for method, schema in schemas.items():
        names = [one.name for one in codegen.arguments(schema)]
        body = emitted(processed.graphs[method], names, tensors)
        unsupported |= dict.fromkeys(body.unsupported)
        check = ["if not self.__is_available():", f'    raise Exception("{codegen.UNAVAILABLE}")']
        handles = [one and processed.handles.get(one) for one in body.operations]
        rows = zip(body.lines, handles, strict=True)
        lines = [line if handle is None else f"{line}{HANDLE_COMMENT}{handle}" for line, handle in rows]
        methods.append(codegen.method(method, schema, [*check, *lines]))
    if unsupported:
        raise LoweringError("\n".join(map(compile_error, unsupported)))
    tensors = tensors or [torch.empty(0)]  # an empty list has no type
    made.state = processed.blob, tensors
    made.attributes = [
        ("__backend", STR_TYPE, backend.name),
        (CONSTANTS_ATTRIBUTE.removeprefix("self."), TENSOR_LIST_TYPE, tensors),
    ]
    made.sources = [
        codegen.block(["def __create_backend(self):", f'    self.__backend = "{backend.name}"']),
        CREATE_DEBUG_INFO,
        _availability(backend),
        codegen.GET_STATE,
        SET_STATE_AHEAD,
        *methods,
    ]
    return made


CREATE_DEBUG_INFO = codegen.block(
    [
        "def __create_backend_debug_info(self):",
        "    self.__backend_debug_info = torch.classes.backendutils.BackendDebugInfo()",
        f'    self.{DEBUG_TABLE} = ""',
    ]
)
SET_STATE_AHEAD = codegen.block(
    [
        f"def __setstate__(self, {codegen.STATE_PARAMETER}):",
        "    self.__method_compile_spec = state[0]",
        "    processed = state[1]",
        "    self.__processed_module = processed",
        "    self.__handles = state[0]",
        "    if state[2]:",
        "        self.__create_backend()",
        "        self.__create_backend_debug_info()",
        "    if not self.__is_available():",
        f'        raise Exception("{codegen.UNAVAILABLE}")',
        "    assert isinstance(processed, Tuple[str, List[Tensor]]), 'expected a text and tensors as state'",
        f"    {CONSTANTS_ATTRIBUTE} = processed[1]",
    ]
)


def _availability(backend: Backend) -> str:
    """The runtime's own method."""
    return _own([method for method in _methods(backend.runtime) if method.name == "is_available"])


def _methods(kind: Any) -> list[ast.FunctionDef]:  # noqa: ANN401
    """The methods of a class, those that it inherits first.

    Raises:
        LoweringError: its source is not to be had.
    """
    methods: dict[str, ast.FunctionDef] = {}
    for one in reversed(kind.__mro__[:-1]):
        try:
            source = textwrap.dedent(inspect.getsource(one))
        except (OSError, TypeError) as error:
            raise LoweringError(f"the source of {one.__name__} is not to be had: {error}") from error
        (found,) = ast.parse(source).body
        own = [method for method in ast.iter_child_nodes(found) if isinstance(method, ast.FunctionDef)]
        methods |= {method.name: method for method in own}
    return list(methods.values())


def _fields(kind: Any) -> Iterator[tuple[str, str, str]]:  # noqa: ANN401
    """The attributes of a class in TorchScript's language: name, type and first value, as source."""
    for method in _methods(kind):
        for one in ast.walk(method) if method.name == "__init__" else []:
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Attribute) and one.value:
                yield one.target.attr, ast.unparse(one.annotation), ast.unparse(one.value)


def _type(annotation: str, names: dict[str, Any]) -> Any:  # noqa: ANN401
    """What TorchScript makes of a type that is written down."""
    kind = torch.jit.annotations.try_ann_to_type(eval(annotation, dict(names)), None)  # noqa: S307 (the backend's own source)
    if kind is None:
        raise LoweringError(f"TorchScript has no type {annotation}")
    return kind


def _own(methods: list[ast.FunctionDef]) -> str:
    """A runtime's methods as methods of a lowered module."""
    return "".join(f"{ast.unparse(_Renamed().visit(method))}\n" for method in methods)


class _Renamed(ast.NodeTransformer):
    """Methods of a runtime as methods of a lowered module: their names get two underscores."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A method's own name."""
        node.name = f"__{node.name}"
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """What it takes from itself."""
        if isinstance(node.value, ast.Name) and node.value.id == "self":
            node.attr = f"__{node.attr}"
        return self.generic_visit(node)
