"""Builtins for copies of the model's functions: those that look at types or make numbers are proxies."""

from __future__ import annotations

import builtins
import functools
import importlib
import operator
import sys
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.graph.python_numbers import NUMBERS
from archive.effects.capture.graph.scalars import is_scalar, value_of
from archive.effects.capture.graph.variables import (
    class_behind,
    inner_of,
    is_container_proxy,
    static,
)
from archive.effects.capture.proxies.containers import iterated
from archive.effects.capture.proxies.list_functions import extreme, total_of
from archive.effects.capture.proxies.open_list import OpenList
from archive.effects.capture.proxies.open_part import OpenPart
from archive.effects.capture.proxies.tracked_set import CHECK, ORDER, TrackedSet, is_unordered
from archive.effects.capture.proxies.type_proxies import SuperView, TypeOf
from archive.formats.effects.model import GlobalName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from archive.effects.capture.table.call import CapturedCall


INPUT_OUTPUT = ("open", "input", "breakpoint")


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
        if is_container_proxy(value) and not isinstance(
            static(class_behind(value).__mro__, "__len__"), FunctionType
        ):
            value = inner_of(value)
        if isinstance(value, OpenList | OpenPart) or type(value) is TrackedSet:
            return value.length()
        return value.size(0) if isinstance(value, torch.Tensor) and value.dim() else len(value)

    @staticmethod
    def ordering(function: Any) -> Any:  # noqa: ANN401
        """Replace ``sorted``, ``min`` or ``max``, whose result does not depend on the order of a set."""

        def ordered(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            if len(args) == 1 and "key" not in kwargs and type(args[0]) is TrackedSet:
                args = (args[0].whole(),)
            return function(*args, **kwargs)

        return ordered

    def choosing(self, function: Any) -> Any:  # noqa: ANN401
        """Replace ``min`` or ``max``: among numbers of the graph the graph itself chooses."""
        compute = self._call.builder.compute

        def chosen(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            numbers = all(is_scalar(one) or type(one) in NUMBERS for one in args)
            if len(args) > 1 and not kwargs and numbers and any(map(is_scalar, args)):
                if len({type(value_of(one)) if is_scalar(one) else type(one) for one in args}) > 1:
                    # The chosen number keeps its type, which a number of the graph could not.
                    first = operator.gt if function is max else operator.lt
                    return functools.reduce(lambda one, two: two if first(two, one) else one, args)
                return functools.reduce(lambda one, two: compute(function, one, two), args)
            if len(args) == 1 and not kwargs and isinstance(iterated(args[0]), OpenList | OpenPart):
                return extreme(self._call.builder, function, iterated(args[0]))
            return self.ordering(function)(*args, **kwargs)

        return chosen

    def total(self, items: Any, *start: Any, **named: Any) -> Any:  # noqa: ANN401
        """Replace ``sum``: the graph itself adds the items of a list of unknown length."""
        if isinstance(iterated(items), OpenList | OpenPart):
            return total_of(self._call.builder, iterated(items), *start, **named)
        return sum(items, *start, **named)

    def in_order(self, value: Any) -> Any:  # noqa: ANN401
        """Give back what is iterated; see :mod:`archive.effects.capture.proxies.tracked_set`."""
        if is_unordered(value):
            self._call.refuse(ORDER)
        return value

    def identity(self, _: object) -> Any:  # noqa: ANN401
        """Replace ``id``."""
        return self._call.refuse("id: a number that differs from process to process")

    def hashed(self, value: object) -> int:
        """Replace ``hash``: Python salts that of texts, so it differs from process to process."""
        parts = [value]
        while parts:
            one = parts.pop()
            if isinstance(one, str | bytes):
                self._call.refuse("hash: a number that differs from process to process")
            if isinstance(one, tuple | frozenset):
                parts += one
        return hash(value)

    def refused(self, name: str) -> Any:  # noqa: ANN401
        """Replace a function that reads from or writes to the outside."""
        return lambda *_, **__: self._call.refuse(f"{name}: what it does outside the model would be lost")


def replaced_builtins(call: CapturedCall, types: Mapping[type, Any]) -> dict[str, Any]:
    """The builtins, by name, for copies of functions; ``types`` are proxies of Python's types."""
    replaced = ReplacedBuiltins(call)
    return vars(builtins) | {
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
