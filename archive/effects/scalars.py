"""Numbers that the graph makes: what a written counter is while the model is captured."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from archive.effects.recorder import Recorder

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
REFUSED = {
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
    """

    __slots__ = ("_recorder", "_value")

    def __init__(self, recorder: Recorder, value: float) -> None:
        self._recorder = recorder
        self._value = value

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """The number's own class: ``isinstance`` sees a number."""
        return type(self._value)

    @classmethod
    def __torch_function__(cls, *_: object, **__: object) -> Any:  # noqa: ANN401 (PyTorch's name)
        """PyTorch takes it where it takes a number; the recording mode is asked first."""
        return NotImplemented


def is_scalar(value: object) -> bool:
    """Whether a value is a number that the graph makes, whatever its class says."""
    return type(value) is Scalar


def value_of(value: Any) -> Any:  # noqa: ANN401 (a number)
    """What it is in the captured call; of other values themselves."""
    return value._value if type(value) is Scalar else value


def _check(self: Scalar, name: str, one: object, other: object) -> None:
    """Refuse what TorchScript computes otherwise."""
    kinds = {type(value_of(one)), type(value_of(other))}
    if name == "pow" and float not in kinds:
        self._recorder.refuse("a power of ints that differ from call to call: TorchScript gives a float")
    if name == "mod" and float in kinds:
        self._recorder.refuse(
            "a remainder of floats that differ from call to call: TorchScript rounds it twice"
        )


def _binary(name: str) -> None:
    function = getattr(operator, name)
    plain = name.rstrip("_")

    def forward(self: Scalar, other: object) -> object:
        if not (is_scalar(other) or type(other) in NUMBERS):
            return NotImplemented
        _check(self, name, self, other)
        return self._recorder.compute(function, self, other)

    def backward(self: Scalar, other: object) -> object:
        if type(other) not in NUMBERS:
            return NotImplemented
        _check(self, name, other, self)
        return self._recorder.compute(function, other, self)

    setattr(Scalar, f"__{plain}__", forward)
    if plain not in ("lt", "le", "gt", "ge", "eq", "ne"):
        setattr(Scalar, f"__r{plain}__", backward)


def _unary(name: str) -> None:
    function: Callable[..., object] = abs if name == "abs" else operator.neg

    def method(self: Scalar) -> object:
        return self._recorder.compute(function, self)

    setattr(Scalar, f"__{name}__", method)


def _refused(name: str, use: str) -> None:
    def method(self: Scalar, *args: object) -> NoReturn:
        what = f"{use} {args[0]!r}" if name == "__getattr__" else use
        self._recorder.refuse(f"{what}: the number it depends on differs from call to call")

    setattr(Scalar, name, method)


for _name in BINARY:
    _binary(_name)
for _name in UNARY:
    _unary(_name)
for _name, _use in REFUSED.items():
    _refused(_name, _use)
