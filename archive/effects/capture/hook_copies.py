"""What runs in the place of a module's hook while a model is captured: a copy of its function, on proxies."""

from __future__ import annotations

import functools
from inspect import getattr_static
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from archive.effects.capture.function_code import is_model_module
from archive.effects.capture.snapshot import instance_dict
from archive.effects.capture.sources import is_literal
from archive.effects.capture.untouchable import Untouchable
from archive.formats.effects.model import Attribute

if TYPE_CHECKING:
    from archive.effects.capture.call import CapturedCall
    from archive.formats.effects.model import Source


def follow(call: CapturedCall, hook: Any) -> Any:  # noqa: ANN401
    """What runs in the place of a hook: a copy of its function, on proxies.

    Raises:
        CaptureError: no place leads to the object whose method the hook is, or the hook changes itself.
    """
    if isinstance(hook, functools.partial):
        given = [_given(call, one) for one in hook.args]
        named = {name: _given(call, one) for name, one in hook.keywords.items()}
        return functools.partial(follow(call, hook.func), *given, **named)
    if isinstance(hook, FunctionType):
        return call.wrap(hook, None)
    if isinstance(hook, MethodType):
        owner = _owner(call, hook.__self__)
        function: Any = hook.__func__
        return MethodType(call.functions.copy(function), owner)
    if is_model_module(type(hook).__module__):
        return _owner(call, hook)
    if not isinstance(getattr_static(type(hook), "__call__", None), FunctionType):
        call.refuse(f"a hook that is no code of Python: a {type(hook).__qualname__}")
    return functools.partial(_of_library, call, hook)


def _of_library(call: CapturedCall, hook: Any, *given: Any) -> Any:  # noqa: ANN401
    """Call a hook that is an object of a library, such as PyTorch's weight norm."""
    held = instance_dict(hook)
    before = dict(held)
    found = hook(*given)
    if held != before or not all(map(is_literal, held.values())):
        held.clear()
        held.update(before)
        call.refuse(f"a hook, a {type(hook).__qualname__}, that has a state of its own")
    return found


def _owner(call: CapturedCall, owner: Any) -> Any:  # noqa: ANN401
    """The proxy of the object whose method a hook is."""
    proxy = _given(call, owner)
    if type(proxy) is Untouchable:
        call.refuse(f"a hook of a {type(owner).__qualname__}, which no attribute of a module holds")
    return proxy


def _given(call: CapturedCall, value: Any) -> Any:  # noqa: ANN401
    """A value that a hook has, as the model's code sees it."""
    return call.wrap(value, None if is_literal(value) else _place_of(call, value))


def _place_of(call: CapturedCall, value: object) -> Source | None:
    """The place at which the model holds an object; None if it holds it nowhere."""
    known = call.side_effects.variable_of(value)
    if known is not None:
        return known.source
    return call.paths.get(id(value)) or _held_at(call, value)


def _held_at(call: CapturedCall, owner: object) -> Source | None:
    """The attribute of a module that holds an object and is never set; None if there is none."""
    for number, source in call.paths.items():
        holder = call.modules.get(number)
        for name, value in instance_dict(holder).items() if holder is not None else ():
            place = Attribute(source, name)
            if value is owner and not call.is_volatile(place):
                return place
    return None
