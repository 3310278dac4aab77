"""Rules for tables: the source, key and value of each op; subject, value and key of each guard."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from archive.base.errors import ArchiveError, shown
from archive.formats.effects.containers import is_base
from archive.formats.effects.gate import MODULE_NAMES, check_code, check_place, check_setting
from archive.formats.effects.hooks import (
    QUALIFIED_NAME,
    backward_problem,
    functions_of,
    hook_problem,
    hooks_of,
    values_in_hook,
)
from archive.formats.effects.known_calls import problem_of
from archive.formats.effects.model import (
    ATTRIBUTE_OPS,
    At,
    ClosureCell,
    Computed,
    Constant,
    Each,
    GlobalName,
    Length,
    Look,
    Made,
    New,
    Op,
    Output,
    Temporary,
)
from archive.formats.effects.references import References, short
from archive.formats.effects.source_text import literal_of

if TYPE_CHECKING:
    from archive.formats.effects.model import Effect, EffectTable, Guard, MethodEffects, Value


class Operand(StrEnum):
    """Kinds of keys and values that an op takes."""

    NOTHING = "nothing"
    ANY = "a value"
    OPTIONAL = "a value or nothing"
    TEXT = "a text"
    QUALIFIED_NAME = "module:qualname"
    NUMBER = "a number from 0"
    HOOK = "a hook"
    HANDLE = "a number from 0 or a handle"
    EMPTY = "an empty container or nothing"


class OpRule(NamedTuple):
    """The key and the value that an op takes, and the kind of source that it changes."""

    key: Operand = Operand.NOTHING
    value: Operand = Operand.NOTHING
    source: type = object


OP_RULES = {
    Op.NEW: OpRule(key=Operand.QUALIFIED_NAME, value=Operand.EMPTY, source=Temporary),
    Op.SET_ATTRIBUTE: OpRule(key=Operand.TEXT, value=Operand.ANY),
    Op.DELETE_ATTRIBUTE: OpRule(key=Operand.TEXT),
    Op.REGISTER_BUFFER: OpRule(key=Operand.TEXT, value=Operand.ANY),
    Op.REGISTER_TRANSIENT: OpRule(key=Operand.TEXT, value=Operand.ANY),
    Op.SET_ITEM: OpRule(key=Operand.ANY, value=Operand.ANY),
    Op.DELETE_ITEM: OpRule(key=Operand.ANY),
    Op.APPEND: OpRule(value=Operand.ANY),
    Op.EXTEND: OpRule(value=Operand.ANY),
    Op.INSERT: OpRule(key=Operand.ANY, value=Operand.ANY),
    Op.POP: OpRule(key=Operand.OPTIONAL),
    Op.APPEND_LEFT: OpRule(value=Operand.ANY),
    Op.POP_LEFT: OpRule(),
    Op.ADD: OpRule(value=Operand.ANY),
    Op.DISCARD: OpRule(value=Operand.ANY),
    Op.CLEAR: OpRule(),
    Op.SET_GLOBAL: OpRule(value=Operand.ANY, source=GlobalName),
    Op.SET_CELL: OpRule(value=Operand.ANY, source=ClosureCell),
    Op.COPY: OpRule(value=Operand.ANY),
    Op.SAVE_FOR_BACKWARD: OpRule(value=Operand.ANY),
    Op.REGISTER_HOOK: OpRule(key=Operand.HOOK, value=Operand.HANDLE),
    Op.REGISTER_GRAD_HOOK: OpRule(key=Operand.HOOK, value=Operand.HANDLE),
    Op.REMOVE_HOOK: OpRule(value=Operand.NUMBER),
    Op.SET_BACKWARD: OpRule(key=Operand.QUALIFIED_NAME, value=Operand.ANY, source=Temporary),
    Op.CALL: OpRule(key=Operand.ANY, value=Operand.ANY, source=GlobalName),
    Op.REGISTER_BACKWARD_HOOKS: OpRule(key=Operand.ANY, value=Operand.ANY),
    Op.TAKE_OFF: OpRule(),
}
SOURCE_WORDS = {Temporary: "temporary", GlobalName: "global", ClosureCell: "cell"}
"""Kinds of sources in messages."""

GUARD_VALUES: dict[Look, type] = {
    Look.EQUAL: object,
    Look.TEXT: str,
    Look.TYPE: str,
    Look.RANGE: int,
    Look.LENGTH: int,
    Look.KEYS: tuple,
    Look.HAS: bool,
    Look.ATTRIBUTE: bool,
    Look.IS_NONE: bool,
    Look.HOOKS: tuple,
    Look.SAME: At,
    Look.APART: At,
    Look.DIM: int,
    Look.SIZE: int,
    Look.SHAPE: tuple,
    Look.STRIDE: tuple,
    Look.DTYPE: str,
    Look.KIND: str,
    Look.DEVICE: str,
    Look.REQUIRES_GRAD: bool,
    Look.SETTING: object,
}
"""Values of guards: ``At``, or a constant of exactly this type; ``object`` is any constant."""
GUARD_SUBJECTS: dict[Look, tuple[type, ...]] = {
    Look.SETTING: (Constant,),
    Look.EQUAL: (At, Output, Computed),
    Look.IS_NONE: (At,),
}
"""Subjects of guards with looks that are not for ``At`` and ``Output`` alone."""
GUARD_KEYS: dict[Look, type] = {
    Look.SIZE: int,
    Look.SETTING: str,
    Look.ATTRIBUTE: str,
    Look.HAS: object,
    Look.HOOKS: str,
}
"""Keys of guards: constants of this type; guards with other looks have none."""


def check_table(table: EffectTable) -> None:
    """Refuse a table that breaks a rule.

    Raises:
        ArchiveError: naming the method and effect, or the row of the state. Entries of one method follow one
            another.
    """
    methods = [name for name, _ in groupby(effects.method for effects in table.methods)]
    for method, count in Counter(methods).items():
        if count > 1:
            raise ArchiveError(f"the entries of method {shown(method)} are not beside one another")
    for effects in table.methods:
        check_method(effects)
    state = References(None)
    for row, (source, value) in enumerate(table.state):
        try:
            state.place(source)
            state.value(value)
        except ArchiveError as error:
            raise error.within(place=f"state, row {row}") from None


def check_method(effects: MethodEffects) -> None:
    """Refuse a method whose effects, guards or defaults break a rule.

    Raises:
        ArchiveError: naming the method and the effect, guard or default.
    """
    place = "its inputs or result"
    try:
        references = References(_made(effects))
        references.sources(effects.inputs)
        references.values(effects.result)
        for number, effect in enumerate(effects.effects):
            place = f"effect {number}"
            references.sources([effect.source])
            references.values(*_keys(effect), effect.value)
            _check_effect(effect)
        for number, guard in enumerate(effects.guards):
            place = f"guard {number}"
            references.subject(guard.subject)
            references.values(guard.value)
            _check_guard(guard)
        for argument, value in effects.defaults:
            place = f"the default of {shown(argument.name)}"
            _check_default(value)
    except ArchiveError as error:
        raise error.within(place=f"method {shown(effects.method)}, {place}") from None


def _made(effects: MethodEffects) -> set[int]:
    """The numbers of a method's temporaries."""
    news = [effect.source for effect in effects.effects if effect.op is Op.NEW]
    made = Counter(source.number for source in news if isinstance(source, Temporary))
    for number, count in made.items():
        if count > 1:
            raise ArchiveError(f"temporary {number} is made {count} times")
    return set(made)


def _check_effect(effect: Effect) -> None:
    rule = OP_RULES[effect.op]
    if isinstance(effect.source, Length):
        raise ArchiveError(f"{effect.op} of a length")
    if not isinstance(effect.source, rule.source):
        raise ArchiveError(f"{effect.op} of what is no {SOURCE_WORDS[rule.source]}")
    for what, operand, value in (("key", rule.key, effect.key), ("value", rule.value, effect.value)):
        if not _fits(operand, value):
            found = "nothing" if value is None else short(value)
            raise ArchiveError(f"{effect.op}, {what}", expected=operand, found=found)
    if effect.op is Op.SET_BACKWARD and not _is_pair(effect.value):
        raise ArchiveError(f"{effect.op}: no results and arguments")
    problem = problem_of(effect) if effect.op is Op.CALL else None
    if effect.op is Op.REGISTER_BACKWARD_HOOKS:
        problem = backward_problem(effect.key, effect.value)
    if problem is not None:
        raise ArchiveError(f"{effect.op}: {problem}")
    _check_names(effect)


def _check_names(effect: Effect) -> None:
    """Refuse an effect whose key is a name that the gate refuses."""
    name = literal_of(effect.key)
    if effect.op in ATTRIBUTE_OPS and isinstance(name, str):
        check_place(name)
    if effect.op in (Op.NEW, Op.SET_BACKWARD) and isinstance(name, str):
        check_code(name)
    for hook in hooks_of(effect):
        if (problem := hook_problem(hook)) is not None:
            raise ArchiveError(f"{effect.op}: {problem}")
        for code, _ in functions_of(hook):
            check_code(code)


def _is_pair(value: Value | None) -> bool:
    """Whether a value is two tuples."""
    parts = value.items if isinstance(value, Made) and value.kind == "tuple" else ()
    return len(parts) == 2 and all(isinstance(one, Made) and one.kind == "tuple" for one in parts)  # noqa: PLR2004


def _keys(effect: Effect) -> list[Value | None]:
    """The key of an effect, or the plain values in it if it is a hook."""
    hooks = hooks_of(effect)
    if not hooks or any(hook_problem(hook) is not None for hook in hooks):
        return [effect.key]
    return [value for hook in hooks for value in values_in_hook(hook)]


def _fits(operand: Operand, value: Value | None) -> bool:
    if operand is Operand.OPTIONAL:
        return True
    if operand is Operand.EMPTY:
        return value is None or is_base(value, empty=True)
    if value is None or operand is Operand.NOTHING:
        return value is None and operand is Operand.NOTHING
    if operand is Operand.ANY:
        return True
    if operand is Operand.HOOK:
        return hook_problem(value) is None
    if operand is Operand.HANDLE and isinstance(value, New):
        return True
    literal = literal_of(value)
    if operand in (Operand.NUMBER, Operand.HANDLE):
        return type(literal) is int and 0 <= literal < 1 << 63
    if not isinstance(literal, str):
        return False
    return operand is Operand.TEXT or QUALIFIED_NAME.fullmatch(literal) is not None


def _check_guard(guard: Guard) -> None:
    look = guard.look
    if not isinstance(guard.subject, GUARD_SUBJECTS.get(look, (At, Output))):
        raise ArchiveError(f"{look} of {short(guard.subject)}")
    if look is Look.SAME and isinstance(guard.subject, At) and isinstance(guard.subject.source, Each):
        raise ArchiveError(f"{look} of {short(guard.subject)}")
    if not _is_guard_value(GUARD_VALUES[look], guard.value):
        raise ArchiveError(f"{look} as {short(guard.value)}")
    if look not in GUARD_KEYS:
        fits = guard.key is None
    else:
        fits = isinstance(guard.key, Constant) and isinstance(guard.key.value, GUARD_KEYS[look])
    if not fits:
        raise ArchiveError(f"{look}, key")
    name = literal_of(guard.key)
    if look is Look.ATTRIBUTE and isinstance(name, str):
        check_place(name)
    if look is Look.HOOKS and name not in MODULE_NAMES:
        raise ArchiveError(expected="hooks of a module", found=shown(name))
    if look is Look.SETTING and isinstance(name, str):
        check_setting(name)


def _is_guard_value(wanted: type, value: Value) -> bool:
    if wanted is At:
        return isinstance(value, At)
    if not isinstance(value, Constant):
        return False
    return wanted is object or type(value.value) is wanted


def _check_default(value: Value) -> None:
    if not isinstance(value, Constant):
        raise ArchiveError("a default that is no constant")
