"""Builtins for copies of the model's functions: those that look at types or make numbers are proxies."""

from __future__ import annotations

import builtins
import functools
import importlib
import math
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.list_functions import extreme, total_of
from archive.effects.capture.made_list import MadeList
from archive.effects.capture.open_list import OpenList
from archive.effects.capture.open_part import OpenPart
from archive.effects.capture.python_numbers import MATH, NUMBERS, math_function
from archive.effects.capture.scalars import is_scalar, value_of
from archive.formats.effects.model import GlobalName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.effects.capture.call import CapturedCall

INPUT_OUTPUT = ("open", "input", "breakpoint")


class NumberType:
    """The proxy of ``int``, ``float`` or ``bool``: converts numbers and tensors of the graph.

    Args:
        call: the captured call.
        kind: the real type.
    """

    def __init__(self, call: CapturedCall, kind: type) -> None:
        self._call = call
        self._kind = kind

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401
        """Make a number."""
        if len(args) == 1 and self._kind is not bool:
            value = args[0]
            if is_scalar(value):
                same = type(value_of(value)) is self._kind
                return value if same else self._call.builder.compute(self._kind, value)
            if isinstance(value, torch.Tensor):
                return self._of_tensor(value)
        return self._kind(*args)

    def _of_tensor(self, value: Any) -> Any:  # noqa: ANN401
        found = value.item()
        return found if type(value_of(found)) is self._kind else self._call.builder.compute(self._kind, found)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, self._kind)

    def __subclasscheck__(self, cls: type) -> bool:
        return issubclass(cls, self._kind)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._kind, name)

    def __or__(self, other: Any) -> Any:  # noqa: ANN401
        return self._kind | getattr(other, "_kind", other)

    def __ror__(self, other: Any) -> Any:  # noqa: ANN401
        return other | self._kind

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._kind

    def __hash__(self) -> int:
        return hash(self._kind)


class ListType(NumberType):
    """The proxy of ``list``: a list of a list of unknown length is of unknown length, too.

    Args:
        call: the captured call.
    """

    def __init__(self, call: CapturedCall) -> None:
        super().__init__(call, list)

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401
        """Make a list."""
        if len(args) == 1 and isinstance(args[0], OpenList | OpenPart):
            return args[0].as_part()
        return list(*args)

    def __getitem__(self, kind: Any) -> Any:  # noqa: ANN401
        return list[kind]


class MathModule:
    """The proxy of ``math``: its functions compute numbers of the graph.

    Args:
        call: the captured call.
    """

    def __init__(self, call: CapturedCall) -> None:
        self._call = call
        self._made = {function: self._computing(function) for function in MATH}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return self.of(getattr(math, name))

    def of(self, function: Any) -> Any:  # noqa: ANN401
        """The proxy of a function; others as they are."""
        return self._made.get(function, function)

    def _computing(self, function: Any) -> Any:  # noqa: ANN401
        def computed(*args: Any) -> Any:  # noqa: ANN401
            if any(map(is_scalar, args)):
                return math_function(self._call.builder, function, args)
            return function(*args)

        return computed


class ObjectType:
    """The proxy of ``object`` in the ``__init__`` of a frozen dataclass, which sets attributes with it.

    Args:
        call: the captured call.
    """

    def __init__(self, call: CapturedCall) -> None:
        self.__dict__["__setattr__"] = partial(call.objects.save, custom=True)


class TypeOf:
    """The proxy of ``type``: tells the classes of proxies, which the model compares by ``is``.

    Args:
        call: the captured call.
        numbers: the proxies of ``int``, ``float`` and ``bool``, which the model has in place of them.
    """

    def __init__(self, call: CapturedCall, numbers: Mapping[type, NumberType]) -> None:
        self._call = call
        self._numbers = numbers

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401
        """Give the class of one argument, or make a class of three."""
        if len(args) != 1:
            return type(*args)
        cls = type(value_of(args[0])) if is_scalar(args[0]) else type(args[0])
        if issubclass(cls, MadeList):
            cls = list
        if cls in self._numbers:
            return self._numbers[cls]
        if self._call.side_effects.variable_of(args[0]) is None:
            return cls
        return self._call.objects.class_of(args[0])

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, type | NumberType)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(type, name)


class SuperView:
    """The result of ``super()``: attributes of the base classes, bound to a proxy.

    Args:
        call: the captured call.
        cls: the class whose bases are searched.
        owner: the proxy.
    """

    def __init__(self, call: CapturedCall, cls: type, owner: Any) -> None:  # noqa: ANN401
        object.__setattr__(self, "_parts", (call, cls, owner))

    def __getattribute__(self, name: str) -> Any:  # noqa: ANN401
        call, cls, owner = object.__getattribute__(self, "_parts")
        return call.objects.load_super(cls, owner, name)

    def __setattr__(self, name: str, value: object) -> None:
        call, _, owner = object.__getattribute__(self, "_parts")
        call.objects.save(owner, name, value)


class ReplacedBuiltins:
    """Builtins that are functions, for copies of the model's functions.

    Args:
        call: the captured call.
    """

    def __init__(self, call: CapturedCall) -> None:
        self._call = call

    def super_of(self, *args: Any) -> Any:  # noqa: ANN401
        """Replace ``super``: without arguments it looks into its caller's frame, as Python's own does."""
        if not args:
            frame = sys._getframe(1)
            args = frame.f_locals["__class__"], frame.f_locals[frame.f_code.co_varnames[0]]
        cls, owner = self._call.objects.real_of(args[0]), args[1]
        if owner in self._call.side_effects:
            return SuperView(self._call, cls, owner)
        return super(cls, owner)

    def imported(self, name: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Replace ``__import__``: modules of the model are wrapped."""
        module = importlib.__import__(name, *args, **kwargs)
        return self._call.wrap(module, GlobalName(module.__name__, "__self__"))

    @staticmethod
    def length(value: Any) -> Any:  # noqa: ANN401
        """Replace ``len``, which would make an int of a tensor's size, or of a list's unknown length."""
        if isinstance(value, OpenList | OpenPart):
            return value.length()
        return value.size(0) if isinstance(value, torch.Tensor) and value.dim() else len(value)

    def choosing(self, function: Any) -> Any:  # noqa: ANN401
        """Replace ``min`` or ``max``: among numbers of the graph the graph itself chooses."""
        compute = self._call.builder.compute

        def chosen(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            numbers = all(is_scalar(one) or type(one) in NUMBERS for one in args)
            if len(args) > 1 and not kwargs and numbers and any(map(is_scalar, args)):
                return functools.reduce(lambda one, two: compute(function, one, two), args)
            if len(args) == 1 and not kwargs and isinstance(args[0], OpenList | OpenPart):
                return extreme(self._call.builder, function, args[0])
            return function(*args, **kwargs)

        return chosen

    def total(self, items: Any, *start: Any, **named: Any) -> Any:  # noqa: ANN401
        """Replace ``sum``: the graph itself adds the items of a list of unknown length."""
        if isinstance(items, OpenList | OpenPart):
            return total_of(self._call.builder, items, *start, **named)
        return sum(items, *start, **named)

    def refused(self, name: str) -> Any:  # noqa: ANN401
        """Replace a function that reads from or writes to the outside."""
        return lambda *_, **__: self._call.refuse(f"{name}: what it does outside the model would be lost")


def replaced_builtins(call: CapturedCall, numbers: Mapping[type, NumberType]) -> dict[str, Any]:
    """The builtins, by name, for copies of functions; ``numbers`` are the proxies of the types of numbers."""
    replaced = ReplacedBuiltins(call)
    return vars(builtins) | {
        **{name: replaced.refused(name) for name in INPUT_OUTPUT},
        **{kind.__name__: proxy for kind, proxy in numbers.items()},
        "print": call.kept_calls.printed,
        "super": replaced.super_of,
        "type": TypeOf(call, numbers),
        "len": replaced.length,
        "__import__": replaced.imported,
        "min": replaced.choosing(min),
        "sum": replaced.total,
        "max": replaced.choosing(max),
    }
