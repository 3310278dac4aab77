"""Places in objects, read and set as data: no code of an object's class runs, and none is returned.

A table names places. What is there is looked up in an object's own ``__dict__`` and slots, in a module's
parameters, buffers and submodules, among the data of classes, and among the items of Python's own containers.
Methods, properties and whatever else a class computes are not places.
"""

from __future__ import annotations

import functools
import sys
from argparse import Namespace
from collections import deque
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    SimpleNamespace,
    WrapperDescriptorType,
)
from typing import Any

import torch

from archive.base.errors import ArchiveError
from archive.effects.errors import StateError
from archive.effects.placeholders import ABSENT, PLAIN_METHODS, Plain
from archive.formats.effects.containers import CONTAINER_CLASSES
from archive.formats.effects.gate import check_place

# --- python_containers

CONTAINERS: dict[Any, str] = {cls: kind for kind, cls in CONTAINER_CLASSES.items()} | {frozenset: "frozenset"}
"""Python's containers, and their kinds in a table."""
CHANGING = tuple(CONTAINER_CLASSES.values())
"""Those that can change."""


def base_of(kind: Any) -> Any:
    """The container of Python that a class is or derives from; other classes as they are."""
    return next((cls for cls in kind.__mro__ if cls in CONTAINERS), kind)


def is_container(value: object) -> bool:
    """Whether a value is a container, or an object of a class that derives from one."""
    return base_of(type(value)) in CONTAINERS


def items_of(target: Any) -> list[Any]:
    """The items of a container, bypassing its class's own ``__iter__``; pairs for a dict."""
    base = base_of(type(target))
    return list(base.items(target) if isinstance(target, dict) else base.__iter__(target))


# --- places

RemovableHandle = torch.utils.hooks.RemovableHandle
NO_STATE = (ModuleType, RemovableHandle)
"""Classes whose objects have attributes, none of which is a place."""
CODE_TYPES = (
    *(type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, MethodWrapperType),
    *(MethodDescriptorType, WrapperDescriptorType, CodeType, FrameType, GeneratorType),
    *(functools.partial, staticmethod, classmethod, property),
)
"""Types of values that are code, or lead to code."""
FOREIGN_PACKAGES = frozenset(sys.stdlib_module_names) - {"__main__"}
"""Packages whose objects aren't a model's state: a logger, an open file, a lock."""
OPEN_CLASSES = (SimpleNamespace, Namespace, *CONTAINERS, tuple)
"""Classes of these packages whose objects hold what anybody puts there."""
REGISTERED = ("_parameters", "_buffers", "_modules")
"""Dicts of a ``torch.nn.Module`` that hold attributes (torch/nn/modules/module.py)."""
ORDINARY_TYPES = frozenset((int, float, bool, str, bytes, list, dict, tuple, type(None)))
"""Types of values that aren't a parameter, buffer or module."""
HEAP_TYPE = 1 << 9
"""Flag of classes that are written in Python (CPython's ``Py_TPFLAGS_HEAPTYPE``)."""
COMPUTED_DATA = {(deque, "maxlen"): deque.maxlen}
"""Attributes of Python's own classes that are data, though no object has them as its own."""

MODULE_CONTAINERS = (
    *(torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.Sequential),
    *(torch.nn.ParameterList, torch.nn.ParameterDict),
)
"""PyTorch's own modules that hold items."""


def static(order: tuple[type, ...], name: str) -> Any:
    """What the first of some classes that has a name has there, unbound; ``ABSENT`` if none has it."""
    for cls in order:
        held = cls.__dict__
        if name in held:
            return held[name]
    return ABSENT


def is_code(value: object) -> bool:
    """Whether a value is code, or leads to code; objects that a Python class makes callable are not."""
    kind: Any = type(value)
    return isinstance(value, CODE_TYPES) or _is_called_in_c(kind)


@functools.lru_cache(1024)
def _is_called_in_c(kind: type) -> bool:
    """Whether code in C calls objects of a class: cached functions, operators, weak references."""
    called = static(kind.__mro__, "__call__")
    return called is not ABSENT and not isinstance(called, FunctionType) and kind is not torch.device


def checked_data(value: Any) -> Any:
    """A value that isn't code."""
    if is_code(value):
        raise StateError(f"expected data, found code: a {type(value).__name__}")
    return value


# --- attributes ----------------------------------------------------------------------------------------


def attribute(holder: Any, name: str) -> Any:
    """The value of an attribute."""
    value = holder.__dict__.get(name, ABSENT) if type(holder) is Plain else own(holder, name)
    if value is ABSENT:
        raise StateError(f"a {type(holder).__name__} has no attribute {name!r} that is data of its own")
    return value


def own(holder: Any, name: str) -> Any:
    """The value of an attribute; ABSENT if it is missing, or is code of a class."""
    if type(holder) is Plain:
        return holder.__dict__.get(name, ABSENT)
    kind: Any = type(holder)
    if is_foreign(kind):
        return ABSENT
    if isinstance(holder, type | ModuleType):
        value = static(holder.__mro__, name) if isinstance(holder, type) else vars(holder).get(name, ABSENT)
        return ABSENT if _is_of_class(value) else value
    held = names(holder) or {}
    if name in held:
        return held[name]
    if isinstance(holder, torch.nn.Module):
        for registered in (held.get(kind) for kind in REGISTERED):
            if isinstance(registered, dict) and name in registered:
                return registered[name]
    raw = static(type(holder).__mro__, name)
    if _is_slot(raw):
        try:
            return raw.__get__(holder)
        except AttributeError:
            return ABSENT
    if isinstance(holder, tuple):
        fields = static(type(holder).__mro__, "_fields")
        is_field = isinstance(fields, tuple) and name in fields
        return tuple.__getitem__(holder, fields.index(name)) if is_field else ABSENT
    data = COMPUTED_DATA.get((base_of(type(holder)), name))
    if data is not None:
        return data.__get__(holder)
    return ABSENT if _is_of_class(raw) else raw


@functools.lru_cache(1024)
def is_foreign(kind: type) -> bool:
    """Whether the objects of a class belong to Python's library."""
    package = str(kind.__module__).partition(".")[0]
    return package in FOREIGN_PACKAGES and not issubclass(kind, (*OPEN_CLASSES, type, ModuleType))


def has_names(kind: Any) -> bool:
    """Whether objects of a class have a ``__dict__`` as Python makes it, for attributes of their own."""
    if issubclass(kind, type | ModuleType) or is_foreign(kind):
        return False
    return isinstance(static(kind.__mro__, "__dict__"), GetSetDescriptorType)


def names(holder: object) -> dict[str, Any] | None:
    """An object's own attributes; None if it has no ``__dict__``."""
    try:
        held = object.__getattribute__(holder, "__dict__")
    except AttributeError:
        return None
    return held if isinstance(held, dict) else None


def _is_slot(raw: object) -> bool:
    """Whether what a class has is a slot of its objects, as ``__slots__`` makes them."""
    if not isinstance(raw, MemberDescriptorType):
        return False
    owner = raw.__objclass__
    return bool(owner.__flags__ & HEAP_TYPE) and "__slots__" in vars(owner)


def _is_of_class(raw: object) -> bool:
    """Whether what a class has isn't data: code, or something computed for each object."""
    return raw is ABSENT or is_code(raw) or hasattr(type(raw), "__get__")


def set_own(target: Any, name: str, value: object) -> None:
    """Set an attribute, bypassing the class's own ``__setattr__``."""
    check_settable(target, name)
    if type(target) is Plain:
        target.__dict__[name] = value
    elif isinstance(target, type):
        type.__setattr__(target, name, value)
    elif isinstance(target, torch.nn.Module):
        held = names(target)
        if held is not None and name in held and is_ordinary(held, name, value):
            held[name] = value
        else:
            torch.nn.Module.__setattr__(target, name, value)
    else:
        object.__setattr__(target, name, value)


def is_ordinary(held: dict[str, Any], name: str, value: object) -> bool:
    """Whether a module with these attributes stores a value under a name like any other object."""
    if type(value) not in ORDINARY_TYPES:
        return False
    for kind in REGISTERED:  # noqa: SIM110 (each call of an effect comes here, and a generator takes twice as long)
        if name in held.get(kind, ()):
            return False
    return True


def set_new(target: Any, name: str, value: object) -> None:
    """Set an attribute of a new object, which may be of a frozen dataclass or a module without its dicts."""
    check_settable(target, name)
    object.__setattr__(target, name, value)


def delete_own(target: Any, name: str) -> None:
    """Delete an attribute."""
    if type(target) is Plain:
        if target.__dict__.pop(name, ABSENT) is ABSENT:
            raise StateError(f"a Plain has no attribute {name!r}")
        return
    check_settable(target, name)
    if isinstance(target, type):
        type.__delattr__(target, name)
    elif isinstance(target, torch.nn.Module):
        torch.nn.Module.__delattr__(target, name)
    else:
        object.__delattr__(target, name)


def check_settable(target: Any, name: str) -> None:
    """Refuse an attribute that is not data.

    A hook handle is not data: removing the hook calls code stored in the handle.
    """
    if type(target) is Plain and name not in PLAIN_METHODS:
        return
    kind: Any = type(target)
    if isinstance(target, NO_STATE) or is_foreign(kind):
        raise StateError(f"{_class_name(target)} can't hold {name!r}")
    raw = static((target if isinstance(target, type) else kind).__mro__, name)
    if raw is not ABSENT and not _is_slot(raw) and _is_of_class(raw):
        raise StateError(f"{name!r} is code of {_class_name(target)}, and no place for a value")


def _class_name(target: object) -> str:
    return target.__qualname__ if isinstance(target, type) else f"a {type(target).__name__}"


def register_buffer(target: Any, name: str, value: Any, *, persistent: bool = True) -> None:
    """Register a buffer of a module; where its class is not here, set the attribute."""
    if isinstance(target, torch.nn.Module):
        check_settable(target, name)
        torch.nn.Module.register_buffer(target, name, value, persistent=persistent)
    else:
        set_own(target, name, value)


# --- items ---------------------------------------------------------------------------------------------


def item(holder: Any, key: Any) -> Any:
    """The item of a container, by the method of Python's own class. A ``defaultdict`` creates none."""
    if type(holder) is Plain:
        return holder[key]
    if isinstance(holder, dict):
        value = dict.get(holder, key, ABSENT)
        if value is ABSENT:
            raise KeyError(key)
        return value
    own_base = base(holder)
    if own_base is torch.nn.ParameterDict:
        if not has(holder, key):
            raise KeyError(key)
        return attribute(holder, parameter_name(key))
    return own_base.__getitem__(holder, key)


def parameter_name(key: object) -> str:
    """The key of a ``torch.nn.ParameterDict``, which is the name of an attribute."""
    if type(key) is not str:
        raise StateError(f"expected the name of a parameter, found a {type(key).__name__}")
    try:
        check_place(key)
    except ArchiveError as error:
        raise StateError(str(error)) from error
    return key


def base(holder: object) -> Any:
    """The container of Python or PyTorch that an object is, or that its class derives from."""
    cls = base_of(type(holder))
    if cls in CONTAINERS:
        return cls
    for cls in (tuple, str, bytes, *MODULE_CONTAINERS):
        if isinstance(holder, cls):
            return cls
    raise StateError(f"expected a container, found a {type(holder).__name__}")


def item_or_absent(holder: Any, key: Any) -> Any:
    """The item of a container; ABSENT if there is none."""
    try:
        return item(holder, key)
    except (LookupError, TypeError):
        return ABSENT


def length(holder: Any) -> int:
    """The length of a container or tensor, bypassing its class's own ``__len__``."""
    return len(holder) if isinstance(holder, torch.Tensor) else int(base(holder).__len__(holder))


def items(holder: Any) -> list[Any]:
    """The items of a container, the keys of a dict, bypassing a class's own ``__iter__``."""
    return list(base(holder).__iter__(holder))


def has(holder: Any, key: Any) -> bool:
    """Whether a container has an item, or a dict a key, bypassing a class's own ``__contains__``."""
    return bool(base(holder).__contains__(holder, key))
