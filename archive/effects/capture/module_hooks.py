"""Calls of modules that have hooks, in the order of ``torch.nn.Module._call_impl``.

A hook is code of the model like ``forward``: its copy runs on proxies, and what it changes is an effect.
"""

from __future__ import annotations

import functools
import warnings
from inspect import getattr_static
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.function_code import is_model_module
from archive.effects.capture.snapshot import instance_dict
from archive.effects.capture.sources import is_literal
from archive.effects.capture.untouchable import Untouchable
from archive.effects.errors import CaptureError
from archive.formats.effects.model import Attribute

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.effects.capture.call import CapturedCall
    from archive.formats.effects.model import Source

FORWARD, PRE = "_forward_hooks", "_forward_pre_hooks"
BACKWARD, BACKWARD_PRE = "_backward_hooks", "_backward_pre_hooks"
MODULE_HOOKS = (FORWARD, PRE, BACKWARD, BACKWARD_PRE)
GLOBAL_HOOKS = tuple(f"_global{name}" for name in MODULE_HOOKS)


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether PyTorch runs hooks when a module is called: its own, or those of all modules."""
    own = instance_dict(module)
    return any(own.get(name) for name in MODULE_HOOKS) or _are_global()


def _are_global() -> bool:
    return any(getattr(torch.nn.modules.module, name, None) for name in GLOBAL_HOOKS)


def call_module(call: CapturedCall, proxy: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
    """Call a module as PyTorch does.

    Args:
        call: the captured call.
        proxy: of the module.
        args: positional arguments.
        kwargs: arguments by name.

    Raises:
        CaptureError: one of its hooks cannot be followed.
    """
    real = call.real[call.side_effects[proxy]]
    if not has_hooks(real):
        return proxy.forward(*args, **kwargs)
    if _are_global():
        call.refuse(f"a {type(real).__name__} called while all modules have hooks")
    return _HookedCall(call, proxy, args, kwargs).run()


class _HookedCall:
    """One call of a module that has hooks.

    Args:
        call: the captured call.
        proxy: of the module.
        args: positional arguments, which hooks may replace.
        kwargs: arguments by name, which hooks may replace.
    """

    def __init__(
        self,
        call: CapturedCall,
        proxy: Any,  # noqa: ANN401
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._call, self._proxy = call, proxy
        self._args, self._kwargs = args, kwargs
        self._result: Any = None
        self._real: Any = call.real[call.side_effects[proxy]]
        self._own = instance_dict(self._real)
        self._left = set(self._own["_forward_hooks_always_called"])

    def run(self) -> Any:  # noqa: ANN401
        """Call the hooks and ``forward``; gives the result."""
        if self._own[BACKWARD] or self._own[BACKWARD_PRE]:
            self._call.refuse(f"a {type(self._real).__name__} with hooks on the way back")
        try:
            self._before()
            self._result = self._proxy.forward(*self._args, **self._kwargs)
            for number, hook in self._hooks(FORWARD):
                self._left.discard(number)
                self._after(number, hook)
        except CaptureError:
            raise
        except Exception:
            self._after_failure()
            raise
        return self._result

    def _before(self) -> None:
        """Call the hooks before ``forward``."""
        for number, hook in self._hooks(PRE):
            if number not in self._own["_forward_pre_hooks_with_kwargs"]:
                given = hook(self._proxy, self._args)
                if given is not None:
                    self._args = given if isinstance(given, tuple) else (given,)
                continue
            given = hook(self._proxy, self._args, self._kwargs)
            if given is None:
                continue
            if not isinstance(given, tuple) or len(given) != 2:  # noqa: PLR2004 (a pair)
                raise RuntimeError("forward pre-hook must return None or a tuple of (new_args, new_kwargs)")
            self._args, self._kwargs = given

    def _after(self, number: int, hook: Any) -> None:  # noqa: ANN401
        """Call a hook after ``forward``, which may replace the result."""
        named = (self._kwargs,) if number in self._own["_forward_hooks_with_kwargs"] else ()
        found = hook(self._proxy, self._args, *named, self._result)
        if found is not None:
            self._result = found

    def _after_failure(self) -> None:
        """Call the hooks that are always called; their own errors are warnings."""
        for number, hook in self._hooks(FORWARD):
            if number not in self._left:
                continue
            try:
                self._after(number, hook)
            except CaptureError:
                raise
            except Exception as error:  # noqa: BLE001 (as PyTorch does)
                warnings.warn(
                    "module forward hook with ``always_call=True`` raised an exception "
                    f"that was silenced as another error was raised in forward: {error}",
                    stacklevel=2,
                )

    def _hooks(self, kind: str) -> Iterator[tuple[int, Any]]:
        """Hooks of a kind by their numbers, each as the model's code calls it."""
        for number, hook in list(self._own[kind].items()):
            yield number, follow(self._call, hook)


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
