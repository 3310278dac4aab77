"""What an object of a pickle is here: described, never created.

Texts, numbers, tuples and lists are themselves, and so is a dict of TorchScript's. A name in Python is a
:class:`Global`. Whatever a call would create is :class:`Inert`, and so are dicts and sets of Python's own
pickles, whose keys may be anything, perhaps twice. A shared value is one object with several holders.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import field
from itertools import chain
from typing import TYPE_CHECKING, Any

from archive.base.quick_dataclass import dataclass

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

UNREAD: Any = ...


@dataclass(frozen=True, slots=True)
class Global:
    """The name of something in Python; never looked up."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(slots=True)
class Inert:
    """An object of a pickle that is described, not created.

    Attributes:
        what: its class, or the callable that would have made it; ``dict``, ``set``, ``frozenset``; or
            ``persistent``, for what a persistent id stands for.
        arguments: the arguments of that call.
        state: the state that the object would have been given: attributes by name, or any value.
        items: the values that it holds, or that were appended to it.
        pairs: its keys and values.
        made: the tensor that it describes, or None; UNREAD before anyone asks.
    """

    what: object
    arguments: Sequence[object] = ()
    state: object = None
    items: Sequence[object] = ()
    pairs: Sequence[tuple[object, object]] = ()
    made: Any = field(default=UNREAD, repr=False, compare=False)

    @property
    def attributes(self) -> Mapping[object, object]:
        """The state if it is a dict; else empty."""
        return self.state if isinstance(self.state, dict) else {}


HOLDERS = (Inert, dict, list, tuple)
"""Values that hold others."""
DICTS = ("dict", Global("collections", "OrderedDict"), Global("collections", "defaultdict"))


def parts_of(value: object) -> Iterable[object]:
    """The values that a value holds."""
    match value:
        case tuple() | list():
            return value
        case dict():
            return chain.from_iterable(value.items())
        case Inert():
            pairs = chain.from_iterable(value.pairs)
            return [value.what, *value.arguments, *value.items, *pairs, value.state]
    return ()


def walked(
    top: object, parts: Callable[[object], Iterable[object]] = parts_of, seen: set[int] | None = None
) -> Iterator[object]:
    """A value and all values in it, outer ones first; what holds others comes once.

    Args:
        parts: what a value holds that is walked.
        seen: the ids of those that came before; added to.
    """
    seen = set() if seen is None else seen
    stack = [top]
    while stack:
        value = stack.pop()
        if not isinstance(value, HOLDERS):
            yield value
        elif id(value) not in seen:
            seen.add(id(value))
            yield value
            stack += reversed([*parts(value)])


def bytes_of(value: object) -> object:
    """The bytes that protocols before 3 write as ``_codecs.encode("ab", "latin1")``; others as they are."""
    match value:
        case Inert(what=Global(module="_codecs", name="encode"), arguments=[str(text), "latin1"]):
            with suppress(UnicodeEncodeError):
                return text.encode("latin1")
    return value


def set_of(value: object) -> tuple[str, Sequence[object]] | None:
    """The kind of a set, ``set`` or ``frozenset``, and its elements; None if a value isn't a set.

    Protocols before 4 call its class with a list.
    """
    match value:
        case Inert(what="set" | "frozenset" as kind, items=items):
            return kind, items
        case Inert(
            what=Global(module="__builtin__" | "builtins", name="set" | "frozenset" as kind),
            arguments=[list(items)],
        ):
            return kind, items
    return None
