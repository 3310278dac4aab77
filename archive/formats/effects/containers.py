"""Containers besides lists, tuples and dicts: the items of each kind, and their rules.

==============  ===============================================================================
kind            items
==============  ===============================================================================
set, frozenset  the elements: constants, dtypes and devices
deque           the maximum length, a constant or None; then the items
OrderedDict     keys and values in turn
defaultdict     the factory, ``module:qualname`` or None; then keys and values in turn
namedtuple      the class, ``module:qualname``; the names of the fields, a tuple; then the items
subclass        the class, ``module:qualname``; then its contents: one of ``CONTAINER_CLASSES``
view            a tensor, at its source; then shape, strides and offset of a part of it, in elements
==============  ===============================================================================

Only the state has a ``subclass`` or a ``view``. In a call an effect ``new`` creates an object of a class
derived from a container: its value is an empty container of that kind.
"""

from __future__ import annotations

import keyword
import re
from collections import OrderedDict, defaultdict, deque
from typing import TYPE_CHECKING, Any

from archive.base.errors import ArchiveError, shown
from archive.formats.effects.hooks import QUALIFIED_NAME
from archive.formats.effects.model import At, Constant, Made

if TYPE_CHECKING:
    from archive.formats.effects.model import Value

PARAMETERS = {"deque": 1, "defaultdict": 1, "namedtuple": 2, "subclass": 1}
"""How many leading items are a container's parameters, such as its class or its maximum length."""
CONTAINER_CLASSES: dict[str, Any] = {
    "list": list,
    "dict": dict,
    "set": set,
    "deque": deque,
    "OrderedDict": OrderedDict,
    "defaultdict": defaultdict,
}
"""Python's containers that can change: an effect ``new`` creates them, and classes derive from them."""
CLASS_NAMES = {kind: f"{cls.__module__}:{cls.__qualname__}" for kind, cls in CONTAINER_CLASSES.items()}
PAIRED = tuple(kind for kind, cls in CONTAINER_CLASSES.items() if issubclass(cls, dict))
"""Kinds that hold keys and values in turn."""
SETS = ("set", "frozenset")
STATE_KINDS = ("subclass", "view")
"""Kinds that only the state has."""
VIEW_ITEMS = 4
NAMED_KINDS = {"dtype": re.compile(r"torch\.[a-z]\w*"), "device": re.compile(r"[a-z]+(:\d+)?")}
"""Kinds of :class:`Made` that are made from a text, and what the text looks like."""
CONTAINER_KINDS = (
    *("list", "tuple", "dict", "size", *NAMED_KINDS, "format", "inference"),
    *(*SETS, "deque", "OrderedDict", "defaultdict", "namedtuple", *STATE_KINDS),
)
"""Kinds of :class:`Made` that are values by themselves; hooks are not."""
FACTORIES = {f"builtins:{cls.__name__}": cls for cls in (list, dict, set, int, float, bool, str, tuple)}
"""Builtins that a ``defaultdict`` may call without permission."""


def contents(made: Made) -> tuple[Value, ...]:
    """The contents of a container, without its parameters."""
    return made.items[PARAMETERS.get(made.kind, 0) :]


def parameter(made: Made, index: int = 0) -> object:
    """A parameter of a container; None if it has none, or that isn't a constant."""
    item = made.items[index] if index < PARAMETERS.get(made.kind, 0) else None
    return item.value if isinstance(item, Constant) else None


def is_base(value: object, *, empty: bool = False) -> bool:
    """Whether a value is a container that a class may derive from."""
    return isinstance(value, Made) and value.kind in CONTAINER_CLASSES and not (empty and contents(value))


def check_container(made: Made) -> None:
    """Refuse a container whose items are not those of its kind."""
    kind, first = made.kind, PARAMETERS.get(made.kind, 0)
    if len(made.items) < first:
        raise ArchiveError(f"a {kind} without what says which")
    if not all(isinstance(item, Constant) for item in made.items[: min(first, 2)]):
        raise ArchiveError(f"a {kind} that no constant defines")
    if kind in PAIRED and (len(made.items) - first) % 2:
        raise ArchiveError(f"a {kind} with a key that has no value")
    if kind in SETS and not all(_is_element(item) for item in made.items):
        raise ArchiveError(f"a {kind} with an element that isn't a constant")
    if first and not _says_which(made):
        raise ArchiveError(f"a {kind} of {shown(parameter(made))}")
    if kind == "view" and not _is_view(made.items):
        raise ArchiveError("a view of no tensor")
    if kind == "subclass" and not (len(made.items) == first + 1 and is_base(made.items[1])):
        raise ArchiveError(f"a subclass of no container: {shown(parameter(made))}")


def _is_view(items: tuple[Value, ...]) -> bool:
    """Whether items are a tensor's source, a shape, as many strides, and an offset."""
    if len(items) != VIEW_ITEMS or not isinstance(items[0], At):
        return False
    shape, strides, offset = (item.value if isinstance(item, Constant) else None for item in items[1:])
    if not isinstance(shape, tuple) or not isinstance(strides, tuple) or len(shape) != len(strides):
        return False
    return all(type(one) is int and 0 <= one < 1 << 63 for one in (*shape, *strides, offset))


def _is_element(item: object) -> bool:
    return isinstance(item, Constant) or (isinstance(item, Made) and item.kind in ("dtype", "device"))


def _says_which(made: Made) -> bool:
    """Whether the constants before the contents fit the kind."""
    which = parameter(made)
    if made.kind == "deque":
        return which is None or (type(which) is int and 0 <= which < 1 << 63)
    if made.kind == "defaultdict" and which is None:
        return True
    if not isinstance(which, str) or QUALIFIED_NAME.fullmatch(which) is None:
        return False
    return made.kind != "namedtuple" or _are_fields(parameter(made, 1), len(contents(made)))


def _are_fields(names: object, count: int) -> bool:
    """Whether names can be those of a named tuple's fields."""
    if not isinstance(names, tuple) or len(names) != count or len(set(names)) != count:
        return False
    return all(
        isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and name[0] != "_"
        for name in names
    )
