"""Placeholders: an object whose class isn't here, a missing value, an argument left out."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import torch

from archive.effects.errors import StateError

if TYPE_CHECKING:
    from collections.abc import Collection, Container


class Absent(Enum):
    """The absence of a value, where None is a value."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
ADVICE = "; change it in the model, and lower that again"
FIXED = f": the lowered graph holds it fixed{ADVICE}"


class Sealed(NamedTuple):
    """What may be set in an object.

    Attributes:
        settable: attributes that captured calls read or set.
        fixed: attributes that the lowered graph holds fixed.
        known: all attributes of the object when it was lowered; None if unknown.
    """

    place: str
    settable: Container[str]
    fixed: Collection[str]
    known: Collection[str] | None

    def problem(self, name: str) -> str:
        """Why an attribute may not be set or deleted; "" if it may."""
        if name in self.settable:
            return ""
        if name in self.fixed:
            return f"{self.place}.{name}{FIXED}"
        if self.known is None or name in self.known:
            return (
                f"{self.place}.{name}: no captured call reads it, so that this would change nothing{ADVICE}"
            )
        return f"{self.place}.{name}: the model that was lowered has no such attribute"


class Plain:
    """An object in place of one whose class isn't here.

    It takes any attribute, and items by any key, until it is sealed. Effects change it bypassing its methods.
    """

    __slots__ = ("__dict__", "__items", "__sealed")
    __items: dict[object, object]
    __sealed: Sealed | None

    def __init__(self) -> None:
        object.__setattr__(self, "_Plain__items", {})
        object.__setattr__(self, "_Plain__sealed", None)

    def register_buffer(self, name: str, tensor: object, *, persistent: bool = True) -> None:  # noqa: ARG002
        """Set an attribute: nothing here distinguishes buffers from other tensors."""
        setattr(self, name, tensor)

    def __setattr__(self, name: str, value: object) -> None:
        _check(self, name)
        sealed = self.__sealed
        is_new_parameter = isinstance(value, torch.nn.Parameter) and not isinstance(
            self.__dict__.get(name), torch.Tensor
        )
        if sealed is not None and (isinstance(value, torch.nn.Module) or is_new_parameter):
            kind = "parameter" if is_new_parameter else "module"  # which a module would register as its own
            raise StateError(f"{sealed.place}.{name}: a {kind} that no captured call has{ADVICE}")
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        _check(self, name)
        object.__delattr__(self, name)

    def __getattr__(self, name: str) -> object:
        sealed = None if name == "_Plain__sealed" else self.__sealed
        if sealed is not None and name in sealed.fixed:
            raise AttributeError(f"{sealed.place}.{name}{FIXED}", name=name, obj=self)
        raise AttributeError(f"'Plain' object has no attribute {name!r}", name=name, obj=self)

    def __getitem__(self, key: object) -> object:
        """An item; those of PyTorch's containers of modules are attributes, too."""
        if key not in self.__items and type(key) in (int, str) and str(key) in self.__dict__:
            return self.__dict__[str(key)]
        return self.__items[key]

    def __setitem__(self, key: object, value: object) -> None:
        _check_item(self, key)
        self.__items[key] = value

    def __delitem__(self, key: object) -> None:
        _check_item(self, key)
        del self.__items[key]


class LeftOut:
    """The value of an argument that is left out and whose default no table holds."""


LEFT_OUT = LeftOut()

PLAIN_METHODS = frozenset(name for name in vars(Plain) if not name.endswith("__"))
"""Names that objects of ``Plain`` have from their class, which no attribute may hide."""


def items_of_plain(holder: Any) -> dict[object, object]:
    """The items of a :class:`Plain`, sealed or not."""
    items: dict[object, object] = holder._Plain__items
    return items


def seal(holder: Plain, sealed: Sealed) -> None:
    """Let only what matters be set in an object."""
    object.__setattr__(holder, "_Plain__sealed", sealed)


def _check(holder: Plain, name: str) -> None:
    """Refuse an attribute that may not be set or deleted."""
    sealed: Any = object.__getattribute__(holder, "_Plain__sealed")
    problem = sealed.problem(name) if sealed is not None else ""
    if problem:
        raise StateError(problem)


def _check_item(holder: Plain, key: object) -> None:
    """Refuse a new item."""
    sealed: Any = object.__getattribute__(holder, "_Plain__sealed")
    if sealed is not None and key not in items_of_plain(holder):
        raise StateError(f"{sealed.place}[{key!r}]{FIXED}")
