"""The values of all sources in a call's table, before the call."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import torch

from archive.effects.capture.following.wrapping import BUILTIN_CODE, SAFE
from archive.effects.capture.graph.variables import (
    HELD_BY_NAME,
    LITERALS,
    class_name,
    is_literal,
    is_named_tuple,
    key_literal,
    named,
)
from archive.effects.capture.moved import add_moved, attribute_of, item_of
from archive.effects.capture.proxies.proxies import is_followed
from archive.effects.capture.table.pending import InitialState
from archive.effects.errors import CaptureError
from archive.effects.looking import WITHOUT_MODES
from archive.effects.placeholders import ABSENT
from archive.effects.places import CONTAINERS, base_of, is_container, items_of
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Constant,
    Each,
    GlobalName,
    Item,
    Length,
    Local,
    Made,
    Op,
    Stored,
    Temporary,
)
from archive.formats.effects.parts import is_under_argument, reads
from archive.formats.effects.source_text import source_text
from archive.formats.effects.words import ATTRIBUTE_OPS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from archive.effects.capture.table.call import CapturedCall
    from archive.formats.effects.model import MethodEffects, Source, Value


def originals_of(
    module: object, calls: Sequence[CapturedCall]
) -> tuple[dict[Source, object], dict[Source, Source]]:
    """The values before the first of some captured calls, by source; and further sources of equal objects.

    Args:
        calls: the first one starts from the real objects, the others from what earlier ones leave.
    """
    originals, aliases = dict(calls[0].originals), dict(calls[0].aliases)
    for call in calls[1:]:
        for source in call.originals:
            value = originals.get(source, _real(source, module, call))
            if value is not ABSENT:
                originals[source] = value
        for source, first in call.aliases.items():
            value = _real(source, module, call)
            if value is not ABSENT and value is _real(first, module, call):
                aliases.setdefault(source, first)
    return originals, aliases


def originals_now(module: object, calls: Sequence[CapturedCall]) -> dict[Source, object]:
    """The values of the sources of captured calls, as they are in the real objects now."""
    found: dict[Source, object] = {}
    for call in calls:
        for source in call.originals:
            value = _real(source, module, call)
            if value is not ABSENT:
                found[source] = value
    return found


def _real(source: Source, module: object, call: CapturedCall) -> Any:
    """The real value at a source of a call; ``ABSENT`` if there is none."""
    match source:
        case Local("self"):
            return module
        case Attribute(base, name):
            owner = _real(base, module, call)
            return ABSENT if owner is ABSENT else attribute_of(owner, name)
        case Item(base, key):
            return item_of(_real(base, module, call), key)
        case GlobalName() | ClosureCell():
            return call.functions.real(source)
    return ABSENT


def initial_state(
    originals: Mapping[Source, object], aliases: Mapping[Source, Source], tables: Sequence[MethodEffects]
) -> InitialState:
    """The values of sources before the first call.

    Args:
        aliases: further sources of a value, each with the first one.
    """
    originals, aliases = dict(originals), dict(aliases)
    sources = list(dict.fromkeys(source for effects in tables for source in sources_in(effects)))
    sources += add_moved(tables, sources, originals, aliases)
    changed = {effect.source for table in tables for effect in table.effects if effect.op is Op.COPY}
    state = _Rows(originals, changed, aliases)
    for source in sources:
        state.add(source)
    for source, first in aliases.items():
        state.alias(source, first)
    return InitialState(tuple(state.entries.items()), tuple(state.tensors))


def sources_in(effects: MethodEffects) -> Iterator[Source]:
    """The sources in a table."""
    yield from effects.inputs
    yield from reads(effects.result)
    for effect in effects.effects:
        if effect.op in ATTRIBUTE_OPS and isinstance(effect.key, Constant):
            yield Attribute(effect.source, str(effect.key.value))
        else:
            yield effect.source
        for value in (effect.key, effect.value):
            if value is not None:
                yield from reads(value)
    for guard in effects.guards:
        for value in (guard.subject, guard.value):
            yield from reads(value)


class _Rows:
    """Collects the values of sources, and the tensors among them, which values refer to by number."""

    def __init__(
        self, originals: Mapping[Source, object], changed: Iterable[Source], aliases: Mapping[Source, Source]
    ) -> None:
        self.entries: dict[Source, Value] = {}
        self.tensors: list[Any] = []
        self._originals, self._aliases = originals, aliases
        self._known: dict[int, Source] = {}
        self._objects: list[object] = []
        self._changed: dict[int, tuple[Source, Any]] = {}
        for source in changed:
            tensor = originals.get(source)
            if isinstance(tensor, torch.Tensor):
                self._changed[tensor.untyped_storage().data_ptr()] = source, tensor

    def add(self, source: Source) -> None:
        """Add the value of a source, after those of its containers."""
        chain = [source.base if isinstance(source, Length | Each) else source]
        while isinstance(chain[-1], Attribute | Item):
            chain.append(chain[-1].base)
        if isinstance(chain[-1], Temporary) or is_under_argument(source):
            return
        originals = self._originals
        for place in reversed(chain):
            if place in self.entries or place not in originals or self._covered(place):
                continue
            value = originals[place]
            if place is chain[0] or isinstance(value, tuple) or is_container(value):
                lowered = self._value(value, place)
                if lowered is not None:
                    self.entries[place] = lowered

    def alias(self, source: Source, first: Source) -> None:
        """Add a source whose value is also at another one, already added."""
        is_object = first in self._originals and not _has_value(self._originals[first])
        if (first in self.entries or is_object) and source not in self.entries and not self._covered(source):
            self.entries[source] = At(first)

    def _covered(self, source: Source) -> bool:
        """Whether the entry of a container holds an item."""
        return isinstance(source, Item) and (source.base in self.entries or self._covered(source.base))

    def _value(self, value: Any, source: Source) -> Value | None:
        if type(value) in LITERALS:
            return Constant(value)
        if isinstance(value, HELD_BY_NAME):
            return named(value)
        if isinstance(value, SAFE) and not isinstance(value, BUILTIN_CODE):
            return Constant(str(value))  # guards compare the text of such values
        if not (isinstance(value, torch.Tensor | tuple) or is_container(value)) or _is_odd_set(value):
            return None
        if id(value) in self._known:
            return At(self._known[id(value)])
        self._known[id(value)] = source
        self._objects.append(value)
        if isinstance(value, torch.Tensor):
            with WITHOUT_MODES():
                view = self._view(value, source)
                if view is not None:
                    return view
                self.tensors.append(value.detach().clone().requires_grad_(value.requires_grad))
            return Stored(len(self.tensors) - 1)
        if not isinstance(value, tuple):
            return self._container(value, source)
        items = [self._inside(item, Item(source, index)) for index, item in enumerate(value)]
        if is_named_tuple(value):
            kind: Any = type(value)
            return Made("namedtuple", (Constant(class_name(kind)), Constant(kind._fields), *items))
        return Made("size" if type(value) is torch.Size else "tuple", tuple(items))

    def _container(self, value: Any, source: Source) -> Made:
        """A list, dict or the like, or an object of a class derived from one."""
        kind, base, items = type(value), base_of(type(value)), items_of(value)
        which: tuple[Value, ...] = ()
        if base is deque:
            which = (Constant(value.maxlen),)
        elif base is defaultdict:
            factory = value.default_factory  # its name, whether it can be imported or not
            which = (Constant(None if factory is None else class_name(factory)),)
        inside: Iterable[Value]
        if issubclass(base, dict):
            keys = [key_literal(key) for key, _ in items]
            pairs = (
                (Constant(key), self._inside(item, Item(source, key)))
                for key, (_, item) in zip(keys, items, strict=True)
            )
            inside = (part for pair in pairs for part in pair)
        elif base in (set, frozenset):
            items = sorted(items, key=repr)
            inside = (named(item) if isinstance(item, HELD_BY_NAME) else Constant(item) for item in items)
        else:
            inside = (self._inside(item, Item(source, index)) for index, item in enumerate(items))
        made = Made(CONTAINERS[base], (*which, *inside))
        return made if kind is base else Made("subclass", (Constant(class_name(kind)), made))

    def _view(self, tensor: Any, source: Source) -> Made | None:
        """A tensor as a part of one that calls change in place; None if it shares memory with none."""
        address = tensor.untyped_storage().data_ptr()
        if address not in self._changed or not tensor.numel():
            return None
        base, whole = self._changed[address]
        if whole is tensor:
            return None
        first = tensor.storage_offset() - whole.storage_offset()
        steps = zip(tensor.shape, tensor.stride(), strict=True)
        last = first + sum((size - 1) * stride for size, stride in steps)
        if last < 0 or first >= whole.numel():
            return None
        is_part = first >= 0 and last < whole.numel() and tensor.dtype is whole.dtype
        if not is_part or not whole.is_contiguous() or tensor.requires_grad or tensor.grad_fn is not None:
            said = f"{source_text(source)} shares memory with {source_text(base)}"
            raise CaptureError(f"{said}, which changes in place")
        shape = Constant(tuple(tensor.shape)), Constant(tensor.stride()), Constant(first)
        return Made("view", (At(base), *shape))

    def _inside(self, value: Any, source: Source) -> Value:
        """The value of an item; an object, which has no value of its own, is the value at its source."""
        inside = self._value(value, source)
        return At(self._aliases.get(source, source)) if inside is None else inside


def _has_value(value: object) -> bool:
    """Whether a table can hold a value itself; an object is known only by its attributes."""
    return not is_followed(value) or is_container(value) or isinstance(value, torch.nn.Module)


def _is_odd_set(value: object) -> bool:
    """Whether a value is a set with elements other than constants, which no table holds."""
    return isinstance(value, set | frozenset) and not all(
        is_literal(element) or isinstance(element, HELD_BY_NAME) for element in items_of(value)
    )
