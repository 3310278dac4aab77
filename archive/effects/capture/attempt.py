"""One attempt at a capture: the method is called once, with proxies of everything that it can change."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.random import fork_rng

from archive.effects.capture.finish import finished
from archive.effects.capture.following.functions import Functions
from archive.effects.capture.following.interception import intercepted, replaced
from archive.effects.capture.following.kept_calls import KeptCalls
from archive.effects.capture.following.objects import ObjectProxies
from archive.effects.capture.following.outside import check_reset
from archive.effects.capture.following.torch_calls import TorchCalls
from archive.effects.capture.following.wrapping import BUILTIN_CODE, SAFE, Wrapping
from archive.effects.capture.graph.sites import error_at, is_of_pytorch, of_model
from archive.effects.capture.graph.variables import ObjectProxy, is_container_proxy, is_literal
from archive.effects.capture.proxies.containers import Containers
from archive.effects.capture.proxies.hooks import call_module, check_taken_off, has_hooks
from archive.effects.capture.proxies.open_list import OpenDeque, OpenList
from archive.effects.capture.proxies.tracked_dict import TrackedDict
from archive.effects.capture.settled_hooks import settle_hooks
from archive.effects.capture.table.call import CapturedCall, SeenChanges
from archive.effects.capture.table.snapshot import instance_dict
from archive.effects.errors import CaptureError, ModelFailedError
from archive.effects.looking import type_name
from archive.effects.placeholders import LEFT_OUT
from archive.effects.places import base_of
from archive.formats.effects.model import Item, Local, Look

if TYPE_CHECKING:
    from archive.effects.capture.table.side_effects import Flat
    from archive.effects.capture.table.snapshot import Snapshot


CONTAINER_PROXIES = (TrackedDict, OpenList, OpenDeque)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call that has been captured."""

    call: CapturedCall
    graph: Any
    flat: Flat


def attempt(
    module: Any,
    method: str,
    arguments: tuple[Any, ...],
    snapshot: Snapshot,
    seen: SeenChanges,
) -> Attempt:
    """Capture one call of a model, which stays unchanged, from the values of a snapshot.

    The changes of this call are added to those seen by earlier attempts.
    """
    is_module_call = method == "forward" and isinstance(module, torch.nn.Module)
    if is_module_call and type(module).__call__ is not torch.nn.Module.__call__:
        raise CaptureError(f"a {type(module).__qualname__} with a __call__ of its own")
    is_hooked = is_module_call and has_hooks(module)
    call = CapturedCall(snapshot, seen, outermost=attempt.__code__)
    call.kept_calls, call.replaced = KeptCalls(call), replaced()
    wrapping, functions = Wrapping(call), Functions(call)
    call.wrap, call.functions, call.objects = wrapping.wrap, functions, ObjectProxies(call)
    call.containers = Containers(call)
    call.side_effects.method = method
    wrapping.name_paths(module)
    proxy = call.wrap(module, Local("self"))
    given = _wrapped(wrapping, call, module, method, arguments, is_hooked=is_hooked)
    result = _result(call, partial(call_module, call, proxy) if is_hooked else getattr(proxy, method), given)
    settle_hooks(call)
    check_taken_off(call)
    check_reset(call)
    _check_followed(call, functions)
    if name := wrapping.attribute_set():
        raise CaptureError(f"an attribute of a tensor that is set: {name}")
    seen.written |= call.seen_written
    seen.mutated |= call.seen_mutated
    return Attempt(call, *finished(call, module, result))


def _wrapped(
    wrapping: Wrapping,
    call: CapturedCall,
    module: Any,
    method: str,
    arguments: tuple[Any, ...],
    *,
    is_hooked: bool,
) -> tuple[Any, ...]:
    """The arguments as the model gets them; notes defaults, and guards what the example leaves out."""
    signature = inspect.signature(getattr(module, method))
    try:
        bound = signature.bind(*arguments)
    except TypeError as error:
        raise CaptureError(f"{method}: {error}") from error
    names, guards = dict(bound.arguments), call.guards
    guards.name_arguments(getattr(type(module), method, None), signature.parameters)
    if is_hooked:  # hooks only get what a call passes
        for name, parameter in signature.parameters.items():
            if name not in names and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
                raise CaptureError(f"a module with hooks, which may ask whether {name!r} is given: give it")
        guards.read_all()
    for name, parameter in signature.parameters.items():
        is_read = guards.is_read(name)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            if is_read:
                guards.note(Look.LENGTH, Local(name), len(names.get(name, ())))
        elif is_literal(parameter.default) or (
            isinstance(parameter.default, SAFE) and not isinstance(parameter.default, BUILTIN_CODE)
        ):
            call.side_effects.defaults[name] = (
                parameter.default if is_literal(parameter.default) else str(parameter.default)
            )
            if name not in names and is_read:
                guards.constant(parameter.default, Local(name))
        elif name not in names and is_read:
            guards.note(Look.TYPE, Local(name), type_name(LEFT_OUT))
    given: list[Any] = []
    for name, value in names.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            given += [wrapping.argument(item, Item(Local(name), index)) for index, item in enumerate(value)]
        else:
            given.append(wrapping.argument(value, Local(name)))
    return tuple(given)


def _result(call: CapturedCall, called: Any, arguments: tuple[Any, ...]) -> Any:
    """Call the method."""
    error: CaptureError | None = None
    result: Any = None
    with fork_rng(devices=()), intercepted(call), TorchCalls(call):
        try:
            result = called(*arguments)
            call.functions.settle()
        except CaptureError as refusal:
            error = refusal
        except Exception as failure:  # noqa: BLE001 (whatever the model raises)
            trace, line = failure.__traceback__, ("", 0)
            while trace is not None:
                filename = trace.tb_frame.f_code.co_filename
                if of_model(filename) and not (line[0] and is_of_pytorch(filename)):
                    line = filename, trace.tb_lineno
                trace = trace.tb_next
            error = ModelFailedError(f"{type(failure).__name__}: {failure}", *line)
            error.__cause__ = failure
    call.texts.close()
    if call.refusal is not None and error is not call.refusal:
        raise call.refusal
    if error is not None:
        raise error
    return result


def _check_followed(call: CapturedCall, functions: Functions) -> None:
    """Refuse a change that bypassed the proxies."""
    for variable, proxy in call.proxies.items():
        if type(proxy) in CONTAINER_PROXIES and not proxy.intact():
            message = f"a {variable.kind} was changed by what is not written in Python"
            raise error_at(message, call.first_reads.get(variable))
        if issubclass(type(proxy), ObjectProxy):
            has_items = is_container_proxy(proxy) and base_of(type(proxy)).__len__(proxy)
            if has_items or instance_dict(proxy):
                statement = call.first_reads.get(variable)
                raise error_at("an object was changed past its class's methods", statement)
    changed = functions.changed_attributes()
    if changed is not None:
        name, attribute, line = changed
        raise CaptureError(f"an attribute of a function, {name}, is set: {attribute}", *line)
