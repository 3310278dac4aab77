"""Modules lowered to a backend: real ScriptModules, which stock PyTorch saves, loads and runs.

What lowering makes, by the names that PyTorch's own lowering gives it::

    LoweredWrapper.<backend>.<original>         forwards its methods; keeps what is put on it later
        __loweredModule__: LoweredModule.<backend>.<original>
            __processed_module      what the backend made of the module
            __method_compile_spec   as given
            __handles               what the backend's compiler made of that, for each method
            __backend               the backend; its name, where it is no object
            __backend_debug_info    PyTorch's own place for debug handles; empty, but the saver asks for it
            __debug_table           where operations come from, until the module is saved: see tables
            forward, ...            for each method of the compile spec one

The state is ``(method_compile_spec, processed, True)``, as in PyTorch 1.10 and later. Nothing of this library
is needed to run it.

A backend that is not available here can be lowered to all the same:

============================  ===========================================================================
lowered where it is not       a warning, PyTorch's; the module can be saved, and running it raises
loaded where it is not        loading raises ``Backend is not available.``
no longer available           running raises the same
============================  ===========================================================================
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from archive.backend.errors import LoweringError
from archive.backend.graph.inlining import inlined, unmangled
from archive.backend.graph.range_finder import RangeFinder
from archive.backend.lower import codegen
from archive.backend.lower.effects import with_effects
from archive.backend.lower.handles import DebugHandles, generate_debug_handles
from archive.backend.lower.links import (
    DEBUG_TABLE,
    STR_TYPE,
    TENSOR_LIST_TYPE,
    TORCHSCRIPT_NAMES,
    linked,
    resolved,
)
from archive.backend.lower.tables import write_table
from archive.backend.registry import Original, find_backend

if TYPE_CHECKING:
    from collections.abc import Sequence

EFFECTS_STATE, EFFECTS_ARGUMENTS = "__effects_state", "__effects_arguments"
"""The wrapper's attributes that hold the tensors of the state that effects change, and arguments' names."""
LOWERED_TYPE = re.compile(r"torch\.jit\.LoweredModule\.(?P<backend>[^.]+)\.")
ANY_TYPE = torch._C.AnyType.get()
DICT_BY_METHOD_TYPE = torch._C.DictType(STR_TYPE, ANY_TYPE)


def lower(
    module: torch.nn.Module,
    backend: str,
    method_compile_spec: Mapping[str, Any] | None = None,
    *,
    recorder: DebugHandles | None = None,
    effects: bool = False,
    example_inputs: Sequence[Any] = (),
) -> torch.jit.ScriptModule:
    """Lower a module to a backend.

    Args:
        module: scripted, traced, or to be scripted. It is left as it is. Parameters and buffers are shared.
        backend: name of a registered backend.
        method_compile_spec: for each method to lower the backend's own options, a dict by their names; by
            default ``forward`` alone, without any.
        recorder: takes the debug handles; by default a new one, whose start is chosen by the module.
        effects: capture what ``forward`` changes, besides giving results, of an eager module; the lowered one
            changes nothing, takes state and gives what is to be put there. :mod:`archive.effects` runs it.
        example_inputs: arguments, for ``effects``; shapes and types of tensors are taken from them.

    Raises:
        LoweringError: there is no such backend or method, the compile spec is none, a part is lowered
            already, or operations are not supported; it names all of these, with their places. (Where PyTorch
            cannot script the module, its own error is raised.)
        CaptureError: effects cannot be captured.
    """
    chosen = find_backend(backend)
    if not isinstance(module, torch.nn.Module):
        raise LoweringError(f"expected a module, found {module!r}")
    captured = with_effects(module, example_inputs) if effects else None
    if captured is not None:
        scripted = captured.scripted
    else:
        scripted = module if isinstance(module, torch.jit.ScriptModule) else torch.jit.script(module)
    if not isinstance(scripted, torch.jit.ScriptModule):
        raise LoweringError("PyTorch scripts nothing in this process: PYTORCH_JIT=0")
    for path in lowered_parts(scripted._c):
        where = f"its part {path}" if path else "the module"
        raise LoweringError(f"{where} is lowered already; lower parts that are not in one another")
    spec = _checked(scripted, {"forward": {}} if method_compile_spec is None else method_compile_spec)
    original = unmangled(captured.type_name if captured else scripted._c._type().annotation_str)
    places = RangeFinder.of(scripted._c)
    graphs = {method: inlined(scripted._c, method, places) for method in spec}
    if captured is not None:
        for graph in graphs.values():
            captured.relocating.graph(graph)
    recorder = DebugHandles.of(graphs.values()) if recorder is None else recorder
    before = set(recorder.operations)
    schemas = {method: scripted._c._get_method(method).schema for method in spec}
    whole = Original(original, graphs, schemas)
    processed = chosen.preprocess(whole, spec, partial(generate_debug_handles, recorder))
    made = linked(chosen, schemas, processed, [one for one in recorder.operations if one not in before])
    unit = torch._C.CompilationUnit()
    lowered = _made(
        unit,
        f"torch.jit.LoweredModule.{backend}.{original}",
        [
            ("__processed_module", ANY_TYPE, made.state),
            ("__method_compile_spec", DICT_BY_METHOD_TYPE, spec),
            ("__handles", DICT_BY_METHOD_TYPE, spec),
            ("__backend_debug_info", *_debug_info()),
            (DEBUG_TABLE, STR_TYPE, ""),
            *made.attributes,
        ],
        made.sources,
        made.names,
    )
    _set_up(lowered, backend, (spec, made.state, False))
    record = b"" if captured is None else captured.record(recorder)
    own = {handle: one for handle, one in recorder.operations.items() if handle not in before}
    lowered.setattr(DEBUG_TABLE, write_table(own, record))
    state = (
        []
        if captured is None
        else [
            (EFFECTS_STATE, TENSOR_LIST_TYPE, captured.tensors),
            (EFFECTS_ARGUMENTS, STR_TYPE, ", ".join(captured.arguments)),
        ]
    )
    wrapper = _made(
        unit,
        f"torch.jit.LoweredWrapper.{backend}.{original}",
        [("__loweredModule__", lowered._type(), lowered), *state],
        [codegen.forwarding(method, schema) for method, schema in schemas.items()],
        TORCHSCRIPT_NAMES,
    )
    return torch.jit._recursive.wrap_cpp_module(wrapper)


def lowered_parts(module: Any) -> dict[str, Any]:  # noqa: ANN401 (a torch._C.ScriptModule)
    """The lowered modules in a module, by the attributes that lead to each: "" for the module itself."""
    found = {}
    left = [("", module)]
    while left:
        path, one = left.pop()
        if LOWERED_TYPE.match(one._type().annotation_str):
            found[path.removesuffix("__loweredModule__").removesuffix(".")] = one
        children = torch._C.ModuleDict(one).items()
        left += [(f"{path}.{name}".removeprefix("."), child) for name, child in children]
    return found


def _checked(scripted: torch.jit.ScriptModule, given: object) -> dict[str, dict[str, Any]]:
    """The compile spec, if it is one. A method without options gets an empty one, as PyTorch's have it.

    Raises:
        LoweringError: it names no method, one that is not defined, or options that TorchScript cannot hold.
    """
    if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) for name in given):
        raise LoweringError(f"expected method_compile_spec to be a dict by method names, found {given!r}")
    for name, options in given.items():
        if not scripted._c._has_method(name):
            raise LoweringError(f"Method '{name}' is not defined.")
        if not isinstance(options, Mapping) or not all(isinstance(option, str) for option in options):
            raise LoweringError(
                f"method {name}: expected its compile spec to be a dict by names of options, "
                f"found {options!r}"
            )
        found = torch._C._jit_try_infer_type(dict(options)) if options else None
        if found is not None and not found.success():
            raise LoweringError(f"method {name}: TorchScript cannot hold its compile spec: {found.reason()}")
    return {name: dict(options) or {"": ""} for name, options in given.items()}


def _debug_info() -> tuple[Any, Any]:
    """PyTorch's own place for debug handles: its type and an empty one."""
    info = torch.classes.backendutils.BackendDebugInfo()
    return torch._C.OptionalType(info._type()), info


def _set_up(lowered: Any, backend: str, state: tuple[Any, Any, bool]) -> None:  # noqa: ANN401
    """Have the backend compile the module, if it is available.

    Raises:
        LoweringError: its compiler refuses what its preprocessing made.
    """
    if not lowered._get_method("__is_available")():
        warnings.warn(codegen.UNAVAILABLE_WARNING.format(backend), stacklevel=3)
        return
    try:
        lowered._get_method("__setstate__")(state)
    except (RuntimeError, torch.jit.Error) as error:
        raise LoweringError(f"{backend} does not compile what it was preprocessed to: {error}") from error


def _made(
    unit: Any,  # noqa: ANN401
    name: str,
    attributes: list[tuple[str, Any, Any]],
    sources: list[str],
    names: Mapping[str, Any],
) -> Any:  # noqa: ANN401
    """A module of some attributes (name, type, value) and methods.

    Raises:
        LoweringError: a source is not TorchScript.
    """
    module = torch._C.ScriptModule(name, unit, True)
    resolve = partial(resolved, names=names)
    for attribute, kind, value in attributes:
        module._register_attribute(attribute, kind, value)
    for source in sources:
        try:
            module._define(torch._C.ConcreteModuleType.from_jit_type(module._type()), source, resolve)
        except RuntimeError as error:
            raise LoweringError(f"{name}: this is not TorchScript: {error}") from error
    return module
