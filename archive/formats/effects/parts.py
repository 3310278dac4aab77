"""Parts of facts: sources in values and methods, outputs of the graph; tables without places in source."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from archive.formats.effects.known_calls import without_place
from archive.formats.effects.model import At, Attribute, Computed, Each, Item, Length, Local, Made, Op, Output

if TYPE_CHECKING:
    from collections.abc import Iterator

    from archive.formats.effects.model import EffectTable, MethodEffects, Source, Value


def reads(value: Value) -> Iterator[Source]:
    """The sources that a value reads; those of a shared part only once."""
    for part in parts_of([value]):
        if isinstance(part, At):
            yield part.source


def parts_of(values: list[Value]) -> Iterator[Value]:
    """Values and those inside them, depth first, each object only once."""
    seen: dict[int, Value] = {}
    waiting = values[::-1]
    while waiting:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        yield value
        if isinstance(value, Made | Computed):
            waiting += value.items[::-1]


def source_of(path: str) -> Source:
    """The source of a module's part, parameter or buffer, such as ``encoder.weight``."""
    source: Source = Local("self")
    for name in path.split(".") if path else ():
        source = Attribute(source, name)
    return source


def root_of(source: Source) -> Source:
    """The argument, global, cell or temporary from which attributes, items and lengths lead to a source."""
    while isinstance(source, Attribute | Item | Length | Each):
        source = source.base
    return source


def is_under_argument(source: Source | None) -> bool:
    """Whether a source is an argument of the method, other than ``self``, or lies in one."""
    root = None if source is None else root_of(source)
    return isinstance(root, Local) and root.name != "self"


def places(effects: MethodEffects) -> Iterator[Source]:
    """The sources of a method's inputs, result and effects."""
    yield from effects.inputs
    yield from reads(effects.result)
    for effect in effects.effects:
        yield effect.source
        for value in (effect.key, effect.value):
            if value is not None:
                yield from reads(value)


def guarded(effects: MethodEffects) -> Iterator[Source]:
    """The sources of a method's guards."""
    for guard in effects.guards:
        yield from reads(guard.subject)
        yield from reads(guard.value)


def values_of(effects: MethodEffects) -> list[Value]:
    """A method's result, and the keys and values of its effects."""
    parts = (part for effect in effects.effects for part in (effect.key, effect.value))
    return [effects.result, *(part for part in parts if part is not None)]


def output_count(effects: MethodEffects) -> int:
    """Number of the graph's outputs, as far as result, effects and guards use them."""
    parts = parts_of([*values_of(effects), *(guard.subject for guard in effects.guards)])
    return 1 + max((part.index for part in parts if isinstance(part, Output)), default=-1)


def without_handles(table: EffectTable) -> EffectTable:
    """The table without debug handles, which PyTorch counts per process."""
    return replace(
        table,
        methods=tuple(
            replace(
                method,
                effects=tuple(replace(effect, handle=-1) for effect in method.effects),
                guards=tuple(replace(guard, handle=-1) for guard in method.guards),
            )
            for method in table.methods
        ),
    )


def without_places(table: EffectTable) -> EffectTable:
    """The table without debug handles, and without files and lines of calls: what the effects do."""
    methods = (
        replace(
            method,
            effects=tuple(
                without_place(effect) if effect.op is Op.CALL else effect for effect in method.effects
            ),
        )
        for method in without_handles(table).methods
    )
    return replace(table, methods=tuple(methods))
