"""The values before a call, of all sources in its table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.pending import InitialState
from archive.effects.capture.sources import LITERALS, NAMED, named
from archive.effects.capture.wrapping import BUILTIN_CODE, SAFE
from archive.effects.looking import WITHOUT_MODES
from archive.formats.effects.model import (
    ATTRIBUTE_OPS,
    At,
    Attribute,
    Computed,
    Constant,
    Each,
    Item,
    Length,
    Local,
    Made,
    Stored,
    Temporary,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from archive.formats.effects.model import MethodEffects, Source, Value

PLAIN_CONTAINERS = (list, dict, tuple)


def initial_state(
    originals: Mapping[Source, object], aliases: Mapping[Source, Source], tables: Iterable[MethodEffects]
) -> InitialState:
    """The values of sources before the first call.

    Args:
        originals: real values by source.
        aliases: further sources of a value, each with the first one.
        tables: of the method, one for each entry.
    """
    state = _Rows(originals)
    for source in dict.fromkeys(source for effects in tables for source in sources_in(effects)):
        state.add(source)
    for source, first in aliases.items():
        state.alias(source, first)
    return InitialState(tuple(state.entries.items()), tuple(state.tensors))


def sources_in(effects: MethodEffects) -> Iterator[Source]:
    """The sources that stand in a table."""
    yield from effects.inputs
    yield from _in_value(effects.result)
    for effect in effects.effects:
        if effect.op in ATTRIBUTE_OPS and isinstance(effect.key, Constant):
            yield Attribute(effect.source, str(effect.key.value))
        else:
            yield effect.source
        for value in (effect.key, effect.value):
            if value is not None:
                yield from _in_value(value)
    for guard in effects.guards:
        for value in (guard.subject, guard.value):
            yield from _in_value(value)


def _in_value(value: Value) -> Iterator[Source]:
    if isinstance(value, At):
        yield value.source
    elif isinstance(value, Made | Computed):
        for one in value.items:
            yield from _in_value(one)


class _Rows:
    """Collects entries.

    Args:
        originals: real values by source.

    Attributes:
        entries: by source.
        tensors: by their numbers.
    """

    def __init__(self, originals: Mapping[Source, object]) -> None:
        self.entries: dict[Source, Value] = {}
        self.tensors: list[Any] = []
        self._originals = originals
        self._known: dict[int, Source] = {}
        self._objects: list[object] = []

    def add(self, source: Source) -> None:
        """Add the value of a source, after those of the containers that it is in."""
        chain = [source.base if isinstance(source, Length | Each) else source]
        while isinstance(chain[-1], Attribute | Item):
            chain.append(chain[-1].base)
        first = chain[-1]
        if isinstance(first, Temporary) or (isinstance(first, Local) and first.name != "self"):
            return
        originals = self._originals
        for one in reversed(chain):
            if one in self.entries or one not in originals or self._covered(one):
                continue
            value = originals[one]
            if one is chain[0] or isinstance(value, PLAIN_CONTAINERS):
                lowered = self._value(value, one)
                if lowered is not None:
                    self.entries[one] = lowered

    def alias(self, source: Source, first: Source) -> None:
        """Add a source whose value also lived at another one, already added."""
        if first in self.entries and source not in self.entries and not self._covered(source):
            self.entries[source] = At(first)

    def _covered(self, source: Source) -> bool:
        """Whether the entry of a container holds an item."""
        return isinstance(source, Item) and (source.base in self.entries or self._covered(source.base))

    def _value(self, value: Any, source: Source) -> Value | None:  # noqa: ANN401, PLR0911
        if type(value) in LITERALS:
            return Constant(value)
        if isinstance(value, NAMED):
            return named(value)
        if isinstance(value, SAFE) and not isinstance(value, BUILTIN_CODE):
            return Constant(str(value))  # guards compare the text of such values
        if not isinstance(value, (*PLAIN_CONTAINERS, torch.Tensor)):
            return None
        if id(value) in self._known:
            return At(self._known[id(value)])
        self._known[id(value)] = source
        self._objects.append(value)
        if isinstance(value, torch.Tensor):
            with WITHOUT_MODES():
                self.tensors.append(value.detach().clone().requires_grad_(value.requires_grad))
            return Stored(len(self.tensors) - 1)
        if type(value) is dict:
            parts = [
                part
                for key, one in value.items()
                for part in (Constant(key), self._inside(one, Item(source, key)))
            ]
            return Made("dict", tuple(parts))
        items = (self._inside(one, Item(source, index)) for index, one in enumerate(value))
        kind = {list: "list", torch.Size: "size"}.get(type(value), "tuple")
        return Made(kind, tuple(items))

    def _inside(self, value: Any, source: Source) -> Value:  # noqa: ANN401
        """The value of an item; an object, which has no value of its own, is the value at its source."""
        found = self._value(value, source)
        return At(source) if found is None else found
