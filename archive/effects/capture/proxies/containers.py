"""Proxies of Python's containers, of their classes, and of objects whose class derives from one.

There are proxies of ``list``, ``dict``, ``set`` and the like, whose methods also work on proxies of
containers: ``dict.get(self, key)`` in a method of a class derived from ``dict`` would otherwise bypass the
dict's proxy.

The proxy of a deque, an ordered or default dict, or an object whose class derives from a container is an
object's proxy; its contents are in another one, the *inner* container: a list's or dict's proxy for an object
that existed before the call, a plain container for one that the call created. The model's own methods run on
the outer proxy, Python's methods on the inner one.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from types import FunctionType, GetSetDescriptorType
from typing import TYPE_CHECKING, Any

from archive.effects.capture.graph.sites import is_loading
from archive.effects.capture.graph.variables import (
    SLOTS,
    ContainerProxy,
    VariableKind,
    inner_of,
    is_container_proxy,
    real_class,
    set_inner,
)
from archive.effects.capture.proxies.open_list import OpenDeque, OpenList
from archive.effects.capture.proxies.open_part import OpenPart
from archive.effects.capture.proxies.tracked_dict import TrackedDict
from archive.effects.capture.proxies.tracked_set import UNORDERED, TrackedSet, is_unordered
from archive.effects.looking import type_name
from archive.effects.nested import with_items
from archive.effects.placeholders import ABSENT
from archive.effects.places import CONTAINERS, base_of, static
from archive.formats.effects.model import Look

if TYPE_CHECKING:
    from archive.effects.capture.table.call import CapturedCall
    from archive.formats.effects.model import Source


# --- containers


def without_proxies(value: Any) -> Any:
    """A value with plain lists and dicts in place of their proxies, at any depth."""
    if is_container_proxy(value):
        return without_proxies(inner_of(value))
    if isinstance(value, OpenList | OpenPart):
        return [without_proxies(item) for item in value]
    if isinstance(value, TrackedDict):
        return {key: without_proxies(item) for key, item in value.items()}
    return with_items(value, without_proxies)


def in_graph(value: Any) -> Any:
    """An argument without proxies; a list of unknown length becomes one of the graph."""
    items = inner_of(value) if is_container_proxy(value) and isinstance(value, list) else value
    items = items.as_part() if isinstance(items, OpenList) else items
    return items.in_graph() if isinstance(items, OpenPart) else without_proxies(value)


def contents(proxy: Any) -> Any:
    """The contents of a list's, dict's or set's proxy after the call, without any guard."""
    if isinstance(proxy, OpenList) or type(proxy) is TrackedSet:
        return proxy.contents()
    if isinstance(proxy, TrackedDict):
        return dict(dict.items(proxy))
    return list(list.__iter__(proxy))


# --- container types

ORDERED = (list, deque)
TRACKED = (TrackedDict, OpenList, TrackedSet)


class ContainerType:
    """The proxy of a container of Python."""

    def __init__(self, call: CapturedCall, kind: Any) -> None:
        self._call = call
        self._kind = kind

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Make a container."""
        if args and self._kind in ORDERED and is_unordered(args[-1]):
            self._call.refuse(UNORDERED)
        if args and issubclass(self._kind, dict) and _is_read_directly(args[-1]):
            args = (*args[:-1], dict(inner_of(args[-1]).items()))
        if len(args) == 1 and self._kind is list and isinstance(iterated(args[0]), OpenList | OpenPart):
            return iterated(args[0]).as_part()
        if args and self._kind in (set, frozenset) and type(args[0]) is TrackedSet:
            args = (args[0].whole(),)
        return self._kind(*args, **kwargs)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, self._kind)

    def __subclasscheck__(self, cls: Any) -> bool:
        return issubclass(self._call.objects.real_of(cls), self._kind)

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._kind, name)
        return unbound(self._kind, name) if type(member) in DESCRIPTORS else member

    def __or__(self, other: Any) -> Any:
        return self._kind | getattr(other, "_kind", other)

    def __ror__(self, other: Any) -> Any:
        return getattr(other, "_kind", other) | self._kind

    def __getitem__(self, key: Any) -> Any:
        return self._kind[key]

    def __mro_entries__(self, _: object) -> tuple[type]:
        return (self._kind,)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._kind

    def __hash__(self) -> int:
        return hash(self._kind)

    def __repr__(self) -> str:
        return repr(self._kind)

    def __reduce__(self) -> Any:
        return _itself, (self._kind,)


DESCRIPTORS = (type(dict.get), type(dict.__len__))
"""Types of methods that are written in C."""


def _itself(kind: type) -> type:
    return kind


def unbound(kind: Any, name: str) -> Any:
    """A method of a Python container, as the class has it; proxies have it, too."""
    real = getattr(kind, name)

    def method(first: Any, *args: Any, **kwargs: Any) -> Any:
        if is_container_proxy(first):
            return first_apply(first, name, args, kwargs)
        if type(first) in TRACKED or isinstance(first, OpenList):
            return getattr(first, name)(*args, **kwargs)
        return real(first, *args, **kwargs)

    return method


def first_apply(proxy: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a method of Python's own container on a proxy."""
    return type(proxy)._call.containers.apply(proxy, name, args, kwargs)


def iterated(value: Any) -> Any:
    """The inner container of a proxy; the proxy itself if its class has an ``__iter__`` of its own."""
    is_proxy = is_container_proxy(value)
    if not is_proxy or isinstance(static(real_class(value).__mro__, "__iter__"), FunctionType):
        return value
    return inner_of(value)


def _is_read_directly(value: Any) -> bool:
    """Whether Python reads the items of a dict bypassing its class's methods: it has no own ``__iter__``."""
    if not is_container_proxy(value) or not issubclass(base_of(real_class(value)), dict):
        return False
    return not isinstance(static(real_class(value).__mro__, "__iter__"), FunctionType)


CHANGING_ITSELF = ("__iadd__", "__imul__", "__ior__")
COPIES = (
    "copy",
    "__copy__",
    "__or__",
    "__ror__",
    "__add__",
    "__mul__",
    "__rmul__",
    "__repr__",
    "__reduce_ex__",
)
"""Methods whose result has the class of the object, for containers that have one in ``collections``."""
CALLING_OTHERS = ("pop", "popitem", "setdefault")
"""Methods of ``OrderedDict`` that call others, which a class may override."""
OF_OBJECTS = frozenset(vars(object)) - {
    "__init__",
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__reduce__",
    "__reduce_ex__",
}
"""Methods that containers have like any object."""
ITEM_METHODS = ("__getitem__", "__setitem__", "__delitem__", "__contains__")


class Containers:
    """Makes such proxies, and calls Python's methods of containers on them."""

    def __init__(self, call: CapturedCall) -> None:
        self._call = call

    def existing(self, value: Any, source: Source) -> Any:
        """The proxy of a container that existed before the call."""
        call = self._call
        proxy = call.objects.new_proxy(type(value))
        variable = call.side_effects.track(VariableKind.OBJECT, source, value, proxy)
        call.add_proxy(variable, proxy, value)
        call.guards.type_names[source] = type_name(value)
        call.guards.note(Look.TYPE, source, type_name(value))
        inner, kind = self._inner(value, source)
        held = call.side_effects.track(kind, source, inner)
        call.add_proxy(held, inner, value)
        call.first_reads[variable] = call.first_reads[held] = call.here()
        set_inner(proxy, inner)
        inner.fill(call.snapshot.contents(value))
        return proxy

    def _inner(self, value: Any, source: Source) -> tuple[Any, VariableKind]:
        is_open = source in self._call.seen.resized
        base = base_of(type(value))
        if issubclass(base, dict):
            inner = TrackedDict(self._call, source, is_open=is_open)
            creates = base is defaultdict or static(type(value).__mro__, "__missing__") is not ABSENT
            inner.creates = creates
            return inner, VariableKind.DICT
        if base is deque:
            return OpenDeque(self._call, source, value.maxlen), VariableKind.LIST
        return OpenList(self._call, source, is_open=is_open), VariableKind.LIST

    def start(self, proxy: Any) -> None:
        """Give the proxy of a new object an empty inner container."""
        base = base_of(real_class(proxy))
        if base in (defaultdict, set, frozenset):
            self._call.refuse(f"a new {real_class(proxy).__qualname__}, which derives from {base.__name__}")
        set_inner(proxy, base())

    # --- Python's methods --------------------------------------------------------------------------

    def method(self, proxy: Any, name: str) -> Any:
        """A method of Python's container, for a proxy."""
        self._check_merge(proxy, name)
        return lambda *args, **kwargs: self.apply(proxy, name, args, kwargs)

    def bound(self, raw: Any, proxy: Any, name: str) -> Any:
        """An attribute of Python's container, for a proxy; ``ABSENT`` for others.

        Args:
            name: under which the class has it: ``__setattr__ = dict.__setitem__``.
        """
        if not is_container_proxy(proxy) or not isinstance(raw, SLOTS):
            return ABSENT
        own, inner = base_of(real_class(proxy)), inner_of(proxy)
        if isinstance(raw, GetSetDescriptorType) and name == "maxlen":
            return inner.bound() if type(inner) is OpenDeque else inner.maxlen
        known = next((alias for alias in (raw.__name__, name) if getattr(own, alias, None) is raw), None)
        return ABSENT if known is None or known in OF_OBJECTS else self.method(proxy, known)

    def apply(self, proxy: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Call a method of Python's container."""
        inner, cls = inner_of(proxy), real_class(proxy)
        base = base_of(cls)
        if name in ("__reduce_ex__", "__reduce__", "__copy__", "__deepcopy__") or (
            name in COPIES and base not in (list, dict)
        ):
            return self._copied(proxy, name, args)
        if name == "__init__":
            return self._started(proxy, args, kwargs)
        if name == "__getitem__" and issubclass(base, dict):
            return self._item(proxy, *args)
        if name in ("__eq__", "__ne__"):
            return self._equal(proxy, *args) is (name == "__eq__")
        if base is OrderedDict:
            if name in ("update", "__ior__"):
                self._update(proxy, args, kwargs)
                return proxy if name == "__ior__" else None
            if name in CALLING_OTHERS and any(
                isinstance(static(cls.__mro__, other), FunctionType) for other in ITEM_METHODS
            ):
                self._call.refuse(f"{cls.__qualname__}.{name}, which OrderedDict does by other methods")
        result = getattr(inner, name)(*args, **kwargs)
        return proxy if name in CHANGING_ITSELF and result is inner else result

    def _item(self, proxy: Any, key: Any) -> Any:
        """An item of a dict; ``__missing__`` may provide a missing one."""
        inner, cls = inner_of(proxy), real_class(proxy)
        if type(inner) is TrackedDict:
            key = self._call.constant_key(key)
        if key in inner:
            return inner[key]
        missing = static(cls.__mro__, "__missing__")
        if isinstance(missing, FunctionType):
            return self._call.functions.copy(missing)(proxy, key)
        if missing is ABSENT:
            raise KeyError(key)
        factory = self._call.objects.load(proxy, "default_factory")
        if factory is None:
            raise KeyError(key)
        value = factory()
        proxy[key] = value
        return value

    def _started(self, proxy: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Do what ``__init__`` of Python's container does."""
        base = base_of(real_class(proxy))
        if issubclass(base, OrderedDict):
            self._update(proxy, args, kwargs)
        elif issubclass(base, dict):
            inner_of(proxy).update(*args, **kwargs)
        elif base is list:
            inner = inner_of(proxy)
            inner.clear()
            inner.extend(*args)
        elif type(inner_of(proxy)) is OpenDeque:
            self._call.refuse("a deque that is reinitialised in place")
        else:
            set_inner(proxy, deque(*args, **kwargs))

    @staticmethod
    def _update(proxy: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Update an ordered dict: item by item, with the class's method for one item."""
        given = args[0] if args else ()
        if hasattr(given, "keys"):
            given = [(key, given[key]) for key in given.keys()]  # noqa: SIM118 (as OrderedDict does)
        for key, value in (*given, *kwargs.items()):
            proxy[key] = value

    @staticmethod
    def _equal(proxy: Any, other: Any) -> Any:
        base, theirs = base_of(real_class(proxy)), type(other)
        family = dict if issubclass(base, dict) else base
        if not issubclass(theirs, family):
            return False
        inner = inner_of(proxy)
        its = inner_of(other) if issubclass(theirs, ContainerProxy) else other
        if base is OrderedDict and issubclass(theirs, OrderedDict) and list(inner) != list(its):
            return False
        if family is dict:
            return dict(inner.items()) == dict(its.items())
        return list(inner) == list(its)

    def _copied(self, proxy: Any, name: str, args: tuple[Any, ...]) -> Any:
        """The result of a method that makes an object of the same class."""
        cls = real_class(proxy)
        if cls not in CONTAINERS:
            self._call.refuse(f"a copy of a {cls.__qualname__}")
        made = self._new_container(proxy)
        if name in ("__reduce_ex__", "__reduce__"):
            return (lambda: made), ()
        if name in ("__copy__", "__deepcopy__"):
            name, args = "copy", ()
        return getattr(made, name)(
            *(self._new_container(other) if is_container_proxy(other) else other for other in args)
        )

    def _new_container(self, proxy: Any) -> Any:
        """A container of Python's own with the same items."""
        inner, cls = inner_of(proxy), real_class(proxy)
        if issubclass(cls, deque):
            return deque(inner, inner.bound() if type(inner) is OpenDeque else inner.maxlen)
        if cls is defaultdict:
            return defaultdict(self._call.objects.load(proxy, "default_factory"), inner.items())
        return OrderedDict(inner.items()) if issubclass(cls, OrderedDict) else without_proxies(inner)

    def _check_merge(self, proxy: Any, name: str) -> None:
        """Refuse ``{**proxy}`` of a class with its own ``__getitem__``, which Python does not call there.

        In Python only an instruction that loads the attribute asks for ``keys``; in any other, C code asks.
        """
        cls = real_class(proxy)
        if name != "keys" or static(cls.__mro__, "__iter__") not in (dict.__iter__, OrderedDict.__iter__):
            return
        if isinstance(static(cls.__mro__, "__getitem__"), FunctionType) and not is_loading():
            self._call.refuse(
                f"the items of a {cls.__qualname__}, which has a __getitem__ of its own, are merged"
            )
