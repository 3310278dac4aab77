"""Calls of modules that have hooks, in the order of ``torch.nn.Module._call_impl``.

These are hooks of the real modules, and those that the call adds and removes. A hook is code of the model
like ``forward``: its copy runs on proxies, and what it changes is an effect. Backward hooks run later, where
nothing is captured. For a full backward hook of a module, PyTorch puts a function around the module's inputs
and outputs, and runs the hooks where gradients pass it. Here the graph has an alias of the module's argument
and one of its result, and replay puts the hooks on these.
"""

from __future__ import annotations

import functools
import warnings
from collections import OrderedDict
from inspect import getattr_static
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, Self

import torch
from torch.nn.modules.lazy import LazyModuleMixin

from archive.effects.capture.graph.sites import error_at, is_model_module
from archive.effects.capture.graph.variables import is_literal
from archive.effects.capture.proxies.sizes import Sizes
from archive.effects.capture.proxies.type_proxies import Untouchable
from archive.effects.capture.table.pending import BackwardHooks
from archive.effects.capture.table.snapshot import instance_dict
from archive.effects.errors import CaptureError
from archive.effects.looking import WITHOUT_MODES, hook_names
from archive.formats.effects.model import Attribute, Look

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.effects.capture.graph.sites import ModelStatement
    from archive.effects.capture.graph.variables import Variable
    from archive.effects.capture.table.call import CapturedCall
    from archive.formats.effects.model import Source


# --- hook copies


def follow(call: CapturedCall, hook: Any) -> Any:
    """What runs in place of a hook: a copy of its function, on proxies."""
    if isinstance(hook, functools.partial):
        given = [_given(call, argument) for argument in hook.args]
        named = {name: _given(call, keyword) for name, keyword in hook.keywords.items()}
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
        call.refuse(f"a hook that isn't Python code: a {type(hook).__qualname__}")
    return functools.partial(_of_library, call, hook)


def _of_library(call: CapturedCall, hook: Any, *given: Any) -> Any:
    """Call a hook that is an object of a library, such as PyTorch's weight norm."""
    held = instance_dict(hook)
    before = dict(held)
    result = hook(*given)
    if held != before or not all(map(is_literal, held.values())):
        held.clear()
        held.update(before)
        call.refuse(f"a hook, a {type(hook).__qualname__}, that has a state of its own")
    return result


def _owner(call: CapturedCall, owner: Any) -> Any:
    """The proxy of the object whose method a hook is."""
    proxy = _given(call, owner)
    if type(proxy) is Untouchable:
        call.refuse(f"a hook of a {type(owner).__qualname__}, which no attribute of a module holds")
    return proxy


def _given(call: CapturedCall, value: Any) -> Any:
    """A value that a hook holds, as the model's code sees it."""
    if is_literal(value):
        return call.wrap(value, None)
    known = call.side_effects.variable_of(value)
    if known is not None:
        return call.wrap(value, known.source)
    return call.wrap(value, call.paths.get(id(value)) or _held_at(call, value))


def _held_at(call: CapturedCall, owner: object) -> Source | None:
    """The attribute of a module that holds an object and is never set; None if there is none."""
    for number, source in call.paths.items():
        holder = call.modules.get(number)
        for name, value in instance_dict(holder).items() if holder is not None else ():
            place = Attribute(source, name)
            if value is owner and not call.is_volatile(place):
                return place
    return None


# --- hook sets

FORWARD, PRE = "_forward_hooks", "_forward_pre_hooks"
BACKWARD, BACKWARD_PRE = "_backward_hooks", "_backward_pre_hooks"
MODULE_HOOKS = (FORWARD, PRE, BACKWARD, BACKWARD_PRE)
GLOBAL_HOOKS = tuple(f"_global{name}" for name in MODULE_HOOKS)
WITH_KEYWORDS = {FORWARD: "_forward_hooks_with_kwargs", PRE: "_forward_pre_hooks_with_kwargs"}
ALWAYS_CALLED = "_forward_hooks_always_called"


def has_hooks(module: torch.nn.Module) -> bool:
    """Whether PyTorch runs hooks when a module is called: its own, or those of all modules."""
    own = instance_dict(module)
    return any(own.get(name) for name in MODULE_HOOKS) or are_global()


def are_global() -> bool:
    """Whether there are hooks of all modules."""
    return any(getattr(torch.nn.modules.module, name, None) for name in GLOBAL_HOOKS)


def hooks_of(call: CapturedCall, variable: Variable) -> dict[str, Any]:
    """The attributes of a module that hold its hooks, as they are now."""
    return call.hook_sets.get(variable) or instance_dict(call.real[variable])


def note_hooks(call: CapturedCall, variable: Variable, kind: str) -> None:
    """Guard which hooks of a kind a module has."""
    if variable.source is not None:
        real = call.real[variable]
        call.guards.note(Look.HOOKS, variable.source, hook_names(real, kind), key=kind)


class Removable:
    """A handle of a hook, which the end of a ``with`` statement removes."""

    def remove(self) -> None:
        """Remove the hook."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class ModuleHandle(Removable):
    """The handle of a hook that a call put on a module."""

    def __init__(
        self, call: CapturedCall, hooks: dict[int, Any], number: int, statement: ModelStatement | None
    ) -> None:
        self._call, self._hooks, self._number = call, hooks, number
        self.statement = statement

    def is_on(self) -> bool:
        """Whether the hook has not been removed."""
        return self._number in self._hooks

    def remove(self) -> None:
        """Remove the hook."""
        self._hooks.pop(self._number, None)


def register_forward_hook(
    call: CapturedCall,
    proxy: Any,
    hook: Any,
    *,
    prepend: bool = False,
    with_kwargs: bool = False,
    always_call: bool = False,
) -> ModuleHandle:
    """Put a hook on a module as ``torch.nn.Module.register_forward_hook`` does; the call must remove it."""
    handle, number = _put_on(call, proxy, FORWARD, hook, prepend=prepend, with_kwargs=with_kwargs)
    if always_call:
        hooks_of(call, call.side_effects[proxy])[ALWAYS_CALLED][number] = True
    return handle


def register_forward_pre_hook(
    call: CapturedCall,
    proxy: Any,
    hook: Any,
    *,
    prepend: bool = False,
    with_kwargs: bool = False,
) -> ModuleHandle:
    """Put a hook on a module as ``torch.nn.Module.register_forward_pre_hook`` does."""
    return _put_on(call, proxy, PRE, hook, prepend=prepend, with_kwargs=with_kwargs)[0]


def refuse_hook(call: CapturedCall, _: object, *__: object, **___: object) -> None:
    """Refuse a backward hook that the call itself puts on a module."""
    call.refuse("a backward hook that the call puts on a module")


def _put_on(
    call: CapturedCall,
    proxy: Any,
    kind: str,
    hook: Any,
    *,
    prepend: bool,
    with_kwargs: bool,
) -> tuple[ModuleHandle, int]:
    variable = call.side_effects[proxy]
    if variable not in call.real:
        call.refuse("a hook on a module that is made in the call")
    note_hooks(call, variable, kind)
    own = instance_dict(call.real[variable])
    names = (*MODULE_HOOKS, *WITH_KEYWORDS.values(), ALWAYS_CALLED)
    copied = {name: OrderedDict(own[name]) for name in names}
    held = call.hook_sets.setdefault(variable, own | copied)
    number = -1 - len(call.module_handles)  # PyTorch's own numbers are from 0
    held[kind][number] = hook
    if prepend:
        held[kind].move_to_end(number, last=False)
    if with_kwargs:
        held[WITH_KEYWORDS[kind]][number] = True
    handle = ModuleHandle(call, held[kind], number, call.here())
    call.module_handles.append(handle)
    return handle, number


def check_taken_off(call: CapturedCall) -> None:
    """Refuse a call that leaves a hook on a module."""
    for handle in call.module_handles:
        if handle.is_on():
            raise error_at("a hook that the call puts on a module, and leaves there", handle.statement)


# --- backward hooks

SEVERAL = "backward hooks of a module that takes or returns several tensors"


class BackwardHooking:
    """The backward hooks of one call of a module, given by its proxy."""

    def __init__(self, call: CapturedCall, proxy: Any) -> None:
        self._call, self._proxy = call, proxy
        self._own = instance_dict(call.real[call.side_effects[proxy]])
        if self._own.get("_is_full_backward_hook") is False:
            call.refuse("a backward hook that is not a full one: register_full_backward_hook puts on such")
        self._inputs: tuple[Any, ...] = ()

    def before(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The positional arguments, with an alias in place of the tensor."""
        tensors = [argument for argument in args if isinstance(argument, torch.Tensor)]
        if not self._need_gradients(tensors):
            self._inputs = (None,) * len(args)
            return args
        if len(tensors) > 1:
            self._call.refuse(SEVERAL)
        args = tuple(
            argument.view_as(argument) if isinstance(argument, torch.Tensor) else argument
            for argument in args
        )
        self._inputs = tuple(argument if isinstance(argument, torch.Tensor) else None for argument in args)
        return args

    def after(self, result: Any) -> Any:
        """The result, with an alias in place of the tensor; the hooks are noted."""
        given = result if isinstance(result, tuple) else (result,)
        tensors = [value for value in given if isinstance(value, torch.Tensor)]
        if not self._need_gradients(tensors):
            return result
        if len(tensors) > 1 or type(given) is not tuple:
            self._call.refuse(SEVERAL)
        made = tuple(value.view_as(value) if isinstance(value, torch.Tensor) else value for value in given)
        outputs = tuple(value if isinstance(value, torch.Tensor) else None for value in made)
        self._call.check_once()
        hooks, pre = (
            tuple(follow(self._call, hook) for hook in self._own[kind].values())
            for kind in (BACKWARD, BACKWARD_PRE)
        )
        with WITHOUT_MODES():
            versions = tuple(tensor._version for tensor in (*self._inputs, *outputs) if tensor is not None)
        self._call.side_effects.backward_hooks.append(
            BackwardHooks(self._proxy, hooks, pre, self._inputs, outputs, self._call.here(), versions)
        )
        return made if isinstance(result, tuple) else made[0]

    def _need_gradients(self, tensors: list[Any]) -> bool:
        """Whether PyTorch puts hooks on some tensors, guarded."""
        with WITHOUT_MODES():
            self._call.guards.setting("torch.is_grad_enabled")
            for tensor in tensors:
                Sizes(self._call).gradient(tensor)
            return torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


# --- module hooks


def call_module(call: CapturedCall, proxy: Any, /, *args: Any, **kwargs: Any) -> Any:
    """Call a module as PyTorch does."""
    variable = call.side_effects[proxy]
    real = call.real[variable]
    if isinstance(real, LazyModuleMixin) and real.has_uninitialized_params():
        name = type(real).__name__
        call.refuse(f"a {name}, whose first call makes its parameters: call the model once before")
    if are_global():
        call.refuse(f"a {type(real).__name__} called while all modules have hooks")
    if not any(hooks_of(call, variable).get(kind) for kind in MODULE_HOOKS):
        return proxy.forward(*args, **kwargs)
    return _HookedCall(call, proxy, args, kwargs).run()


class _HookedCall:
    """One call of a module that has hooks, which may replace arguments and result."""

    def __init__(
        self,
        call: CapturedCall,
        proxy: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self._call, self._proxy = call, proxy
        self._args, self._kwargs = args, kwargs
        self._result: Any = None
        variable = call.side_effects[proxy]
        self._own = hooks_of(call, variable)
        for kind in MODULE_HOOKS:
            if self._own[kind]:
                note_hooks(call, variable, kind)
        self._left = set(self._own[ALWAYS_CALLED])

    def run(self) -> Any:
        """Call the hooks and ``forward``; return the result."""
        try:
            self._before()
            backward: BackwardHooking | None = None
            if self._own[BACKWARD] or self._own[BACKWARD_PRE]:
                backward = BackwardHooking(self._call, self._proxy)
                self._args = backward.before(self._args)
            self._result = self._proxy.forward(*self._args, **self._kwargs)
            for number, hook in self._hooks(FORWARD):
                self._left.discard(number)
                self._after(number, hook)
            if backward is not None:
                self._result = backward.after(self._result)
        except CaptureError:
            raise
        except Exception:
            self._after_failure()
            raise
        return self._result

    def _before(self) -> None:
        """Call the hooks before ``forward``."""
        for number, hook in self._hooks(PRE):
            if number not in self._own[WITH_KEYWORDS[PRE]]:
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

    def _after(self, number: int, hook: Any) -> None:
        """Call a hook after ``forward``, which may replace the result."""
        named = (self._kwargs,) if number in self._own[WITH_KEYWORDS[FORWARD]] else ()
        result = hook(self._proxy, self._args, *named, self._result)
        if result is not None:
            self._result = result

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
