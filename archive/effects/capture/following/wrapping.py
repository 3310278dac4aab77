"""Wraps values that the model reads: in proxies where the model could change them.

A cached pure function returns its cached result. A function counts as pure if its code shows it: it uses only
constants, operators, ``math``, builtins that look at nothing else, and other pure functions. Its result must
be a constant, too, because all calls share it.
"""

from __future__ import annotations

import builtins
import copy
import dataclasses
import dis
import enum
import functools
import math
import random
import re
from collections import OrderedDict
from contextvars import ContextVar
from functools import partial
from random import Random
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import TYPE_CHECKING, Any
from weakref import ReferenceType

import torch

from archive.effects.capture.following.autograd import KeptHandle, LaterHandle
from archive.effects.capture.following.outside import DEFAULT, ContextVariable
from archive.effects.capture.graph.guards import copied
from archive.effects.capture.graph.scalars import MATH, NUMBERS, ShapeProxy, is_scalar
from archive.effects.capture.graph.sites import is_model_module
from archive.effects.capture.graph.variables import (
    VariableKind,
    is_literal,
    is_named_tuple,
    is_plain,
)
from archive.effects.capture.proxies.open_list import OpenList
from archive.effects.capture.proxies.proxies import ClassProxy, is_followed
from archive.effects.capture.proxies.tracked_dict import TrackedDict
from archive.effects.capture.proxies.tracked_set import TrackedSet
from archive.effects.capture.proxies.type_proxies import Untouchable
from archive.effects.code import codes_in
from archive.effects.looking import WITHOUT_MODES, type_name
from archive.effects.places import CHANGING, is_container
from archive.formats.effects.model import Attribute, Item, Local, Look
from archive.formats.effects.parts import is_under_argument, source_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.effects.capture.graph.variables import Variable
    from archive.effects.capture.table.call import CapturedCall
    from archive.formats.effects.model import Source


# --- cached functions

PURE_NAMES = (
    *(
        "abs",
        "all",
        "any",
        "bool",
        "dict",
        "divmod",
        "enumerate",
        "float",
        "int",
        "len",
        "list",
        "map",
        "max",
    ),
    *("min", "pow", "range", "reversed", "round", "sorted", "str", "sum", "tuple", "zip", "ValueError"),
)
BUILTINS = dict(vars(builtins))
PURE = {BUILTINS[name] for name in PURE_NAMES} | set(MATH)
IMPURE_OPS = ("STORE_GLOBAL", "DELETE_GLOBAL", "IMPORT_NAME", "LOAD_NAME")
CACHED: Any = functools._lru_cache_wrapper


class CachedFunction:
    """What a model gets in place of a function with a cache."""

    def __init__(self, call: CapturedCall, cached: Any) -> None:
        self._call, self._cached = call, cached

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function's result, without its cache."""
        call, function = self._call, self._cached.__wrapped__
        given = [call.constant_key(argument) for argument in args]
        named = {name: call.constant_key(argument) for name, argument in kwargs.items()}
        if not all(_is_distinct(argument) for argument in (*given, *named.values())):
            call.refuse("a cached function of more than ints, texts and fractions")
        if not is_pure(function):
            call.refuse(f"a cached function, {function.__qualname__}, that may not be pure")
        result = function(*given, **named)
        if not is_literal(result):
            call.refuse(f"a cached function that gives a {type(result).__name__}, which all calls share")
        return result

    def __getattr__(self, name: str) -> Any:
        return self._call.refuse(f"{name} of a cached function, which cannot be followed")


def _is_distinct(key: object) -> bool:
    """Whether no other key equals this one: a cache takes 2.0 and True for 2 and 1."""
    if type(key) is tuple:
        return all(map(_is_distinct, key))
    if type(key) is float:
        return not key.is_integer()
    return type(key) in (int, str, bytes, type(None))


def is_pure(function: Any, known: frozenset[int] = frozenset()) -> bool:
    """Whether the code of a function shows that its result depends only on its arguments."""
    if type(function) is CACHED:
        function = function.__wrapped__
    if id(function) in known:
        return True
    if type(function) is not FunctionType or function.__closure__ or function.__kwdefaults__:
        return False
    if not is_literal(function.__defaults__ or ()):
        return False
    names: dict[str, Any] = {**BUILTINS, **function.__globals__}
    steps = (step for code in codes_in(function.__code__) for step in dis.get_instructions(code))
    for step in steps:
        if step.opname in IMPURE_OPS:
            return False
        if step.opname == "LOAD_GLOBAL" and step.argval in names:
            value = names[step.argval]
            is_listed = value is math or (isinstance(value, BuiltinFunctionType | type) and value in PURE)
            if not is_listed and not is_pure(value, known | {id(function)}):
                return False
    return True


# --- wrapping

SAFE = (
    str,
    bytes,
    type(None),
    complex,
    slice,
    range,
    enum.Enum,
    re.Pattern,
    type(Ellipsis),
    type(NotImplemented),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    BuiltinFunctionType,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
)
"""Immutable types, whose values the model gets as they are."""
DECLARED = (dataclasses.Field, type(dataclasses.MISSING), type(vars(dataclasses)["_HAS_DEFAULT_FACTORY"]))
"""Types of a dataclass's declarations: part of the model's code, compared by identity, never changed."""
CHANGED_IN_C = (*CHANGING, bytearray, torch.Tensor)
"""Objects that their own C methods may change, bypassing their proxies."""
BUILTIN_CODE = (BuiltinFunctionType, torch._ops.OpOverload, torch._ops.OpOverloadPacket)
"""Those of them that are functions: part of the model, and not guarded."""


class Wrapping:
    """Wraps values: each object once, and volatile values once per source."""

    def __init__(self, call: CapturedCall) -> None:
        self._call = call
        self._by_source: dict[Source, Any] = {}
        self._tensors: dict[int, tuple[Any, Source | None]] = {}
        self._fields: dict[int, Any] = {}

    def name_paths(self, module: Any) -> None:
        """Note the paths of a module's own modules, parameters and buffers, as they are before the call."""
        for path, member in self._named_modules(module):
            self._call.modules[id(member)] = member
            own = (
                (name, self._call.snapshot.attribute(member, name))
                for kind in ("_parameters", "_buffers")
                for name in self._call.snapshot.registered(member, kind)
            )
            for name, value in (("", member), *own):
                source = source_of(".".join(filter(None, (path, name))))
                if value is not None:
                    self._call.paths.setdefault(id(value), source)

    def _named_modules(self, module: Any) -> Iterator[tuple[str, Any]]:
        """The modules of a tree by their paths, each once, as ``named_modules`` gives those of a real one."""
        waiting, known = [("", module)], set[int]()
        while waiting:
            path, member = waiting.pop()
            if id(member) in known or not isinstance(member, torch.nn.Module):
                continue
            known.add(id(member))
            yield path, member
            names = self._call.snapshot.registered(member, "_modules")
            waiting += [
                (f"{path}.{name}" if path else name, self._call.snapshot.attribute(member, name))
                for name in reversed(names)
            ]

    def wrap(self, value: Any, source: Source | None) -> Any:
        """The value that the model gets in place of a real one.

        Args:
            source: where it lives; None for a value that is the same in each call, such as a default.
        """
        if source is not None:
            self._call.originals.setdefault(source, value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value, source)
        if type(value) in NUMBERS:
            return self._number(value, source)
        if isinstance(value, DECLARED):
            return self._declared(value)
        stand_in = value if value is DEFAULT else self._stand_in(value)
        if stand_in is not None:
            return stand_in
        if isinstance(value, SAFE):
            if source is not None and not isinstance(value, BUILTIN_CODE):
                self._call.guards.constant(value, source)
            return value
        known = self._call.side_effects.variable_of(value)
        if known is not None:
            return self._again(known, source)
        if isinstance(value, tuple):
            return self._tuple(value, source)
        if type(value) in (list, dict) and source is not None:
            return self._container(value, source)
        return self._code(value, source)

    def _stand_in(self, value: Any) -> Any:
        """What the model gets in place of a function or module of a library; None for others."""
        call, functions = self._call, self._call.functions
        builtin = functions.in_place_of(value)
        if builtin is not None:
            return builtin
        is_builtin = isinstance(value, BuiltinFunctionType)
        if value is math or (is_builtin and value in MATH):
            return functions.mathematics if value is math else functions.mathematics.of(value)
        is_random = isinstance(value, BuiltinFunctionType | MethodType) and isinstance(value.__self__, Random)
        if value is random or is_random:
            return Untouchable(call, "generator of random numbers")
        if isinstance(value, ContextVar):
            return ContextVariable(call, value)
        if type(value) is CACHED and is_model_module(value.__module__):
            return CachedFunction(call, value)
        replaced = call.replaced.get(id(value)) or call.kept_calls.in_place_of(value)
        if replaced is None and is_builtin and isinstance(value.__self__, CHANGED_IN_C):
            return Untouchable(call, f"{value.__name__} of a {type(value.__self__).__name__}")
        return replaced

    def _again(self, known: Variable, source: Source | None) -> Any:
        """The proxy of an object that the model has read before, maybe at another place."""
        if source is not None:
            if known.source is not None and known.source != source:
                self._call.aliases.setdefault(source, known.source)
            self._note_presence(self._call.real[known], source)
        return self._call.proxies[known]

    def _declared(self, value: Any) -> Any:
        """What a dataclass declares; a field's type is the one that the model knows by its name."""
        if not isinstance(value, dataclasses.Field):
            return value
        if id(value) not in self._fields:
            self._fields[id(value)] = made = copy.copy(value)
            made.type = self.wrap(value.type, None)
        return self._fields[id(value)]

    def _note_presence(self, value: object, source: Source) -> None:
        """Guard that a list, dict or object is at a place where calls put others, or None."""
        if not self._call.is_volatile(source):
            return
        if is_container(value):
            self._call.guards.note(Look.TYPE, source, type_name(value))
        else:
            self._call.guards.note(Look.IS_NONE, source, value=False)

    def _tuple(self, value: tuple[Any, ...], source: Source | None) -> Any:
        """A tuple, named or not, with its items wrapped."""
        if source is not None and is_plain(value):
            self._call.guards.items(value, source)
        elif source is not None and is_named_tuple(value):
            self._call.guards.type_names[source] = type_name(value)
            self._call.guards.items(value, source)
        items = [
            self.wrap(item, None if source is None else Item(source, index))
            for index, item in enumerate(value)
        ]
        if type(value) is torch.Size:
            return ShapeProxy(items) if any(map(is_scalar, items)) else value
        return tuple(items) if type(value) is tuple else tuple.__new__(type(value), items)

    def _code(self, value: Any, source: Source | None) -> Any:
        """The copy of a function, the proxy of a class or Python module of the model; else an object's."""
        functions = self._call.functions
        if isinstance(value, FunctionType):
            return self._other(value, functions.copy(value), source)
        if isinstance(value, MethodType):
            owner = self.wrap(value.__self__, None if source is None else Attribute(source, "__self__"))
            function = value.__func__
            is_python = isinstance(function, FunctionType)
            return MethodType(functions.copy(function), owner) if is_python else value
        if isinstance(value, type):
            if value in functions.types:
                return functions.types[value]
            is_own = is_model_module(value.__module__) and ClassProxy.is_needed_for(value)
            return self._other(value, ClassProxy(self._call, value), source) if is_own else value
        if isinstance(value, ModuleType):
            is_own = is_model_module(value.__name__)
            return self._other(value, functions.namespace(value), source) if is_own else value
        return self._object(value, source)

    def _object(self, value: Any, source: Source | None) -> Any:
        """The proxy of an object; partial functions and weak references become new ones."""
        of_hooks = source is None or (isinstance(source, Attribute) and source.name.endswith("_hooks"))
        if of_hooks and type(value) is OrderedDict and not value:
            return MappingProxyType({})  # PyTorch's own code reads the dicts of a module's hooks
        if type(value) is partial:
            function, *args = (self.wrap(part, None) for part in (value.func, *value.args))
            return partial(
                function,
                *args,
                **{name: self.wrap(keyword, None) for name, keyword in value.keywords.items()},
            )
        if isinstance(value, ReferenceType):
            target = value()
            return lambda: self.wrap(target, self._call.paths.get(id(target)))
        if source is None:
            source = self._call.paths.get(id(value))
        if isinstance(value, torch.Generator):
            self._call.refuse("a generator of random numbers of the model's own")
        if source is None or not (is_followed(value) or type(value) is LaterHandle):
            return Untouchable(self._call, type(value).__qualname__)
        if type(value) in (set, frozenset):
            return self._set(value, source)
        if is_container(value):
            self._note_presence(value, source)
            return self._call.containers.existing(value, source)
        source = self._call.paths.get(id(value), source)
        self._note_presence(value, source)
        is_handle = type(value) is LaterHandle
        proxy = KeptHandle(self._call) if is_handle else self._call.objects.new_proxy(type(value))
        variable = self._call.side_effects.track(VariableKind.OBJECT, source, value, proxy)
        self._call.add_proxy(variable, proxy, value)
        self._call.first_reads[variable] = self._call.here()
        return proxy

    def _other(self, value: object, proxy: Any, source: Source | None) -> Any:
        """Note the proxy of a function, class or Python module."""
        if proxy is value:
            return value
        if value not in self._call.side_effects:
            variable = self._call.side_effects.track(VariableKind.OTHER, source, value, proxy)
            self._call.add_proxy(variable, proxy, value)
        return proxy

    def _container(self, value: Any, source: Source) -> Any:
        is_open = source in self._call.seen.resized
        proxy: Any
        if type(value) is dict:
            proxy = TrackedDict(self._call, source, is_open=is_open)
            variable = self._call.side_effects.track(VariableKind.DICT, source, value, proxy)
        else:
            # A list that each call makes may be longer each time.
            proxy = OpenList(self._call, source, is_open=is_open or self._call.is_volatile(source))
            variable = self._call.side_effects.track(VariableKind.LIST, source, value, proxy)
        self._call.add_proxy(variable, proxy, value)
        self._call.first_reads[variable] = self._call.here()
        self._note_presence(value, source)
        proxy.fill(self._call.snapshot.contents(value))
        return proxy

    def _set(self, value: Any, source: Source) -> Any:
        proxy = TrackedSet(self._call, source, type(value))
        variable = self._call.side_effects.track(VariableKind.SET, source, value, proxy)
        self._call.add_proxy(variable, proxy, value)
        self._call.first_reads[variable] = self._call.here()
        self._call.guards.type_names[source] = type_name(value)
        proxy.fill(self._call.snapshot.contents(value))
        if not proxy.is_code:
            self._call.guards.note(Look.TYPE, source, type_name(value))
        return proxy

    def _number(self, value: Any, source: Source | None) -> Any:
        if source is None:
            return value
        if not self._call.is_volatile(source):
            self._call.guards.constant(value, source)
            return value
        if source not in self._by_source:
            self._by_source[source] = self._call.builder.scalar_input(source, value)
            self._call.guards.note(Look.TYPE, source, type(value).__name__)
        return self._by_source[source]

    def _tensor(self, value: Any, source: Source | None) -> Any:
        if source is not None and self._call.is_volatile(source):
            if source not in self._by_source:
                data = self._call.snapshot.tensor(value)
                self._by_source[source] = self._call.builder.tensor_input(source, value, data)
                self._call.guards.note(Look.TYPE, source, type_name(value))
            return self._by_source[source]
        if id(value) not in self._tensors:
            if not is_under_argument(source):  # an argument brings its hooks along
                with WITHOUT_MODES():
                    if value._backward_hooks or getattr(value, "_post_accumulate_grad_hooks", None):
                        self._call.refuse("a tensor that had hooks before the call, which no archive has")
            first = self._call.paths.get(id(value), source)
            data = self._call.snapshot.tensor(value)
            if first is None:
                made = self._call.builder.constant(data)
            else:  # parameters and buffers are copied once for all calls
                copy = self._call.seen.copies.of if self._call.is_registered(value, first) else copied
                made = self._call.builder.tensor_input(first, value, data, copy)
            self._tensors[id(value)] = made, first
            self._call.side_effects.keepalive.append(value)
        proxy, first = self._tensors[id(value)]
        if first is not None:
            self._call.guards.note(Look.TYPE, first, type_name(value))
        if source is not None and first is not None and source != first:
            self._call.aliases.setdefault(source, first)
        return proxy

    def attribute_set(self) -> str:
        """The name of an attribute that the model set on a tensor that it was given, or ""."""
        with WITHOUT_MODES():
            names = (name for proxy, _ in self._tensors.values() for name in getattr(proxy, "__dict__", ()))
            return next(names, "")

    def argument(self, value: Any, source: Source) -> Any:
        """The value that the model gets for an argument: ints and floats become free numbers of the graph."""
        guards = self._call.guards
        if isinstance(source, Local) and not guards.is_read(source.name):
            return value
        if type(value) in (int, float):
            guards.note(Look.TYPE, source, type(value).__name__)
            return self._call.builder.scalar_input(source, value, free=True)
        return self.wrap(value, source)
