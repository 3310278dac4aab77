"""Backups of what an effect is about to change, and their restoration.

A backup is ``(function, *arguments)``; :func:`restore` calls it. It describes the state before the change,
not the change: restoring is right whether the change was made, was made in part, or was not made at all.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

from archive.effects.python_containers import base_of, items_of
from archive.effects.replay.base_methods import add, discard, refill, set_attribute
from archive.effects.replay.errors import StateError
from archive.effects.replay.placeholders import UNSET

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CellType

    from archive.effects.replay.state import State

    Backup = tuple[Any, ...]

ATTRIBUTE_DICTS = ("_parameters", "_buffers", "_modules")
"""Dicts of a ``torch.nn.Module`` that hold attributes (torch/nn/modules/module.py)."""
CONTAINERS = (dict, list, deque, set)
MODULE_COLLECTIONS = (*ATTRIBUTE_DICTS, "_non_persistent_buffers_set")
ORDINARY_TYPES = frozenset((int, float, bool, str, bytes, list, dict, tuple, type(None)))
"""Types of values that a ``torch.nn.Module`` keeps in its ``__dict__`` like any other object."""


def restore(backup: Backup) -> None:
    """Call a backup."""
    function: Callable[..., None] = backup[0]
    function(*backup[1:])


def backup_all(target: Any) -> Backup:  # noqa: ANN401
    """Back up all items and attributes of an object.

    Raises:
        StateError: the object is no container and has no ``__dict__``.
    """
    held = getattr(target, "__dict__", None)
    attributes = _attributes(held) if isinstance(held, dict) else []
    if isinstance(target, CONTAINERS):
        return _restore_all, target, items_of(target), attributes
    if not attributes and not isinstance(held, dict):
        raise StateError(f"what a {type(target).__name__} is can't be put back if a change fails")
    return _restore_all, None, [], attributes


def _attributes(held: dict[str, Any]) -> list[tuple[Any, Any]]:
    """A namespace and a module's collections in it, each with a copy."""
    found: list[tuple[Any, Any]] = [(held, held.copy())]
    if ATTRIBUTE_DICTS[0] in held:
        found += [
            (held[name], held[name].copy())
            for name in MODULE_COLLECTIONS
            if isinstance(held.get(name), dict | set)
        ]
    return found


def _restore_all(target: Any, items: list[Any], attributes: list[tuple[Any, Any]]) -> None:  # noqa: ANN401
    if target is not None:
        refill(target, items)
    for held, before in attributes:
        held.clear()
        held.update(before)


def is_plain(target: object, name: str, plain: set[type]) -> bool:
    """Whether setting an attribute only sets an entry of ``__dict__``; its class then joins ``plain``."""
    kind = type(target)
    if kind.__setattr__ is not object.__setattr__ or not hasattr(target, "__dict__"):
        return False
    if hasattr(getattr(kind, name, None), "__set__"):
        return False
    plain.add(kind)
    return True


def backup_attribute(target: Any, name: str, value: object) -> Backup:  # noqa: ANN401
    """Back up an attribute that is about to be set to ``value``.

    A module moves tensors and submodules between its dicts, so all of them are backed up then.
    """
    held = getattr(target, "__dict__", None)
    if held is None or hasattr(getattr(type(target), name, None), "__set__"):
        rest = None if held is None else backup_all(target)
        return _restore_described, target, name, getattr(target, name, UNSET), rest
    if ATTRIBUTE_DICTS[0] in held and (name not in held or type(value) not in ORDINARY_TYPES):
        return backup_all(target)
    return restore_entry, held, name, held.get(name, UNSET)


def restore_entry(held: dict[Any, Any], key: object, before: object) -> None:
    """Set a dict's entry to its former value, or remove it if there was none (``UNSET``)."""
    if before is not UNSET:
        held[key] = before
    else:
        held.pop(key, None)


def restore_attribute(target: Any, name: str, before: Any, plain: set[type]) -> None:  # noqa: ANN401
    """Restore an attribute: ``before`` is the former value for a plain class, otherwise a backup."""
    if type(target) in plain:
        restore_entry(target.__dict__, name, before)
    else:
        restore(before)


def _restore_described(target: object, name: str, before: object, rest: Backup | None = None) -> None:
    """Restore an attribute that a descriptor (property, slot) sets, and then everything else."""
    if before is not UNSET:
        set_attribute(target, name, before)
    elif hasattr(target, name):
        delattr(target, name)
    if rest is not None:
        restore(rest)


def restore_length(target: list[Any], before: int | Backup) -> None:
    """Cut a list to its former length; ``before`` is a backup if the target is no plain list."""
    if isinstance(before, int):
        del target[before:]
    else:
        restore(before)


def backup_item(target: Any, key: Any) -> Backup:  # noqa: ANN401
    """Back up an item that is about to be set; the target is no plain dict."""
    base = base_of(type(target))
    if base is list:
        return list.__setitem__, target, key, list.__getitem__(target, key)
    if isinstance(target, dict):
        return _restore_item, target, key, base.get(target, key, UNSET)
    return backup_all(target)


def _restore_item(target: Any, key: Any, before: object) -> None:  # noqa: ANN401
    base = base_of(type(target))
    if before is not UNSET:
        base.__setitem__(target, key, before)
    elif base.__contains__(target, key):
        base.__delitem__(target, key)


def backup_element(target: Any, element: Any) -> Backup:  # noqa: ANN401
    """Back up whether an element is in a set."""
    return (add if element in target else discard), target, element


def restore_item(target: Any, key: object, before: Any) -> None:  # noqa: ANN401
    """Restore an item: ``before`` is the former value for a plain dict, otherwise a backup."""
    if type(target) is dict:
        restore_entry(target, key, before)
    else:
        restore(before)


def backup_insertion(target: Any, key: Any) -> Backup:  # noqa: ANN401
    """Back up a list into which an item is about to be inserted."""
    if type(target) is not list:
        return backup_all(target)
    size = len(target)
    at = max(key + size, 0) if key < 0 else min(key, size)
    return _take_out, target, at, size


def _take_out(target: list[Any], at: int, size: int) -> None:
    if len(target) > size:
        del target[at]


def backup_removal(target: Any, key: Any = -1) -> Backup:  # noqa: ANN401
    """Back up a container from which an item is about to be removed."""
    if type(target) is not list:
        return backup_all(target)
    size = len(target)
    return _put_in, target, key + size if key < 0 else key, size, target[key]


def _put_in(target: list[Any], at: int, size: int, item: object) -> None:
    if len(target) < size:
        target.insert(at, item)


def backup_cell(cell: CellType) -> Backup:
    """Back up the value of a closure cell, which may be empty."""
    try:
        return setattr, cell, "cell_contents", cell.cell_contents
    except ValueError:
        return _empty, cell


def _empty(cell: CellType) -> None:
    del cell.cell_contents


def backup_tensor(target: Any) -> Backup:  # noqa: ANN401
    """Back up the elements of a tensor, and whether it requires grad."""
    return _restore_tensor, target, target.detach().clone(), getattr(target, "requires_grad", False)


def _restore_tensor(target: Any, before: object, needs_grad: bool) -> None:  # noqa: ANN401, FBT001
    if getattr(target, "requires_grad", False) and not needs_grad:
        target.detach_()
    target.detach().copy_(before)


def backup_saved(context: Any) -> Backup:  # noqa: ANN401
    """Back up the tensors that an autograd context has saved for its backward pass."""
    if isinstance(getattr(context, "__dict__", None), dict):
        return backup_all(context)
    return _restore_described, context, "to_save", getattr(context, "to_save", UNSET)


def backup_registration(state: State, number: int) -> Backup:
    """Back up the hook of a number that is about to be registered."""
    return _unregister, state.hooks, number, state.hooks.get(number, UNSET)


def _unregister(hooks: dict[int, Any], number: int, before: object) -> None:
    if hooks.get(number, UNSET) is not before:
        hooks[number].remove()
        restore_entry(hooks, number, before)


def backup_hook(state: State, number: int) -> Backup:
    """Back up the hook of a number that is about to be removed, with its place among the tensor's hooks."""
    handle = state.hook(number)
    reference = getattr(handle, "hooks_dict_ref", None)
    held = reference() if callable(reference) else None
    hooks = state.hooks
    return _register_again, hooks, dict(hooks), held, None if held is None else list(held.items())


def _register_again(hooks: dict[int, Any], before: dict[int, Any], held: Any, items: Any) -> None:  # noqa: ANN401
    hooks.clear()
    hooks.update(before)
    if held is not None:
        held.clear()
        held.update(items)
