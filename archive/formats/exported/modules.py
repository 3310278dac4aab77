"""``nn_module_stack`` of a node: the module instances whose ``forward`` was running, outermost first.

    Stack    = Instance (';' Instance)*
    Instance = KEY ',' PATH ',' CLASS

PATH is the attribute path from the top module, empty for that itself; CLASS the qualified name of the class.
PyTorch distinguishes calls by KEY:

=======================  ================================================================================
key                      written by
=======================  ================================================================================
``L__self__`` + path     non-strict export
the same, ``@`` number   non-strict export, where a module is called again: the number of the call
digits                   strict export: the ``id`` of the module in the process that exported
digits, ``@`` number     strict export, where a module is called again
=======================  ================================================================================

A comma inside brackets does not separate. Source: ``serialize_metadata`` and ``deserialize_metadata`` in
``torch/_export/serde/serialize.py`` of PyTorch 2.13.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

SELF = "L__self__"
CALL = re.compile(r"0|[1-9][0-9]{0,8}")
ID = re.compile(r"0|[1-9][0-9]{0,17}")
BRACKET = re.compile(r"[()\[\]]")
PARTS = 3
WRAPPED = "_export_root"
"""The attribute of PyTorch's own module that holds the model, in some strict exports."""


class Key(NamedTuple):
    """The key of an instance.

    Attributes:
        base: the key without the call's number; None if it is ``L__self__`` and the path, or an ``id``.
        id: the ``id`` of an object; None if the key has none.
        call: the number of the call; None if it has none.
    """

    base: str | None
    id: int | None
    call: int | None


class Instance(NamedTuple):
    """A module in which a node was made.

    Attributes:
        key: distinguishes calls.
        path: its attribute path; "" for the top module.
        class_name: the qualified name of its class.
    """

    key: Key
    path: str
    class_name: str


def parse_modules(text: str) -> tuple[Instance, ...] | None:
    """The instances of a text; None where :func:`build_modules` would not rebuild the same text."""
    instances = []
    for item in text.split(";"):
        parts = split_instance(item)
        if len(parts) != PARTS:
            return None
        key, path, class_name = parts
        instances.append(Instance(parse_key(key, path), path, class_name))
    stack = tuple(instances)
    return stack if build_modules(stack) == text else None


def build_modules(instances: tuple[Instance, ...]) -> str:
    """The text of a module stack."""
    return ";".join(
        f"{build_key(instance.key, instance.path)},{instance.path},{instance.class_name}"
        for instance in instances
    )


def paths_in_model(instances: Sequence[Instance]) -> list[str]:
    """The path of each instance from the top module of the model itself."""
    paths = [instance.path for instance in instances]
    if paths[1:2] == [WRAPPED] and instances[1].class_name == instances[0].class_name:
        return [path.removeprefix(WRAPPED).removeprefix(".") for path in paths]
    return paths


def parse_key(text: str, path: str) -> Key:
    """The key of an instance at a path."""
    base, at, call = text.rpartition("@")
    number = int(call) if at and CALL.fullmatch(call) else None
    if number is None:
        base = text
    if base == SELF + path:
        return Key(None, None, number)
    if ID.fullmatch(base):
        return Key(None, int(base), number)
    return Key(base, None, number)


def build_key(key: Key, path: str) -> str:
    """The text of a key."""
    base = SELF + path if key.base is None else key.base
    if key.id is not None:
        base = str(key.id)
    return base if key.call is None else f"{base}@{key.call}"


def split_instance(item: str) -> list[str]:
    """The parts of an instance between commas outside brackets."""
    if not BRACKET.search(item):
        return item.split(",")
    parts, start, depth = [], 0, 0
    for at, char in enumerate(item):
        if char in "[(":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == "," and depth == 0:
            parts.append(item[start:at])
            start = at + 1
    return [*parts, item[start:]]
