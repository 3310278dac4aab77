"""Containers of Python and classes that derive from them: their base, and what is in them."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from typing import Any

BASES: dict[Any, str] = {
    OrderedDict: "OrderedDict",
    defaultdict: "defaultdict",
    dict: "dict",
    list: "list",
    deque: "deque",
    set: "set",
    frozenset: "frozenset",
}
"""Python's containers, and their kinds in a table."""


def base_of(kind: Any) -> Any:  # noqa: ANN401
    """The container of Python that a class is or derives from; other classes as they are."""
    return next((one for one in kind.__mro__ if one in BASES), kind)


def is_container(value: object) -> bool:
    """Whether a value is a container, or an object of a class that derives from one."""
    return base_of(type(value)) in BASES


def items_of(target: Any) -> list[Any]:  # noqa: ANN401
    """The items of a container, past its class's own ``__iter__``; of a dict they are pairs."""
    base = base_of(type(target))
    return list(base.items(target) if isinstance(target, dict) else base.__iter__(target))
