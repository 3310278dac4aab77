"""Builtins for copies of the model's functions: those that look at types or make numbers are proxies."""

from __future__ import annotations

import builtins
import functools
import importlib
import sys
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.scalars import NUMBERS, is_scalar, value_of
from archive.formats.effects.model import GlobalName

if TYPE_CHECKING:
    from archive.effects.capture.call import CapturedCall

INPUT_OUTPUT = ("print", "open", "input", "breakpoint")


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


class TypeOf:
    """The proxy of ``type``: tells the real classes of proxies.

    Args:
        call: the captured call.
    """

    def __init__(self, call: CapturedCall) -> None:
        self._call = call

    def __call__(self, *args: Any) -> Any:  # noqa: ANN401
        """Give the class of one argument, or make a class of three."""
        if len(args) != 1:
            return type(*args)
        if is_scalar(args[0]):
            return type(value_of(args[0]))
        variable = self._call.side_effects.variable_of(args[0])
        if variable is None:
            return type(args[0])
        return self._call.objects.class_of(args[0])

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, type)

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


def replaced_builtins(call: CapturedCall) -> dict[str, Any]:
    """The builtins, by name, for copies of functions."""

    def super_of(*args: Any) -> Any:  # noqa: ANN401
        if not args:
            frame = sys._getframe(1)
            args = frame.f_locals["__class__"], frame.f_locals[frame.f_code.co_varnames[0]]
        cls, owner = call.objects.real_of(args[0]), args[1]
        if owner in call.side_effects:
            return SuperView(call, cls, owner)
        return super(cls, owner)

    def imported(name: str, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        module = importlib.__import__(name, *args, **kwargs)
        return call.wrap(module, GlobalName(module.__name__, "__self__"))

    def length(value: Any) -> Any:  # noqa: ANN401
        return value.size(0) if isinstance(value, torch.Tensor) and value.dim() else len(value)

    def pick(function: Any) -> Any:  # noqa: ANN401
        def picked(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
            numbers = all(is_scalar(one) or type(one) in NUMBERS for one in args)
            if len(args) > 1 and not kwargs and numbers and any(map(is_scalar, args)):
                return functools.reduce(lambda one, two: call.builder.compute(function, one, two), args)
            return function(*args, **kwargs)

        return picked

    def refused(name: str) -> Any:  # noqa: ANN401
        return lambda *_, **__: call.refuse(f"{name}: what it does outside the model would be lost")

    return vars(builtins) | {
        **{name: refused(name) for name in INPUT_OUTPUT},
        "super": super_of,
        "type": TypeOf(call),
        "len": length,
        "__import__": imported,
        "min": pick(min),
        "max": pick(max),
        **{kind.__name__: NumberType(call, kind) for kind in NUMBERS},
    }
