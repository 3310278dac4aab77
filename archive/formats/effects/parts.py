"""What sources, values and methods are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from archive.formats.effects.model import At, Attribute, Item, Made, Output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.effects.model import MethodEffects, Source, Value


def reads(value: Value) -> Iterator[Source]:
    """The sources that a value is made of; those in a value that is shared once."""
    for part in _parts([value]):
        if isinstance(part, At):
            yield part.source


def _parts(values: list[Value]) -> Iterator[Value]:
    """Values and those in them, in order, each object once."""
    seen: dict[int, Value] = {}
    waiting = values[::-1]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        yield value
        if isinstance(value, Made):
            waiting += value.items[::-1]


def root_of(source: Source) -> Source:
    """What a source is under."""
    while isinstance(source, Attribute | Item):
        source = source.base
    return source


def places(effects: MethodEffects) -> Iterator[Source]:
    """All sources of a method."""
    yield from effects.inputs
    yield from reads(effects.result)
    for effect in effects.effects:
        yield effect.source
        for value in (effect.key, effect.value):
            if value is not None:
                yield from reads(value)


def guarded(effects: MethodEffects) -> Iterator[Source]:
    """The sources that a method's guards look at."""
    for guard in effects.guards:
        yield from reads(guard.subject)
        yield from reads(guard.value)


def output_count(effects: MethodEffects) -> int:
    """How many values the graph gives, at least: as many as the effects ask for."""
    values = [
        value for effect in effects.effects for value in (effect.key, effect.value) if value is not None
    ]
    values += [guard.subject for guard in effects.guards]
    parts = _parts([effects.result, *values])
    return 1 + max((part.index for part in parts if isinstance(part, Output)), default=-1)
