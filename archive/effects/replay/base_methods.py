"""Changes of containers by the methods of Python's own classes, past those of a class that derives from them.

A capture runs the methods of such a class, and notes what they change. Replay makes these changes alone.
"""

from __future__ import annotations

from typing import Any

import torch

from archive.effects.python_containers import base_of

HEAP_TYPE = 1 << 9
"""Flag of classes that are written in Python (CPython's ``Py_TPFLAGS_HEAPTYPE``)."""


def set_item(target: Any, key: Any, value: object) -> None:  # noqa: ANN401
    """Set an item."""
    base_of(type(target)).__setitem__(target, key, value)


def delete_item(target: Any, key: Any) -> None:  # noqa: ANN401
    """Delete an item."""
    base_of(type(target)).__delitem__(target, key)


def append(target: Any, value: object) -> None:  # noqa: ANN401
    """Append an item."""
    base_of(type(target)).append(target, value)


def extend(target: Any, values: Any) -> None:  # noqa: ANN401
    """Append items."""
    base_of(type(target)).extend(target, values)


def insert(target: Any, key: Any, value: object) -> None:  # noqa: ANN401
    """Insert an item."""
    base_of(type(target)).insert(target, key, value)


def pop(target: Any, *key: Any) -> None:  # noqa: ANN401
    """Take an item out."""
    base_of(type(target)).pop(target, *key)


def append_left(target: Any, value: object) -> None:  # noqa: ANN401
    """Put an item before all others of a deque."""
    base_of(type(target)).appendleft(target, value)


def pop_left(target: Any) -> None:  # noqa: ANN401
    """Take the first item out of a deque."""
    base_of(type(target)).popleft(target)


def add(target: Any, value: object) -> None:  # noqa: ANN401
    """Add an element to a set."""
    base_of(type(target)).add(target, value)


def discard(target: Any, value: object) -> None:  # noqa: ANN401
    """Take an element out of a set, if it is there."""
    base_of(type(target)).discard(target, value)


def clear(target: Any) -> None:  # noqa: ANN401
    """Take everything out."""
    base_of(type(target)).clear(target)


def refill(target: Any, items: list[Any]) -> None:  # noqa: ANN401
    """Give a container other items."""
    base = base_of(type(target))
    base.clear(target)
    if isinstance(target, dict):
        for key, value in items:
            base.__setitem__(target, key, value)
    elif isinstance(target, set):
        base.update(target, items)
    else:
        base.extend(target, items)


def set_attribute(target: Any, name: str, value: object) -> None:  # noqa: ANN401
    """Set an attribute, past a ``__setattr__`` that the class has of its own."""
    owner = next(cls for cls in type(target).__mro__ if "__setattr__" in cls.__dict__)
    if owner is torch.nn.Module or not owner.__flags__ & HEAP_TYPE:
        setattr(target, name, value)
    elif isinstance(target, torch.nn.Module):
        torch.nn.Module.__setattr__(target, name, value)
    else:
        object.__setattr__(target, name, value)
