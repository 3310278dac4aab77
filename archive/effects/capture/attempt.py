"""One attempt at a capture: the method is called once, on proxies of everything that it can change."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch.random import fork_rng

from archive.effects.capture.finish import finished
from archive.effects.capture.following.functions import Functions
from archive.effects.capture.following.interception import BY_FUNCTION, intercepted
from archive.effects.capture.following.kept_calls import KeptCalls
from archive.effects.capture.following.objects import ObjectProxies
from archive.effects.capture.following.outside import check_reset
from archive.effects.capture.following.torch_calls import TorchCalls
from archive.effects.capture.following.wrapping import BUILTIN_CODE, SAFE, Wrapping
from archive.effects.capture.graph.sites import error_at, of_model
from archive.effects.capture.graph.variables import ObjectProxy, is_container_proxy, is_literal
from archive.effects.capture.proxies.containers import Containers
from archive.effects.capture.proxies.hooks import call_module, check_taken_off, has_hooks
from archive.effects.capture.proxies.open_list import OpenDeque, OpenList
from archive.effects.capture.proxies.tracked_dict import TrackedDict
from archive.effects.capture.settled_hooks import settle_hooks
from archive.effects.capture.table.call import CapturedCall, SeenChanges, instance_dict
from archive.effects.errors import CaptureError, ModelFailedError
from archive.effects.looking import type_name
from archive.effects.placeholders import LEFT_OUT
from archive.effects.places import base_of
from archive.formats.effects.model import Item, Local, Look

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from archive.effects.capture.table.call import Snapshot
    from archive.effects.capture.table.side_effects import Flat


CONTAINER_PROXIES = (TrackedDict, OpenList, OpenDeque)


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call that has been captured.

    Attributes:
        call: its state at the end.
        graph: a ``torch.fx.GraphModule`` of its operations.
        flat: its table as plain data.
    """

    call: CapturedCall
    graph: Any
    flat: Flat


def attempt(
    module: Any,  # noqa: ANN401
    method: str,
    arguments: tuple[Any, ...],
    snapshot: Snapshot,
    found: SeenChanges,
) -> Attempt:
    """Capture one call.

    Args:
        module: the model, which stays as it is.
        method: its method.
        arguments: of the method.
        snapshot: the values before the call.
        found: changes that earlier attempts have seen; those of this call are added.

    Raises:
        CaptureError: the call cannot be captured.
    """
    if method == "forward":
        _check_call(module)
    call = CapturedCall(snapshot, found, outermost=attempt.__code__)
    call.kept_calls, call.replaced = KeptCalls(call), BY_FUNCTION
    wrapping, functions = Wrapping(call), Functions(call)
    call.wrap, call.functions, call.objects = wrapping.wrap, functions, ObjectProxies(call)
    call.containers = Containers(call)
    call.side_effects.method = method
    wrapping.name_paths(module)
    proxy = call.wrap(module, Local("self"))
    given = _wrapped(wrapping, call, module, method, arguments)
    result = _result(call, _called(call, proxy, module, method), given)
    settle_hooks(call)
    check_taken_off(call)
    check_reset(call)
    broken = _unfollowed(call, functions)
    if broken is not None:
        raise broken
    if name := wrapping.attribute_set():
        raise CaptureError(f"an attribute of a tensor that is set: {name}")
    found.written |= call.seen_written
    found.mutated |= call.seen_mutated
    return Attempt(call, *finished(call, module, result))


def _is_written_to(proxy: Any) -> bool:  # noqa: ANN401
    """Whether an object's proxy itself has got an attribute or an item."""
    if is_container_proxy(proxy) and base_of(type(proxy)).__len__(proxy):
        return True
    return bool(instance_dict(proxy))


def _check_call(module: Any) -> None:  # noqa: ANN401
    """Refuse a module that does more than ``forward`` when it is called."""
    name = type(module).__qualname__
    if isinstance(module, torch.nn.Module) and type(module).__call__ is not torch.nn.Module.__call__:
        raise CaptureError(f"a {name} with a __call__ of its own")


def _called(call: CapturedCall, proxy: Any, module: Any, method: str) -> Any:  # noqa: ANN401
    """What is called: the method, or the module itself if it has hooks."""
    if _is_hooked(module, method):
        return partial(call_module, call, proxy)
    return getattr(proxy, method)


def _is_hooked(module: Any, method: str) -> bool:  # noqa: ANN401
    return method == "forward" and isinstance(module, torch.nn.Module) and has_hooks(module)


def _wrapped(
    wrapping: Wrapping,
    call: CapturedCall,
    module: Any,  # noqa: ANN401
    method: str,
    arguments: tuple[Any, ...],
) -> tuple[Any, ...]:
    """The arguments as the model gets them."""
    signature = inspect.signature(getattr(module, method))
    try:
        bound = signature.bind(*arguments)
    except TypeError as error:
        raise CaptureError(f"{method}: {error}") from error
    names = dict(bound.arguments)
    call.guards.name_arguments(getattr(type(module), method, None), signature.parameters)
    if _is_hooked(module, method):
        _check_hooked(call, signature, names)
    _note_left_out(call, signature, names)
    given: list[Any] = []
    for name, value in names.items():
        if signature.parameters[name].kind is inspect.Parameter.VAR_POSITIONAL:
            given += [wrapping.argument(one, Item(Local(name), index)) for index, one in enumerate(value)]
        else:
            given.append(wrapping.argument(value, Local(name)))
    return tuple(given)


def _check_hooked(call: CapturedCall, signature: inspect.Signature, given: Collection[str]) -> None:
    """Refuse arguments that are left out: hooks of the module get those alone that a call gives."""
    left = [
        name
        for name, one in signature.parameters.items()
        if name not in given and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if left:
        raise CaptureError(f"a module with hooks, which may ask whether {left[0]!r} is given: give it")
    call.guards.read_all()


def _note_left_out(call: CapturedCall, signature: inspect.Signature, given: Mapping[str, Any]) -> None:
    """Note the defaults that a table can hold; guard what the example leaves out, and the length of stars."""
    for name, one in signature.parameters.items():
        is_read = call.guards.is_read(name)
        if one.kind in (one.VAR_POSITIONAL, one.VAR_KEYWORD):
            if is_read:
                call.guards.note(Look.LENGTH, Local(name), len(given.get(name, ())))
        elif is_literal(one.default) or (
            isinstance(one.default, SAFE) and not isinstance(one.default, BUILTIN_CODE)
        ):
            call.side_effects.defaults[name] = one.default if is_literal(one.default) else str(one.default)
            if name not in given and is_read:
                call.guards.constant(one.default, Local(name))
        elif name not in given and is_read:
            call.guards.note(Look.TYPE, Local(name), type_name(LEFT_OUT))


def _result(call: CapturedCall, called: Any, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401
    """Call the method.

    Raises:
        CaptureError: the call was refused, even if the model caught the error, or the model failed.
    """
    error: CaptureError | None = None
    result: Any = None
    with fork_rng(devices=()), intercepted(call), TorchCalls(call):
        try:
            result = called(*arguments)
            call.functions.settle()
        except CaptureError as refusal:
            error = refusal
        except Exception as failure:  # noqa: BLE001 (whatever the model raises)
            error = _failed(failure)
            error.__cause__ = failure
    call.texts.close()
    if call.refusal is not None and error is not call.refusal:
        raise call.refusal
    if error is not None:
        raise error
    return result


def _failed(failure: Exception) -> CaptureError:
    """A model's own error, with the model's line."""
    trace, line = failure.__traceback__, ("", 0)
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if of_model(filename):
            line = filename, trace.tb_lineno
        trace = trace.tb_next
    return ModelFailedError(f"{type(failure).__name__}: {failure}", *line)


def _unfollowed(call: CapturedCall, functions: Functions) -> CaptureError | None:
    """The error for a change that went past the proxies; None if there is none."""
    for variable, proxy in call.proxies.items():
        if type(proxy) in CONTAINER_PROXIES and not proxy.intact():
            message = f"a {variable.kind} was changed by what is not written in Python"
            return error_at(message, call.met.get(variable))
        if issubclass(type(proxy), ObjectProxy) and _is_written_to(proxy):
            return error_at("an object was changed past its class's methods", call.met.get(variable))
    name = functions.changed_attributes()
    return None if name is None else CaptureError(f"an attribute of a function, {name}, is set")
