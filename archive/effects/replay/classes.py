"""Classes, functions, dtypes and devices that a table names.

Classes and functions are looked up only if the caller allows them. A container whose class is not allowed
gets a stand-in, which has the name of the model's class and derives from the same container. So it has the
same items and attributes, but no methods of the model.
"""

from __future__ import annotations

import functools
import importlib
import operator
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from archive.effects.errors import StateError
from archive.formats.effects.containers import CLASS_NAMES, CONTAINER_CLASSES, FACTORIES
from archive.formats.effects.model import TorchName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Allowed: TypeAlias = "Collection[str] | Mapping[str, object]"
"""Names ``module:qualname``, or a mapping from such names to the objects to use."""


def resolved(name: str, allow: Allowed) -> object:
    """The class or function with a name."""
    if name not in allow:
        raise StateError(f"{name!r} is not allowed; pass allow=[{name!r}] if you trust it")
    if isinstance(allow, Mapping):
        return allow[name]
    module, _, qualified = name.partition(":")
    value: Any = importlib.import_module(module)
    for part in qualified.split("."):
        value = getattr(value, part)
    return value


# --- dtypes and devices


def dtype(text: str) -> torch.dtype:
    """The dtype with a name: ``torch.float32``."""
    value = vars(torch).get(text.removeprefix("torch."))
    if not isinstance(value, torch.dtype):
        raise StateError(f"{text} isn't a dtype")
    return value


def device(text: str) -> torch.device:
    """The device with a name: ``cuda:0``."""
    try:
        return torch.device(text)
    except RuntimeError as error:
        raise StateError(f"{text} isn't a device") from error


TORCH_NAMED: dict[str, Callable[[str], object]] = {"dtype": dtype, "device": device}
"""By kind of ``Made``."""


def real_literal(literal: Any) -> Any:
    """A constant with PyTorch's own dtypes and devices."""
    if isinstance(literal, TorchName):
        return TORCH_NAMED[literal.kind](literal.text)
    return tuple(map(real_literal, literal)) if type(literal) is tuple else literal


# --- classes of containers

MOST_CLASSES = 1024
"""Stand-ins that are kept, so that objects of one class have one class here, too."""


@functools.lru_cache(MOST_CLASSES)
def stand_in(name: str, kind: str) -> Any:
    """The class in place of a container's class that isn't here."""
    return _named(type(name.rpartition(":")[2].rpartition(".")[2], (CONTAINER_CLASSES[kind],), {}), name)


@functools.lru_cache(MOST_CLASSES)
def tuple_stand_in(name: str, fields: tuple[str, ...]) -> Any:
    """The class in place of a named tuple's class that isn't here.

    ``collections.namedtuple`` would make Python run a text made from the fields' names.
    """
    held = {field: property(operator.itemgetter(place)) for place, field in enumerate(fields)}
    cls = type(
        name.rpartition(":")[2].rpartition(".")[2],
        (NamedStandIn,),
        {**held, "_fields": fields, "__slots__": ()},
    )
    return _named(cls, name)


class NamedStandIn(tuple[Any, ...]):
    """What stand-ins of named tuples have in common; each has its own fields."""

    __slots__ = ()
    _fields: tuple[str, ...] = ()

    def _asdict(self) -> dict[str, Any]:
        return dict(zip(self._fields, self, strict=True))

    def _replace(self, **given: object) -> Any:
        """A named tuple with some items replaced."""
        if not given.keys() <= set(self._fields):
            raise TypeError(f"expected fields among {', '.join(self._fields)}, found {', '.join(given)}")
        return tuple.__new__(type(self), (self._asdict() | given).values())

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{name}={item!r}' for name, item in self._asdict().items())})"
        )


def _named(cls: Any, name: str) -> Any:
    cls.__module__, _, cls.__qualname__ = name.partition(":")
    return cls


def container_class(name: str, kind: str, allow: Allowed) -> Any:
    """The class of a container: the allowed one with this name, or a stand-in."""
    if name == CLASS_NAMES[kind]:
        return CONTAINER_CLASSES[kind]
    if name not in allow:
        return stand_in(name, kind)
    cls = resolved(name, allow)
    if not isinstance(cls, type) or not issubclass(cls, CONTAINER_CLASSES[kind]):
        raise StateError(f"{name} isn't a class that derives from {kind}")
    return cls


def container_maker(name: str, kind: str, which: object, allow: Allowed) -> Callable[[], Any]:
    """A function that makes an empty container without calling its class.

    Args:
        which: the maximum length of a deque, or the name of a defaultdict's factory; else None.
    """
    base, cls = CONTAINER_CLASSES[kind], container_class(name, kind, allow)
    given: tuple[Any, ...] = ()
    if kind == "deque":
        given = ([], which)
    elif kind == "defaultdict":
        given = (factory(which, allow),)

    def made() -> Any:
        container = base.__new__(cls)
        base.__init__(container, *given)
        return container

    return made


def tuple_maker(name: str, fields: tuple[str, ...], allow: Allowed) -> Callable[[Iterable[Any]], Any]:
    """A function that makes a named tuple from its items, without calling its class."""
    cls: Any = resolved(name, allow) if name in allow else tuple_stand_in(name, fields)
    if not isinstance(cls, type) or not issubclass(cls, tuple) or getattr(cls, "_fields", None) != fields:
        raise StateError(f"{name} isn't a named tuple of {', '.join(fields)}")
    return functools.partial(tuple.__new__, cls)


def factory(name: object, allow: Allowed) -> Callable[[], object] | None:
    """The factory of a ``defaultdict``; one that is not allowed refuses to make anything."""
    if name is None:
        return None
    if name in FACTORIES:
        return FACTORIES[str(name)]
    if name in allow:
        cls: Any = resolved(str(name), allow)
        return cls  # type: ignore[no-any-return]

    def missing() -> object:
        raise StateError(f"{name} is not here to make a default")

    return missing
