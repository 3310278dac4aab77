"""Changes of containers, backups of what an effect is about to change, and their restoration.

Containers are changed with the methods of Python's own classes, bypassing those of derived classes. A capture
runs the methods of such a class, and notes what they change. Replay makes only these changes.

A backup is ``(function, *arguments)``; :func:`restore` calls it. It describes the state before the change,
not the change: restoring is right whether the change was made fully, partly or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from archive.effects.errors import StateError
from archive.effects.looking import checked_tensor
from archive.effects.placeholders import ABSENT, Plain, items_of_plain
from archive.effects.places import (
    CHANGING,
    ORDINARY_TYPES,
    REGISTERED,
    base,
    base_of,
    check_settable,
    delete_own,
    items_of,
    names,
    own,
    parameter_name,
    set_own,
    static,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CellType

    from archive.formats.effects.model import Op

    Backup = tuple[Any, ...]

# --- containers


def _base(target: object) -> Any:
    """The class whose methods change an object."""
    cls = base(target)
    if cls in (tuple, frozenset, str, bytes):
        raise StateError(f"expected a container that can change, found a {type(target).__name__}")
    return cls


def set_item(target: Any, key: Any, value: object) -> None:
    """Set an item; an object whose class isn't here has items, too."""
    if type(target) is Plain:
        items_of_plain(target)[key] = value
        return
    own_base = _base(target)
    if own_base is torch.nn.ParameterDict:
        check_settable(target, parameter_name(key))
    own_base.__setitem__(target, key, value)


def delete_item(target: Any, key: Any) -> None:
    """Delete an item."""
    if type(target) is Plain:
        del items_of_plain(target)[key]
        return
    _base(target).__delitem__(target, key)


def calling(op: Op) -> Callable[[object, Any, Any, Any], None]:
    """A change made by the method of Python's own class that has the op's name."""

    def change(_: object, target: Any, key: Any, value: Any) -> None:
        given = [operand for operand in (key, value) if operand is not ABSENT]
        getattr(_base(target), op)(target, *given)

    return change


def refill(target: Any, inside: list[Any]) -> None:
    """Replace the items of a container."""
    own = _base(target)
    own.clear(target)
    if isinstance(target, dict):
        for key, value in inside:
            own.__setitem__(target, key, value)
    elif isinstance(target, set):
        own.update(target, inside)
    else:
        own.extend(target, inside)


# --- backups

MODULE_COLLECTIONS = (*REGISTERED, "_non_persistent_buffers_set")


def restore(backup: Backup) -> None:
    """Call a backup."""
    function: Callable[..., None] = backup[0]
    function(*backup[1:])


def backup_all(target: Any) -> Backup:
    """Back up all items and attributes of an object."""
    held = names(target)
    # The namespace, and a module's collections in it, each with a copy.
    attributes: list[tuple[Any, Any]] = [] if held is None else [(held, held.copy())]
    if held is not None and REGISTERED[0] in held:
        attributes += [
            (held[name], held[name].copy())
            for name in MODULE_COLLECTIONS
            if isinstance(held.get(name), dict | set)
        ]
    if isinstance(target, CHANGING):
        return _restore_all, target, items_of(target), attributes
    if held is None:
        raise StateError(f"what a {type(target).__name__} is can't be put back if a change fails")
    return _restore_all, None, [], attributes


def _restore_all(target: Any, items: list[Any], attributes: list[tuple[Any, Any]]) -> None:
    if target is not None:
        refill(target, items)
    for held, before in attributes:
        held.clear()
        held.update(before)


def backup_attribute(target: Any, name: str, value: object) -> Backup:
    """Back up an attribute that is about to be set to ``value``.

    A module moves tensors and submodules between its dicts, so all of them are backed up then.
    """
    if type(target) is Plain:
        return restore_entry, target.__dict__, name, target.__dict__.get(name, ABSENT)
    held = names(target)
    if held is None or hasattr(type(static(type(target).__mro__, name)), "__set__"):
        return _restore_described, target, name, own(target, name)
    if REGISTERED[0] in held and (name not in held or type(value) not in ORDINARY_TYPES):
        return backup_all(target)
    return restore_entry, held, name, held.get(name, ABSENT)


def restore_entry(held: dict[Any, Any], key: object, before: object) -> None:
    """Set a dict's entry to its former value, or remove it if there was none (``ABSENT``)."""
    if before is not ABSENT:
        held[key] = before
    else:
        held.pop(key, None)


def _restore_described(target: object, name: str, before: object) -> None:
    """Restore an attribute of a slot, or of a class."""
    if before is not ABSENT:
        set_own(target, name, before)
    elif own(target, name) is not ABSENT:
        delete_own(target, name)


def backup_length(target: Any) -> Backup:
    """Back up a list to which items are about to be appended."""
    return (_cut, target, len(target)) if type(target) is list else backup_all(target)


def _cut(target: list[Any], before: int) -> None:
    del target[before:]


def backup_item(target: Any, key: Any) -> Backup:
    """Back up an item that is about to be set."""
    if type(target) is dict:
        return restore_entry, target, key, target.get(key, ABSENT)
    base = base_of(type(target))
    if base is list:
        return list.__setitem__, target, key, list.__getitem__(target, key)
    if isinstance(target, dict):
        return _restore_item, target, key, base.get(target, key, ABSENT)
    return backup_all(target)


def _restore_item(target: Any, key: Any, before: object) -> None:
    base = base_of(type(target))
    if before is not ABSENT:
        base.__setitem__(target, key, before)
    elif base.__contains__(target, key):
        base.__delitem__(target, key)


def backup_element(target: Any, element: Any) -> Backup:
    """Back up whether an element is in a set."""
    own = _base(target)
    return (own.add if element in target else own.discard), target, element


def backup_insertion(target: Any, key: Any) -> Backup:
    """Back up a list into which an item is about to be inserted."""
    if type(target) is not list:
        return backup_all(target)
    size = len(target)
    at = max(key + size, 0) if key < 0 else min(key, size)
    return _take_out, target, at, size


def _take_out(target: list[Any], at: int, size: int) -> None:
    if len(target) > size:
        del target[at]


def backup_removal(target: Any, key: Any = -1) -> Backup:
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


def backup_tensor(target: Any) -> Backup:
    """Back up the elements of a tensor, and whether it requires grad."""
    return _restore_tensor, target, checked_tensor(target).detach().clone(), target.requires_grad


def _restore_tensor(target: Any, before: object, needs_grad: bool) -> None:  # noqa: FBT001
    if target.requires_grad and not needs_grad:
        target.detach_()
    target.detach().copy_(before)
