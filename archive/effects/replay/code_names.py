"""Classes and functions that effects name, looked up only if the caller allows them."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from typing import Any, TypeAlias

from archive.effects.errors import StateError

Allowed: TypeAlias = "Collection[str] | Mapping[str, object]"
"""Names ``module:qualname``, or a mapping from such names to the objects to use."""


def resolved(name: str, allow: Allowed) -> object:
    """The class or function of a name.

    Raises:
        StateError: the name is not allowed.
        ImportError: there is no such module.
        AttributeError: the module has no such class or function.
    """
    if name not in allow:
        raise StateError(f"{name!r} is not allowed; pass allow=[{name!r}] if you trust it")
    if isinstance(allow, Mapping):
        return allow[name]
    module, _, qualified = name.partition(":")
    found: Any = importlib.import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    return found
