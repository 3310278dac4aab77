"""Classes of the model: their attributes are read, set and deleted, as those of objects are.

An attribute of a class is found through its objects, too, and through classes that derive from it. Once calls
set it, all of them read the place where the class is named.
"""

from __future__ import annotations

from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.container_types import unbound
from archive.effects.capture.custom_backward import apply_function
from archive.effects.capture.function_code import is_model_module
from archive.effects.capture.proxy_bases import SLOTS
from archive.effects.capture.variables import ABSENT, DELETED
from archive.effects.python_containers import BASES, base_of
from archive.formats.effects.model import Attribute, GlobalName

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive.effects.capture.call import CapturedCall
    from archive.effects.capture.variables import Variable
    from archive.formats.effects.model import Source

CODE = (FunctionType, staticmethod, classmethod, property, type)
"""Types of attributes that make a class another one."""


class Classes:
    """Attributes of classes.

    Args:
        call: the captured call.
    """

    def __init__(self, call: CapturedCall) -> None:
        self._call = call
        self._variables: dict[type, Variable] = {}

    def find(self, order: Iterable[type], name: str) -> tuple[Any, bool]:
        """The first of some classes' attributes by a name, unbound, as it is now.

        Returns:
            The attribute, ``ABSENT`` if there is none; and whether the call has set it, so that it is the
            model's already.
        """
        for cls in order:
            pending = self._pending(cls, name)
            if pending is not ABSENT and pending is not DELETED:
                return pending, True
            value = self._call.snapshot.class_attribute(cls, name) if pending is ABSENT else ABSENT
            if value is not ABSENT:
                return value, False
        return ABSENT, False

    def _pending(self, cls: type, name: str) -> Any:  # noqa: ANN401
        if cls not in self._variables:
            return ABSENT
        pending = self._call.side_effects.store_attr_mutations.get(self._variables[cls], {})
        return pending.get(name, ABSENT)

    def wrapped(self, raw: Any, order: Iterable[type], name: str, source: Source | None) -> Any:  # noqa: ANN401
        """The value of an attribute that is data.

        Args:
            raw: the attribute.
            order: the classes that are searched for it.
            name: of the attribute.
            source: where it is read; where a class is named, if calls set it there.
        """
        call = self._call
        for cls in order:
            named = class_source(cls)
            if named is not None and Attribute(named, name) in call.written:
                source = named
        return call.wrap(raw, None if source is None else Attribute(source, name))

    def load(self, proxy: Any, cls: type, name: str) -> Any:  # noqa: ANN401 (one a kind)
        """An attribute of a class, through its proxy."""
        call = self._call
        if issubclass(cls, torch.autograd.Function) and name == "apply":
            return lambda *args: apply_function(call, cls, args)
        raw, is_set = self.find(cls.__mro__, name)
        if is_set:
            return raw
        if isinstance(raw, FunctionType):
            return call.functions.copy(raw)
        if isinstance(raw, staticmethod):
            return call.wrap(raw.__func__, None)
        if isinstance(raw, classmethod):
            return MethodType(call.functions.copy(raw.__func__), proxy)
        if isinstance(raw, SLOTS) and base_of(cls) in BASES:
            return unbound(base_of(cls), name)
        if raw is ABSENT or hasattr(type(raw), "__get__"):
            return getattr(cls, name)
        return self.wrapped(raw, cls.__mro__, name, class_source(cls))

    def save(self, cls: type, name: str, value: Any) -> None:  # noqa: ANN401
        """Set an attribute of a class; the value ``DELETED`` deletes it.

        Raises:
            AttributeError: an attribute is deleted that the class does not have.
            CaptureError: it cannot be followed.
        """
        call = self._call
        said = f"{cls.__qualname__}.{name}"
        if (
            name[:2] == "__"
            or isinstance(value, CODE)
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
            self._variables[cls] = call.side_effects.track_object_existing(object(), source)
            call.real[self._variables[cls]] = cls
        call.store(self._variables[cls], name, value)

    def _code(self) -> list[Variable]:
        """Variables of functions and classes."""
        return [one for one, real in self._call.real.items() if isinstance(real, CODE)]


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
