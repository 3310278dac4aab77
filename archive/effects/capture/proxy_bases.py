"""Bases of objects' proxies, and what leads from a proxy to its class and its contents."""

from __future__ import annotations

from types import (
    ClassMethodDescriptorType,
    GetSetDescriptorType,
    MethodDescriptorType,
    WrapperDescriptorType,
)
from typing import Any

from archive.effects.capture.variables import ABSENT

SLOTS = (WrapperDescriptorType, MethodDescriptorType, GetSetDescriptorType, ClassMethodDescriptorType)
"""Types of methods and attributes of classes that are not written in Python."""


def static(order: tuple[type, ...], name: str) -> Any:  # noqa: ANN401
    """The first of some classes' attributes by a name, unbound; ``ABSENT`` if none has it."""
    return next((cls.__dict__[name] for cls in order if name in cls.__dict__), ABSENT)


class ObjectProxy:
    """Base of objects' proxies. Each class has a proxy class, which derives from this one and from it."""

    def __init_subclass__(cls) -> None:
        """Do nothing, so that the object's own class does not hear of its proxy class."""


class ContainerProxy(ObjectProxy):
    """Base of the proxies of containers: what such a one holds is in its inner container, not in itself."""


def is_container_proxy(value: object) -> bool:
    """Whether a value is the proxy of a container; nothing of the value itself is read."""
    return issubclass(type(value), ContainerProxy)


def class_behind(proxy: object) -> type:
    """The class of the object behind an object's proxy."""
    order = type(proxy).__mro__
    return order[order.index(ObjectProxy) + 1]


def inner_of(proxy: Any) -> Any:  # noqa: ANN401
    """The inner container of a container's proxy."""
    return type(proxy)._inner.__get__(proxy)


def set_inner(proxy: Any, inner: Any) -> None:  # noqa: ANN401
    """Give a proxy its inner container."""
    type(proxy)._inner.__set__(proxy, inner)
