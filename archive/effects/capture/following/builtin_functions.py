"""Builtins for copies of the model's functions: those that look at types, make numbers, or reach outside.

Each is the same object however the model finds it, and claims to be a builtin.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import operator
import sys
from types import BuiltinFunctionType, FunctionType
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.graph.scalars import NUMBERS, is_scalar, value_of
from archive.effects.capture.graph.variables import (
    ObjectProxy,
    inner_of,
    is_container_proxy,
    real_class,
)
from archive.effects.capture.proxies.containers import iterated
from archive.effects.capture.proxies.list_functions import extreme, total_of
from archive.effects.capture.proxies.open_list import OpenList
from archive.effects.capture.proxies.open_part import OpenPart
from archive.effects.capture.proxies.tracked_set import (
    CHECK,
    UNORDERED,
    TrackedSet,
    is_unordered,
)
from archive.effects.capture.proxies.type_proxies import SuperView, TypeOf
from archive.effects.errors import OUTSIDE
from archive.effects.places import static
from archive.formats.effects.model import GlobalName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.effects.capture.table.call import CapturedCall


INPUT_OUTPUT = ("open", "input", "breakpoint")


class ReplacedBuiltins:
    """Builtins that are functions, for copies of the model's functions."""

    def __init__(self, call: CapturedCall) -> None:
        self._call = call

    def super_of(self, *args: Any) -> Any:
        """Replace ``super``: without arguments it looks into its caller's frame, as Python's own does."""
        if not args:
            frame = sys._getframe(1)
            args = frame.f_locals["__class__"], frame.f_locals[frame.f_code.co_varnames[0]]
        cls, owner = self._call.objects.real_of(args[0]), args[1]
        if owner in self._call.side_effects:
            return SuperView(self._call, cls, owner)
        return super(cls, owner)

    def imported(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """Replace ``__import__``: modules of the model are wrapped."""
        module = importlib.__import__(name, *args, **kwargs)
        return self._call.wrap(module, GlobalName(module.__name__, "__self__"))

    def length(self, value: Any) -> Any:
        """Replace ``len``, which would make an int from a tensor's size, or from a list's unknown length."""
        if is_container_proxy(value) and not isinstance(
            static(real_class(value).__mro__, "__len__"), FunctionType
        ):
            value = inner_of(value)
        if isinstance(value, OpenList | OpenPart) or type(value) is TrackedSet:
            return value.length()
        if issubclass(type(value), ObjectProxy):
            method = static(real_class(value).__mro__, "__len__")
            if isinstance(method, FunctionType):
                made = self._call.functions.copy(method)(value)
                if made < 0:
                    raise ValueError("__len__() should return >= 0")
                return made if is_scalar(made) else operator.index(made)
        return value.size(0) if isinstance(value, torch.Tensor) and value.dim() else len(value)

    @staticmethod
    def ordering(function: Any) -> Any:
        """Replace ``sorted``, ``min`` or ``max``, whose result does not depend on the order of a set."""

        def ordered(*args: Any, **kwargs: Any) -> Any:
            if len(args) == 1 and "key" not in kwargs and type(args[0]) is TrackedSet:
                args = (args[0].whole(),)
            return function(*args, **kwargs)

        return ordered

    def choosing(self, function: Any) -> Any:
        """Replace ``min`` or ``max``: among numbers of the graph the graph itself chooses."""
        compute = self._call.builder.compute

        def chosen(*args: Any, **kwargs: Any) -> Any:
            numbers = all(is_scalar(argument) or type(argument) in NUMBERS for argument in args)
            if len(args) > 1 and not kwargs and numbers and any(map(is_scalar, args)):
                kinds = {type(value_of(number)) if is_scalar(number) else type(number) for number in args}
                if len(kinds) > 1:
                    # The chosen number keeps its type, which a number of the graph could not.
                    first = operator.gt if function is max else operator.lt
                    return functools.reduce(
                        lambda best, argument: argument if first(argument, best) else best, args
                    )
                return functools.reduce(lambda left, right: compute(function, left, right), args)
            if len(args) == 1 and not kwargs and isinstance(iterated(args[0]), OpenList | OpenPart):
                return extreme(self._call.builder, function, iterated(args[0]))
            return self.ordering(function)(*args, **kwargs)

        return chosen

    def total(self, items: Any, *start: Any, **named: Any) -> Any:
        """Replace ``sum``: the graph itself adds the items of a list of unknown length."""
        if isinstance(iterated(items), OpenList | OpenPart):
            return total_of(self._call.builder, iterated(items), *start, **named)
        return sum(items, *start, **named)

    def in_order(self, value: Any) -> Any:
        """Return what is iterated; see :mod:`archive.effects.capture.proxies.tracked_set`."""
        if is_unordered(value):
            self._call.refuse(UNORDERED)
        return value

    def identity(self, _: object) -> Any:
        """Replace ``id``."""
        return self._call.refuse("id: a number that differs from process to process")

    def hashed(self, value: object) -> int:
        """Replace ``hash``: Python salts the hashes of texts, so they differ from process to process."""
        parts = [value]
        while parts:
            part = parts.pop()
            if isinstance(part, str | bytes):
                self._call.refuse("hash: a number that differs from process to process")
            if isinstance(part, tuple | frozenset):
                parts += part
        return hash(value)

    def refused(self, name: str) -> Any:
        """Replace a function that reads from or writes to the outside."""
        return lambda *_, **__: self._call.refuse(f"{name}{OUTSIDE}")


def replaced_builtins(call: CapturedCall, types: Mapping[type, Any]) -> dict[str, Any]:
    """The builtins, by name, for copies of functions; ``types`` are proxies of Python's types."""
    replaced = ReplacedBuiltins(call)
    made = {
        **{name: replaced.refused(name) for name in INPUT_OUTPUT},
        **{kind.__name__: proxy for kind, proxy in types.items() if kind.__module__ == "builtins"},
        "hash": replaced.hashed,
        "id": replaced.identity,
        CHECK: replaced.in_order,
        "print": call.kept_calls.printed,
        "super": replaced.super_of,
        "type": TypeOf(call, types),
        "sorted": replaced.ordering(sorted),
        "len": replaced.length,
        "__import__": replaced.imported,
        "min": replaced.choosing(min),
        "sum": replaced.total,
        "max": replaced.choosing(max),
    }
    for name in ("hash", "id", "len", "max", "min", "sorted", "sum", *INPUT_OUTPUT):
        made[name] = NamedBuiltin(name, made[name])
    return vars(builtins) | made


class NamedBuiltin:
    """What the model gets in place of a builtin function: the same object, however it finds it."""

    SHOWN_AS = "builtin function"

    def __init__(self, name: str, function: Any) -> None:
        self.__name__ = self.__qualname__ = name
        self.__module__ = "builtins"
        self._function = function

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The builtin's class, so that ``isinstance`` sees it."""
        return BuiltinFunctionType

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Do what the builtin does."""
        return self._function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<built-in function {self.__name__}>"
