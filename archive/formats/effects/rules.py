"""Which effects make sense: what each op is done to, and which key and value it takes."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from archive.base.errors import ArchiveError, shown
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Constant,
    GlobalName,
    Item,
    Local,
    Look,
    Made,
    New,
    Op,
    Output,
    Stored,
    Temporary,
)
from archive.formats.effects.source_text import value_text

if TYPE_CHECKING:
    from collections.abc import Collection

    from archive.formats.effects.model import Effect, EffectTable, Guard, MethodEffects, Source, Value

CONTAINERS = ("list", "tuple", "dict", "size")
REFERENCE = re.compile(r"[^:]+:[^:]+")
"""A class or function: ``module:qualname``."""

NONE, ANY, MAYBE, TEXT, CODE, NUMBER = (
    "nothing",
    "a value",
    "a value or nothing",
    "a text",
    "module:qualname",
    "a number from 0",
)


MOST_SHOWN = 60
"""Characters of a value in a message."""


class Rule(NamedTuple):
    """What an op takes."""

    key: str = NONE
    value: str = NONE
    source: type = object


RULES = {
    Op.NEW: Rule(key=CODE, source=Temporary),
    Op.SET_ATTRIBUTE: Rule(key=TEXT, value=ANY),
    Op.DELETE_ATTRIBUTE: Rule(key=TEXT),
    Op.SET_ITEM: Rule(key=ANY, value=ANY),
    Op.DELETE_ITEM: Rule(key=ANY),
    Op.APPEND: Rule(value=ANY),
    Op.EXTEND: Rule(value=ANY),
    Op.INSERT: Rule(key=ANY, value=ANY),
    Op.POP: Rule(key=MAYBE),
    Op.CLEAR: Rule(),
    Op.SET_GLOBAL: Rule(value=ANY, source=GlobalName),
    Op.SET_CELL: Rule(value=ANY, source=ClosureCell),
    Op.COPY: Rule(value=ANY),
    Op.SAVE_FOR_BACKWARD: Rule(value=ANY),
    Op.REGISTER_HOOK: Rule(key=CODE, value=NUMBER),
    Op.REMOVE_HOOK: Rule(value=NUMBER),
}


SOURCE_WORDS = {Temporary: "temporary", GlobalName: "global", ClosureCell: "cell"}


LOOKS: dict[Look, Any] = {
    Look.EQUAL: object,
    Look.TEXT: (str,),
    Look.TYPE: (str,),
    Look.RANGE: (int,),
    Look.LENGTH: (int,),
    Look.KEYS: (tuple,),
    Look.HAS: (bool,),
    Look.ATTRIBUTE: (bool,),
    Look.SAME: At,
    Look.APART: At,
    Look.DIM: (int,),
    Look.SIZE: (int,),
    Look.SHAPE: (tuple,),
    Look.STRIDE: (tuple,),
    Look.DTYPE: (str,),
    Look.KIND: (str,),
    Look.DEVICE: (str,),
    Look.REQUIRES_GRAD: (bool,),
    Look.SETTING: object,
}
"""What the value of a guard is: a constant of one of these types, a source, or any constant."""


KEYED: dict[Look, type] = {Look.SIZE: int, Look.SETTING: str, Look.ATTRIBUTE: str, Look.HAS: object}
"""Of what type the key of a guard is, where it has one."""


def check_table(table: EffectTable) -> None:
    """Refuse a table that makes no sense.

    Raises:
        ArchiveError: naming the method and effect, or the row of the state.
    """
    for method, count in Counter(effects.method for effects in table.methods).items():
        if count > 1:
            raise ArchiveError(f"the effects of method {shown(method)} are there {count} times")
    for effects in table.methods:
        check_method(effects)
    state = _References(None)
    for row, (source, value) in enumerate(table.state):
        try:
            state.source(source)
            state.value(value)
        except ArchiveError as error:
            raise error.within(place=f"state, row {row}") from None


def check_method(effects: MethodEffects) -> None:
    """Refuse a method whose effects make no sense.

    Raises:
        ArchiveError: naming the method and effect.
    """
    place = "its inputs or result"
    try:
        walk = _References(_made(effects))
        for source in effects.inputs:
            walk.source(source)
        walk.value(effects.result)
        for number, effect in enumerate(effects.effects):
            place = f"effect {number}"
            walk.source(effect.source)
            for value in (effect.key, effect.value):
                if value is not None:
                    walk.value(value)
            _check(effect)
        for number, guard in enumerate(effects.guards):
            place = f"guard {number}"
            walk.value(guard.subject)
            walk.value(guard.value)
            _check_guard(guard)
        for argument, value in effects.defaults:
            place = f"the default of {shown(argument.name)}"
            _check_default(value)
    except ArchiveError as error:
        raise error.within(place=f"method {shown(effects.method)}, {place}") from None


def _made(effects: MethodEffects) -> set[int]:
    """The numbers of its temporaries."""
    news = [effect.source for effect in effects.effects if effect.op is Op.NEW]
    made = Counter(source.number for source in news if isinstance(source, Temporary))
    for number, count in made.items():
        if count > 1:
            raise ArchiveError(f"temporary {number} is made {count} times")
    return set(made)


def _check(effect: Effect) -> None:
    rule = RULES[effect.op]
    if not isinstance(effect.source, rule.source):
        raise ArchiveError(f"{effect.op} of what is no {SOURCE_WORDS[rule.source]}")
    for what, wanted, value in (("key", rule.key, effect.key), ("value", rule.value, effect.value)):
        if not _fits(wanted, value):
            found = "nothing" if value is None else value_text(value)[:MOST_SHOWN]
            raise ArchiveError(f"{effect.op}, {what}", expected=wanted, found=found)


def _check_default(value: Value) -> None:
    if not isinstance(value, Constant):
        raise ArchiveError("a default that is no constant")


def _check_guard(guard: Guard) -> None:
    look = guard.look
    subjects: tuple[type, ...] = (Constant,) if look is Look.SETTING else (At, Output)
    if not isinstance(guard.subject, subjects):
        raise ArchiveError(f"{look} of {value_text(guard.subject)[:MOST_SHOWN]}")
    wanted = LOOKS[look]
    literal = guard.value.value if isinstance(guard.value, Constant) else None
    if not isinstance(guard.value, wanted if wanted is At else Constant) or (
        isinstance(wanted, tuple) and type(literal) not in wanted
    ):
        raise ArchiveError(f"{look} as {value_text(guard.value)[:MOST_SHOWN]}")
    key = guard.key.value if isinstance(guard.key, Constant) else None
    expected = {Look.SIZE: int, Look.SETTING: str, Look.ATTRIBUTE: str, Look.HAS: object}.get(
        look, type(None)
    )
    if not isinstance(key, expected) or (guard.key is None) != (expected is type(None)):
        raise ArchiveError(f"{look}, key")


def _fits(wanted: str, value: Value | None) -> bool:
    if wanted in (NONE, MAYBE, ANY):
        return wanted == MAYBE or (value is None) == (wanted == NONE)
    if not isinstance(value, Constant):
        return False
    literal = value.value
    if wanted == NUMBER:
        return type(literal) is int and 0 <= literal < 1 << 63
    return isinstance(literal, str) and (wanted == TEXT or REFERENCE.fullmatch(literal) is not None)


class _References:
    """Looks at sources and values, each object once.

    Args:
        made: the temporaries that are made; None in the state, which has none, but tensors.
    """

    def __init__(self, made: Collection[int] | None) -> None:
        self._in_state = made is None
        self._made = frozenset(made or ())
        self._seen: dict[int, object] = {}  # by id, which stays while it is held

    def source(self, source: Source) -> None:
        """Refuse a source under an object that nobody makes."""
        while isinstance(source, Attribute | Item):
            if id(source) in self._seen:
                return
            self._seen[id(source)] = source
            source = source.base
        if isinstance(source, Temporary) and source.number not in self._made:
            raise ArchiveError(f"temporary {source.number}, which nothing makes")
        if not isinstance(source, Temporary | Local | GlobalName | ClosureCell):
            raise ArchiveError(expected="a source", found=shown(source))

    def value(self, value: Value) -> None:  # noqa: C901 (one a kind)
        """Refuse a value that there is not."""
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        match value:
            case Made(kind, items):
                if kind not in CONTAINERS:
                    raise ArchiveError(expected=f"one of {', '.join(CONTAINERS)}", found=shown(kind))
                if kind == "dict" and len(items) % 2:
                    raise ArchiveError("a dict with a key that has no value")
                for item in items:
                    self.value(item)
            case At(source):
                self.source(source)
            case New(number) if number not in self._made:
                raise ArchiveError(f"object {number}, which nothing makes")
            case Stored(number) if not self._in_state or number < 0:
                raise ArchiveError(f"stored tensor {number}, which is for the state alone")
            case Output(index) if self._in_state or index < 0:
                raise ArchiveError(f"output {index}, which there is not")
            case New() | Stored() | Output() | Constant():
                pass
            case _:
                raise ArchiveError(expected="a value", found=shown(value))
