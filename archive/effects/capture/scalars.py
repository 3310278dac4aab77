"""Numbers that the graph makes: what a written counter, a size or an argument is while the model is captured.

A free number is one that arguments and sizes alone make. Where Python needs to know it, as in a branch, the
captured call relies on it: a guard says so. Any other number, as a counter, will differ from call to call.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from archive.effects.capture.recorder import Recorder
    from archive.formats.effects.model import Source

NUMBERS = (bool, int, float)
BINARY = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
)
UNARY = ("neg", "abs")
NEEDED = {
    "__bool__": "control flow",
    "__index__": "an index or a size",
    "__int__": "a conversion",
    "__float__": "a conversion",
    "__complex__": "a conversion",
    "__hash__": "a key or hash",
    "__str__": "a text",
    "__repr__": "a text",
    "__format__": "a text",
    "__round__": "a conversion",
    "__trunc__": "a conversion",
    "__floor__": "a conversion",
    "__ceil__": "a conversion",
    "__divmod__": "divmod",
    "__getattr__": "an attribute",
}


class Scalar:
    """A number that differs from call to call: of the graph, with what it is in the captured call.

    Args:
        recorder: of the call.
        value: what it is in this call.
        free: whether arguments and sizes alone make it.
        origin: the source of an argument, or of a tensor and the dimension whose size it is.
    """

    __slots__ = ("_free", "_origin", "_recorder", "_value")

    def __init__(
        self,
        recorder: Recorder,
        value: float,
        *,
        free: bool = False,
        origin: tuple[Source, int | None] | None = None,
    ) -> None:
        self._recorder = recorder
        self._value = value
        self._free = free
        self._origin = origin

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The number's own class: ``isinstance`` sees a number."""
        return type(self._value)


class Number(Scalar):
    """A float or bool; PyTorch takes it where it takes a number, and asks the recording mode first."""

    __slots__ = ()

    @classmethod
    def __torch_function__(cls, *_: object, **__: object) -> Any:  # noqa: ANN401 (PyTorch's name)
        """Leave it to the mode."""
        return NotImplemented


class Integer(Scalar, torch.SymInt):  # type: ignore[misc]
    """An int; PyTorch takes it for a size of its own kind, and does not ask what it is."""


KINDS = (Number, Integer)


def scalar(
    recorder: Recorder, value: float, *, free: bool = False, origin: tuple[Source, int | None] | None = None
) -> Scalar:
    """A number of the graph."""
    kind = Integer if type(value) is int else Number
    return kind(recorder, value, free=free, origin=origin)


def is_scalar(value: object) -> bool:
    """Whether a value is a number that the graph makes, whatever its class says."""
    return type(value) in KINDS


def value_of(value: Any) -> Any:  # noqa: ANN401 (a number)
    """What it is in the captured call; of other values themselves."""
    return value._value if type(value) in KINDS else value


def is_free(*values: object) -> bool:
    """Whether no number is among some values that differs from call to call by itself."""
    return all(one._free for one in values if type(one) in KINDS)  # type: ignore[attr-defined]


def _unlike(name: str, one: object, other: object) -> str | None:
    """What TorchScript computes otherwise; None if all is well."""
    kinds = {type(value_of(one)), type(value_of(other))}
    if name == "pow" and float not in kinds:
        return "a power of ints that differ from call to call: TorchScript gives a float"
    if name == "mod" and float in kinds:
        return "a remainder of floats that differ from call to call: TorchScript rounds it twice"
    return None


def _computed(recorder: Recorder, name: str, function: Callable[..., object], *numbers: object) -> object:
    """What an operator gives."""
    said = _unlike(name, *numbers)
    if said is None:
        return recorder.compute(function, *numbers)
    if not is_free(*numbers):
        recorder.refuse(said)
    return function(*map(recorder.fixed, numbers))


def _binary(name: str) -> None:
    function = getattr(operator, name)
    plain = name.rstrip("_")

    def forward(self: Scalar, other: object) -> object:
        if not (is_scalar(other) or type(other) in NUMBERS):
            return NotImplemented
        return _computed(self._recorder, name, function, self, other)

    def backward(self: Scalar, other: object) -> object:
        if type(other) not in NUMBERS:
            return NotImplemented
        return _computed(self._recorder, name, function, other, self)

    setattr(Scalar, f"__{plain}__", forward)
    if plain not in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Scalar, f"__r{plain}__", backward)


def _unary(name: str) -> None:
    function: Callable[..., object] = abs if name == "abs" else operator.neg

    def method(self: Scalar) -> object:
        return self._recorder.compute(function, self)

    setattr(Scalar, f"__{name}__", method)


def _needed(name: str, use: str) -> None:
    """Where Python needs to know the number: a free one is relied on from now on."""

    def method(self: Scalar, *args: Any) -> object:  # noqa: ANN401
        if name == "__getattr__" and args[0] == "__torch_function__":
            raise AttributeError(args[0])
        if name == "__getattr__" and args[0] == "node":
            return self._recorder.refuse("a size in a function of PyTorch that has ways of its own with it")
        if self._free and name == "__bool__" and type(self._value) is not bool:
            return bool(self._recorder.fixed(self._recorder.compute(operator.ne, self, 0)))
        if self._free:
            value = self._recorder.fixed(self)
            return getattr(value, args[0]) if name == "__getattr__" else getattr(value, name)(*args)
        what = f"{use} {args[0]!r}" if name == "__getattr__" else use
        return self._recorder.refuse(f"{what}: the number it depends on differs from call to call")

    setattr(Scalar, name, method)


for _name in BINARY:
    _binary(_name)
for _name in UNARY:
    _unary(_name)
for _name, _use in NEEDED.items():
    _needed(_name, _use)
