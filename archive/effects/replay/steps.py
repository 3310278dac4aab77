"""Steps: for each op, the change itself, and the backup that is made before it.

Both are functions of ``(state, target, key, value)``: the state, what the effect's source leads to, and its
key and value, which are ``ABSENT`` if it has none. ``changes.restore`` restores what a backup holds.

Full backward hooks of modules are put on aliases, which a graph has in place of PyTorch's own function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from torch.utils.hooks import BackwardHook

from archive.effects import places
from archive.effects.errors import StateError
from archive.effects.looking import checked_tensor
from archive.effects.placeholders import ABSENT, PLAIN_METHODS, Plain
from archive.effects.replay import changes, hooks
from archive.effects.replay.custom_backward import checked_context, set_backward
from archive.formats.effects.model import Op
from archive.formats.effects.words import HOOK_OPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from archive.effects.replay.state import State

    Items = tuple[Any, ...]


# --- backward hooks


class GraphHook(BackwardHook):  # type: ignore[misc]
    """The backward hooks of one call of a module, on the nodes that made its aliases, not on new ones."""

    def _apply_on_tensors(self, fn: Callable[[Any], None], args: Items) -> tuple[Items, list[int] | None]:
        places = [place for place, argument in enumerate(args) if argument is not None]
        for place in places:
            node = checked_tensor(args[place]).grad_fn
            if node is None:
                raise StateError("a backward hook of a module whose tensor requires no gradient")
            fn(node)
        return args, places or None


def put_on_backward_hooks(
    module: object,
    hooks: tuple[Items, Items],
    tensors: tuple[Items, Items],
) -> None:
    """Put on the backward hooks of one call of a module.

    Args:
        hooks: those called with both gradients, and those called before with the result's.
        tensors: aliases of the arguments and of the items of the result; None for all others.
    """
    inputs, outputs = tensors
    joined = GraphHook(module, list(hooks[0]), list(hooks[1]))
    joined.setup_input_hook(inputs)
    joined.setup_output_hook(outputs)


# --- steps


class OpStep(NamedTuple):
    """How effects of one op are made.

    Attributes:
        backup: returns a backup of everything that the change may touch; None if there is nothing to restore.
    """

    backup: Callable[[State, Any, Any, Any], changes.Backup] | None
    change: Callable[[State, Any, Any, Any], object]


def copy_into(target: Any, value: Any) -> None:
    """Give a tensor other elements. A leaf with a gradient can only have been changed without gradients."""
    if checked_tensor(target).requires_grad and target.is_leaf:
        target, value = target.detach(), value.detach()
    target.copy_(checked_tensor(value))


def _backup_all(_: State, target: Any, __: Any, ___: Any) -> changes.Backup:
    return changes.backup_all(target)


def _backup_length(_: State, target: Any, __: Any, ___: Any) -> changes.Backup:
    return changes.backup_length(target)


def _backup_attribute(_: State, target: Any, key: Any, value: Any) -> changes.Backup:
    return changes.backup_attribute(target, key, value)


def _set_attribute(_: State, target: Any, key: Any, value: Any) -> None:
    if type(target) is Plain and key not in PLAIN_METHODS:
        target.__dict__[key] = value
    else:
        places.set_own(target, key, value)


def _set_item(_: State, target: Any, key: Any, value: Any) -> None:
    if type(target) is dict:
        target[key] = value
    else:
        changes.set_item(target, key, value)


_call_append, _call_extend = changes.calling(Op.APPEND), changes.calling(Op.EXTEND)


def _append(_: State, target: Any, __: Any, value: Any) -> None:
    if type(target) is list:
        target.append(value)
    else:
        _call_append(_, target, __, value)


def _registered(op: Op) -> OpStep:
    """Registers a hook under a number."""

    def register(state: State, target: Any, key: Any, value: Any) -> None:
        state.hooks[value] = getattr(target, op)(key)

    return OpStep(lambda state, _, __, value: hooks.backup_registration(state, value), register)


def _kept(op: Op) -> OpStep:
    """Registers a hook whose handle is a new object."""
    return OpStep(
        lambda _, __, ___, value: hooks.backup_filling(value),
        lambda _, target, key, value: hooks.fill(value, getattr(target, op)(key)),
    )


STEPS = {
    Op.SET_ATTRIBUTE: OpStep(_backup_attribute, _set_attribute),
    Op.DELETE_ATTRIBUTE: OpStep(_backup_all, lambda _, target, key, __: places.delete_own(target, key)),
    Op.REGISTER_BUFFER: OpStep(
        _backup_all, lambda _, target, key, value: places.register_buffer(target, key, value)
    ),
    Op.REGISTER_TRANSIENT: OpStep(
        _backup_all,
        lambda _, target, key, value: places.register_buffer(target, key, value, persistent=False),
    ),
    Op.SET_ITEM: OpStep(lambda _, target, key, __: changes.backup_item(target, key), _set_item),
    Op.DELETE_ITEM: OpStep(
        lambda _, target, key, __: changes.backup_removal(target, key),
        lambda _, target, key, __: changes.delete_item(target, key),
    ),
    Op.APPEND: OpStep(_backup_length, _append),
    Op.EXTEND: OpStep(
        _backup_length, lambda _, target, key, value: _call_extend(_, target, key, places.items(value))
    ),
    Op.INSERT: OpStep(
        lambda _, target, key, __: changes.backup_insertion(target, key),
        changes.calling(Op.INSERT),
    ),
    Op.POP: OpStep(
        lambda _, target, key, __: changes.backup_removal(target, -1 if key is ABSENT else key),
        changes.calling(Op.POP),
    ),
    Op.APPEND_LEFT: OpStep(_backup_all, changes.calling(Op.APPEND_LEFT)),
    Op.POP_LEFT: OpStep(_backup_all, changes.calling(Op.POP_LEFT)),
    Op.ADD: OpStep(
        lambda _, target, __, value: changes.backup_element(target, value),
        changes.calling(Op.ADD),
    ),
    Op.DISCARD: OpStep(
        lambda _, target, __, value: changes.backup_element(target, value),
        changes.calling(Op.DISCARD),
    ),
    Op.CLEAR: OpStep(_backup_all, changes.calling(Op.CLEAR)),
    Op.SET_GLOBAL: OpStep(
        lambda _, target, key, __: (changes.restore_entry, target, key, target.get(key, ABSENT)),
        lambda _, target, key, value: target.__setitem__(key, value),
    ),
    Op.SET_CELL: OpStep(
        lambda _, target, __, ___: changes.backup_cell(target),
        lambda _, target, __, value: setattr(target, "cell_contents", value),
    ),
    Op.COPY: OpStep(
        lambda _, target, __, ___: changes.backup_tensor(target),
        lambda _, target, __, value: copy_into(target, value),
    ),
    Op.SAVE_FOR_BACKWARD: OpStep(
        lambda _, target, __, ___: changes.backup_all(checked_context(target)),
        lambda _, target, __, value: target.save_for_backward(*places.items(value)),
    ),
    **{op: _registered(op) for op in HOOK_OPS},
    Op.REGISTER_BACKWARD_HOOKS: OpStep(
        None, lambda _, target, key, value: put_on_backward_hooks(target, key, value)
    ),  # on aliases that are the graph's: nobody gets them from a failed call
    Op.TAKE_OFF: OpStep(
        lambda _, target, __, ___: hooks.backup_taking_off(target), lambda _, target, __, ___: target.remove()
    ),
    Op.SET_BACKWARD: OpStep(
        None, lambda _, target, key, value: set_backward(target, key, *map(places.items, value))
    ),
    Op.CALL: OpStep(None, lambda state, target, key, value: target(state, key, value)),  # comes last
}
"""Every op except ``NEW``, whose objects nobody has seen before."""
KEPT = {op: _kept(op) for op in HOOK_OPS}
"""Steps of hooks whose handles are new objects."""
SET_NEW_ATTRIBUTE = OpStep(
    _backup_attribute, lambda _, target, key, value: places.set_new(target, key, value)
)
"""Sets an attribute of a new object, which may be of a frozen dataclass."""
