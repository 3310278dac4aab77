"""Steps: for each op, the backup before the change, the change itself, and its undoing.

Backups and changes are lines of Python that :mod:`archive.effects.replay.compiler` puts into the compiled
function. Frequent changes of plain objects back up no more than the former value or length, and have an undo
function of their own; all others make a backup as in :mod:`archive.effects.replay.backups`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from archive.effects.replay import backups, backward_hooks, base_methods, hooks
from archive.effects.replay.custom_backward import set_backward
from archive.effects.replay.placeholders import UNSET
from archive.formats.effects.model import Op

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class EffectStep(NamedTuple):
    """One op, as text and as function.

    The texts may name ``{target}``, ``{key}`` and ``{value}`` of the effect, ``{name}`` of a global name,
    ``{code}``: the function that the source names, ``{plain}``: the set of classes known to be plain, and
    ``{comma}``: a comma if there is a key.

    Attributes:
        backup: an expression, evaluated before the change.
        change: a statement.
        undo: takes target, key, the value of ``backup``, and the classes known to be plain.
    """

    backup: str
    change: str
    undo: Callable[[Any, Any, Any, set[type]], None] = lambda _target, _key, before, _plain: backups.restore(
        before
    )


def copy_into(target: Any, value: Any) -> None:  # noqa: ANN401
    """Give a tensor other elements. A leaf with a gradient can only have been changed without gradients."""
    if getattr(target, "requires_grad", False) and target.is_leaf:
        target, value = target.detach(), value.detach()
    target.copy_(value)


_LENGTH = "len({target}) if type({target}) is list else backup_all({target})"
STEPS = {
    Op.SET_ATTRIBUTE: EffectStep(
        "{target}.__dict__.get({key}, UNSET) "
        "if type({target}) in {plain} or is_plain({target}, {key}, {plain}) "
        "else backup_attribute({target}, {key}, {value})",
        "set_attribute({target}, {key}, {value})",
        backups.restore_attribute,
    ),
    Op.DELETE_ATTRIBUTE: EffectStep("backup_all({target})", "delattr({target}, {key})"),
    Op.REGISTER_BUFFER: EffectStep("backup_all({target})", "{target}.register_buffer({key}, {value})"),
    Op.REGISTER_TRANSIENT: EffectStep(
        "backup_all({target})", "{target}.register_buffer({key}, {value}, persistent=False)"
    ),
    Op.SET_ITEM: EffectStep(
        "{target}.get({key}, UNSET) if type({target}) is dict else backup_item({target}, {key})",
        "set_item({target}, {key}, {value})",
        lambda target, key, before, _: backups.restore_item(target, key, before),
    ),
    Op.DELETE_ITEM: EffectStep("backup_removal({target}, {key})", "delete_item({target}, {key})"),
    Op.APPEND: EffectStep(
        _LENGTH,
        "append({target}, {value})",
        lambda target, _, before, __: backups.restore_length(target, before),
    ),
    Op.EXTEND: EffectStep(
        _LENGTH,
        "extend({target}, {value})",
        lambda target, _, before, __: backups.restore_length(target, before),
    ),
    Op.INSERT: EffectStep("backup_insertion({target}, {key})", "insert({target}, {key}, {value})"),
    Op.POP: EffectStep("backup_removal({target}{comma}{key})", "pop({target}{comma}{key})"),
    Op.APPEND_LEFT: EffectStep("backup_all({target})", "append_left({target}, {value})"),
    Op.POP_LEFT: EffectStep("backup_all({target})", "pop_left({target})"),
    Op.ADD: EffectStep("backup_element({target}, {value})", "add({target}, {value})"),
    Op.DISCARD: EffectStep("backup_element({target}, {value})", "discard({target}, {value})"),
    Op.CLEAR: EffectStep("backup_all({target})", "clear({target})"),
    Op.SET_GLOBAL: EffectStep(
        "{target}.get({name}, UNSET)",
        "{target}[{name}] = {value}",
        lambda target, name, before, _: backups.restore_entry(target, name, before),
    ),
    Op.SET_CELL: EffectStep("backup_cell({target})", "{target}.cell_contents = {value}"),
    Op.COPY: EffectStep("backup_tensor({target})", "copy_into({target}, {value})"),
    Op.SAVE_FOR_BACKWARD: EffectStep("backup_saved({target})", "{target}.save_for_backward(*{value})"),
    Op.REGISTER_HOOK: EffectStep(
        "backup_registration(state, {value})", "state.hooks[{value}] = {target}.register_hook({key})"
    ),
    Op.REGISTER_GRAD_HOOK: EffectStep(
        "backup_registration(state, {value})",
        "state.hooks[{value}] = {target}.register_post_accumulate_grad_hook({key})",
    ),
    Op.REGISTER_BACKWARD_HOOKS: EffectStep("(forget,)", "put_on_backward_hooks({target}, {key}, {value})"),
    Op.TAKE_OFF: EffectStep("backup_taking_off({target})", "{target}.remove()"),
    Op.REMOVE_HOOK: EffectStep("backup_hook(state, {value})", "state.hooks.pop({value}).remove()"),
    Op.SET_BACKWARD: EffectStep("None", "set_backward({target}, {code}, *{value})", lambda *_: None),
    Op.CALL: EffectStep("None", "{code}(state, {key}, {value})", lambda *_: None),  # comes last
}
"""Every op but ``NEW``, whose objects nobody has seen before."""
KEPT = {
    Op.REGISTER_HOOK: EffectStep("backup_filling({value})", "fill({value}, {target}.register_hook({key}))"),
    Op.REGISTER_GRAD_HOOK: EffectStep(
        "backup_filling({value})", "fill({value}, {target}.register_post_accumulate_grad_hook({key}))"
    ),
}
"""Steps of hooks whose handles are new objects."""
SET_NEW_ATTRIBUTE = "object.__setattr__({target}, {key}, {value})"
"""Sets an attribute of a new object, which may be of a frozen dataclass."""

STEP_NAMES: dict[str, object] = {
    "UNSET": UNSET,
    "is_plain": backups.is_plain,
    "copy_into": copy_into,
    "backup_all": backups.backup_all,
    "backup_attribute": backups.backup_attribute,
    "backup_cell": backups.backup_cell,
    "backup_filling": hooks.backup_filling,
    "backup_hook": backups.backup_hook,
    "backup_insertion": backups.backup_insertion,
    "backup_item": backups.backup_item,
    "backup_registration": backups.backup_registration,
    "backup_removal": backups.backup_removal,
    "backup_saved": backups.backup_saved,
    "backup_taking_off": hooks.backup_taking_off,
    "backup_tensor": backups.backup_tensor,
    "fill": hooks.fill,
    "set_backward": set_backward,
    "forget": backward_hooks.forget,
    "put_on_backward_hooks": backward_hooks.put_on_backward_hooks,
    "backup_element": backups.backup_element,
    **{
        one.__name__: one
        for one in (
            base_methods.add,
            base_methods.append,
            base_methods.append_left,
            base_methods.clear,
            base_methods.delete_item,
            base_methods.discard,
            base_methods.extend,
            base_methods.insert,
            base_methods.pop,
            base_methods.pop_left,
            base_methods.set_attribute,
            base_methods.set_item,
        )
    },
} | hooks.HOOK_NAMES
"""Names that the texts of steps use."""


class UndoEntry(NamedTuple):
    """How one effect of a compiled function is undone; target and key are names of its variables."""

    op: Op
    target: str
    key: str
    plain: set[type]


def undo_until(
    last: int, entries: Mapping[int, UndoEntry], variables: Mapping[str, Any], constants: Mapping[str, Any]
) -> list[str]:
    """Undo the effects that a compiled function has made, the last one first.

    Args:
        last: number of the effect that failed; it may be made in part.
        entries: by number of the effect.
        variables: the function's local variables; ``u3`` is the backup of effect 3, if it was reached.
        constants: the function's global names.

    Returns:
        A sentence for each effect whose undoing failed; the others are undone all the same.
    """
    failures = []
    for number in range(last, -1, -1):
        if f"u{number}" not in variables:
            continue
        op, target, key, plain = entries[number]
        found = variables.get(key, constants.get(key))
        try:
            STEPS[op].undo(variables[target], found, variables[f"u{number}"], plain)
        except Exception as failure:  # noqa: BLE001 (the others must be undone all the same)
            failures.append(f"effect {number} can't be undone: {type(failure).__name__}: {failure}")
    return failures
