"""Attributes of proxies: read from the snapshot or, once the call has stored them, from the table.

Attributes of the model's classes are read, set and deleted like those of objects. An attribute of a class is
also found through its objects, and through derived classes. Once calls set it, all of them read it at the
place where the class is named.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from functools import partial
from types import (
    FunctionType,
    MemberDescriptorType,
    MethodType,
    SimpleNamespace,
)
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.following.autograd import apply_function
from archive.effects.capture.graph.sites import asks_super_alone, importable, is_model_module
from archive.effects.capture.graph.variables import (
    DELETED,
    SLOTS,
    VariableKind,
    is_container_proxy,
    real_class,
)
from archive.effects.capture.proxies.containers import unbound
from archive.effects.capture.proxies.hooks import call_module
from archive.effects.capture.proxies.proxies import (
    MODULE_METHODS,
    STANDARD_SETTERS,
    AttributeView,
    ClassProxy,
    has_plain_new,
    proxy_class,
)
from archive.effects.placeholders import ABSENT
from archive.effects.places import CONTAINERS, REGISTERED, base_of, static
from archive.formats.effects.model import Attribute, GlobalName, Look

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from archive.effects.capture.graph.variables import Variable
    from archive.effects.capture.table.call import CapturedCall
    from archive.formats.effects.model import Source


# --- classes

CLASS_CODE = (FunctionType, staticmethod, classmethod, property, type)
"""Types of attributes that change what a class is."""


class Classes:
    """Attributes of classes."""

    def __init__(self, call: CapturedCall) -> None:
        self._call = call
        self._variables: dict[type, Variable] = {}

    def find(self, order: Iterable[type], name: str) -> tuple[Any, bool]:
        """The first attribute with a name among some classes, unbound, as it is now.

        Returns:
            The attribute, ``ABSENT`` if there is none; and whether the call has set it, so that it already is
            the model's.
        """
        for cls in order:
            variable = self._variables.get(cls)
            pending = ABSENT if variable is None else self._call.side_effects.pending(variable, name)
            if pending is not ABSENT and pending is not DELETED:
                return pending, True
            value = self._call.snapshot.class_attribute(cls, name) if pending is ABSENT else ABSENT
            if value is not ABSENT:
                return value, False
        return ABSENT, False

    def wrapped(self, raw: Any, order: Iterable[type], name: str, source: Source | None) -> Any:
        """The value of an attribute that is data.

        Args:
            source: where it is read; where the class is named, if calls set it there.
        """
        call = self._call
        for cls in order:
            named = class_source(cls)
            if named is not None and Attribute(named, name) in call.written:
                source = named
        return call.wrap(raw, None if source is None else Attribute(source, name))

    def load(self, proxy: Any, cls: type, name: str) -> Any:
        """An attribute of a class, through its proxy."""
        call = self._call
        if issubclass(cls, torch.autograd.Function) and name == "apply":
            return lambda *args: apply_function(call, cls, args)
        if name == "__dict__":
            return ClassDict(call, self, proxy, cls)
        raw, is_set = self.find(cls.__mro__, name)
        if is_set:
            return raw
        if isinstance(raw, FunctionType):
            return call.functions.copy(raw)
        if isinstance(raw, staticmethod):
            return call.wrap(raw.__func__, None)
        if isinstance(raw, classmethod):
            return MethodType(call.functions.copy(raw.__func__), proxy)
        if isinstance(raw, SLOTS) and base_of(cls) in CONTAINERS:
            return unbound(base_of(cls), name)
        if raw is ABSENT:
            self.note_missing(cls, name)
            if static(cls.__mro__, name) is not ABSENT or not hasattr(cls, name):
                raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}")
        if raw is ABSENT or hasattr(type(raw), "__get__"):
            return getattr(cls, name)
        return self.wrapped(raw, cls.__mro__, name, class_source(cls))

    def note_missing(self, cls: type, name: str, *, changing: bool = False) -> None:
        """Guard that a class has no attribute with a name.

        Args:
            changing: guard only what calls are known to set.
        """
        for base in cls.__mro__ if name[:2] != "__" else ():
            source = class_source(base)
            if source is not None and not (changing and Attribute(source, name) not in self._call.written):
                self._call.guards.note(Look.ATTRIBUTE, source, value=False, key=name)

    def save(self, cls: type, name: str, value: Any) -> None:
        """Set an attribute of a class; the value ``DELETED`` deletes it."""
        call = self._call
        said = f"{cls.__qualname__}.{name}"
        if (
            name[:2] == "__"
            or isinstance(value, CLASS_CODE)
            or call.side_effects.variable_of(value) in self._code()
        ):
            call.refuse(f"what a class does is set: {said}")
        before, _ = self.find([cls], name)
        if before is ABSENT and value is DELETED:
            raise AttributeError(name)
        if hasattr(type(before), "__get__"):
            call.refuse(f"what a class does is set: {said}")
        source = class_source(cls)
        if source is None or "<locals>" in cls.__qualname__:
            call.refuse(f"an attribute of a class without a name is set: {said}")
        if cls not in self._variables:
            self._variables[cls] = call.side_effects.track(VariableKind.OBJECT, source, object())
            call.real[self._variables[cls]] = cls
        call.store(self._variables[cls], name, value)

    def _code(self) -> list[Variable]:
        """Variables of functions and classes."""
        return [proxy for proxy, real in self._call.real.items() if isinstance(real, CLASS_CODE)]


class ClassDict(Mapping[str, Any]):
    """The proxy of a class's ``__dict__``: its own attributes, as they are now."""

    def __init__(self, call: CapturedCall, classes: Classes, proxy: Any, cls: type) -> None:
        self._call, self._classes, self._proxy, self._cls = call, classes, proxy, cls

    def __getitem__(self, name: str) -> Any:
        raw, is_set = self._classes.find([self._cls], name)
        if raw is ABSENT:
            self._classes.note_missing(self._cls, name)
            raise KeyError(name)
        if is_set:
            return raw
        if isinstance(raw, FunctionType):
            return self._call.functions.copy(raw)
        if hasattr(type(raw), "__get__"):
            return raw
        return self._classes.wrapped(raw, [self._cls], name, class_source(self._cls))

    def __iter__(self) -> Iterator[str]:
        return self._call.refuse(f"the names in the __dict__ of a class, {self._cls.__qualname__}")

    def __len__(self) -> int:
        return self._call.refuse(f"the names in the __dict__ of a class, {self._cls.__qualname__}")


def class_source(cls: type) -> Source | None:
    """The source of a class of the model; None for a library's class."""
    if not is_model_module(cls.__module__):
        return None
    if "<locals>" in cls.__qualname__:
        return GlobalName(cls.__module__, cls.__qualname__)
    first, *rest = cls.__qualname__.split(".")
    source: Source = GlobalName(cls.__module__, first)
    for name in rest:
        source = Attribute(source, name)
    return source


# --- objects

COPYING = (
    "__getstate__",
    "__setstate__",
    "__reduce__",
    "__reduce_ex__",
    "__getnewargs__",
    "__getnewargs_ex__",
)
"""Methods by which a class defines how it is copied."""
STANDARD_DELETERS = (object.__delattr__, torch.nn.Module.__delattr__, SimpleNamespace.__delattr__)


class ObjectProxies:
    """Reads, sets and deletes attributes of proxies, and makes new objects."""

    def __init__(self, call: CapturedCall) -> None:
        self._call = call
        self._classes: dict[type, type] = {}
        self._of_classes = Classes(call)

    def new_proxy(self, cls: type) -> Any:
        """A proxy for an object of a class."""
        if cls not in self._classes:
            self._classes[cls] = proxy_class(self._call, cls)
        base = base_of(cls)
        made: Any = base if base in CONTAINERS else SimpleNamespace if cls is SimpleNamespace else object
        return made.__new__(self._classes[cls])

    def followed_classes(self) -> list[type]:
        """The classes that have proxies."""
        return list(self._classes)

    def class_of(self, proxy: object) -> Any:
        """The class that ``type`` returns for a proxy; itself a proxy if the class is the model's."""
        variable = self._call.side_effects[proxy]
        item = self._call.real.get(variable)
        cls = real_class(proxy) if item is None else type(item)
        return self._call.wrap(cls, class_source(cls))

    def real_of(self, cls: Any) -> Any:
        """The class that a proxy stands for; other classes as they are."""
        if isinstance(cls, ClassProxy):
            return object.__getattribute__(cls, "_cls")
        return cls

    # --- reading -----------------------------------------------------------------------------------

    def load(self, proxy: Any, name: str, *, custom: bool = False) -> Any:
        """An attribute of a proxy, as the class's own ``__getattribute__`` returns it if there is one."""
        cls = real_class(proxy)
        getter, other = (static(cls.__mro__[:-1], method) for method in ("__getattribute__", "__getattr__"))
        if not isinstance(getter, FunctionType):
            return self._load(proxy, name, custom=custom)
        if not asks_super_alone(getter.__code__, "__getattribute__"):
            self._call.refuse(f"{cls.__qualname__} has a __getattribute__ of its own")
        try:
            return self._called(getter, proxy, name)
        except AttributeError:
            if not isinstance(other, FunctionType) or other is torch.nn.Module.__getattr__:
                raise
            return self._called(other, proxy, name)

    def _load(self, proxy: Any, name: str, *, custom: bool = False) -> Any:
        """An attribute of a proxy, as ``object.__getattribute__`` returns it.

        With ``custom`` the class's own ``__getattr__`` asks for it, and is not asked again.
        """
        call = self._call
        variable = call.side_effects[proxy]
        pending = call.side_effects.pending(variable, name)
        if pending is not ABSENT and pending is not DELETED:
            return pending
        cls: Any = real_class(proxy)
        if name == "__class__":
            return call.wrap(cls, class_source(cls))
        if name == "__deepcopy__" and not is_container_proxy(proxy) and not hasattr(cls, name):
            return partial(self.deeply_copied, proxy)
        raw, is_set = self._of_classes.find(cls.__mro__, name)
        if isinstance(raw, property):
            return self._called(raw.fget, proxy)
        value = self._own(proxy, variable, name) if pending is ABSENT else ABSENT
        if value is not ABSENT or is_set:
            return raw if value is ABSENT else value
        if raw is not ABSENT and not isinstance(raw, MemberDescriptorType):
            return self._bound(raw, cls, proxy, variable, name)
        return self._missing(cls, proxy, name, custom=custom, guarded=pending is ABSENT)

    def load_own(self, proxy: Any, name: str) -> Any:
        """An object's own attribute, whatever its class has under this name; ``ABSENT`` if it has none."""
        variable = self._call.side_effects[proxy]
        pending = self._call.side_effects.pending(variable, name)
        return self._own(proxy, variable, name) if pending is ABSENT else pending

    def _own(self, proxy: Any, variable: Variable, name: str) -> Any:
        """An object's own attribute, not its class's; ``ABSENT`` if it has none or is new."""
        call = self._call
        item = call.real.get(variable)
        if item is None:
            return ABSENT
        names = call.snapshot.names(item) if name == "__dict__" else None
        if name in REGISTERED and isinstance(item, torch.nn.Module):
            names = call.snapshot.registered(item, name)
        if names is not None:
            return AttributeView(call, proxy, names, name)
        value = call.snapshot.attribute(item, name)
        if value is ABSENT:
            return ABSENT
        return call.wrap(value, None if variable.source is None else Attribute(variable.source, name))

    def _missing(self, cls: type, proxy: Any, name: str, *, custom: bool, guarded: bool) -> Any:
        getter = ABSENT if custom else static(cls.__mro__, "__getattr__")
        inner = self._call.containers.bound(getter, proxy, "__getattr__")
        if inner is not ABSENT:
            return inner(name)
        if isinstance(getter, FunctionType) and getter is not torch.nn.Module.__getattr__:
            return self._called(getter, proxy, name)
        source = self._call.side_effects[proxy].source
        if source is not None and guarded and name[:2] != "__":
            self._call.guards.note(Look.ATTRIBUTE, source, value=False, key=name)
        self._of_classes.note_missing(cls, name, changing=True)
        raise AttributeError(f"'{cls.__name__}' object has no attribute '{name}'")

    def _called(self, function: Any, *args: Any) -> Any:
        if isinstance(function, FunctionType):
            function = self._call.functions.copy(function)
        return function(*args)

    def _bound(self, raw: Any, cls: type, proxy: Any, variable: Variable | None, name: str) -> Any:
        """An attribute of a class, bound to a proxy."""
        call = self._call
        if isinstance(raw, FunctionType) and raw in MODULE_METHODS:
            return partial(MODULE_METHODS[raw], call, proxy)
        if isinstance(raw, FunctionType):
            return MethodType(call.functions.copy(raw), proxy)
        if isinstance(raw, staticmethod):
            return call.wrap(raw.__func__, None)
        if isinstance(raw, classmethod):
            owner = call.wrap(cls, class_source(cls))
            return MethodType(call.functions.copy(raw.__func__), owner)
        if isinstance(raw, SLOTS):
            bound = self._call.containers.bound(raw, proxy, name)
            return raw.__get__(proxy, type(proxy)) if bound is ABSENT else bound
        if hasattr(type(raw), "__get__"):
            call.refuse(f"{name}: a {type(raw).__qualname__}, which cannot be followed")
        source: Source | None = class_source(cls)
        if variable is not None and variable.source is not None:
            source = variable.source
        return self._of_classes.wrapped(raw, cls.__mro__, name, source)

    def load_super(self, cls: type, proxy: Any, name: str) -> Any:
        """The attribute that ``super(cls, proxy)`` finds."""
        call = self._call
        owner = call.real.get(call.side_effects[proxy])
        own = owner if isinstance(owner, type) else real_class(proxy)
        raw = static(own.__mro__[own.__mro__.index(cls) + 1 :], name)
        if raw is ABSENT:
            raise AttributeError(f"'super' object has no attribute {name!r}")
        if isinstance(owner, type):
            if isinstance(raw, classmethod):
                return MethodType(call.functions.copy(raw.__func__), proxy)
            return call.wrap(raw, None)
        if isinstance(raw, property):
            return self._called(raw.fget, proxy)
        standard = self._standard(raw, proxy) if callable(raw) else None
        if standard is None:
            standard = self._call.containers.bound(raw, proxy, name)
        if standard is not ABSENT:
            return standard
        return self._bound(raw, own, proxy, call.side_effects[proxy], name)

    def _standard(self, raw: Any, proxy: Any) -> Any:
        """A method of ``object`` or ``torch.nn.Module``, as implemented here; None for other methods."""
        return {
            object.__init__: lambda *_, **__: None,
            object.__setattr__: lambda key, value: self.save(proxy, key, value, custom=True),
            torch.nn.Module.__setattr__: lambda key, value: self.save(proxy, key, value, custom=True),
            object.__delattr__: lambda key: self.remove(proxy, key, custom=True),
            torch.nn.Module.__delattr__: lambda key: self.remove(proxy, key, custom=True),
            object.__getattribute__: lambda key: self._load(proxy, key, custom=True),
            torch.nn.Module.__getattr__: lambda key: self.load(proxy, key, custom=True),
            torch.nn.Module.__call__: partial(call_module, self._call, proxy),
        }.get(raw)

    def load_class(self, proxy: Any, cls: type, name: str) -> Any:
        """An attribute of a class, through its proxy."""
        return self._of_classes.load(proxy, cls, name)

    def save_class(self, cls: type, name: str, value: object) -> None:
        """Set an attribute of a class; the value ``DELETED`` deletes it."""
        self._of_classes.save(cls, name, value)

    # --- storing -----------------------------------------------------------------------------------

    def save(self, proxy: Any, name: str, value: object, *, custom: bool = False) -> None:
        """Set an attribute of a proxy.

        Args:
            custom: whether the class's own ``__setattr__`` asks for it.
        """
        call = self._call
        cls = real_class(proxy)
        if not custom and cls.__setattr__ not in STANDARD_SETTERS:
            self._own_method(cls, proxy, "__setattr__")(name, value)
            return
        raw = static(cls.__mro__, name)
        if isinstance(raw, property):
            if raw.fset is None:
                raise AttributeError(f"property {name!r} of {cls.__name__!r} object has no setter")
            self._called(raw.fset, proxy, value)
            return
        if name in ("__class__", "__dict__") or (
            raw is not ABSENT and not isinstance(raw, MemberDescriptorType) and hasattr(type(raw), "__set__")
        ):
            call.refuse(f"{name}, which cannot be followed, is set")
        call.store(call.side_effects[proxy], name, value)

    def _own_method(self, cls: type, proxy: Any, name: str) -> Any:
        """A class's own method to set or delete attributes."""
        raw = static(cls.__mro__, name)
        if isinstance(raw, FunctionType):
            return MethodType(self._call.functions.copy(raw), proxy)
        bound = self._call.containers.bound(raw, proxy, name)
        return self._call.refuse(f"{cls.__qualname__} has a {name} of its own") if bound is ABSENT else bound

    def remove(self, proxy: Any, name: str, *, custom: bool = False) -> None:
        """Delete an attribute of a proxy; ``custom``: bypassing the class's own ``__delattr__``."""
        call = self._call
        cls = real_class(proxy)
        if not custom and cls.__delattr__ not in STANDARD_DELETERS:
            self._own_method(cls, proxy, "__delattr__")(name)
            return
        variable = call.side_effects[proxy]
        now = call.side_effects.pending(variable, name)
        if now is ABSENT and variable in call.real:
            now = call.snapshot.attribute(call.real[variable], name)
        if now is ABSENT or now is DELETED:
            raise AttributeError(f"'{cls.__name__}' object has no attribute '{name}'")
        call.store(variable, name, DELETED)
        call.side_effects.registrations.pop((variable, name), None)

    def make(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Make a new object of a class of the model, and run the class's ``__init__``."""
        call = self._call
        if issubclass(cls, torch.nn.Module):
            call.refuse(f"a module, {cls.__qualname__}, that is made in the call")
        if not has_plain_new(cls):
            call.refuse(f"a new {cls.__qualname__}, whose __new__ is its own")
        proxy = self._started(cls)
        start = static(cls.__mro__[:-1], "__init__")
        if isinstance(start, FunctionType):
            call.functions.copy(start)(proxy, *args, **kwargs)
        elif is_container_proxy(proxy):
            call.containers.apply(proxy, "__init__", args, kwargs)
        elif args or kwargs:
            raise TypeError(f"{cls.__name__}() takes no arguments")
        return proxy

    def _started(self, cls: type) -> Any:
        """A new object without attributes."""
        call = self._call
        name = importable(cls) or f"{cls.__module__}:{cls.__qualname__}"
        proxy = self.new_proxy(cls)
        variable = call.side_effects.track(VariableKind.OBJECT, None, proxy, class_name=name)
        call.proxies[variable] = proxy
        if is_container_proxy(proxy):
            call.containers.start(proxy)
        return proxy

    # --- copies ------------------------------------------------------------------------------------

    def copied(self, proxy: Any) -> Any:
        """What ``copy.copy`` returns for an object: a new one with the same attributes."""
        return self._copy(proxy, lambda value: value, {})

    def deeply_copied(self, proxy: Any, memo: dict[int, Any]) -> Any:
        """What ``copy.deepcopy`` returns for an object; ``memo`` is that function's."""
        return self._copy(proxy, lambda value: deepcopy(value, memo), memo)

    def _copy(self, proxy: Any, of: Callable[[Any], Any], memo: dict[int, Any]) -> Any:
        """A copy of an object, made as ``copyreg`` makes it."""
        call, cls = self._call, real_class(proxy)
        ways = (static(cls.__mro__[:-1], name) for name in COPYING)
        is_own = not has_plain_new(cls) or any(isinstance(way, FunctionType) for way in ways)
        if issubclass(cls, torch.nn.Module) or is_own or is_container_proxy(proxy):
            call.refuse(f"a copy of a {cls.__qualname__}, which cannot be followed")
        made = memo[id(proxy)] = self._started(cls)
        variable = call.side_effects[made]
        for name in self._names_of(proxy, cls):
            value = self.load_own(proxy, name)
            if value is not ABSENT and value is not DELETED:
                call.store(variable, name, of(value))
        return made

    def _names_of(self, proxy: Any, cls: type) -> list[str]:
        """The names of an object's own attributes and of its class's slots, in their order."""
        variable = self._call.side_effects[proxy]
        real = self._call.real.get(variable)
        before = [] if real is None else self._call.snapshot.names(real)
        slots = [
            name for base in cls.__mro__ for name in base.__dict__.get("__slots__", ()) if name[:2] != "__"
        ]
        return list(dict.fromkeys([*AttributeView(self._call, proxy, before, "__dict__"), *slots]))
