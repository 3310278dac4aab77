"""Sources and literals: the questions that several modules ask about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from archive.formats.effects.model import (
    Attribute,
    ClosureCell,
    Constant,
    Each,
    GlobalName,
    Item,
    Length,
    Local,
    Made,
    Temporary,
)

if TYPE_CHECKING:
    from archive.formats.effects.model import Source


SOURCES = (Local, Attribute, Item, GlobalName, ClosureCell, Temporary, Length, Each)
"""The classes of ``Source``, for ``isinstance``."""
LITERALS = (bool, int, float, str, bytes, type(None))
"""The types of ``Literal``, but for tuples of them."""


NAMED = (torch.dtype, torch.device)
"""Types whose values a table holds by their texts."""


def named(value: torch.dtype | torch.device) -> Made:
    """A dtype or device as a value of the table."""
    return Made("dtype" if isinstance(value, torch.dtype) else "device", (Constant(str(value)),))


def is_named_tuple(value: object) -> bool:
    """Whether a value is a named tuple of a class that is not PyTorch's."""
    kind = type(value)
    if not isinstance(value, tuple) or kind.__module__ in ("torch", "torch.return_types"):
        return False
    fields: Any = getattr(kind, "_fields", None)
    return isinstance(fields, tuple) and len(fields) == len(value) and not getattr(value, "__dict__", None)


def class_name(kind: type) -> str:
    """The name of a class in a table: ``module:qualname``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def is_literal(value: object) -> bool:
    """Whether a table can hold a value as a constant."""
    if type(value) is tuple:
        return all(map(is_literal, value))
    return type(value) in LITERALS


def is_plain(value: Any) -> bool:  # noqa: ANN401
    """Whether a value is a literal, a tensor, or a list, tuple or dict of nothing but these."""
    if type(value) is dict:
        return all(map(is_literal, value)) and all(map(is_plain, value.values()))
    if type(value) in (list, tuple, torch.Size):
        return all(map(is_plain, value))
    return isinstance(value, torch.Tensor) or is_literal(value)


def root_of(source: Source) -> Source:
    """The argument, global, cell or temporary from which attributes, items and lengths lead to a source."""
    while isinstance(source, Attribute | Item | Length | Each):
        source = source.base
    return source


def is_under_argument(source: Source | None) -> bool:
    """Whether a source is an argument of the method, other than ``self``, or lies in one."""
    if source is None:
        return False
    root = root_of(source)
    return isinstance(root, Local) and root.name != "self"


def identifier_of(source: Source) -> str:
    """A source as a Python identifier."""
    text = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in _joined(source))
    return text if not text[:1].isdigit() else f"_{text}"


def _joined(source: Source) -> str:
    match source:
        case Local(name) | ClosureCell(_, name):
            return name
        case Attribute(base, name):
            return f"{identifier_of(base)}_{name}"
        case Item(base, key):
            return identifier_of(base) if isinstance(key, bytes) else f"{identifier_of(base)}_{key!s}"
        case Length(base):
            return f"{identifier_of(base)}_length"
        case GlobalName(module, name):
            return f"{module.rpartition('.')[2]}_{name}"
        case _:
            return "value"
