"""Lowers a module to a backend: the result is a ScriptModule, which stock PyTorch saves, loads and runs.

Its classes and attributes have the names that PyTorch's own lowering gives them::

    LoweredWrapper.<backend>.<original>         forwards its methods; keeps what is put on it later
        __loweredModule__: LoweredModule.<backend>.<original>
            __processed_module      the result of the backend's preprocessing
            __method_compile_spec   as given
            __handles               for each method the result of the runtime's ``compile``
            __backend               the runtime; only the backend's name, if its methods are the module's
            __backend_debug_info    PyTorch's own object for debug handles; empty, but saving requires it
            forward, ...            the methods that the compile spec names

The state is ``(method_compile_spec, processed, True)``, as in PyTorch 1.10 and later. Nothing of this library
is needed to run the module.

A module can also be lowered to a backend that is not available in this process:

============================  ===========================================================================
not available when lowering   PyTorch's warning; the module can be saved, and running it raises
not available when loading    loading raises ``Backend is not available.``
no longer available           running raises the same
============================  ===========================================================================

The compile spec says for each method to lower which options the backend gets.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, overload

import torch

from archive.backend.errors import NO_HANDLE
from archive.backend.exported.program import METHOD, check_overloads, exported
from archive.backend.graph.inlining import compiled_name, inlined, unmangled
from archive.backend.lower import codegen
from archive.backend.lower.carried import carrying, write_table
from archive.backend.lower.effects import with_effects
from archive.backend.lower.handles import DebugHandles, generate_debug_handles
from archive.backend.lower.links import (
    STR_TYPE,
    TENSOR_LIST_TYPE,
    TORCHSCRIPT_NAMES,
    Ahead,
    linked,
    resolved,
)
from archive.backend.lower.parts import called_methods, with_lowered_parts
from archive.backend.lower.scripting import ranges_of, refusal, scripted_module
from archive.backend.lower.wrappers import (
    EFFECTS_ARGUMENTS,
    EFFECTS_MEMBERS,
    EFFECTS_STATE,
    EFFECTS_TENSORS,
    lowered_parts,
)
from archive.backend.programs.lowering import lower_program
from archive.backend.registry import Original, find_backend
from archive.backend.trial import try_lowered
from archive.base.errors import LoweringError
from archive.base.json_text import without_collecting
from archive.effects.capture.entries import MOST_ENTRIES
from archive.effects.capturing import untried as captured_untried

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.backend.graph.graphs import Operation
    from archive.backend.lower.effects import WithEffects
    from archive.backend.registry import Backend

LAST_HANDLE = "__last_handle"
"""The attribute of a lowered module that is its runtime's ``last_handle``."""

# --- compile spec


def checked_spec(given: object, is_method: Callable[[str], bool]) -> dict[str, Any]:
    """The compile spec, checked; a method without options gets ``{"": ""}``, as in PyTorch's own tests.

    Options may be a text, too, as these tests have it. Without a spec, ``forward`` is lowered.
    """
    given = {"forward": {}} if given is None else given
    if not isinstance(given, Mapping) or not given or not all(isinstance(name, str) for name in given):
        raise LoweringError(f"expected method_compile_spec to be a dict by method names, found {given!r}")
    for name, options in given.items():
        if not is_method(name):
            raise LoweringError(f"Method '{name}' is not defined.")
        if isinstance(options, str):
            continue
        if not isinstance(options, Mapping) or not all(isinstance(option, str) for option in options):
            raise LoweringError(
                f"method {name}: expected its compile spec to be a text, or a dict by names of options, "
                f"found {options!r}"
            )
        kind = torch._C._jit_try_infer_type(dict(options)) if options else None
        if kind is not None and not kind.success():
            raise LoweringError(f"method {name}: TorchScript cannot hold its compile spec: {kind.reason()}")
    return {
        name: options if isinstance(options, str) else dict(options) or {"": ""}
        for name, options in given.items()
    }


def _methods_of(scripted: torch.jit.ScriptModule) -> Callable[[str], bool]:
    """Whether a scripted module has a method, by its name."""
    return lambda name: scripted._c._has_method(compiled_name(scripted._c, name))


# --- lowering

ANY_TYPE = torch._C.AnyType.get()
MEMBERS_TYPE = torch._C.ListType(torch._C.TupleType([STR_TYPE, STR_TYPE, STR_TYPE, torch._C.IntType.get()]))
DICT_BY_METHOD_TYPE = torch._C.DictType(STR_TYPE, ANY_TYPE)


@overload
def lower(
    module: torch.export.ExportedProgram,
    backend: str,
    method_compile_spec: Mapping[str, Any] | None = None,
    *,
    paths: Sequence[str] | None = None,
) -> torch.export.ExportedProgram: ...
@overload
def lower(
    module: torch.nn.Module,
    backend: str,
    method_compile_spec: Mapping[str, Any] | None = None,
    *,
    paths: Sequence[str] | None = None,
    recorder: DebugHandles | None = None,
    effects: bool = False,
    example_inputs: Sequence[Any] = (),
    calls: Sequence[Sequence[Any]] = (),
    entries: int = MOST_ENTRIES,
) -> torch.jit.ScriptModule: ...
@without_collecting()
def lower(
    module: torch.nn.Module | torch.export.ExportedProgram,
    backend: str,
    method_compile_spec: Mapping[str, Any] | None = None,
    *,
    paths: Sequence[str] | None = None,
    recorder: DebugHandles | None = None,
    effects: bool = False,
    example_inputs: Sequence[Any] = (),
    calls: Sequence[Sequence[Any]] = (),
    entries: int = MOST_ENTRIES,
) -> torch.jit.ScriptModule | torch.export.ExportedProgram:
    """Lower a module or parts of it, or an exported program, to a backend.

    Of a program, the nodes that the backend supports are lowered, in as few partitions as possible; PyTorch
    runs the rest. ``torch.export.save`` writes what is returned, and ``torch.export.load`` reads it where
    :mod:`archive.backend` is imported.

    Args:
        module: a scripted, traced or eager module, or a ``torch.export.ExportedProgram``. It is not changed;
            parameters and buffers are shared.
        backend: name of a registered backend.
        method_compile_spec: for each method to lower the backend's own options, a dict by their names; by
            default only ``forward``, without options, or those methods of a scripted module's part that are
            called.
        paths: the parts to lower, each by the attributes that lead to it, joined by dots; by default the
            module as a whole. In a program, parts are the modules that it was exported from.
        recorder: gives out the debug handles; by default a new one, whose start depends on the module.
        effects: capture the side effects of an eager module's ``forward``. The lowered module has none: it
            takes the state as inputs, and returns the values to put there, which
            :class:`~archive.backend.Effectful` does.
        example_inputs: arguments of ``forward`` for ``effects``.
        calls: arguments of several calls of ``forward``, instead of ``example_inputs``: they are made in
            turn, to show what one example does not, such as other ranks or arguments.
        entries: the most tables that a module with effects may have. Where calls do different things, such as
            a first call that fills a cache, each has a table and a graph of its own.

    Returns:
        The wrapper of the lowered module, with the methods of ``method_compile_spec``. With ``paths``, the
        module scripted, with such wrappers in the places of its parts. Of a program, a program with the same
        parameters, results and changes of buffers.

    Raises:
        LoweringError: the backend or a method does not exist, the compile spec is invalid, a part is lowered
            already, PyTorch does not script the module, or operations are not supported; the error names all
            of these, with their source ranges. Of a program, no operation is supported. A ``CaptureError``,
            which is one, says that the side effects cannot be captured.
        OSError: the folder for temporary files cannot be written.
    """
    chosen = find_backend(backend)
    if isinstance(module, torch.export.ExportedProgram):
        if effects or recorder is not None:
            raise LoweringError("a program has its effects in its signature, and its own debug handles")
        spec = checked_spec(method_compile_spec, METHOD.__eq__)
        return lower_program(module, chosen, spec[METHOD], paths)
    if not isinstance(module, torch.nn.Module):
        raise LoweringError(f"expected a module or an exported program, found {module!r}")
    if calls and (example_inputs or not effects):
        raise LoweringError("expected calls with effects=True, and without example_inputs")
    if isinstance(example_inputs, torch.Tensor):
        raise LoweringError("expected example_inputs as a tuple of arguments, as (x,), found a tensor")
    if paths is not None:
        if effects:
            raise LoweringError("effects are captured of a whole module, not of parts")
        return scripted_module(_with_parts(module, backend, method_compile_spec, paths, recorder))
    if not effects:
        return _lowered_whole(module, chosen, method_compile_spec, recorder)
    given = [tuple(call) for call in calls or [example_inputs]]
    untried = captured_untried(module, "forward", given, entries)
    try:
        captured = with_effects(module, untried.found.captured)
        made = _lowered_whole(module, chosen, method_compile_spec, recorder, captured)
    except Exception:
        untried.tried(stacklevel=4)  # a wrong graph may be the reason, and is a better one
        raise
    try_lowered(untried, made)
    return made


@without_collecting()
def lower_to_torchscript(
    program: torch.export.ExportedProgram,
    backend: str,
    method_compile_spec: Mapping[str, Any] | None = None,
    *,
    recorder: DebugHandles | None = None,
) -> torch.jit.ScriptModule:
    """Lower an exported program as a whole to a module of TorchScript.

    Args:
        program: without dynamic shapes, and whose operators the backend supports. It is not changed;
            parameters and buffers are shared.
        backend: see :func:`lower`, also for the other arguments.

    Returns:
        The wrapper of the lowered module. It raises for arguments of other sizes or types, or with other
        values in the places of numbers, texts and None.

    Raises:
        LoweringError: see :func:`lower`; or TorchScript has no type for a parameter or result.
    """
    chosen = find_backend(backend)
    original, checks = exported(program)
    spec = checked_spec(method_compile_spec, original.graphs.__contains__)
    return _lowered(chosen, original, spec, recorder, checks=checks)


def _lowered_whole(
    module: torch.nn.Module,
    chosen: Backend,
    method_compile_spec: Mapping[str, Any] | None,
    recorder: DebugHandles | None,
    captured: WithEffects | None = None,
) -> torch.jit.ScriptModule:
    """Lower a module as a whole; see :func:`lower`."""
    scripted = scripted_module(module) if captured is None else captured.scripted
    for path in lowered_parts(scripted._c):
        where = f"its part {path}" if path else "the module"
        raise LoweringError(f"{where} is lowered already; lower parts that are not in one another")
    spec = checked_spec(method_compile_spec, _methods_of(scripted))
    if captured is not None:
        spec |= dict.fromkeys(captured.relocating, spec["forward"])
    places = ranges_of(scripted)
    graphs = {method: inlined(scripted._c, method, places) for method in spec}
    if captured is not None:
        for method, graph in graphs.items():
            captured.relocating[method].graph(graph)
    compiled = {method: scripted._c._get_method(compiled_name(scripted._c, method)) for method in spec}
    schemas = {
        method: codegen.with_unique_names(compiled_method.schema)
        for method, compiled_method in compiled.items()
    }
    type_name = unmangled(captured.type_name if captured else scripted._c._type().annotation_str)
    return _lowered(chosen, Original(type_name, graphs, schemas), spec, recorder, captured=captured)


def _lowered(
    backend: Backend,
    whole: Original,
    spec: dict[str, Any],
    recorder: DebugHandles | None,
    *,
    captured: WithEffects | None = None,
    checks: Mapping[str, Sequence[str]] | None = None,
) -> torch.jit.ScriptModule:
    """The wrapper of a lowered module.

    Args:
        captured: the module with its effects.
        checks: statements that check the arguments of methods, which exported programs have; None for others.
    """
    recorder = DebugHandles.of(whole.graphs.values()) if recorder is None else recorder
    before = set(recorder.operations)
    processed = preprocessed(backend, whole, spec, recorder)
    operations = recorder.operations
    kinds = {handle: operations[handle].kind for handle in sorted(operations.keys() - before)}
    parts = linked(backend, whole.schemas, processed, kinds)
    record = b"" if captured is None else captured.record(recorder)
    own = {handle: operation for handle, operation in operations.items() if handle not in before}
    table = write_table(own, record)
    unit = torch._C.CompilationUnit()
    info = torch.classes.backendutils.BackendDebugInfo()
    lowered = _module_of(
        unit,
        f"torch.jit.LoweredModule.{backend.name}.{whole.type_name}",
        [
            ("__processed_module", ANY_TYPE, parts.state),
            ("__method_compile_spec", DICT_BY_METHOD_TYPE, spec),
            ("__handles", DICT_BY_METHOD_TYPE, spec),
            ("__backend_debug_info", torch._C.OptionalType(info._type()), info),
            *parts.attributes,
        ],
        [
            *parts.sources,
            *(
                codegen.method(codegen.CHECK_PREFIX + method, whole.schemas[method], statements)
                for method, statements in (checks or {}).items()
            ),
            *(codegen.with_comment(method, carrying(table)) for method in parts.methods),
        ],
        parts.names,
    )
    if checks is not None and isinstance(processed, Ahead):
        check_overloads(lowered, processed.graphs)
    _set_up(lowered, backend.name, (spec, parts.state, False), operations)
    state: list[tuple[str, Any, Any]] = []
    if captured is not None:
        state.append((EFFECTS_STATE, TENSOR_LIST_TYPE, captured.tensors))
        state.append((EFFECTS_ARGUMENTS, STR_TYPE, captured.arguments))
        members, tensors = captured.members
        state.append((EFFECTS_MEMBERS, MEMBERS_TYPE, [tuple(member) for member in members]))
        state.append((EFFECTS_TENSORS, TENSOR_LIST_TYPE, tensors))
    wrapper = _module_of(
        unit,
        f"torch.jit.LoweredWrapper.{backend.name}.{whole.type_name}",
        [("__loweredModule__", lowered._type(), lowered), *state],
        [
            codegen.forwarding(method, schema, checked=method in (checks or {}))
            for method, schema in whole.schemas.items()
        ],
        TORCHSCRIPT_NAMES,
    )
    return torch.jit._recursive.wrap_cpp_module(wrapper)


def preprocessed(chosen: Backend, whole: Original, spec: dict[str, Any], recorder: DebugHandles) -> Any:  # noqa: ANN401
    """The state that a backend makes of a module; a note names the backend in whatever else it raises."""
    try:
        return chosen.preprocess(whole, spec, partial(generate_debug_handles, recorder))
    except LoweringError:
        raise
    except Exception as error:
        error.add_note(f"in preprocess of the backend {chosen.name}, which was given {whole.type_name}")
        raise


def _with_parts(
    module: torch.nn.Module,
    backend: str,
    method_compile_spec: Mapping[str, Any] | None,
    paths: Sequence[str],
    recorder: DebugHandles | None,
) -> torch.nn.Module:
    """A module with lowered parts, whose debug handles follow each other."""
    shared = recorder

    def lowered(part: torch.nn.Module, path: str) -> torch.jit.ScriptModule:
        nonlocal shared
        spec = method_compile_spec
        if spec is None and isinstance(module, torch.jit.ScriptModule):
            spec = {method: {} for method in called_methods(module, path)}
        if shared is None:
            scripted = scripted_module(part)
            places = ranges_of(scripted)
            methods = checked_spec(spec, _methods_of(scripted))
            shared = DebugHandles.of(inlined(scripted._c, method, places) for method in methods)
        return lower(part, backend, spec, recorder=shared)

    return with_lowered_parts(module, paths, lowered)


def _set_up(
    lowered: Any,  # noqa: ANN401
    backend: str,
    state: tuple[Any, Any, bool],
    operations: Mapping[int, Operation],
) -> None:
    """Have the backend compile the module, if it is available; warn if not.

    Args:
        operations: by debug handle; the runtime's ``last_handle`` says which one it does not compile.
    """
    if not lowered._get_method("__is_available")():
        warnings.warn(codegen.UNAVAILABLE_WARNING.format(backend), stacklevel=3)
        return
    try:
        lowered._get_method("__setstate__")(state)
    except (RuntimeError, torch.jit.Error) as error:
        said = str(error).strip().splitlines()[-1].removeprefix("RuntimeError: ")
        handle = lowered.getattr(LAST_HANDLE) if lowered.hasattr(LAST_HANDLE) else NO_HANDLE
        if handle in operations:
            said = codegen.compile_error(operations[handle], said.removeprefix("AssertionError: "))
        raise LoweringError(f"{backend} does not compile what it was preprocessed to: {said}") from error


def _unheld(value: object, place: str) -> tuple[str, object]:
    """The innermost part of a value that has no type in TorchScript, and how it is reached."""
    parts = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value if isinstance(value, list | tuple) else ())
    )
    for key, part in parts:
        if not torch._C._jit_try_infer_type(part).success():
            return _unheld(part, f"{place}[{key!r}]")
    return place, value


def _module_of(
    unit: Any,  # noqa: ANN401
    name: str,
    attributes: list[tuple[str, Any, Any]],
    sources: list[str],
    names: Mapping[str, Any],
) -> Any:  # noqa: ANN401
    """A module of a qualified class, made of attributes (name, type and value) and of the sources of methods.

    Each method stands after those that it calls; ``names`` gives the objects that names in the sources stand
    for.
    """
    module = torch._C.ScriptModule(name, unit, True)
    resolve = partial(resolved, names=names)
    for attribute, kind, value in attributes:
        try:
            module._register_attribute(attribute, kind, value)
        except RuntimeError as error:
            place, part = _unheld(value, attribute)
            held = f"{place}, {part!r}, which is {type(part).__name__}"
            why = (
                ": an empty one has no type of elements" if isinstance(part, list | dict) and not part else ""
            )
            raise LoweringError(f"{name}: TorchScript cannot hold {held}{why}") from error
    for source in sources:
        try:
            module._define(torch._C.ConcreteModuleType.from_jit_type(module._type()), source, resolve)
        except RuntimeError as error:
            raise LoweringError(f"{name}: this is not TorchScript: {refusal(error, None)}") from error
    return module
