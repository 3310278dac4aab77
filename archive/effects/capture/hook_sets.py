"""Hooks of modules in a call: those of the real modules, and those that the call puts on and takes off."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Self

import torch

from archive.effects.capture.sites import error_at
from archive.effects.capture.snapshot import instance_dict
from archive.effects.looking import hook_names
from archive.formats.effects.model import Look

if TYPE_CHECKING:
    from archive.effects.capture.call import CapturedCall
    from archive.effects.capture.sites import Statement
    from archive.effects.capture.variables import Variable

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


class ModuleHandle:
    """The handle of a hook that a call has put on a module.

    Args:
        call: the captured call.
        hooks: of the module, of one kind.
        number: of the hook.
        statement: that put it on.
    """

    def __init__(
        self, call: CapturedCall, hooks: dict[int, Any], number: int, statement: Statement | None
    ) -> None:
        self._call, self._hooks, self._number = call, hooks, number
        self.statement = statement

    def is_on(self) -> bool:
        """Whether the hook has not been taken off."""
        return self._number in self._hooks

    def remove(self) -> None:
        """Take the hook off."""
        self._hooks.pop(self._number, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def register_forward_hook(
    call: CapturedCall,
    proxy: Any,  # noqa: ANN401
    hook: Any,  # noqa: ANN401
    *,
    prepend: bool = False,
    with_kwargs: bool = False,
    always_call: bool = False,
) -> ModuleHandle:
    """Put a hook on a module as ``torch.nn.Module.register_forward_hook`` does; the call must take it off."""
    handle, number = _put_on(call, proxy, FORWARD, hook, prepend=prepend, with_kwargs=with_kwargs)
    if always_call:
        hooks_of(call, call.side_effects[proxy])[ALWAYS_CALLED][number] = True
    return handle


def register_forward_pre_hook(
    call: CapturedCall,
    proxy: Any,  # noqa: ANN401
    hook: Any,  # noqa: ANN401
    *,
    prepend: bool = False,
    with_kwargs: bool = False,
) -> ModuleHandle:
    """Put a hook on a module as ``torch.nn.Module.register_forward_pre_hook`` does."""
    return _put_on(call, proxy, PRE, hook, prepend=prepend, with_kwargs=with_kwargs)[0]


def refuse_hook(call: CapturedCall, _: object, *__: object, **___: object) -> None:
    """Refuse a hook on the way back that is put on in the call itself.

    Raises:
        CaptureError: always.
    """
    call.refuse("a hook on the way back of a module that is put on in the call")


def _put_on(
    call: CapturedCall,
    proxy: Any,  # noqa: ANN401
    kind: str,
    hook: Any,  # noqa: ANN401
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
    """Refuse a call that leaves a hook on a module.

    Raises:
        CaptureError: naming the statement that puts the hook on.
    """
    for handle in call.module_handles:
        if handle.is_on():
            raise error_at("a hook that the call puts on a module, and leaves there", handle.statement)
