"""A plain interpreter of effects: one change after the other, after everything is read."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Constant,
    Effect,
    GlobalName,
    Item,
    Local,
    Made,
    MethodEffects,
    New,
    Op,
    Output,
    Temporary,
)
from tests.support.effect_programs import ALLOWED, Thing

if TYPE_CHECKING:
    from archive.effects.replay.state import State
    from archive.formats.effects.model import Source, Value


def interpreted(effects: MethodEffects, state: State, out: list[Any], arguments: dict[str, Any]) -> Any:  # noqa: ANN401
    """Make effects one after the other, after everything is read; gives the method's result."""
    made: dict[int, Any] = {}

    def found(source: Source) -> Any:  # noqa: ANN401 (one a kind)
        match source:
            case Local("self"):
                return state.module
            case Local(name):
                return arguments[name]
            case Attribute(base, name):
                return getattr(found(base), name)
            case Item(base, key):
                return found(base)[key]
            case GlobalName(module, name):
                return state.globals[module][name]
            case ClosureCell(function, name):
                return state.cells[function, name].cell_contents  # type: ignore[union-attr]
            case Temporary(number):
                return made[number]

    def computed(value: Value) -> Any:  # noqa: ANN401
        match value:
            case Output(index):
                return out[index]
            case Constant(literal):
                return literal
            case At(source):
                return found(source)
            case New(number):
                return made[number]
            case Made("dict", items):
                return {
                    computed(key): computed(item) for key, item in zip(items[::2], items[1::2], strict=True)
                }
            case Made(kind, items):
                return {"list": list, "tuple": tuple}[kind](computed(item) for item in items)
        raise AssertionError(value)

    def is_late(source: Source) -> bool:
        while isinstance(source, Attribute | Item):
            source = source.base
        return isinstance(source, Temporary)

    steps = []
    for effect in effects.effects:
        if isinstance(effect.source, Temporary) and effect.op is Op.NEW:
            new = effect.key == Constant("builtins:list")
            made[effect.source.number] = [] if new else Thing.__new__(Thing)
            continue
        late = is_late(effect.source)
        place = None if late or effect.op in (Op.SET_GLOBAL, Op.SET_CELL) else found(effect.source)
        key = None if effect.key is None else computed(effect.key)
        value = None if effect.value is None else computed(effect.value)
        if effect.op is Op.COPY:
            value = copy.deepcopy(value)
        steps.append((effect, late, place, key, value))
    result = computed(effects.result)
    for effect, late, place, key, value in steps:
        change(state, effect, found(effect.source) if late else place, key, value)
    return result


def change(state: State, effect: Effect, place: Any, key: Any, value: Any) -> None:  # noqa: ANN401
    match effect.op:
        case Op.SET_ATTRIBUTE:
            setattr(place, key, value)
        case Op.REGISTER_BUFFER | Op.REGISTER_TRANSIENT:
            setattr(place, key, value)
        case Op.DELETE_ATTRIBUTE:
            delattr(place, key)
        case Op.SET_ITEM:
            place[key] = value
        case Op.DELETE_ITEM:
            del place[key]
        case Op.INSERT:
            place.insert(key, value)
        case Op.POP:
            place.pop(*([] if effect.key is None else [key]))
        case Op.CLEAR:
            place.clear()
        case Op.SET_GLOBAL:
            assert isinstance(effect.source, GlobalName)
            state.globals[effect.source.module][effect.source.name] = value
        case Op.SET_CELL:
            assert isinstance(effect.source, ClosureCell)
            state.cells[effect.source.function, effect.source.name].cell_contents = value  # type: ignore[union-attr]
        case Op.COPY:
            place.copy_(value)
        case Op.SAVE_FOR_BACKWARD:
            place.save_for_backward(*value)
        case Op.REGISTER_HOOK:
            state.hooks[value] = place.register_hook(ALLOWED[key])
        case Op.REMOVE_HOOK:
            state.hooks.pop(value).remove()
        case _:
            getattr(place, str(effect.op))(value)
