"""Attributes of what stands in for objects: read from the world, or from what the call has stored."""

from __future__ import annotations

from types import (
    ClassMethodDescriptorType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.autograd import apply_function
from archive.effects.capture.functions import model_code
from archive.effects.capture.hooks import importable
from archive.effects.capture.stand_ins import ClassStandIn, call_module, object_stand_in, plainly_made
from archive.effects.capture.variables import ABSENT, DELETED
from archive.effects.capture.world import REGISTERED
from archive.formats.effects.model import Attribute, GlobalName, Look

if TYPE_CHECKING:
    from archive.effects.capture.recorder import Recorder
    from archive.effects.capture.variables import Variable
    from archive.formats.effects.model import Source

STANDARD_SETTERS = (object.__setattr__, torch.nn.Module.__setattr__)
STANDARD_DELETERS = (object.__delattr__, torch.nn.Module.__delattr__)
STANDARD_GETTERS = (object.__getattribute__,)


SLOTS = (WrapperDescriptorType, MethodDescriptorType, GetSetDescriptorType, ClassMethodDescriptorType)
"""Methods and attributes of classes that are not written in Python."""


class Objects:
    """Loads, stores and makes.

    Args:
        recorder: of the call.
    """

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self.classes: dict[type, type] = {}

    def class_of(self, stand_in: object) -> Any:  # noqa: ANN401
        """What ``type`` gives for what stands in for something."""
        variable = self._recorder.variable_of(stand_in)
        item = self._recorder.items.get(variable)
        cls = self._real_class(stand_in) if item is None else type(item)
        return self._recorder.wrap(cls, class_source(cls))

    def real_of(self, cls: Any) -> Any:  # noqa: ANN401
        """A class itself, for what stands in for it."""
        if isinstance(cls, ClassStandIn):
            return object.__getattribute__(cls, "_cls")
        return cls

    @staticmethod
    def _real_class(stand_in: object) -> type:
        return type(stand_in).__mro__[2]

    # --- reading -----------------------------------------------------------------------------------

    def load(self, stand_in: Any, name: str) -> Any:  # noqa: ANN401
        """An attribute.

        Raises:
            AttributeError: there is none.
        """
        recorder = self._recorder
        variable = recorder.variable_of(stand_in)
        if recorder.side_effects.has_pending_mutation_of_attr(variable, name):
            return recorder.side_effects.load_attr(variable, name)
        cls: Any = self._real_class(stand_in)
        if name == "__class__":
            return recorder.wrap(cls, class_source(cls))
        if cls.__getattribute__ not in STANDARD_GETTERS:
            recorder.refuse(f"{cls.__qualname__} has a __getattribute__ of its own")
        raw = static(cls.__mro__, name)
        if isinstance(raw, property):
            return self._called(raw.fget, stand_in)
        value = self._own(stand_in, variable, name)
        if value is not ABSENT:
            return value
        if raw is not ABSENT and not isinstance(raw, MemberDescriptorType):
            return self._bound(raw, cls, stand_in, variable, name)
        return self._missing(cls, stand_in, name)

    def _own(self, stand_in: Any, variable: Variable, name: str) -> Any:  # noqa: ANN401
        """What an object that was there before has by itself; ``ABSENT`` if nothing."""
        recorder = self._recorder
        item = recorder.items.get(variable)
        if item is None:
            return ABSENT
        names = recorder.world.names(item) if name == "__dict__" else None
        if name in REGISTERED and isinstance(item, torch.nn.Module):
            names = recorder.world.registered(item, name)
        if names is not None:
            return MappingProxyType({one: self.load(stand_in, one) for one in names})
        value = recorder.world.attribute(item, name)
        if value is ABSENT:
            return ABSENT
        return recorder.wrap(value, None if variable.source is None else Attribute(variable.source, name))

    def _missing(self, cls: type, stand_in: Any, name: str) -> Any:  # noqa: ANN401
        getter = static(cls.__mro__, "__getattr__")
        if isinstance(getter, FunctionType) and getter is not torch.nn.Module.__getattr__:
            return self._called(getter, stand_in, name)
        source = self._recorder.variable_of(stand_in).source
        if source is not None and name[:2] != "__":
            self._recorder.guards.note(Look.ATTRIBUTE, source, value=False, key=name)
        raise AttributeError(f"'{cls.__name__}' object has no attribute '{name}'")

    def _called(self, function: Any, *args: Any) -> Any:  # noqa: ANN401
        if isinstance(function, FunctionType):
            function = self._recorder.functions.copy(function)
        return function(*args)

    def _bound(self, raw: Any, cls: type, stand_in: Any, variable: Variable | None, name: str) -> Any:  # noqa: ANN401
        """A class's attribute, for an object of it."""
        recorder = self._recorder
        if isinstance(raw, FunctionType):
            return MethodType(recorder.functions.copy(raw), stand_in)
        if isinstance(raw, staticmethod):
            return recorder.wrap(raw.__func__, None)
        if isinstance(raw, classmethod):
            owner = recorder.wrap(cls, class_source(cls))
            return MethodType(recorder.functions.copy(raw.__func__), owner)
        if isinstance(raw, SLOTS):
            return raw.__get__(stand_in, type(stand_in))
        if hasattr(type(raw), "__get__"):
            recorder.refuse(f"{name}: a {type(raw).__qualname__}, which cannot be followed")
        source: Source | None = class_source(cls)
        if variable is not None and variable.source is not None:
            source = variable.source
        return recorder.wrap(raw, None if source is None else Attribute(source, name))

    def load_super(self, cls: type, stand_in: Any, name: str) -> Any:  # noqa: ANN401
        """An attribute of the classes behind one."""
        recorder = self._recorder
        owner = recorder.items.get(recorder.variable_of(stand_in))
        own = owner if isinstance(owner, type) else self._real_class(stand_in)
        raw = static(own.__mro__[own.__mro__.index(cls) + 1 :], name)
        if raw is ABSENT:
            raise AttributeError(f"'super' object has no attribute {name!r}")
        if isinstance(owner, type):
            if isinstance(raw, classmethod):
                return MethodType(recorder.functions.copy(raw.__func__), stand_in)
            return recorder.wrap(raw, None)
        if isinstance(raw, property):
            return self._called(raw.fget, stand_in)
        standard = self._standard(raw, stand_in) if callable(raw) else None
        if standard is not None:
            return standard
        return self._bound(raw, own, stand_in, recorder.variable_of(stand_in), name)

    def _standard(self, raw: Any, stand_in: Any) -> Any:  # noqa: ANN401
        """What ``object`` and ``torch.nn.Module`` do themselves; None for other methods."""
        return {
            object.__init__: lambda *_, **__: None,
            object.__setattr__: lambda key, value: self.save(stand_in, key, value, custom=True),
            torch.nn.Module.__setattr__: lambda key, value: self.save(stand_in, key, value, custom=True),
            torch.nn.Module.__getattr__: lambda key: self.load(stand_in, key),
            torch.nn.Module.__call__: lambda *args, **kwargs: call_module(
                self._recorder, stand_in, args, kwargs
            ),
        }.get(raw)

    def load_class(self, stand_in: Any, cls: type, name: str) -> Any:  # noqa: ANN401
        """An attribute of a class."""
        recorder = self._recorder
        if issubclass(cls, torch.autograd.Function) and name == "apply":
            return lambda *args: apply_function(recorder, cls, args)
        raw = static(cls.__mro__, name)
        if isinstance(raw, FunctionType):
            return recorder.functions.copy(raw)
        if isinstance(raw, staticmethod):
            return recorder.wrap(raw.__func__, None)
        if isinstance(raw, classmethod):
            return MethodType(recorder.functions.copy(raw.__func__), stand_in)
        if raw is ABSENT or hasattr(type(raw), "__get__"):
            return getattr(cls, name)
        source = class_source(cls)
        return recorder.wrap(raw, None if source is None else Attribute(source, name))

    # --- storing -----------------------------------------------------------------------------------

    def save(self, stand_in: Any, name: str, value: object, *, custom: bool = False) -> None:  # noqa: ANN401
        """Set an attribute."""
        recorder = self._recorder
        cls = self._real_class(stand_in)
        if not custom and cls.__setattr__ not in STANDARD_SETTERS:
            recorder.refuse(f"{cls.__qualname__} has a __setattr__ of its own")
        raw = static(cls.__mro__, name)
        if isinstance(raw, property):
            if raw.fset is None:
                raise AttributeError(f"property {name!r} of {cls.__name__!r} object has no setter")
            self._called(raw.fset, stand_in, value)
            return
        if name in ("__class__", "__dict__") or (
            raw is not ABSENT and not isinstance(raw, MemberDescriptorType) and hasattr(type(raw), "__set__")
        ):
            recorder.refuse(f"{name}, which cannot be followed, is set")
        recorder.store(recorder.variable_of(stand_in), name, value)

    def remove(self, stand_in: Any, name: str) -> None:  # noqa: ANN401
        """Delete an attribute.

        Raises:
            AttributeError: there is none.
        """
        recorder = self._recorder
        cls = self._real_class(stand_in)
        if cls.__delattr__ not in STANDARD_DELETERS:
            recorder.refuse(f"{cls.__qualname__} has a __delattr__ of its own")
        variable = recorder.variable_of(stand_in)
        if recorder.side_effects.has_pending_mutation_of_attr(variable, name):
            recorder.side_effects.load_attr(variable, name)
        elif variable not in recorder.items or (
            recorder.world.attribute(recorder.items[variable], name) is ABSENT
        ):
            raise AttributeError(f"'{cls.__name__}' object has no attribute '{name}'")
        recorder.store(variable, name, DELETED)

    def make(self, cls: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
        """A new object of a class."""
        recorder = self._recorder
        if issubclass(cls, torch.nn.Module):
            recorder.refuse(f"a module, {cls.__qualname__}, that is made in the call")
        if not plainly_made(cls):
            recorder.refuse(f"a new {cls.__qualname__}, whose __new__ is its own")
        name = importable(cls) or f"{cls.__module__}:{cls.__qualname__}"
        stand_in = object_stand_in(recorder, cls)
        variable = recorder.side_effects.track_object_new(stand_in, name)
        recorder.stand_ins[variable] = stand_in
        start = static(cls.__mro__[:-1], "__init__")
        if isinstance(start, FunctionType):
            recorder.functions.copy(start)(stand_in, *args, **kwargs)
        elif args or kwargs:
            raise TypeError(f"{cls.__name__}() takes no arguments")
        return stand_in


def static(order: tuple[type, ...], name: str) -> Any:  # noqa: ANN401
    """What some classes have by a name, unbound; ``ABSENT`` if nothing."""
    return next((cls.__dict__[name] for cls in order if name in cls.__dict__), ABSENT)


def class_source(cls: type) -> Source | None:
    """Where a class lives; None for one that no name leads to."""
    if not model_code(cls.__module__):
        return None
    if "<locals>" in cls.__qualname__:
        return GlobalName(cls.__module__, cls.__qualname__)
    first, *rest = cls.__qualname__.split(".")
    source: Source = GlobalName(cls.__module__, first)
    for name in rest:
        source = Attribute(source, name)
    return source
