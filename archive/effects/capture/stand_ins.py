"""What stands in for modules, other objects and classes while a model is captured."""

from __future__ import annotations

from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.functions import model_code
from archive.effects.capture.world import instance_dict

if TYPE_CHECKING:
    from archive.effects.capture.recorder import Recorder

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
GLOBAL_HOOKS = tuple(f"_global{name}" for name in HOOKS)
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
METACLASSES = ("type", "ABCMeta")
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
)


class Untouchable:
    """Stands in for what cannot be followed; whoever uses it is refused.

    Args:
        recorder: of the call.
        kind: its class.
    """

    def __init__(self, recorder: Recorder, kind: str) -> None:
        object.__setattr__(self, "_parts", (recorder, kind))


def _untouchable(name: str) -> None:
    def method(self: Untouchable, *args: object, **_: object) -> Any:  # noqa: ANN401
        recorder, kind = object.__getattribute__(self, "_parts")
        if name == "__getattr__" and args[0] == "__torch_function__":
            raise AttributeError(args[0])
        recorder.refuse(f"what is done to a {kind} cannot be followed")

    setattr(Untouchable, name, method)


for _name in OPERATIONS:
    _untouchable(_name)


def to_follow(value: Any) -> bool:  # noqa: ANN401
    """Whether an object is one that something can stand in for: it is what its attributes are."""
    cls = type(value)
    if isinstance(value, torch.jit.ScriptModule):
        return False
    if type(cls).__name__ not in METACLASSES:
        return False
    if isinstance(value, torch.nn.Module):
        return True
    return model_code(cls.__module__) and plainly_made(cls)


def plainly_made(cls: Any) -> bool:  # noqa: ANN401
    """Whether a class makes its objects as ``object`` does."""
    return cls.__new__ is object.__new__


class Tracked:
    """Stands in for an object; each class has one that derives from both."""

    def __init_subclass__(cls) -> None:
        """Keep the object's own class from hearing of what stands in for its objects."""


def object_stand_in(recorder: Recorder, cls: type) -> Any:  # noqa: ANN401
    """What stands in for an object of a class: an instance of it without attributes of its own."""
    if cls not in recorder.objects.classes:
        recorder.objects.classes[cls] = _derived(recorder, cls)
    return object.__new__(recorder.objects.classes[cls])


def _derived(recorder: Recorder, cls: type) -> type:
    def get(self: Any, name: str) -> Any:  # noqa: ANN401
        return recorder.objects.load(self, name)

    def put(self: Any, name: str, value: object) -> None:  # noqa: ANN401
        recorder.objects.save(self, name, value)

    def delete(self: Any, name: str) -> None:  # noqa: ANN401
        recorder.objects.remove(self, name)

    names: dict[str, Any] = {
        "__getattribute__": get,
        "__setattr__": put,
        "__delattr__": delete,
        "__del__": lambda _: None,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    names |= _own_methods(recorder, cls)
    call = next((one.__dict__["__call__"] for one in cls.__mro__ if "__call__" in one.__dict__), None)
    if call is torch.nn.Module.__call__:
        names["__call__"] = lambda self, *args, **kwargs: call_module(recorder, self, args, kwargs)
    elif isinstance(call, FunctionType):
        names["__call__"] = _forwarded(recorder, call)
    if names.get("__eq__") is not None and "__hash__" not in names:
        names["__hash__"] = None
    return type(cls)(cls.__name__, (Tracked, cls), names)


def _own_methods(recorder: Recorder, cls: type) -> dict[str, Any]:
    """Methods that Python looks for in the class, as copies; a library's stay what they are."""
    names: dict[str, Any] = {}
    for base in reversed(cls.__mro__[:-1]):
        for name, value in base.__dict__.items():
            if name[:2] == name[-2:] == "__" and name not in OWN_METHODS and isinstance(value, FunctionType):
                names.pop(name, None)
                if model_code(base.__module__):
                    names[name] = _forwarded(recorder, value)
    return names


def _forwarded(recorder: Recorder, function: FunctionType) -> Any:  # noqa: ANN401
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        return recorder.functions.copy(function)(self, *args, **kwargs)

    return method


def call_module(recorder: Recorder, stand_in: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
    """Call a module, as PyTorch does where it has no hooks."""
    real = recorder.items[recorder.variable_of(stand_in)]
    own = instance_dict(real)
    hooked = any(own.get(name) for name in HOOKS)
    if hooked or any(getattr(torch.nn.modules.module, name, None) for name in GLOBAL_HOOKS):
        recorder.refuse(f"a {type(real).__name__} with hooks of its own")
    return stand_in.forward(*args, **kwargs)


class ClassStandIn:
    """Stands in for a class of the model: makes objects that are followed.

    Args:
        recorder: of the call.
        cls: the class.
    """

    __slots__ = ("_cls", "_recorder")

    def __init__(self, recorder: Recorder, cls: type) -> None:
        object.__setattr__(self, "_recorder", recorder)
        object.__setattr__(self, "_cls", cls)

    @staticmethod
    def stands_for(kind: type) -> bool:
        """Whether a class needs it; exceptions, enumerations, named tuples and the like do not."""
        if type(kind).__name__ not in METACLASSES:
            return issubclass(kind, torch.autograd.Function)
        return not issubclass(kind, BaseException | tuple | torch.Tensor | str | int | float)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Make an object."""
        return self._recorder.objects.make(self._cls, args, kwargs)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return self._recorder.objects.load_class(self, self._cls, name)

    def __setattr__(self, name: str, value: object) -> None:
        self._recorder.refuse(f"an attribute of a class that is set: {self._cls.__qualname__}.{name}")

    def __delattr__(self, name: str) -> None:
        self._recorder.refuse(f"an attribute of a class that is deleted: {self._cls.__qualname__}.{name}")

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, self._cls)

    def __subclasscheck__(self, cls: Any) -> bool:  # noqa: ANN401
        return issubclass(self._recorder.objects.real_of(cls), self._cls)

    def __eq__(self, other: object) -> bool:
        return self is other or other is self._cls

    def __hash__(self) -> int:
        return hash(self._cls)

    def __or__(self, other: Any) -> Any:  # noqa: ANN401
        return self._cls | self._recorder.objects.real_of(other)

    def __ror__(self, other: Any) -> Any:  # noqa: ANN401
        return self._recorder.objects.real_of(other) | self._cls

    def __getitem__(self, key: Any) -> Any:  # noqa: ANN401
        return self._cls.__class_getitem__(key)

    def __mro_entries__(self, _: object) -> tuple[type]:
        return (self._cls,)
