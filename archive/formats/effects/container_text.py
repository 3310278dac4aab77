"""Containers as Python: ``collections.deque([1, 2], 3)``, ``models.Pair(out[0], None)``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.formats.effects.containers import BASES, HEADS, PAIRED, head
from archive.formats.effects.model import Made

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from archive.formats.effects.model import Value

FACTORIES = ("list", "dict", "set", "int", "float", "bool", "str", "tuple")
"""Builtins that a ``defaultdict`` may call without permission."""
COLLECTIONS = ("deque", "OrderedDict", "defaultdict")
"""Kinds of containers that Python has in ``collections``."""


def container_text(made: Made, items: Sequence[str], reference: Callable[[str], str]) -> str:
    """A container as an expression.

    Args:
        made: a dict, or a container of a kind that :mod:`archive.formats.effects.containers` describes.
        items: the texts of its items.
        reference: gives a class or function ``module:qualname`` as an expression.
    """
    if made.kind == "view":
        return f"{items[0]}.as_strided({', '.join(items[1:])})"
    kind, inside = made.kind, list(items[HEADS.get(made.kind, 0) :])
    if kind in PAIRED:
        pairs = zip(inside[::2], inside[1::2], strict=False)
        text = f"{{{', '.join(f'{key}: {item}' for key, item in pairs)}}}"
        if kind == "defaultdict":
            return f"collections.defaultdict({_factory(head(made), reference)}, {text})"
        return text if kind == "dict" else f"collections.OrderedDict({text})"
    if kind == "set":
        return f"{{{', '.join(inside)}}}" if inside else "set()"
    listed = f"[{', '.join(inside)}]"
    if kind == "deque":
        return f"collections.deque({listed}{'' if head(made) is None else f', {head(made)}'})"
    if kind == "frozenset":
        return f"frozenset({listed if inside else ''})"
    return f"{reference(str(head(made)))}({', '.join(inside)})"


def new_text(target: str, name: str, base: Made, empty: str, reference: Callable[[str], str]) -> str:
    """The statement that makes a container, or an object of a class that derives from one.

    Args:
        target: the name that is bound.
        name: the class, ``module:qualname``.
        base: an empty container of the kind that the class is, or derives from.
        empty: its text.
        reference: see :func:`container_text`.
    """
    if name == BASES[base.kind]:
        return f"{target} = {empty}"
    cls = f"collections.{base.kind}" if base.kind in COLLECTIONS else base.kind
    made = f"{target} = {cls}.__new__({reference(name)})"
    if head(base) is None:
        return made
    given = f"[], {head(base)}" if base.kind == "deque" else _factory(head(base), reference)
    return f"{made}; {cls}.__init__({target}, {given})"


def _factory(name: object, reference: Callable[[str], str]) -> str:
    """The factory of a ``defaultdict`` as an expression."""
    if name is None:
        return "None"
    module, _, function = str(name).partition(":")
    return function if module == "builtins" and function in FACTORIES else reference(str(name))


def modules_named(value: Value) -> Iterator[str]:
    """The Python modules in the text of a value, without those of its items."""
    if not isinstance(value, Made):
        return
    if value.kind in COLLECTIONS:
        yield "collections"
    which = head(value)
    if isinstance(which, str):
        yield which.partition(":")[0]
