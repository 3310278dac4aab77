"""Proxies of modules, other objects and classes while a model is captured."""

from __future__ import annotations

from collections import Counter
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from archive.effects.capture.function_code import is_model_module
from archive.effects.capture.module_hooks import call_module
from archive.effects.capture.proxy_bases import ContainerProxy, ObjectProxy, inner_of, static
from archive.effects.capture.variables import DELETED
from archive.effects.python_containers import BASES, base_of

if TYPE_CHECKING:
    from archive.effects.capture.call import CapturedCall

OWN_METHODS = frozenset(
    (
        "__init__",
        "__new__",
        "__getattribute__",
        "__getattr__",
        "__setattr__",
        "__delattr__",
        "__class__",
        "__init_subclass__",
        "__del__",
        "__subclasshook__",
        "__class_getitem__",
        "__set_name__",
        "__dict__",
        "__weakref__",
        "__slots__",
        "__call__",
        "__annotate__",
    )
)
"""Methods that a proxy class has itself, or that Python calls when it makes a class or an object."""
METACLASSES = ("type", "ABCMeta")
"""Metaclasses whose classes can have proxies."""
CONTAINER_METHODS = (
    *(f"__{name}__" for name in ("getitem", "setitem", "delitem", "contains", "len", "iter", "reversed")),
    *(f"__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge", "or", "ror", "ior", "add", "iadd")),
    *(f"__{name}__" for name in ("mul", "rmul", "imul", "repr", "copy", "reduce_ex", "reduce")),
)
"""Special methods of containers."""
COMPARING = tuple(
    f"__{name}__" for name in ("eq", "ne", "lt", "le", "gt", "ge", "repr", "str", "format", "reduce_ex")
)
"""Methods that look past a proxy of a ``SimpleNamespace``, at what it has itself: nothing."""


def is_followed(value: Any) -> bool:  # noqa: ANN401
    """Whether a proxy can follow an object: its state is its attributes, nothing else."""
    cls = type(value)
    if isinstance(value, torch.jit.ScriptModule):
        return False
    if type(cls).__name__ not in METACLASSES:
        return False
    if isinstance(value, torch.nn.Module):
        return True
    if base_of(cls) in BASES and cls in (*BASES, Counter):
        return True
    return cls is SimpleNamespace or (is_model_module(cls.__module__) and has_plain_new(cls))


def has_plain_new(cls: Any) -> bool:  # noqa: ANN401
    """Whether a class makes its objects as ``object`` or a container does, with no ``__new__`` of its own."""
    base = base_of(cls)
    return cls.__new__ is (base if base in BASES else object).__new__


def proxy_class(call: CapturedCall, cls: type) -> type:
    """The class of proxies for objects of a class: instances without attributes of their own."""

    def get(self: Any, name: str) -> Any:  # noqa: ANN401
        return call.objects.load(self, name)

    def put(self: Any, name: str, value: object) -> None:  # noqa: ANN401
        call.objects.save(self, name, value)

    def delete(self: Any, name: str) -> None:  # noqa: ANN401
        call.objects.remove(self, name)

    names: dict[str, Any] = {
        "__getattribute__": get,
        "__setattr__": put,
        "__delattr__": delete,
        "__del__": lambda _: None,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    if call.deciding and getattr(cls, "__getattr__", None) is torch.nn.Module.__getattr__:
        # PyTorch's own looks through all attributes, which would all be guarded.
        names["__getattr__"] = lambda _, name: _missing(cls, name)
    names |= _own_methods(call, cls)
    if cls is SimpleNamespace:
        names |= {name: _refusing(call, name) for name in COMPARING}
    caller = next((one.__dict__["__call__"] for one in cls.__mro__ if "__call__" in one.__dict__), None)
    if caller is torch.nn.Module.__call__:
        names["__call__"] = lambda self, *args, **kwargs: call_module(call, self, *args, **kwargs)
    elif isinstance(caller, FunctionType):
        names["__call__"] = _forwarded(call, caller)
    if base_of(cls) in BASES:
        return type(cls)(cls.__name__, (ContainerProxy, cls), names | _container_methods(call, cls, names))
    if names.get("__eq__") is not None and "__hash__" not in names:
        names["__hash__"] = None
    return type(cls)(cls.__name__, (ObjectProxy, cls), names)


def _container_methods(call: CapturedCall, cls: type, own: dict[str, Any]) -> dict[str, Any]:
    """Special methods of Python's container that a class does not have of its own."""

    def method(name: str) -> Any:  # noqa: ANN401
        return lambda self, *args, **kwargs: call.containers.apply(self, name, args, kwargs)

    base = base_of(cls)
    names = [name for name in CONTAINER_METHODS if hasattr(base, name) and name not in own]
    names = [name for name in names if not isinstance(static(cls.__mro__, name), FunctionType)]
    found = {name: method(name) for name in names} | {
        "__slots__": ("_inner",),
        "__hash__": None,
        "_call": call,
    }
    if "__len__" in names and "__bool__" not in own:
        found["__bool__"] = lambda self: bool(inner_of(self))
    if base is list:
        found.setdefault("__radd__", lambda self, other: other + list(inner_of(self)))
    return found


def _refusing(call: CapturedCall, name: str) -> Any:  # noqa: ANN401
    return lambda *_: call.refuse(f"{name} of a SimpleNamespace, which cannot be followed")


def _missing(cls: type, name: str) -> NoReturn:
    raise AttributeError(f"'{cls.__name__}' object has no attribute '{name}'")


def _own_methods(call: CapturedCall, cls: type) -> dict[str, Any]:
    """Copies of the methods that Python looks up in the class; a library's stay as they are."""
    names: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        for name, value in base.__dict__.items():
            if name[:2] == name[-2:] == "__" and name not in OWN_METHODS and isinstance(value, FunctionType):
                names.pop(name, None)
                if is_model_module(base.__module__):
                    names[name] = _forwarded(call, value)
    return names


def _forwarded(call: CapturedCall, function: FunctionType) -> Any:  # noqa: ANN401
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return call.functions.copy(function)(self, *args, **kwargs)

    return method


class ClassProxy:
    """The proxy of a class of the model: it makes objects that are followed.

    Args:
        call: the captured call.
        cls: the class.
    """

    __slots__ = ("_call", "_cls")

    def __init__(self, call: CapturedCall, cls: type) -> None:
        object.__setattr__(self, "_call", call)
        object.__setattr__(self, "_cls", cls)

    @staticmethod
    def is_needed_for(kind: type) -> bool:
        """Whether a class needs a proxy; exceptions, enumerations, named tuples and the like do not."""
        if type(kind).__name__ not in METACLASSES:
            return issubclass(kind, torch.autograd.Function)
        return not issubclass(kind, BaseException | tuple | torch.Tensor | str | int | float)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Make an object."""
        return self._call.objects.make(self._cls, args, kwargs)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return self._call.objects.load_class(self, self._cls, name)

    def __setattr__(self, name: str, value: object) -> None:
        self._call.objects.save_class(self._cls, name, value)

    def __delattr__(self, name: str) -> None:
        self._call.objects.save_class(self._cls, name, DELETED)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, self._cls)

    def __subclasscheck__(self, cls: Any) -> bool:  # noqa: ANN401
        return issubclass(self._call.objects.real_of(cls), self._cls)

    def __eq__(self, other: object) -> bool:
        return self is other or other is self._cls

    def __hash__(self) -> int:
        return hash(self._cls)

    def __repr__(self) -> str:
        return repr(self._cls)

    def __or__(self, other: Any) -> Any:  # noqa: ANN401
        return self._cls | self._call.objects.real_of(other)

    def __ror__(self, other: Any) -> Any:  # noqa: ANN401
        return self._call.objects.real_of(other) | self._cls

    def __getitem__(self, key: Any) -> Any:  # noqa: ANN401
        return self._cls.__class_getitem__(key)

    def __mro_entries__(self, _: object) -> tuple[type]:
        return (self._cls,)
