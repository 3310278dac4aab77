"""Rules for tables: which sources and values exist, and what each effect and guard may hold."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING

from archive.base.errors import ArchiveError, shown
from archive.formats.effects.containers import (
    CONTAINER_KINDS,
    NAMED_KINDS,
    STATE_KINDS,
    check_container,
    is_base,
    parameter,
)
from archive.formats.effects.gate import check_code, check_place
from archive.formats.effects.hooks import (
    QUALIFIED_NAME,
    backward_problem,
    functions_of,
    hook_problem,
    hooks_of,
    values_in_hook,
)
from archive.formats.effects.known_calls import is_template, problem_of
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Computed,
    Constant,
    Each,
    GlobalName,
    Item,
    Length,
    Local,
    Look,
    Made,
    New,
    Op,
    Output,
    Stored,
    Temporary,
)
from archive.formats.effects.source_text import literal_of, value_text
from archive.formats.effects.words import ATTRIBUTE_OPS, COMPUTED, LOOKS, OPS, OperandKind

if TYPE_CHECKING:
    from collections.abc import Collection

    from archive.formats.effects.model import Effect, EffectTable, Guard, MethodEffects, Source, Value

MOST_SHOWN = 60
"""Characters of a value in a message."""
SOURCE_WORDS = {Temporary: "temporary", GlobalName: "global", ClosureCell: "cell"}
"""Kinds of sources in messages."""


# --- sources and values


def short(value: Value) -> str:
    """A value as Python, cut for a message."""
    return value_text(value)[:MOST_SHOWN]


class References:
    """Checks sources and values of one method or of the state, each object once.

    Args:
        made: numbers of the method's temporaries; None for the state, which has none and may hold ``Stored``.
    """

    def __init__(self, made: Collection[int] | None) -> None:
        self._in_state = made is None
        self._made = frozenset(made or ())
        self._seen: dict[int, object] = {}  # by id; holding the object keeps its id from being reused

    def values(self, *values: Value | None) -> None:
        """Check some values; None is skipped."""
        for value in values:
            if value is not None:
                self.value(value)

    def subject(self, value: Value) -> None:
        """Check the subject of a guard: only a subject may be computed, or all items of a list."""
        if isinstance(value, At) and isinstance(value.source, Each):
            self.source(value.source.base)
            return
        if not isinstance(value, Computed):
            self.value(value)
            return
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        if value.op not in COMPUTED:
            raise ArchiveError(expected=f"one of {', '.join(COMPUTED)}", found=shown(value.op))
        if len(value.items) != COMPUTED[value.op].count("{}"):
            raise ArchiveError(f"{value.op} of {len(value.items)} operands")
        for item in value.items:
            if not isinstance(item, At | Constant | Computed):
                raise ArchiveError(f"{value.op} of {short(item)}")
            if isinstance(item, Computed):
                self.subject(item)
            else:
                self.value(item)

    def place(self, source: Source) -> None:
        """Refuse a source that has no value of its own."""
        if isinstance(source, Length):
            raise ArchiveError("a length, which can't hold a value")
        self.source(source)

    def source(self, source: Source) -> None:
        """Refuse a source below a temporary that no effect makes, or one that the gate refuses."""
        if isinstance(source, Length):
            source = source.base
        while isinstance(source, Attribute | Item):
            if id(source) in self._seen:
                return
            self._seen[id(source)] = source
            if isinstance(source, Attribute):
                check_place(source.name)
            source = source.base
        if isinstance(source, Temporary) and source.number not in self._made:
            raise ArchiveError(f"temporary {source.number}, which nothing makes")
        if isinstance(source, GlobalName | ClosureCell):
            check_place(source.name)
        elif not isinstance(source, Temporary | Local):
            raise ArchiveError(expected="a source", found=shown(source))

    def value(self, value: Value) -> None:
        """Refuse a value that a method, or the state, cannot have."""
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        match value:
            case Made(kind, items):
                _check_made(value)
                if kind in STATE_KINDS and not self._in_state:
                    raise ArchiveError(f"a {kind}, which only the state may have")
                for item in items:
                    self.value(item)
            case At(source):
                self.source(source)
            case New(number) if number not in self._made:
                raise ArchiveError(f"object {number}, which nothing makes")
            case Stored(number) if not self._in_state or number < 0:
                raise ArchiveError(f"stored tensor {number}, which only the state may have")
            case Output(index) if self._in_state or index < 0:
                raise ArchiveError(f"output {index}, which does not exist")
            case New() | Stored() | Output() | Constant():
                pass
            case _:
                raise ArchiveError(expected="a value", found=shown(value))


def _check_made(made: Made) -> None:
    """Refuse an unknown kind, or one with unfit items."""
    kind, items = made.kind, made.items
    if kind not in CONTAINER_KINDS:
        raise ArchiveError(expected=f"one of {', '.join(CONTAINER_KINDS)}", found=shown(kind))
    check_container(made)
    if isinstance(which := parameter(made), str):
        check_code(which)
    if kind in NAMED_KINDS:
        text = literal_of(items[0]) if len(items) == 1 else None
        if not isinstance(text, str) or NAMED_KINDS[kind].fullmatch(text) is None:
            raise ArchiveError(f"no {kind}: {', '.join(map(short, items))}")
    if kind == "inference" and not (len(items) == 1 and isinstance(items[0], Output)):
        raise ArchiveError("an inference tensor of what isn't an output")
    if kind == "format":
        template = literal_of(items[0]) if items else None
        if not isinstance(template, str) or not is_template(template, len(items) - 1):
            raise ArchiveError(f"no template of its values: {', '.join(map(short, items[:1]))}")


# --- tables


def check_table(table: EffectTable) -> None:
    """Refuse a table that breaks a rule."""
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
    """Refuse a method whose effects, guards or defaults break a rule."""
    place = "its inputs or result"
    try:
        references = References(_temporaries(effects))
        for source in effects.inputs:
            references.source(source)
        references.values(effects.result)
        for number, effect in enumerate(effects.effects):
            place = f"effect {number}"
            references.source(effect.source)
            references.values(*_keys(effect), effect.value)
            _check_effect(effect)
        for number, guard in enumerate(effects.guards):
            place = f"guard {number}"
            references.subject(guard.subject)
            references.values(guard.value)
            _check_guard(guard)
        for argument, value in effects.defaults:
            place = f"the default of {shown(argument.name)}"
            if not isinstance(value, Constant):
                raise ArchiveError("a default that isn't a constant")  # noqa: TRY301 (it is given its place)
    except ArchiveError as error:
        raise error.within(place=f"method {shown(effects.method)}, {place}") from None


def _temporaries(effects: MethodEffects) -> set[int]:
    """The numbers of a method's temporaries."""
    news = [effect.source for effect in effects.effects if effect.op is Op.NEW]
    made = Counter(source.number for source in news if isinstance(source, Temporary))
    for number, count in made.items():
        if count > 1:
            raise ArchiveError(f"temporary {number} is made {count} times")
    return set(made)


def _check_effect(effect: Effect) -> None:
    rule = OPS[effect.op]
    if isinstance(effect.source, Length):
        raise ArchiveError(f"{effect.op} of a length")
    if not isinstance(effect.source, rule.source):
        raise ArchiveError(f"{effect.op} of what isn't a {SOURCE_WORDS[rule.source]}")
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


def _fits(operand: OperandKind, value: Value | None) -> bool:
    if operand is OperandKind.OPTIONAL:
        return True
    if operand is OperandKind.EMPTY:
        return value is None or is_base(value, empty=True)
    if value is None or operand is OperandKind.NOTHING:
        return value is None and operand is OperandKind.NOTHING
    if operand is OperandKind.ANY:
        return True
    if operand is OperandKind.HOOK:
        return hook_problem(value) is None
    if operand is OperandKind.HANDLE and isinstance(value, New):
        return True
    literal = literal_of(value)
    if operand in (OperandKind.NUMBER, OperandKind.HANDLE):
        return type(literal) is int and 0 <= literal < 1 << 63
    if not isinstance(literal, str):
        return False
    return operand is OperandKind.TEXT or QUALIFIED_NAME.fullmatch(literal) is not None


def _check_guard(guard: Guard) -> None:
    look, subject, value = guard.look, guard.subject, guard.value
    rule = LOOKS[look]
    if not isinstance(subject, rule.subjects):
        raise ArchiveError(f"{look} of {short(subject)}")
    if look is Look.SAME and isinstance(subject, At) and isinstance(subject.source, Each):
        raise ArchiveError(f"{look} of {short(subject)}")
    if rule.value is At:
        fits = isinstance(value, At)
    else:
        fits = isinstance(value, Constant) and rule.value in (object, type(value.value))
    if not fits:
        raise ArchiveError(f"{look} as {short(value)}")
    if rule.key is None:
        fits = guard.key is None
    else:
        fits = isinstance(guard.key, Constant) and isinstance(guard.key.value, rule.key)
    if not fits:
        raise ArchiveError(f"{look}, key")
    if isinstance(name := literal_of(guard.key), str):
        rule.check_key(name)
