"""Variables of the table of effects: one for each list, dict, object, cell and global that a call meets.

Beside them the bases of proxies: of objects, and of lists that a call makes of lists of unknown length.
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

if TYPE_CHECKING:
    from archive.formats.effects.model import Source


# --- made list


class MadeList(list[Any]):
    """A new list, whose items are not known, or those of the list that it derives from."""

    def contents(self) -> list[Any]:
        """The items in the captured call: real ones, and proxies of those that the call has made."""
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


class MutationType(Enum):
    """The way in which a variable may change, by the names of PyTorch's dynamo."""

    VALUE_EXISTING = "ValueMutationExisting"
    ATTRIBUTE_EXISTING = "AttributeMutationExisting"
    ATTRIBUTE_NEW = "AttributeMutationNew"


class Deleted(Enum):
    """The value of an attribute that has been deleted."""

    DELETED = "deleted"


class Absent(Enum):
    """The absence of a value, where None is one."""

    ABSENT = "absent"


DELETED: Final = Deleted.DELETED
ABSENT: Final = Absent.ABSENT


VALUES = (VariableKind.LIST, VariableKind.DICT, VariableKind.SET)
"""Kinds that change by what they hold."""


@dataclass(slots=True, eq=False)
class Variable:
    """The variable of one object.

    Attributes:
        kind: of the object.
        source: where it lives; None for an object that this call has made.
        class_name: of a new object, as ``module:qualname``.
        contents: of a cell, before any effect.
    """

    kind: VariableKind
    source: Source | None = None
    class_name: str | None = None
    contents: object = ABSENT

    @property
    def mutation_type(self) -> MutationType | None:
        """The way in which it may change; None if it never does."""
        if self.kind is VariableKind.OTHER:
            return None
        if self.kind in VALUES:
            return MutationType.VALUE_EXISTING
        return MutationType.ATTRIBUTE_EXISTING if self.source is not None else MutationType.ATTRIBUTE_NEW


@dataclass(frozen=True, slots=True, eq=False)
class Recipe:
    """A hook, or a part of one, as :mod:`archive.formats.effects.hooks` has it, with values of the call.

    Attributes:
        kind: of the part.
        items: values of the call, values of the table, recipes, and tuples and dicts of them.
    """

    kind: str
    items: tuple[object, ...]


class Tracking:
    """Variables, each found by the identity of its object.

    Attributes:
        id_to_variable: variables by the identity of objects; an object's proxy leads to the same variable.
        keepalive: tracked objects. An identity is only unique for as long as its object lives.
    """

    def __init__(self) -> None:
        self.id_to_variable: dict[int, Variable] = {}
        self.keepalive: list[object] = []

    def _track(self, variable: Variable, *items: object) -> Variable:
        for item in items:
            if id(item) in self.id_to_variable:
                raise ValueError(f"{item!r} is already tracked, as {self.id_to_variable[id(item)]}")
            self.id_to_variable[id(item)] = variable
            self.keepalive.append(item)
        return variable

    def track_list(self, item: object, source: Source, *proxies: object) -> Variable:
        """Track a list and its proxies as one variable."""
        return self._track(Variable(VariableKind.LIST, source), item, *proxies)

    def track_dict(self, item: object, source: Source, *proxies: object) -> Variable:
        """Track a dict and its proxies as one variable."""
        return self._track(Variable(VariableKind.DICT, source), item, *proxies)

    def track_set(self, item: object, source: Source, *proxies: object) -> Variable:
        """Track a set and its proxies as one variable."""
        return self._track(Variable(VariableKind.SET, source), item, *proxies)

    def track_inner(self, kind: VariableKind, source: Source, inner: object) -> Variable:
        """Track what an object holds besides its attributes, as a list or dict of the same source."""
        return self._track(Variable(kind, source), inner)

    def track_object_existing(self, item: object, source: Source, *proxies: object) -> Variable:
        """Track an object that was there before the call, and its proxies, as one variable."""
        return self._track(Variable(VariableKind.OBJECT, source), item, *proxies)

    def track_object_new(self, item: object, class_name: str) -> Variable:
        """Track an object that the call has made, of the class ``module:qualname``."""
        return self._track(Variable(VariableKind.OBJECT, None, class_name), item)

    def track_cell_new(self) -> Variable:
        """Track a cell that the call has made."""
        return self._track(Variable(VariableKind.CELL), object())

    def track_cell_existing(self, source: Source, cell: object, contents: object = ABSENT) -> Variable:
        """Track a cell that was there before the call."""
        return self._track(Variable(VariableKind.CELL, source, contents=contents), cell)

    def track_global_existing(self, source: Source, item: object) -> Variable:
        """Track a global; ``item`` stands for its name."""
        return self._track(Variable(VariableKind.GLOBAL, source), item)

    def track_other(self, item: object, source: Source | None, *proxies: object) -> Variable:
        """Track a function, class or the like, which never changes, for the sake of its source."""
        return self._track(Variable(VariableKind.OTHER, source), item, *proxies)

    def variable_of(self, value: object) -> Variable | None:
        """The variable that a value is, or is tracked as; None for other values."""
        if (
            type(value) is Variable
        ):  # `isinstance` would read a proxy's `__class__`, which the model might see
            return value
        return self.id_to_variable.get(id(value))

    def __contains__(self, item: object) -> bool:
        return id(item) in self.id_to_variable

    def __getitem__(self, item: object) -> Variable:
        return self.id_to_variable[id(item)]


# --- proxy bases

SLOTS = (WrapperDescriptorType, MethodDescriptorType, GetSetDescriptorType, ClassMethodDescriptorType)
"""Types of methods and attributes of classes that are not written in Python."""


def static(order: tuple[type, ...], name: str) -> Any:  # noqa: ANN401
    """The first of some classes' attributes by a name, unbound; ``ABSENT`` if none has it."""
    return next((cls.__dict__[name] for cls in order if name in cls.__dict__), ABSENT)


class ObjectProxy:
    """Base of objects' proxies. Each class has a proxy class, which derives from this one and from it."""

    def __init_subclass__(cls) -> None:
        """Do nothing, so that the object's own class does not hear of its proxy class."""


class ContainerProxy(ObjectProxy):
    """Base of the proxies of containers: what such a one holds is in its inner container, not in itself."""


def is_container_proxy(value: object) -> bool:
    """Whether a value is the proxy of a container; nothing of the value itself is read."""
    return issubclass(type(value), ContainerProxy)


def class_behind(proxy: object) -> type:
    """The class of the object behind an object's proxy."""
    order = type(proxy).__mro__
    return order[order.index(ObjectProxy) + 1]


def inner_of(proxy: Any) -> Any:  # noqa: ANN401
    """The inner container of a container's proxy."""
    return type(proxy)._inner.__get__(proxy)


def set_inner(proxy: Any, inner: Any) -> None:  # noqa: ANN401
    """Give a proxy its inner container."""
    type(proxy)._inner.__set__(proxy, inner)
