"""What later calls reach by objects that a call moves to other places.

After ``self.a, self.b = self.b, self.a``, what a call reads of ``self.a`` is read of the object that was
``self.b`` at the capture. So the state has it, too: whatever is read at a place is read of all objects that
effects may bring there. Places between which effects move objects form one *group*; what is read of one place
is read of every object of its group, and in a ring or chain of all that are linked.
"""

from __future__ import annotations

import inspect
from collections import deque
from typing import TYPE_CHECKING, Any

from archive.effects.capture.graph.variables import (
    key_literal,
    key_of,
)
from archive.effects.capture.proxies.proxies import is_followed
from archive.effects.capture.table.snapshot import Snapshot
from archive.effects.errors import CaptureError
from archive.effects.placeholders import ABSENT
from archive.effects.places import base_of, is_container, items_of
from archive.formats.effects.model import (
    At,
    Attribute,
    Constant,
    Each,
    Item,
    Length,
    Made,
    New,
    Op,
    Temporary,
)
from archive.formats.effects.parts import is_under_argument, parts_of
from archive.formats.effects.source_text import source_text
from archive.formats.effects.words import ATTRIBUTE_OPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from archive.formats.effects.model import Effect, MethodEffects, Source, Value

MOST_LINKS = 64
"""Attributes and items from a name of the model to an object: each is a level of recursion later."""
ITEM_OPS = (Op.SET_ITEM, Op.DELETE_ITEM, Op.INSERT, Op.POP, Op.POP_LEFT, Op.APPEND, Op.APPEND_LEFT, Op.EXTEND)
"""Effects after which other items may stand at an index or key."""
ANY = object()
"""In place of the keys of a container whose items change places."""


class _Group:
    """Places between which effects move objects.

    Attributes:
        parts: the groups of what is read there, by name of the attribute or by key; of a container whose
            items change places there is one, ``ANY``.
        is_mixed: whether objects move between several places.
    """

    __slots__ = ("is_mixed", "parts", "same")

    def __init__(self) -> None:
        self.parts: dict[Any, _Group] = {}
        self.same: _Group | None = None
        self.is_mixed = False

    def found(self) -> _Group:
        """The group that this one has become a part of."""
        group = self
        while group.same is not None:
            group = group.same
        return group

    def part(self, step: tuple[str, Any], new: _Group | None = None) -> _Group:
        """The group of a part, by a kind and a name or key; ``new`` where there is none yet."""
        group = self.found()
        if step[0] == "item" and ("item", ANY) in group.parts:
            step = ("item", ANY)
        return group.parts.setdefault(step, new or _Group()).found()

    def mix_items(self) -> None:
        """Let all items be in one group."""
        parts = self.found().parts
        single = [parts.pop(step) for step in list(parts) if step[0] == "item" and step[1] is not ANY]
        mixed = self.part(("item", ANY))
        mixed.is_mixed = True
        for part in single:
            mixed.join(part)

    def join(self, other: _Group) -> None:
        """Let two groups be one, and those of their parts."""
        waiting = [(self, other)]
        while waiting:
            one, two = (group.found() for group in waiting.pop())
            if one is two:
                one.is_mixed = True
                continue
            two.same, one.is_mixed = one, True
            parts, two.parts = two.parts, {}
            if any(("item", ANY) in held for held in (one.parts, parts)):
                one.mix_items()
            for step, part in parts.items():
                waiting.append((one.part(step, part), part))


class _Groups:
    """The groups of all places of some tables.

    Attributes:
        roots: those of names, from which attributes and items lead to all others.
        are_mixed: whether effects may move any object.
    """

    def __init__(self) -> None:
        self.roots: dict[Any, _Group] = {}
        self.are_mixed = False
        self._method = 0

    def of_tables(self, tables: Sequence[MethodEffects]) -> None:
        """Note the effects of a method's entries."""
        for self._method, table in enumerate(tables):
            for effect in table.effects:
                self._note(effect)

    def at(self, source: Source) -> _Group:
        """The group of a place."""
        if isinstance(source, Attribute):
            return self.at(source.base).part(("attribute", source.name))
        if isinstance(source, Item):
            return self.at(source.base).part(("item", source.key))
        if isinstance(source, Length | Each):
            return self.at(source.base)
        root = (self._method, source) if isinstance(source, Temporary) else source
        return self.roots.setdefault(root, _Group()).found()

    def _note(self, effect: Effect) -> None:
        target = self.at(effect.source)
        if effect.op in ATTRIBUTE_OPS and isinstance(effect.key, Constant):
            target = target.part(("attribute", effect.key.value))
        elif effect.op in ITEM_OPS:
            self.are_mixed = True
            target.mix_items()
            if effect.op is Op.EXTEND:
                self._flow(target, effect.value)
                return
            target = target.part(("item", ANY))
        elif effect.op not in (Op.SET_GLOBAL, Op.SET_CELL):
            return
        self._flow(target, effect.value)

    def _flow(self, target: _Group, value: Value | None) -> None:
        """Note that a value, and the objects in it, come to a place."""
        if value is None or not any(isinstance(part, At | New) for part in parts_of([value])):
            return
        self.are_mixed = True
        if isinstance(value, At):
            target.join(self.at(value.source))
        elif isinstance(value, New):
            target.join(self.at(Temporary(value.number)))
        elif isinstance(value, Made):
            target.mix_items()
            for item in value.items:
                self._flow(target.part(("item", ANY)), item)


def add_moved(
    tables: Sequence[MethodEffects],
    sources: Sequence[Source],
    originals: dict[Source, Any],
    aliases: dict[Source, Source],
) -> list[Source]:
    """Add what later calls read of objects that are in other places then.

    Args:
        aliases: further sources of a value, each with the first one, to which others are added.
    """
    groups = _Groups()
    groups.of_tables(tables)
    for source in sources if groups.are_mixed else ():
        groups.at(source)
    waiting = deque(
        (root, originals[root], group.found(), 0, False)
        for root, group in groups.roots.items()
        if groups.are_mixed and root in originals and not is_under_argument(root)
    )
    listed = set(sources)
    known: dict[int, Source] = {}
    added: list[Source] = []
    seen: set[tuple[int, int]] = set()
    while waiting:
        source, holder, group, depth, is_moved = waiting.popleft()
        known.setdefault(id(holder), source)
        if (id(holder), id(group)) in seen:
            continue
        seen.add((id(holder), id(group)))
        for place, value, part in _parts(source, holder, group):
            may_move = is_moved or part.is_mixed
            is_object = is_followed(value) and not is_container(value)
            # The row of a container has its items.
            if may_move and place not in listed and (is_object or isinstance(place, Attribute)):
                if depth > MOST_LINKS:
                    raise CaptureError(f"calls move objects that are linked too deeply: {source_text(place)}")
                if is_object and id(value) in known and place not in originals:
                    aliases.setdefault(place, known[id(value)])
                else:
                    originals[place] = value
                added.append(place)
            if part.parts and (is_object or isinstance(value, tuple) or is_container(value)):
                waiting.append((place, value, part, depth + 1, may_move))
    return added


def _parts(source: Source, holder: Any, group: _Group) -> Iterator[tuple[Source, Any, _Group]]:
    """The parts of a value that are read, each with its source and group."""
    for (kind, name), part in group.parts.items():
        if kind == "attribute":
            value = attribute_of(holder, name)
            if value is not ABSENT:
                yield Attribute(source, name), value, part.found()
        elif name is ANY:
            for key, value in _items(holder):
                yield Item(source, key), value, part.found()
        else:
            value = item_of(holder, name)
            if value is not ABSENT:
                yield Item(source, name), value, part.found()


def _items(holder: Any) -> Iterator[tuple[Any, Any]]:
    """The items of a container, by the literals that stand for their keys."""
    if isinstance(holder, dict):
        yield from ((key_literal(key), value) for key, value in items_of(holder))
    elif isinstance(holder, tuple):
        yield from enumerate(tuple.__iter__(holder))
    elif is_container(holder) and not isinstance(holder, set | frozenset):
        yield from enumerate(items_of(holder))


# --- real values


def attribute_of(owner: Any, name: str) -> Any:
    """An attribute of an object or of its class as it is, without a call; ``ABSENT`` if there is none."""
    value = Snapshot().attribute(owner, name)
    return inspect.getattr_static(owner, name, ABSENT) if value is ABSENT else value


def item_of(container: Any, key: Any) -> Any:
    """An item of a list, tuple or dict, by the literal of its key; ``ABSENT`` if there is none."""
    if isinstance(container, dict):
        return dict.get(container, key_of(key), ABSENT)
    base: Any = tuple if isinstance(container, tuple) else base_of(type(container))
    if base not in (list, tuple, deque):
        return ABSENT
    try:
        return base.__getitem__(container, key)
    except LookupError:
        return ABSENT
