"""Functions for all proxies of lists, dicts and sets, and the proxies of their classes.

Proxies of ``list``, ``dict``, ``set`` and the like: their methods work on proxies of containers, too.

``dict.get(self, key)`` in the method of a class that derives from ``dict`` would look past the dict's proxy.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from types import FunctionType
from typing import TYPE_CHECKING, Any

from archive.effects.capture.graph.variables import class_behind, inner_of, is_container_proxy, static
from archive.effects.capture.proxies.open_list import OpenList
from archive.effects.capture.proxies.open_part import OpenPart
from archive.effects.capture.proxies.tracked_dict import TrackedDict
from archive.effects.capture.proxies.tracked_set import ORDER, TrackedSet, is_unordered
from archive.effects.python_containers import base_of

if TYPE_CHECKING:
    from archive.effects.capture.table.call import CapturedCall


# --- containers


def plain(value: Any) -> Any:  # noqa: ANN401
    """A value with plain lists and dicts in place of their proxies, at any depth."""
    if is_container_proxy(value):
        return plain(inner_of(value))
    if isinstance(value, OpenList | OpenPart):
        return [plain(one) for one in value]
    if isinstance(value, TrackedDict):
        return {key: plain(one) for key, one in value.items()}
    if type(value) in (tuple, list):
        return type(value)(map(plain, value))
    if type(value) is dict:
        return {key: plain(one) for key, one in value.items()}
    return value


def in_graph(value: Any) -> Any:  # noqa: ANN401
    """An argument as :func:`plain` makes it, but that a list of unknown length becomes one of the graph."""
    items = inner_of(value) if is_container_proxy(value) and isinstance(value, list) else value
    items = items.as_part() if isinstance(items, OpenList) else items
    return items.in_graph() if isinstance(items, OpenPart) else plain(value)


def contents(proxy: Any) -> Any:  # noqa: ANN401
    """The contents of a list's, dict's or set's proxy after the call, without any guard."""
    if isinstance(proxy, OpenList) or type(proxy) is TrackedSet:
        return proxy.contents()
    if isinstance(proxy, TrackedDict):
        return dict(dict.items(proxy))
    return list(list.__iter__(proxy))


# --- container types

KINDS = (list, dict, set, frozenset, OrderedDict, defaultdict, deque)
ORDERED = (list, deque)
TRACKED = (TrackedDict, OpenList, TrackedSet)


class ContainerType:
    """The proxy of a container of Python.

    Args:
        call: the captured call.
        kind: the real class.
    """

    def __init__(self, call: CapturedCall, kind: Any) -> None:  # noqa: ANN401
        self._call = call
        self._kind = kind

    def __call__(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        """Make a container."""
        if args and self._kind in ORDERED and is_unordered(args[-1]):
            self._call.refuse(ORDER)
        if args and issubclass(self._kind, dict) and _is_read_directly(args[-1]):
            args = (*args[:-1], dict(inner_of(args[-1]).items()))
        if len(args) == 1 and self._kind is list and isinstance(iterated(args[0]), OpenList | OpenPart):
            return iterated(args[0]).as_part()
        if args and self._kind in (set, frozenset) and type(args[0]) is TrackedSet:
            args = (args[0].whole(),)
        return self._kind(*args, **kwargs)

    def __instancecheck__(self, value: object) -> bool:
        return isinstance(value, self._kind)

    def __subclasscheck__(self, cls: Any) -> bool:  # noqa: ANN401
        return issubclass(self._call.objects.real_of(cls), self._kind)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        found = getattr(self._kind, name)
        return unbound(self._kind, name) if type(found) in DESCRIPTORS else found

    def __or__(self, other: Any) -> Any:  # noqa: ANN401
        return self._kind | getattr(other, "_kind", other)

    def __ror__(self, other: Any) -> Any:  # noqa: ANN401
        return getattr(other, "_kind", other) | self._kind

    def __getitem__(self, key: Any) -> Any:  # noqa: ANN401
        return self._kind[key]

    def __mro_entries__(self, _: object) -> tuple[type]:
        return (self._kind,)

    def __eq__(self, other: object) -> bool:
        return other is self or other is self._kind

    def __hash__(self) -> int:
        return hash(self._kind)

    def __repr__(self) -> str:
        return repr(self._kind)

    def __reduce__(self) -> Any:  # noqa: ANN401
        return _itself, (self._kind,)


DESCRIPTORS = (type(dict.get), type(dict.__len__))
"""Types of methods that are written in C."""


def _itself(kind: type) -> type:
    return kind


def unbound(kind: Any, name: str) -> Any:  # noqa: ANN401
    """A method of a container of Python, as the class gives it; proxies have it, too."""
    real = getattr(kind, name)

    def method(first: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        if is_container_proxy(first):
            return first_apply(first, name, args, kwargs)
        if type(first) in TRACKED or isinstance(first, OpenList):
            return getattr(first, name)(*args, **kwargs)
        return real(first, *args, **kwargs)

    return method


def first_apply(proxy: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:  # noqa: ANN401
    """Call a method of Python's own container on a proxy."""
    return type(proxy)._call.containers.apply(proxy, name, args, kwargs)


def iterated(value: Any) -> Any:  # noqa: ANN401
    """The inner container of a proxy; the proxy itself if its class has an ``__iter__`` of its own."""
    is_proxy = is_container_proxy(value)
    if not is_proxy or isinstance(static(class_behind(value).__mro__, "__iter__"), FunctionType):
        return value
    return inner_of(value)


def _is_read_directly(value: Any) -> bool:  # noqa: ANN401
    """Whether Python reads the items of a dict past its class's methods: it has no own ``__iter__``."""
    if not is_container_proxy(value) or not issubclass(base_of(class_behind(value)), dict):
        return False
    return not isinstance(static(class_behind(value).__mro__, "__iter__"), FunctionType)
