"""Proxies of objects that cannot be followed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from archive.effects.capture.table.call import CapturedCall


OPERATIONS = (
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
    """The proxy of an object that cannot be followed: any use of it is refused.

    Args:
        call: the captured call.
        kind: name of the object's class.
    """

    def __init__(self, call: CapturedCall, kind: str) -> None:
        object.__setattr__(self, "_parts", (call, kind))


def _untouchable(name: str) -> None:
    def method(self: Untouchable, *args: object, **_: object) -> Any:  # noqa: ANN401
        call, kind = object.__getattribute__(self, "_parts")
        if name == "__getattr__" and args[0] == "__torch_function__":
            raise AttributeError(args[0])
        call.refuse(f"what is done to a {kind} cannot be followed")

    setattr(Untouchable, name, method)


for _name in OPERATIONS:
    _untouchable(_name)
