"""Proxies of ``int``, ``object``, ``type``, ``super()`` and ``math``, for copies of the model's functions.

And the proxy of an object that cannot be followed.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.graph.scalars import MATH, ShapeProxy, is_scalar, math_function, value_of
from archive.effects.capture.graph.variables import MadeList, ObjectProxy
from archive.effects.capture.proxies.containers import ContainerType
from archive.effects.errors import OUTSIDE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.effects.capture.table.call import CapturedCall


class NumberType(type):
    """The class of proxies of ``int``, ``float`` and ``bool``, which convert values of the graph.

    The proxies are types themselves, as ``case int(number):`` requires; they have no instances.
    """

    def __new__(cls, _: CapturedCall, kind: type) -> NumberType:
        """Make the type; nothing can derive from ``bool``."""
        names = {"__module__": kind.__module__, "__doc__": kind.__doc__}
        return super().__new__(cls, kind.__name__, (int if kind is bool else kind,), names)

    def __init__(cls, call: CapturedCall, kind: type) -> None:
        cls._call = call
        cls._kind = kind

    def __call__(cls, *args: Any) -> Any:
        """Make a number."""
        if len(args) == 1 and cls._kind is not bool:
            value = args[0]
            if is_scalar(value):
                same = type(value_of(value)) is cls._kind
                return value if same else cls._call.builder.compute(cls._kind, value)
            if isinstance(value, torch.Tensor):
                number = value.item()
                same = type(value_of(number)) is cls._kind
                return number if same else cls._call.builder.compute(cls._kind, number)
        return cls._kind(*args)

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls._kind)

    def __subclasscheck__(cls, other: type) -> bool:
        return issubclass(other, cls._kind)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls._kind, name)

    def __or__(cls, other: Any) -> Any:
        return cls._kind | getattr(other, "_kind", other)

    def __ror__(cls, other: Any) -> Any:
        return other | cls._kind

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls._kind

    def __hash__(cls) -> int:
        return hash(cls._kind)

    def __repr__(cls) -> str:
        return repr(cls._kind)


class MathModule:
    """The proxy of ``math``: its functions compute numbers of the graph."""

    _call: CapturedCall
    _made: dict[Any, Any]

    def __init__(self, call: CapturedCall) -> None:
        made = {function: self._computing(function) for function in MATH}
        object.__setattr__(self, "_call", call)
        object.__setattr__(self, "_made", made)

    def __setattr__(self, name: str, _: object) -> None:
        self._call.refuse(f"math.{name} that is set{OUTSIDE}")

    def __getattr__(self, name: str) -> Any:
        return self.of(getattr(math, name))

    def of(self, function: Any) -> Any:
        """The proxy of a function; other values as they are."""
        return self._made.get(function, function)

    def _computing(self, function: Any) -> Any:
        def computed(*args: Any) -> Any:
            if any(map(is_scalar, args)):
                return math_function(self._call.builder, function, args)
            return function(*args)

        return computed


class ObjectType:
    """The proxy of ``object``: ``object.__setattr__(self, …)`` bypasses a class's own method."""

    def __init__(self, call: CapturedCall) -> None:
        own: dict[str, Any] = {
            "__setattr__": lambda *args: call.objects.save(*args, custom=True),
            "__delattr__": lambda *args: call.objects.remove(*args, custom=True),
            "__getattribute__": lambda *args: call.objects.load(*args, custom=True),
            "__init__": lambda *_: None,
        }
        for name in dir(object):
            if name not in ("__class__", "__doc__"):
                vars(self)[name] = _routed(getattr(object, name), own.get(name))

    def __call__(self) -> object:
        """Make an object."""
        return object()

    def __instancecheck__(self, _: object) -> bool:
        return True

    def __subclasscheck__(self, _: type) -> bool:
        return True

    def __mro_entries__(self, _: object) -> tuple[type]:
        return (object,)

    def __eq__(self, other: object) -> bool:
        return other is self or other is object

    def __hash__(self) -> int:
        return hash(object)

    def __repr__(self) -> str:
        return repr(object)


def _routed(real: Any, own: Any) -> Any:
    """A method of ``object``, and another one instead for proxies."""

    def method(*args: Any) -> Any:
        is_proxy = bool(args) and issubclass(type(args[0]), ObjectProxy)
        return own(*args) if is_proxy else real(*args)

    return real if own is None else method


class TypeOf:
    """The proxy of ``type``: returns the classes of proxies, which the model compares by ``is``.

    Args:
        types: the proxies of ``int``, ``list`` and others, which the model has in place of them.
    """

    def __init__(self, call: CapturedCall, types: Mapping[type, Any]) -> None:
        self._call = call
        self._types = types

    def __call__(self, *args: Any) -> Any:
        """Return the class of one argument, or make a class from three."""
        if len(args) != 1:
            return type(*args)
        cls = type(value_of(args[0])) if is_scalar(args[0]) else type(args[0])
        if issubclass(cls, MadeList):
            cls = list
        if cls is ShapeProxy:
            cls = torch.Size
        if cls in self._types:
            return self._types[cls]
        if self._call.side_effects.variable_of(args[0]) is None:
            return cls
        return self._call.objects.class_of(args[0])

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, type | NumberType | ContainerType)

    def __getattr__(self, name: str) -> Any:
        return getattr(type, name)

    def __repr__(self) -> str:
        return repr(type)


class SuperView:
    """The result of ``super()``: attributes of the base classes, bound to a proxy."""

    def __init__(self, call: CapturedCall, cls: type, owner: Any) -> None:
        object.__setattr__(self, "_parts", (call, cls, owner))

    def __getattribute__(self, name: str) -> Any:
        call, cls, owner = object.__getattribute__(self, "_parts")
        return call.objects.load_super(cls, owner, name)

    def __setattr__(self, name: str, value: object) -> None:
        call, _, owner = object.__getattribute__(self, "_parts")
        call.objects.save(owner, name, value)


SPECIAL_METHODS = (
    "__call__",
    "__getattr__",
    "__setattr__",
    "__delattr__",
    "__getitem__",
    "__setitem__",
    "__delitem__",
    "__len__",
    "__iter__",
    "__next__",
    "__contains__",
    "__bool__",
    "__add__",
    "__radd__",
    "__iadd__",
    "__sub__",
    "__isub__",
    "__mul__",
    "__imul__",
    "__or__",
    "__ior__",
    "__and__",
    "__lt__",
    "__gt__",
    "__le__",
    "__ge__",
    "__eq__",
    "__ne__",
    "__hash__",
    "__str__",
    "__repr__",
    "__format__",
    "__enter__",
    "__exit__",
    "__array__",
    "__index__",
    "__int__",
    "__float__",
    "__reversed__",
    "__rsub__",
    "__rmul__",
    "__truediv__",
    "__rtruediv__",
    "__itruediv__",
    "__floordiv__",
    "__rfloordiv__",
    "__mod__",
    "__rmod__",
    "__pow__",
    "__rpow__",
    "__matmul__",
    "__rmatmul__",
    "__xor__",
    "__rxor__",
    "__rand__",
    "__ror__",
    "__lshift__",
    "__rshift__",
    "__neg__",
    "__pos__",
    "__abs__",
    "__invert__",
    "__round__",
    "__complex__",
    "__bytes__",
    "__fspath__",
)
"""Methods through which Python code uses an object."""


class Untouchable:
    """The proxy of an object that cannot be followed: any use of it is refused."""

    def __init__(self, call: CapturedCall, kind: str) -> None:
        object.__setattr__(self, "_parts", (call, kind))


def _untouchable(name: str) -> None:
    def method(self: Untouchable, *args: object, **_: object) -> Any:
        call, kind = object.__getattribute__(self, "_parts")
        if name == "__getattr__" and args[0] == "__torch_function__":
            raise AttributeError(args[0])
        call.refuse(f"what is done to a {kind} cannot be followed")

    setattr(Untouchable, name, method)


for _name in SPECIAL_METHODS:
    _untouchable(_name)
