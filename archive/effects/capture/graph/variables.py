"""Sources, literals, and variables of the table of effects.

There is one variable for each list, dict, object, cell and global that a call meets. There are also the base
classes of proxies: of objects, and of lists that a call makes from lists of unknown length.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, StrEnum
from types import (
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any, Final

import torch

from archive.formats.effects.model import (
    Attribute,
    ClosureCell,
    Constant,
    Each,
    GlobalName,
    Item,
    Length,
    Local,
    Made,
    Temporary,
    TorchName,
)
from archive.formats.effects.source_text import literal_text

if TYPE_CHECKING:
    from archive.formats.effects.model import Source


SOURCES = (Local, Attribute, Item, GlobalName, ClosureCell, Temporary, Length, Each)
"""The classes of ``Source``, for ``isinstance``."""
LITERALS = (bool, int, float, str, bytes, type(None), TorchName)
"""The types of ``Literal``, except tuples."""


HELD_BY_NAME = (torch.dtype, torch.device)
"""Types whose values a table holds by their texts."""


def key_literal(key: Any) -> Any:
    """The key of a dict as a constant of the table; unchanged if no table can hold it."""
    if isinstance(key, HELD_BY_NAME):
        return TorchName("dtype" if isinstance(key, torch.dtype) else "device", str(key))
    return tuple(map(key_literal, key)) if type(key) in (tuple, torch.Size) else key


def key_of(literal: Any) -> Any:
    """The key of a dict that is a constant of the table."""
    if isinstance(literal, TorchName):
        return getattr(torch, literal.text[6:]) if literal.kind == "dtype" else torch.device(literal.text)
    return tuple(map(key_of, literal)) if type(literal) is tuple else literal


def named(value: torch.dtype | torch.device) -> Made:
    """A dtype or device as a value of the table."""
    return Made("dtype" if isinstance(value, torch.dtype) else "device", (Constant(str(value)),))


def is_named_tuple(value: object) -> bool:
    """Whether a value is a named tuple of a class that is not PyTorch's."""
    kind = type(value)
    if not isinstance(value, tuple) or kind.__module__ in ("torch", "torch.return_types"):
        return False
    fields: Any = getattr(kind, "_fields", None)
    return isinstance(fields, tuple) and len(fields) == len(value) and not getattr(value, "__dict__", None)


def class_name(kind: type) -> str:
    """The name of a class in a table: ``module:qualname``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def is_literal(value: object) -> bool:
    """Whether a table can hold a value as a constant."""
    if type(value) is tuple:
        return all(map(is_literal, value))
    return type(value) in LITERALS


def is_plain(value: Any) -> bool:
    """Whether a value is a literal, a tensor, or a list, tuple or dict of only these."""
    if type(value) is dict:
        return all(map(is_literal, value)) and all(map(is_plain, value.values()))
    if type(value) in (list, tuple, torch.Size):
        return all(map(is_plain, value))
    return isinstance(value, torch.Tensor) or is_literal(value)


def identifier_of(source: Source) -> str:
    """A source as a Python identifier."""
    text = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in _joined(source))
    return text if not text[:1].isdigit() else f"_{text}"


def _joined(source: Source) -> str:
    match source:
        case Local(name) | ClosureCell(_, name):
            return name
        case Attribute(base, name):
            return f"{identifier_of(base)}_{name}"
        case Item(base, key):
            text = literal_text(key) if isinstance(key, tuple | TorchName) else str(key)
            return identifier_of(base) if isinstance(key, bytes) else f"{identifier_of(base)}_{text}"
        case Length(base):
            return f"{identifier_of(base)}_length"
        case GlobalName(module, name):
            return f"{module.rpartition('.')[2]}_{name}"
        case _:
            return "value"


# --- made list


class MadeList(list[Any]):
    """A new list, whose items are unknown, or those of the list that it derives from."""

    def contents(self) -> list[Any]:
        """The items in the captured call: real ones, and proxies of those that the call created."""
        raise NotImplementedError

    def keep(self) -> None:
        """Make the list a value for effects to keep: a node of the graph, or a list of known items."""
        raise NotImplementedError


# --- variables


class VariableKind(StrEnum):
    """The kind of thing that a variable stands for."""

    LIST = "list"
    DICT = "dict"
    SET = "set"
    OBJECT = "object"
    CELL = "cell"
    GLOBAL = "global"
    OTHER = "other"  # functions, classes and the like: passed on, never changed


class Deleted(Enum):
    """The value of an attribute that has been deleted."""

    DELETED = "deleted"


DELETED: Final = Deleted.DELETED


WITH_CONTENTS = (VariableKind.LIST, VariableKind.DICT, VariableKind.SET)
"""Kinds that change through their contents."""
CHANGED_BY_NAMES = (VariableKind.OBJECT, VariableKind.CELL, VariableKind.GLOBAL)
"""Kinds that change through names: attributes, contents of cells, globals."""


@dataclass(slots=True, eq=False)
class Variable:
    """The variable of one object.

    Attributes:
        source: where it lives; None for an object that this call created.
    """

    kind: VariableKind
    source: Source | None = None
    class_name: str | None = None

    @property
    def is_new(self) -> bool:
        """Whether the call created the object."""
        return self.source is None and self.kind in CHANGED_BY_NAMES


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """A hook, or a part of one, as in :mod:`archive.formats.effects.hooks`, with values of the call.

    Attributes:
        items: values of the call, values of the table, recipes, and tuples and dicts of them.
    """

    kind: str
    items: tuple[object, ...]


# --- proxy bases

SLOTS = (WrapperDescriptorType, MethodDescriptorType, GetSetDescriptorType, ClassMethodDescriptorType)
"""Types of methods and attributes of classes that are not written in Python."""


class ObjectProxy:
    """Base of objects' proxies. The proxy class of each class derives from both."""

    def __init_subclass__(cls) -> None:
        """Do nothing, so that the object's own class does not learn of its proxy class."""


class ContainerProxy(ObjectProxy):
    """Base of the proxies of containers, which keep their items in an inner container."""


def is_container_proxy(value: object) -> bool:
    """Whether a value is the proxy of a container; nothing of the value itself is read."""
    return issubclass(type(value), ContainerProxy)


def real_class(proxy: object) -> type:
    """The class of the object that a proxy stands for."""
    order = type(proxy).__mro__
    return order[order.index(ObjectProxy) + 1]


def inner_of(proxy: Any) -> Any:
    """The inner container of a container's proxy."""
    return type(proxy)._inner.__get__(proxy)


def set_inner(proxy: Any, inner: Any) -> None:
    """Give a proxy its inner container."""
    type(proxy)._inner.__set__(proxy, inner)
