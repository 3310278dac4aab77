"""Modules lowered ahead of time: real ScriptModules, which stock PyTorch saves, loads and runs.

What lowering makes, by the names that PyTorch's own lowering gives it::

    LoweredWrapper.<backend>.<original>         forwards its methods; keeps what is put on it later
        __loweredModule__: LoweredModule.<backend>.<original>
            __processed_module      what the backend made of the module: the tensors that it needs
            __method_compile_spec   as given
            __handles               what the backend's compiler would make of it; here the same as above
            __backend               name of the backend
            __backend_debug_info    PyTorch's own place for debug handles; empty, but the saver asks for it
            __debug_table           where operations come from, until the module is saved: see tables
            forward, ...            one statement an operation

The state is ``(method_compile_spec, processed, True)``, as in PyTorch 1.10 and later. Nothing of this library
is needed to run it.
"""

from __future__ import annotations

import re
import typing
from typing import TYPE_CHECKING, Any

import torch

from archive.backend import codegen
from archive.backend.emitting import CONSTANTS, emitted
from archive.backend.errors import LoweringError
from archive.backend.folding import folded
from archive.backend.graphs import inlined
from archive.backend.places import Places
from archive.backend.tables import table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.backend.graphs import Operation

LOWERED = re.compile(r"torch\.jit\.LoweredModule\.")
BACKEND = "aten"
DEBUG = "__debug_table"
FIRST_LINE = 3
"""Where statements begin in a method's source: behind an empty line and the head."""

NAMES = {
    "torch": torch,
    "Tensor": torch.Tensor,
    "Exception": Exception,
    **{name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Tuple")},
}
ANY, TEXT = torch._C.AnyType.get(), torch._C.StringType.get()
BY_METHOD = torch._C.DictType(TEXT, ANY)
TENSORS = torch._C.ListType(torch._C.TensorType.get())

CREATE = codegen.block(["def __create_backend(self):", f'    self.__backend = "{BACKEND}"'])
CREATE_DEBUG_INFO = codegen.block(
    [
        "def __create_backend_debug_info(self):",
        "    self.__backend_debug_info = torch.classes.backendutils.BackendDebugInfo()",
    ]
)
IS_AVAILABLE = codegen.block(["def __is_available(self) -> bool:", "    return True"])
SET_STATE = codegen.block(
    [
        "def __setstate__(self, state: Tuple[Dict[str, Any], Any, bool]):",
        "    self.__method_compile_spec = state[0]",
        "    processed = state[1]",
        "    self.__processed_module = processed",
        "    self.__handles = state[0]",
        f'    self.{DEBUG} = ""',
        "    if state[2]:",
        "        self.__create_backend()",
        "        self.__create_backend_debug_info()",
        "    assert isinstance(processed, List[Tensor])",
        f"    {CONSTANTS} = processed",
    ]
)


def lower(
    module: torch.nn.Module, method_compile_spec: Mapping[str, Any] | None = None
) -> torch.jit.ScriptModule:
    """Lower a module, ahead of time: each operation becomes a statement of its own.

    Args:
        module: scripted, traced, or to be scripted. It is left as it is. Parameters and buffers are shared.
        method_compile_spec: for each method to lower anything that is to be kept with it; by default
            ``forward`` alone.

    Raises:
        LoweringError: a method is not defined, or operations are not supported; it names all of these, with
            their places.
    """
    scripted = module if isinstance(module, torch.jit.ScriptModule) else torch.jit.script(module)
    usual = {"forward": {"": ""}}
    spec = _checked(scripted, usual if method_compile_spec is None else method_compile_spec)
    original = scripted._c._type().annotation_str
    places = Places.of(scripted._c)
    constants: list[torch.Tensor] = []
    sources: list[str] = []
    operations: dict[str, list[tuple[int, Operation]]] = {}
    unsupported: list[Operation] = []
    for method in spec:
        schema = scripted._c._get_method(method).schema
        graph = folded(inlined(scripted._c, method, places))
        body = emitted(graph, [one.name for one in codegen.arguments(schema)], constants)
        unsupported += body.unsupported
        sources.append(codegen.method(method, schema, body.lines))
        numbered = enumerate(body.operations, FIRST_LINE)
        operations[method] = [(line, one) for line, one in numbered if one is not None]
    if unsupported:
        raise LoweringError("\n".join(map(_unsupported, unsupported)))
    constants = constants or [torch.empty(0)]  # an empty list has no type
    unit = torch._C.CompilationUnit()
    lowered = _made(
        unit,
        f"torch.jit.LoweredModule.{BACKEND}.{original}",
        [
            ("__processed_module", ANY, constants),
            ("__method_compile_spec", BY_METHOD, spec),
            ("__handles", BY_METHOD, spec),
            ("__backend", TEXT, BACKEND),
            ("__backend_debug_info", *_debug_info()),
            (DEBUG, TEXT, table(operations)),
            (CONSTANTS.removeprefix("self."), TENSORS, constants),
        ],
        [CREATE, CREATE_DEBUG_INFO, IS_AVAILABLE, codegen.GET_STATE, SET_STATE, *sources],
    )
    wrapper = _made(
        unit,
        f"torch.jit.LoweredWrapper.{BACKEND}.{original}",
        [("__loweredModule__", lowered._type(), lowered)],
        [codegen.forwarding(method, scripted._c._get_method(method).schema) for method in spec],
    )
    return torch.jit._recursive.wrap_cpp_module(wrapper)


def _checked(scripted: torch.jit.ScriptModule, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The compile spec, if it is one.

    Raises:
        LoweringError: it names no method, or one that is not defined.
    """
    if not isinstance(spec, dict) or not spec or not all(isinstance(name, str) for name in spec):
        raise LoweringError(f"expected method_compile_spec to be a dict by method names, found {spec!r}")
    for name in spec:
        if not scripted._c._has_method(name):
            raise LoweringError(f"Method '{name}' is not defined.")
    return dict(spec)


def _unsupported(operation: Operation) -> str:
    return f"The node of {operation.kind} is not supported in this compiler. Source code: {operation.shown}"


def _debug_info() -> tuple[Any, Any]:
    """PyTorch's own place for debug handles: its type and an empty one."""
    info = torch.classes.backendutils.BackendDebugInfo()
    return torch._C.OptionalType(info._type()), info


def _made(unit: Any, name: str, attributes: list[tuple[str, Any, Any]], sources: list[str]) -> Any:  # noqa: ANN401
    """A module of some attributes (name, type, value) and methods."""
    module = torch._C.ScriptModule(name, unit, True)
    for attribute, kind, value in attributes:
        module._register_attribute(attribute, kind, value)
    for source in sources:
        module._define(torch._C.ConcreteModuleType.from_jit_type(module._type()), source, NAMES.get)
    return module
