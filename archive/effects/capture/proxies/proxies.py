"""Proxies of modules, other objects and classes while a model is captured.

Views show an object's ``__dict__``, and what ``torch.nn.Module`` registers. A view reads and sets attributes
like the model's own code, bypassing properties. The table sets attributes with ``setattr``, so a view refuses
to set one that ``setattr`` would set differently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import MutableMapping
from types import FunctionType, MemberDescriptorType, SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import torch

from archive.effects.capture.graph.sites import is_model_module
from archive.effects.capture.graph.variables import (
    DELETED,
    ContainerProxy,
    ObjectProxy,
    inner_of,
    real_class,
)
from archive.effects.capture.proxies.hooks import (
    call_module,
    refuse_hook,
    register_forward_hook,
    register_forward_pre_hook,
)
from archive.effects.placeholders import ABSENT
from archive.effects.places import CONTAINERS, REGISTERED, base_of, static
from archive.formats.effects.model import Look, Op

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.effects.capture.table.call import CapturedCall


# --- attribute views

STANDARD_SETTERS = (object.__setattr__, torch.nn.Module.__setattr__, SimpleNamespace.__setattr__)


class AttributeView(MutableMapping[str, Any]):
    """The proxy of an object's ``__dict__``, or of what a module registers.

    Args:
        kind: ``__dict__``, or the dict of a module, such as ``_buffers``, which is only read.
    """

    def __init__(self, call: CapturedCall, proxy: Any, names: list[str], kind: str) -> None:
        self._call, self._proxy, self._before, self._kind = call, proxy, names, kind
        self._variable = call.side_effects[proxy]

    def _names(self) -> list[str]:
        """The names that are there now."""
        effects = self._call.side_effects
        pending = effects.store_attr_mutations.get(self._variable, {})
        new = [
            name
            for name, value in pending.items()
            if self._kind == _kind_of(value, registered=(self._variable, name) in effects.registrations)
        ]
        return [name for name in dict.fromkeys([*self._before, *new]) if pending.get(name) is not DELETED]

    def __contains__(self, name: object) -> bool:
        text, source = str(name), self._variable.source
        if name in self._names():
            self._call.objects.load_own(self._proxy, text)  # guards what is there
            return True
        pending = self._call.side_effects.pending(self._variable, text)
        if source is not None and pending is ABSENT and text[:2] != "__":
            self._call.guards.note(Look.ATTRIBUTE, source, value=False, key=text)
        return False

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return self._call.objects.load_own(self._proxy, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())

    def _check(self, name: str, value: object = None) -> None:
        cls = real_class(self._proxy)
        real = self._call.real.get(self._variable)
        if self._kind != "__dict__":
            self._call.refuse(f"what a module registers is changed past its methods: {self._kind}")
        raw = static(cls.__mro__, name)
        described = hasattr(type(raw), "__set__") and not isinstance(raw, MemberDescriptorType)
        registered = isinstance(real, torch.nn.Module) and (
            isinstance(value, torch.nn.Module | torch.nn.Parameter)
            or any(name in self._call.snapshot.registered(real, kind) for kind in REGISTERED)
        )
        if described or registered or cls.__setattr__ not in STANDARD_SETTERS:
            self._call.refuse(f"__dict__[{name!r}] is set, which is not what setattr would set")

    def __setitem__(self, name: str, value: object) -> None:
        self._check(name, value)
        self._call.store(self._variable, name, value)

    def copy(self) -> dict[str, Any]:
        """A separate dict, as ``dict.copy`` returns it."""
        return dict(self)

    def __or__(self, other: Any) -> dict[str, Any]:
        return dict(self) | dict(other)

    def __ror__(self, other: Any) -> dict[str, Any]:
        return dict(other) | dict(self)

    def __delitem__(self, name: str) -> None:
        self._check(name)
        if name not in self:
            raise KeyError(name)
        self._call.store(self._variable, name, DELETED)


def _kind_of(value: object, *, registered: bool) -> str:
    """The dict that an attribute of this value is in."""
    if isinstance(value, torch.nn.Module):
        return "_modules"
    return "_buffers" if registered else "__dict__"


def register_buffer(
    call: CapturedCall,
    proxy: Any,
    name: str,
    tensor: Any,
    persistent: bool = True,  # noqa: FBT001, FBT002 (PyTorch's signature)
) -> None:
    """Register a buffer as ``torch.nn.Module.register_buffer`` does."""
    _check_name(call, proxy, name, "_buffers")
    if tensor is not None and not isinstance(tensor, torch.Tensor):
        raise TypeError(f"cannot assign '{type(tensor).__name__}' object to buffer {name!r}")
    if isinstance(tensor, torch.nn.Parameter):
        call.refuse("a parameter that is registered as a buffer")
    variable = call.side_effects[proxy]
    call.store(variable, name, tensor)
    op = Op.REGISTER_BUFFER if persistent else Op.REGISTER_TRANSIENT
    call.side_effects.registrations[variable, name] = op


def register_module(call: CapturedCall, proxy: Any, name: str, module: Any) -> None:
    """Register a module as ``torch.nn.Module.add_module`` does."""
    _check_name(call, proxy, name, "_modules")
    if module is not None and not isinstance(module, torch.nn.Module):
        raise TypeError(f"{type(module).__name__} is not a Module subclass")
    call.store(call.side_effects[proxy], name, module)


def _check_name(call: CapturedCall, proxy: Any, name: Any, kind: str) -> None:
    if not isinstance(name, str) or not name or "." in name:
        raise KeyError(f"no name for {kind}: {name!r}")
    variable = call.side_effects[proxy]
    real = call.real[variable]
    if name in set(AttributeView(call, proxy, call.snapshot.registered(real, kind), kind)):
        return
    pending = call.side_effects.pending(variable, name)
    own = call.snapshot.attribute(real, name) if pending is ABSENT else pending
    if not (own is ABSENT or own is DELETED) or hasattr(type(real), name):
        raise KeyError(f"attribute '{name}' already exists")


MODULE_METHODS: dict[Any, Any] = {
    torch.nn.Module.__call__: call_module,
    torch.nn.Module.register_forward_hook: register_forward_hook,
    torch.nn.Module.register_forward_pre_hook: register_forward_pre_hook,
    torch.nn.Module.register_full_backward_hook: refuse_hook,
    torch.nn.Module.register_full_backward_pre_hook: refuse_hook,
    torch.nn.Module.register_backward_hook: refuse_hook,
    torch.nn.Module.register_buffer: register_buffer,
    torch.nn.Module.add_module: register_module,
    torch.nn.Module.register_module: register_module,
}
"""Methods of modules as this package implements them."""


# --- proxies

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
"""Methods of ``SimpleNamespace`` that would bypass the proxy and see its own attributes: none."""


def is_followed(value: Any) -> bool:
    """Whether a proxy can follow an object: its state is its attributes, nothing else."""
    cls = type(value)
    if isinstance(value, torch.jit.ScriptModule):
        return False
    if type(cls).__name__ not in METACLASSES:
        return False
    if isinstance(value, torch.nn.Module):
        return True
    if base_of(cls) in CONTAINERS and cls in (*CONTAINERS, Counter):
        return True
    return cls is SimpleNamespace or (is_model_module(cls.__module__) and has_plain_new(cls))


def has_plain_new(cls: Any) -> bool:
    """Whether a class makes its objects as ``object`` or a container does, with no ``__new__`` of its own."""
    base = base_of(cls)
    return cls.__new__ is (base if base in CONTAINERS else object).__new__


def proxy_class(call: CapturedCall, cls: type) -> type:
    """The class of proxies for objects of a class: instances without attributes of their own."""

    def get(self: Any, name: str) -> Any:
        return call.objects.load(self, name)

    def put(self: Any, name: str, value: object) -> None:
        call.objects.save(self, name, value)

    def delete(self: Any, name: str) -> None:
        call.objects.remove(self, name)

    names: dict[str, Any] = {
        "__getattribute__": get,
        "__setattr__": put,
        "__delattr__": delete,
        "__del__": lambda _: None,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    if getattr(cls, "__getattr__", None) is torch.nn.Module.__getattr__:
        # PyTorch's own goes through all attributes, which would all be guarded.
        names["__getattr__"] = lambda _, name: _missing(cls, name)
    if base_of(cls) not in CONTAINERS:
        names["__copy__"] = call.objects.copied
    names |= _own_methods(call, cls)
    if cls is SimpleNamespace:
        for compare in COMPARING:
            problem = f"{compare} of a SimpleNamespace, which cannot be followed"
            names[compare] = lambda *_, problem=problem: call.refuse(problem)
    caller = static(cls.__mro__, "__call__")
    if caller is torch.nn.Module.__call__:
        names["__call__"] = lambda self, *args, **kwargs: call_module(call, self, *args, **kwargs)
    elif isinstance(caller, FunctionType):
        names["__call__"] = _forwarded(call, caller)
    if base_of(cls) in CONTAINERS:
        return type(cls)(cls.__name__, (ContainerProxy, cls), names | _container_methods(call, cls, names))
    if names.get("__eq__") is not None and "__hash__" not in names:
        names["__hash__"] = None
    return type(cls)(cls.__name__, (ObjectProxy, cls), names)


def _container_methods(call: CapturedCall, cls: type, own: dict[str, Any]) -> dict[str, Any]:
    """Special methods of Python's container that a class does not override."""

    def method(name: str) -> Any:
        return lambda self, *args, **kwargs: call.containers.apply(self, name, args, kwargs)

    base = base_of(cls)
    names = [name for name in CONTAINER_METHODS if hasattr(base, name) and name not in own]
    names = [name for name in names if not isinstance(static(cls.__mro__, name), FunctionType)]
    namespace = {name: method(name) for name in names} | {
        "__slots__": ("_inner",),
        "__hash__": None,
        "_call": call,
    }
    if "__len__" in names and "__bool__" not in own:
        namespace["__bool__"] = lambda self: bool(inner_of(self))
    if base is list:
        namespace.setdefault("__radd__", lambda self, other: other + list(inner_of(self)))
    return namespace


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


def _forwarded(call: CapturedCall, function: FunctionType) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        return call.functions.copy(function)(self, *args, **kwargs)

    return method


class ClassProxy:
    """The proxy of a class of the model: it makes objects that are followed."""

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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make an object."""
        return self._call.objects.make(self._cls, args, kwargs)

    def __getattr__(self, name: str) -> Any:
        return self._call.objects.load_class(self, self._cls, name)

    def __setattr__(self, name: str, value: object) -> None:
        self._call.objects.save_class(self._cls, name, value)

    def __delattr__(self, name: str) -> None:
        self._call.objects.save_class(self._cls, name, DELETED)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, self._cls)

    def __subclasscheck__(self, cls: Any) -> bool:
        return issubclass(self._call.objects.real_of(cls), self._cls)

    def __eq__(self, other: object) -> bool:
        return self is other or other is self._cls

    def __hash__(self) -> int:
        return hash(self._cls)

    def __repr__(self) -> str:
        return repr(self._cls)

    def __or__(self, other: Any) -> Any:
        return self._cls | self._call.objects.real_of(other)

    def __ror__(self, other: Any) -> Any:
        return self._call.objects.real_of(other) | self._cls

    def __getitem__(self, key: Any) -> Any:
        return self._cls.__class_getitem__(key)

    def __mro_entries__(self, _: object) -> tuple[type]:
        return (self._cls,)
