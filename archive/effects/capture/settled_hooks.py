"""Settles the hooks that a call has put on, once it is over: each becomes a name or a recipe."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from archive.effects.capture.hook_recipes import recipe_of
from archive.effects.capture.sites import error_at

if TYPE_CHECKING:
    from archive.effects.capture.call import CapturedCall
    from archive.effects.capture.pending import BackwardHooks, Hook

CHANGED = "is changed in place later"


def settle_hooks(call: CapturedCall) -> None:
    """Make the recipes of all hooks that a call has put on.

    Raises:
        CaptureError: a hook has no recipe, or was put on a tensor that has been changed since.
    """
    effects = call.side_effects
    for number, hook in effects.tensor_hooks.items():
        effects.tensor_hooks[number] = _settled(call, hook)
    effects.backward_hooks = [_settled_on_module(call, one) for one in effects.backward_hooks]
    effects.taken_off = [(_settled(call, hook), statement) for hook, statement in effects.taken_off]


def _settled_on_module(call: CapturedCall, one: BackwardHooks) -> BackwardHooks:
    tensors = [each for each in (*one.inputs, *one.outputs) if each is not None]
    if tuple(each._version for each in tensors) != one.versions:
        raise error_at(f"a tensor that {CHANGED}", one.statement)
    hooks, pre_hooks = (
        tuple(recipe_of(call, hook, one.statement, one.module) for hook in hooks)
        for hooks in (one.hooks, one.pre_hooks)
    )
    return replace(one, hooks=hooks, pre_hooks=pre_hooks)


def _settled(call: CapturedCall, hook: Hook) -> Hook:
    tensor: Any = hook.tensor
    if hook.version is not None and tensor._version != hook.version:
        raise error_at(f"a hook on a tensor that {CHANGED}", hook.statement)
    return replace(hook, function=recipe_of(call, hook.function, hook.statement))
