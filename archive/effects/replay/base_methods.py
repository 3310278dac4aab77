"""Changes of containers by the methods of Python's own classes, past those of a class that derives from them.

A capture runs the methods of such a class, and notes what they change. Replay makes these changes alone.
"""

from __future__ import annotations

from typing import Any

import torch

from archive.effects.errors import StateError
from archive.effects.placeholders import UNSET, Plain, items_of_plain
from archive.effects.places import base, check_settable, items, parameter_name


def _base(target: object) -> Any:  # noqa: ANN401
    """The class whose methods change an object.

    Raises:
        StateError: it is no container that can change.
    """
    found = base(target)
    if found in (tuple, frozenset, str, bytes):
        raise StateError(f"expected a container that can change, found a {type(target).__name__}")
    return found


def set_item(target: Any, key: Any, value: object) -> None:  # noqa: ANN401
    """Set an item; an object whose class is not here has items, too."""
    if type(target) is Plain:
        items_of_plain(target)[key] = value
        return
    own_base = _base(target)
    if own_base is torch.nn.ParameterDict:
        check_settable(target, parameter_name(key))
    own_base.__setitem__(target, key, value)


def delete_item(target: Any, key: Any) -> None:  # noqa: ANN401
    """Delete an item."""
    if type(target) is Plain:
        del items_of_plain(target)[key]
        return
    _base(target).__delitem__(target, key)


def append(target: Any, value: object) -> None:  # noqa: ANN401
    """Append an item."""
    _base(target).append(target, value)


def extend(target: Any, values: Any) -> None:  # noqa: ANN401
    """Append items."""
    _base(target).extend(target, items(values))


def insert(target: Any, key: Any, value: object) -> None:  # noqa: ANN401
    """Insert an item."""
    _base(target).insert(target, key, value)


def pop(target: Any, key: Any = UNSET) -> None:  # noqa: ANN401
    """Take an item out: that of a key, or the last one."""
    _base(target).pop(target, *(() if key is UNSET else (key,)))


def append_left(target: Any, value: object) -> None:  # noqa: ANN401
    """Put an item before all others of a deque."""
    _base(target).appendleft(target, value)


def pop_left(target: Any) -> None:  # noqa: ANN401
    """Take the first item out of a deque."""
    _base(target).popleft(target)


def add(target: Any, value: object) -> None:  # noqa: ANN401
    """Add an element to a set."""
    _base(target).add(target, value)


def discard(target: Any, value: object) -> None:  # noqa: ANN401
    """Take an element out of a set, if it is there."""
    _base(target).discard(target, value)


def clear(target: Any) -> None:  # noqa: ANN401
    """Take everything out."""
    _base(target).clear(target)


def refill(target: Any, inside: list[Any]) -> None:  # noqa: ANN401
    """Give a container other items."""
    own = _base(target)
    own.clear(target)
    if isinstance(target, dict):
        for key, value in inside:
            own.__setitem__(target, key, value)
    elif isinstance(target, set):
        own.update(target, inside)
    else:
        own.extend(target, inside)
