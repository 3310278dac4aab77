"""Tables of effects: strategies for all valid ones, and records of them parsed and unpickled."""

from __future__ import annotations

import io
import pickle
from functools import cache
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from archive.base import memory
from archive.base.limits import DEFAULT_LIMITS
from archive.formats.effects import EFFECTS
from archive.formats.effects.gate import MODULE_NAMES, SETTING_NAMES, is_special
from archive.formats.effects.known_calls import CATEGORIES, LOG, PRINT, WARN
from archive.formats.effects.model import (
    At,
    Attribute,
    ClosureCell,
    Computed,
    Constant,
    Each,
    Effect,
    EffectTable,
    GlobalName,
    Guard,
    Item,
    Length,
    Local,
    Look,
    Made,
    MethodEffects,
    New,
    Op,
    Output,
    Stored,
    Temporary,
    TorchName,
)
from archive.formats.effects.record import build_effects, parse_effects
from archive.formats.effects.words import COMPUTED, LOOKS, OPS, OperandKind
from archive.pickles.scan import Pickle
from archive.pickles.tree import read_trees
from tests.support.tampering import tampered

if TYPE_CHECKING:
    from pathlib import Path

    from hypothesis.strategies import DrawFn, SearchStrategy

    from archive.base.limits import Limits
    from archive.formats.effects.model import Literal, Source, Value

Row = tuple[Any, ...]
SELF, X = Local("self"), Local("x")
GIVEN = Output(0)


def attribute(name: str) -> Attribute:
    """An attribute of ``self``."""
    return Attribute(SELF, name)


def method(*effects: Effect, result: Value = GIVEN, inputs: tuple[Source, ...] = (X,)) -> MethodEffects:
    return MethodEffects("forward", inputs, result, effects)


def table(*effects: Effect, state: tuple[tuple[Source, Value], ...] = ()) -> EffectTable:
    return EffectTable((method(*effects),), state)


COUNTING = EffectTable(
    (
        MethodEffects(
            "forward",
            (X, attribute("count")),
            Output(0),
            (
                Effect(Op.NEW, Temporary(0), Constant("package.module:Thing")),
                Effect(Op.SET_ATTRIBUTE, Temporary(0), Constant("value"), Output(1)),
                Effect(Op.SET_ATTRIBUTE, SELF, Constant("count"), Output(2)),
                Effect(Op.APPEND, attribute("history"), None, Output(0)),
            ),
        ),
    ),
    ((attribute("count"), Constant(0)), (attribute("history"), Made("list", ()))),
)


def read(data: bytes, limits: Limits = DEFAULT_LIMITS) -> EffectTable:
    with memory.charged(limits.allowance(len(data))):
        return parse_effects(read_trees([Pickle(EFFECTS, memoryview(data))], [False]), 0)


def packed(value: object) -> bytes:
    """A pickle with PyTorch's opcodes alone; strings are not shared."""
    out = io.BytesIO()
    plain = pickle._Pickler(out, 2)
    plain.fast = True
    plain.dump(value)
    return out.getvalue()


def unpacked(data: bytes) -> list[Row]:
    return list(pickle.loads(data))  # noqa: S301 (our own)


def with_effects(path: Path, effects: EffectTable) -> bytes:
    """The bytes of an archive with a record of effects added."""
    return tampered(path, {EFFECTS: build_effects(effects)})


names: SearchStrategy[str] = st.one_of(
    st.sampled_from(
        ["self", "x", "count", "a b", "", "class", "out", "tmp0", "object", "ﬁ", "é", "\n", "__private"]
    ),
    st.text(st.characters(codec=None), max_size=6),
).filter(lambda name: not is_special(name))
literals: SearchStrategy[Literal] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.sampled_from([0, 1, -1, 1 << 64, -(1 << 300)]),
        st.floats(),
        st.sampled_from([0.0, -0.0, 1.0, float("inf"), float("-inf"), float("nan")]),
        names,
        st.binary(max_size=4),
        st.builds(TorchName, st.sampled_from(["dtype", "device"]), st.just("torch.float32") | names),
    ),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)
numbers = st.integers(0, 3) | st.sampled_from([255, 256, (1 << 63) - 1])
references = st.sampled_from(["m:f", "a.b:C.d", "builtins:list", "m:f.<locals>.g", "a-b:C", "self:x", "é:ﬁ"])


@cache
def sources(made: tuple[int, ...]) -> SearchStrategy[Source]:
    roots: list[SearchStrategy[Source]] = [
        st.builds(Local, names),
        st.builds(GlobalName, names, names),
        st.builds(ClosureCell, names, names),
    ]
    if made:
        roots.append(st.builds(Temporary, st.sampled_from(made)))
    return st.recursive(
        st.one_of(roots),
        lambda inner: st.builds(Attribute, inner, names) | st.builds(Item, inner, literals),
        max_leaves=4,
    )


@cache
def readable(made: tuple[int, ...]) -> SearchStrategy[Source]:
    """Sources that can be read; a length is never set."""
    return sources(made) | st.builds(Length, sources(made))


def _operands(op: str, inner: SearchStrategy[Value]) -> SearchStrategy[tuple[Value, ...]]:
    return st.tuples(*[inner] * COMPUTED[op].count("{}"))


computed: SearchStrategy[Value] = st.recursive(
    st.builds(Constant, literals) | st.builds(At, readable(())),
    lambda inner: st.sampled_from(sorted(COMPUTED)).flatmap(
        lambda op: st.builds(Computed, st.just(op), _operands(op, inner))
    ),
    max_leaves=5,
).filter(lambda value: isinstance(value, Computed))


@cache
def values(made: tuple[int, ...], *, in_state: bool = False) -> SearchStrategy[Value]:
    single: list[SearchStrategy[Value]] = [st.builds(Constant, literals), st.builds(At, readable(made))]
    single.append(st.builds(Stored, numbers) if in_state else st.builds(Output, numbers))
    if made:
        single.append(st.builds(New, st.sampled_from(made)))
    made_of = _containers_in_state if in_state else _containers
    return st.recursive(st.one_of(single), made_of, max_leaves=5)


def _containers(inner: SearchStrategy[Value]) -> SearchStrategy[Value]:
    items = st.lists(inner, max_size=4).map(tuple)
    elements = st.lists(st.builds(Constant, literals), max_size=3).map(tuple)
    return st.one_of(
        st.builds(Made, st.sampled_from(["list", "tuple"]), items),
        st.builds(Made, st.sampled_from(["dict", "OrderedDict"]), _paired(inner)),
        st.builds(_headed, st.just("defaultdict"), st.none() | references, _paired(inner)),
        st.builds(_headed, st.just("deque"), st.none() | numbers, items),
        st.builds(Made, st.sampled_from(["set", "frozenset"]), elements),
        st.builds(_named_tuple, references, st.lists(inner, max_size=3)),
    )


def _containers_in_state(inner: SearchStrategy[Value]) -> SearchStrategy[Value]:
    bases = st.builds(Made, st.just("list"), st.lists(inner, max_size=2).map(tuple)) | _bases(inner)
    return _containers(inner) | st.builds(
        lambda name, base: Made("subclass", (Constant(name), base)), references, bases
    )


def _bases(inner: SearchStrategy[Value]) -> SearchStrategy[Value]:
    return st.builds(Made, st.sampled_from(["dict", "OrderedDict"]), _paired(inner))


def _paired(inner: SearchStrategy[Value]) -> SearchStrategy[tuple[Value, ...]]:
    pairs = st.lists(st.tuples(inner, inner), max_size=2)
    return pairs.map(lambda some: tuple(one for pair in some for one in pair))


def _headed(kind: str, which: Literal, items: tuple[Value, ...]) -> Value:
    return Made(kind, (Constant(which), *items))


def _named_tuple(name: str, items: list[Value]) -> Value:
    return Made("namedtuple", (Constant(name), Constant(("a", "b", "c")[: len(items)]), *items))


_EMPTY: SearchStrategy[Value | None] = st.sampled_from(
    [None, Made("dict", ()), Made("list", ()), Made("set", ()), Made("deque", (Constant(3),))]
)


@st.composite
def methods(draw: DrawFn) -> MethodEffects:
    made: tuple[int, ...] = draw(st.sampled_from([(), (), (0,), (255, 1)]))
    effects = [Effect(Op.NEW, Temporary(number), Constant(draw(references)), draw(_EMPTY)) for number in made]
    drawn = [op for op in Op if op is not Op.NEW and (made or op is not Op.SET_BACKWARD)]
    ops = draw(st.lists(st.sampled_from(drawn), max_size=5))
    effects += [draw(_effects(op, made)) for op in ops]
    inputs = tuple(draw(st.lists(readable(made), max_size=3)))
    guards = tuple(draw(st.lists(_guards(), max_size=3)))
    defaults = tuple(
        draw(st.lists(st.tuples(st.builds(Local, names), st.builds(Constant, literals)), max_size=2))
    )
    return MethodEffects(draw(names), inputs, draw(values(made)), tuple(effects), guards, defaults)


places: SearchStrategy[Value] = st.builds(At, readable(())) | st.builds(Output, numbers)


@st.composite
def _guards(draw: DrawFn) -> Guard:
    look = draw(st.sampled_from(Look))
    subject = draw(
        {
            Look.SETTING: st.just(Constant(None)),
            Look.EQUAL: computed | places,
            Look.IS_NONE: st.builds(At, readable(())),
            Look.SAME: places,
        }.get(look, places | st.builds(At, st.builds(Each, sources(()))))
    )
    wanted = LOOKS[look].value
    if wanted is At:
        value: Value = At(draw(sources(())))
    else:
        value = Constant(draw(literals if wanted is object else _OF_TYPE[wanted]))
    key = LOOKS[look].key
    of_key = {Look.SETTING: st.sampled_from(SETTING_NAMES), Look.HOOKS: st.sampled_from(sorted(MODULE_NAMES))}
    drawn = None
    if key is not None:
        drawn = Constant(draw(of_key.get(look, literals if key is object else _OF_TYPE[key])))
    return Guard(look, subject, value, drawn, draw(st.integers(-1, 1 << 40)))


_OF_TYPE: dict[Any, SearchStrategy[Literal]] = {
    str: names,
    int: st.integers(),
    bool: st.booleans(),
    tuple: st.lists(literals, max_size=2).map(tuple),
}


SETTINGS_OF: dict[GlobalName, SearchStrategy[Literal]] = {
    PRINT: st.tuples(names, names),
    LOG: st.tuples(names, st.sampled_from([10, 20, 25]), names, st.integers(), names),
    WARN: st.tuples(st.sampled_from(CATEGORIES), names, st.integers(), names),
}


@st.composite
def _calls(draw: DrawFn, made: tuple[int, ...]) -> Effect:
    function = draw(st.sampled_from(sorted(SETTINGS_OF, key=str)))
    count = draw(st.integers(0, 3)) if function == PRINT else 1
    formatted = st.builds(
        lambda before, spec, one: Made("format", (Constant(f"{before}{{0{spec}}}"), one)),
        names.map(lambda text: text.replace("{", "{{").replace("}", "}}")),
        st.sampled_from(["", ":>12d", ":.3f"]),
        values(made),
    )
    said = [draw(values(made) | formatted) for _ in range(count)]
    return Effect(Op.CALL, function, Constant(draw(SETTINGS_OF[function])), Made("tuple", tuple(said)))


@cache
def _effects(op: Op, made: tuple[int, ...]) -> SearchStrategy[Effect]:
    if op is Op.CALL:
        return _calls(made)
    if op is Op.SET_BACKWARD:
        pair = _made("tuple", _made_of("tuple", values(made)), _made_of("tuple", values(made)))
        place = st.sampled_from(made).map(Temporary)
        return st.builds(Effect, st.just(op), place, st.builds(Constant, references), pair)
    if op is Op.REGISTER_BACKWARD_HOOKS:
        return _backward_hooks(made)
    rule = OPS[op]
    if rule.source in (GlobalName, ClosureCell):
        source: SearchStrategy[Source] = st.builds(rule.source, names, names)
    else:
        source = sources(made)
    return st.builds(
        Effect,
        st.just(op),
        source,
        _operand(rule.key, made),
        _operand(rule.value, made),
        st.integers(-1, 1 << 40),
    )


def _backward_hooks(made: tuple[int, ...]) -> SearchStrategy[Effect]:
    several = _made_of("tuple", hooks(made))
    one_tensor = st.builds(Output, numbers).map(lambda one: Made("tuple", (Constant(None), one)))
    return st.builds(
        Effect,
        st.just(Op.REGISTER_BACKWARD_HOOKS),
        sources(made),
        _made("tuple", several, several),
        _made("tuple", one_tensor, one_tensor | st.just(Made("tuple", ()))),
        st.integers(-1, 1 << 40),
    )


@cache
def hooks(made: tuple[int, ...]) -> SearchStrategy[Value]:
    """Hooks by name, by code, and made of such."""
    cells = st.builds(At, st.builds(ClosureCell, names, names)) | _made("cell", values(made))
    functions = _made(
        "function",
        st.builds(Constant, references),
        st.builds(Constant, st.sampled_from(["0" * 32, "0123456789abcdef" * 2])),
        _made_of("tuple", values(made)),
        _by_name(made),
        _made_of("tuple", cells),
        _made_of("tuple", st.builds(At, sources(made))),
    )
    return st.recursive(
        st.builds(Constant, references) | functions,
        lambda inner: (
            _made("method", inner, values(made))
            | _made("partial", inner, _made_of("tuple", values(made)), _by_name(made))
        ),
        max_leaves=2,
    )


def _made(kind: str, *items: SearchStrategy[Any]) -> SearchStrategy[Value]:
    return st.tuples(*items).map(lambda parts: Made(kind, parts))


def _made_of(kind: str, items: SearchStrategy[Any]) -> SearchStrategy[Value]:
    return st.lists(items, max_size=2).map(lambda parts: Made(kind, tuple(parts)))


def _by_name(made: tuple[int, ...]) -> SearchStrategy[Value]:
    pairs = st.dictionaries(names.map(Constant), values(made), max_size=2)
    return pairs.map(lambda found: Made("dict", tuple(part for pair in found.items() for part in pair)))


def _operand(operand: OperandKind, made: tuple[int, ...]) -> SearchStrategy[Value | None]:
    return {
        OperandKind.NOTHING: st.none(),
        OperandKind.ANY: values(made),
        OperandKind.OPTIONAL: st.none() | values(made),
        OperandKind.TEXT: st.builds(Constant, names),
        OperandKind.QUALIFIED_NAME: st.builds(Constant, references),
        OperandKind.NUMBER: st.builds(Constant, numbers),
        OperandKind.HOOK: hooks(made),
        OperandKind.HANDLE: st.builds(Constant, numbers)
        | st.sampled_from(made).flatmap(lambda number: st.just(New(number)))
        if made
        else st.builds(Constant, numbers),
        OperandKind.EMPTY: _EMPTY,
    }[operand]


@st.composite
def states(draw: DrawFn) -> tuple[tuple[Source, Value], ...]:
    return tuple(draw(st.lists(st.tuples(sources(()), values((), in_state=True)), max_size=4)))


entries = st.lists(methods(), max_size=3).map(
    lambda some: tuple(sorted(some, key=lambda one: one.method))  # entries of one name beside one another
)
tables: SearchStrategy[EffectTable] = st.builds(EffectTable, entries, states())
