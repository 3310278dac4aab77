"""What has to be kept before a change so that it can be undone, and the undoing.

What is kept describes the state before, not the change: putting it back is right whether the change was
done, was done in part, or was not done at all. It is a function and its arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from archive.effects.replay.state import ABSENT, StateError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CellType

    from archive.effects.replay.state import State

    Kept = tuple[Any, ...]

INNER = ("_parameters", "_buffers", "_modules")
"""Where a ``torch.nn.Module`` keeps attributes of its own kinds."""
UNNAMED = (*INNER, "_non_persistent_buffers_set")
PLAIN = frozenset((int, float, bool, str, bytes, list, dict, tuple, type(None)))
"""What a module keeps like any other object."""


def put_back(kept: Kept) -> None:
    """Undo a change."""
    function: Callable[..., None] = kept[0]
    function(*kept[1:])


def keep_all(target: Any) -> Kept:  # noqa: ANN401
    """All items and attributes of an object.

    Raises:
        StateError: it is neither container nor object with attributes.
    """
    held = getattr(target, "__dict__", None)
    attributes = _attributes(held) if isinstance(held, dict) else []
    if isinstance(target, dict):
        return _restore, target, list(target.items()), "update", attributes
    if hasattr(target, "clear") and hasattr(target, "extend"):
        return _restore, target, list(target), "extend", attributes
    if not attributes and not isinstance(held, dict):
        raise StateError(f"what a {type(target).__name__} is can't be put back if a change fails")
    return _restore, None, [], "", attributes


def _attributes(held: dict[str, Any]) -> list[tuple[Any, Any]]:
    """A namespace, and those in it that a module has, with copies of them."""
    found: list[tuple[Any, Any]] = [(held, held.copy())]
    if INNER[0] in held:
        found += [
            (held[name], held[name].copy()) for name in UNNAMED if isinstance(held.get(name), dict | set)
        ]
    return found


def _restore(target: Any, items: list[Any], method: str, attributes: list[tuple[Any, Any]]) -> None:  # noqa: ANN401
    if target is not None:
        target.clear()
        getattr(target, method)(items)
    for held, before in attributes:
        held.clear()
        held.update(before)


def is_plain(target: object, name: str, known: set[type]) -> bool:
    """Whether setting an attribute is setting an entry of the object's namespace; then its class is known."""
    kind = type(target)
    if kind.__setattr__ is not object.__setattr__ or not hasattr(target, "__dict__"):
        return False
    if hasattr(getattr(kind, name, None), "__set__"):
        return False
    known.add(kind)
    return True


def keep_attribute(target: Any, name: str, value: object) -> Kept:  # noqa: ANN401
    """An attribute that is going to be set to a value."""
    held = getattr(target, "__dict__", None)
    if held is None or hasattr(getattr(type(target), name, None), "__set__"):
        rest = None if held is None else keep_all(target)
        return _restore_described, target, name, getattr(target, name, ABSENT), rest
    if INNER[0] in held and (name not in held or type(value) not in PLAIN):
        return keep_all(target)
    return restore_entry, held, name, held.get(name, ABSENT)


def restore_entry(held: dict[Any, Any], key: object, before: object) -> None:
    """Give a dict the entry that it had."""
    if before is not ABSENT:
        held[key] = before
    else:
        held.pop(key, None)


def restore_attribute(target: Any, name: str, kept: Any, known: set[type]) -> None:  # noqa: ANN401
    """Put an attribute back: what a known class had in its namespace, or what :func:`keep_attribute` gave."""
    if type(target) in known:
        restore_entry(target.__dict__, name, kept)
    else:
        put_back(kept)


def _restore_described(target: object, name: str, before: object, rest: Kept | None = None) -> None:
    if before is not ABSENT:
        setattr(target, name, before)
    elif hasattr(target, name):
        delattr(target, name)
    if rest is not None:
        put_back(rest)


def restore_length(target: list[Any], kept: int | Kept) -> None:
    """Cut off what has been put behind a list of some length."""
    if isinstance(kept, int):
        del target[kept:]
    else:
        put_back(kept)


def keep_item(target: Any, key: Any) -> Kept:  # noqa: ANN401
    """An item that is going to be set, of what is no plain dict."""
    if type(target) is list:
        return target.__setitem__, key, target[key]
    return keep_all(target)


def restore_item(target: Any, key: object, kept: Any) -> None:  # noqa: ANN401
    """Put an item back: what a dict had, or what :func:`keep_item` gave."""
    if type(target) is dict:
        restore_entry(target, key, kept)
    else:
        put_back(kept)


def keep_inserted(target: Any, key: Any) -> Kept:  # noqa: ANN401
    """A list into which something is going to be inserted."""
    if type(target) is not list:
        return keep_all(target)
    size = len(target)
    at = max(key + size, 0) if key < 0 else min(key, size)
    return _take_out, target, at, size


def _take_out(target: list[Any], at: int, size: int) -> None:
    if len(target) > size:
        del target[at]


def keep_removed(target: Any, key: Any = -1) -> Kept:  # noqa: ANN401
    """Something from which an item is going to be taken."""
    if type(target) is not list:
        return keep_all(target)
    size = len(target)
    return _put_in, target, key + size if key < 0 else key, size, target[key]


def _put_in(target: list[Any], at: int, size: int, item: object) -> None:
    if len(target) < size:
        target.insert(at, item)


def keep_cell(cell: CellType) -> Kept:
    """What a cell holds."""
    try:
        return setattr, cell, "cell_contents", cell.cell_contents
    except ValueError:
        return _empty, cell


def _empty(cell: CellType) -> None:
    del cell.cell_contents


def keep_tensor(target: Any) -> Kept:  # noqa: ANN401
    """What a tensor holds."""
    return _restore_tensor, target, target.detach().clone(), getattr(target, "requires_grad", False)


def _restore_tensor(target: Any, before: object, needs_grad: bool) -> None:  # noqa: ANN401, FBT001
    if getattr(target, "requires_grad", False) and not needs_grad:
        target.detach_()
    target.detach().copy_(before)


def keep_saved(context: Any) -> Kept:  # noqa: ANN401
    """What a context has saved for its backward pass."""
    if isinstance(getattr(context, "__dict__", None), dict):
        return keep_all(context)
    return _restore_described, context, "to_save", getattr(context, "to_save", ABSENT)


def keep_hook(state: State, number: int) -> Kept:
    """The hook of a number, which is going to be registered."""
    return _unregister, state.hooks, number, state.hooks.get(number, ABSENT)


def _unregister(hooks: dict[int, Any], number: int, before: object) -> None:
    if hooks.get(number, ABSENT) is not before:
        hooks[number].remove()
        restore_entry(hooks, number, before)


def keep_removed_hook(state: State, number: int) -> Kept:
    """The hook of a number, which is going to be removed."""
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
