"""Broken and hostile records of effects: each ends in one error with its place, soon."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.base.errors import ArchiveError, LimitError
from archive.base.limits import DEFAULT_LIMITS
from archive.formats.effects import EFFECTS
from archive.formats.effects.model import At, Attribute, Constant, Effect, Item, Made, Op, Output
from archive.formats.effects.record import build_effects
from archive.formats.effects.schema import VERSION
from tests.costs import pickled
from tests.support.cost import MIB, loops_below, peak_below
from tests.support.effect_tables import COUNTING, SELF, Row, X, packed, read, table, tables, unpacked
from tests.support.sampling import examples
from tests.support.strategies import patient

if TYPE_CHECKING:
    from collections.abc import Callable

    import archive
    from archive.formats.effects.model import EffectTable


def refused(data: bytes, limits: archive.Limits = DEFAULT_LIMITS) -> str:
    with pytest.raises(ArchiveError) as caught:
        read(data, limits)
    assert caught.value.record == EFFECTS
    return str(caught.value).removeprefix(EFFECTS)


ROWS = unpacked(build_effects(COUNTING))
_, STRINGS, CONSTANTS, SOURCES, VALUES, METHODS, STATE, CONDITIONS = range(8)


def put(field: int, row: int, new: object) -> Callable[[], bytes]:
    """The record with one row replaced."""

    def made() -> bytes:
        fields = list(ROWS)
        rows = list(fields[field])
        rows[row] = new
        fields[field] = tuple(rows)
        return packed(tuple(fields))

    return made


def with_effect(*effect: object) -> Callable[[], bytes]:
    name, inputs, result, effects = ROWS[METHODS][0]
    return put(METHODS, 0, (name, inputs, result, (effect, *effects[1:])))


HOSTILE = [
    (lambda: packed((5, *ROWS[1:])), "field version: expected 4, found 5"),
    (lambda: packed((1,)), "field version: expected 4, found 1"),
    (lambda: packed((*ROWS[:CONDITIONS], ())), "field conditions: not one for each method"),
    (lambda: packed(ROWS[:-1]), "expected a tuple of 8"),
    (lambda: packed([]), "expected a tuple of 8"),
    (lambda: packed(("1", *ROWS[1:])), "field version: expected an int, found '1'"),
    (put(STRINGS, 1, 7), "field strings, row 1: expected a str, found 7"),
    (put(STRINGS, 1, "forward"), "field strings, row 1: not in the order of first use"),
    (
        put(CONSTANTS, 1, ("int", 99, ())),
        "field constants, row 1, field string: expected a row below 8, found 99",
    ),
    (
        put(CONSTANTS, 0, ("tuple", -1, (0,))),
        "field constants, row 0, field items: expected a row below 0, found 0",
    ),
    (put(CONSTANTS, 0, ("str", -1, ())), "expected a row below"),
    (put(CONSTANTS, 0, ("none", 0, ())), "more than a row of this kind has"),
    (
        put(CONSTANTS, 0, ("complex", 0, ())),
        "expected one of none, true, false, int, float, str, bytes, dtype, device, tuple",
    ),
    (put(CONSTANTS, 0, ("int", 0, ())), "expected the text of a constant int, found 'forward'"),
    (
        put(SOURCES, 0, ("attribute", 0, 1)),
        "field sources, row 0, field base: expected a row below 0, found 0",
    ),
    (
        put(SOURCES, 0, ("planet", -1, 1)),
        "field sources, row 0, field kind: expected one of local, attribute",
    ),
    (put(SOURCES, 0, ("local", -1)), "field sources, row 0: expected a tuple of 3, found a tuple of 2"),
    (put(SOURCES, 0, ("temporary", -1, -1)), "expected a number from 0"),
    (put(VALUES, 0, ("list", -1, (0,))), "field values, row 0, field items: expected a row below 0, found 0"),
    (put(VALUES, 0, ("output", -1, ())), "expected a number from 0"),
    (put(VALUES, 0, ("output", 1 << 70, ())), "expected an integer of 64 bits"),
    (put(VALUES, 0, ("source", 99, ())), "field values, row 0, field number: expected a row below"),
    (put(STATE, 0, (0, 99)), "field state, row 0, field value: expected a row below"),
    (put(METHODS, 0, (99, (), 0, ())), "field methods, row 0, field name: expected a row below"),
    (put(METHODS, 0, (0, (99,), 0, ())), "field methods, row 0, field inputs: expected a row below"),
    (with_effect("explode", 0, 0, 0, -1), "field effects, row 0, field op: expected one of new, setattr"),
    (with_effect("append", 0, 0, 0, -1), "append, key: expected nothing"),
    (with_effect("append", 0, -1, 0, -2), "expected an int from -1"),
    (with_effect("append", 99, -1, 0, -1), "field effects, row 0, field source: expected a row below"),
    (with_effect("append", 0, -1, 99, -1), "field effects, row 0, field value: expected a row below"),
    (
        lambda: packed((*ROWS[:VALUES], (*ROWS[VALUES], ("output", 9, ())), *ROWS[METHODS:])),
        "not used, or there",
    ),
]


@pytest.mark.parametrize(("made", "problem"), HOSTILE)
def test_a_broken_row_is_an_error_with_its_place(made: Callable[[], bytes], problem: str) -> None:
    assert problem in refused(made())


@pytest.mark.parametrize("text", ["1", "0x", "0X1", "0x01", "0x1_0", " 0x1", "-0x0", "0xg"])
def test_an_int_is_written_one_way(text: str) -> None:
    data = build_effects(table(state=((SELF, Constant(0xABCD)),)))
    assert "expected the text of a constant int" in refused(
        data.replace(b"\x06\0\0\0" + b"0xabcd", len(text).to_bytes(4, "little") + text.encode())
    )


@pytest.mark.parametrize("text", ["1", "nan(1)", "+1.0", "1e0", "infinity", "-nan", "NaN", "1_0.0"])
def test_a_float_is_written_one_way(text: str) -> None:
    data = build_effects(table(state=((SELF, Constant(2.25)),)))
    assert "expected the text of a constant float" in refused(
        data.replace(b"\x04\0\0\0" + b"2.25", len(text).to_bytes(4, "little") + text.encode())
    )


def test_a_text_that_is_not_utf8_is_refused() -> None:
    assert "field strings, row 0: expected UTF-8" in refused(
        build_effects(COUNTING).replace(b"forward", b"f\xff\xfeward"[:7])
    )


def record(*tables: object) -> bytes:
    """A record of one method, of its tables from strings to methods, without state and conditions."""
    return packed((VERSION, *tables, (), (((), ()),)))


def bomb(rows: int) -> bytes:
    """Lists that each contain the list before twice."""
    made: Any = Output(1)
    for _ in range(rows):
        made = Made("list", (made, made))
    values: list[Row] = [("output", 0, ()), ("output", 1, ())]
    values += [("list", -1, (row + 1, row + 1)) for row in range(rows)]
    effect = ("append", 0, -1, len(values) - 1, -1)
    method = (0, (), 0, (effect,))
    return record(("forward", "x"), (), (("local", -1, 1),), tuple(values), (method,))


def test_rows_that_share_one_another_too_often_are_refused_soon() -> None:
    assert read(bomb(10)).methods[0].effects[0].op is Op.APPEND
    with loops_below(500):
        assert "memory is limited to 67," in refused(bomb(60))


def test_rows_too_deep_in_one_another_are_refused() -> None:
    rows = 2_000  # more than Python recurses
    sources = [("local", -1, 1), *(("attribute", row, 1) for row in range(rows))]
    data = record(("f", "x"), (), tuple(sources), (("output", 0, ()),), ((0, (rows,), 0, ()),))
    assert "field sources, row 100: effect_depth is limited to 100" in refused(data)
    constants = [("none", -1, ()), *(("tuple", -1, (row,)) for row in range(rows))]
    data = record(("f",), tuple(constants), (), (("constant", rows, ()),), ((0, (), 0, ()),))
    assert "field constants, row 100: effect_depth is limited to 100" in refused(data)


def test_too_many_uses_of_one_long_text_are_refused() -> None:
    many = [("append", 0, -1, 0, -1)] * 10_000
    local, output = (("local", -1, 1),), (("output", 0, ()),)
    data = record(("f", "x" * 10_000), (), local, output, ((0, (), 0, tuple(many)),))
    assert "with effects as text" in refused(data)


def test_the_caller_s_limits_apply() -> None:
    data = build_effects(COUNTING)
    with pytest.raises(LimitError):
        read(data, replace(DEFAULT_LIMITS, memory=100))
    with pytest.raises(LimitError):
        read(data, replace(DEFAULT_LIMITS, effect_depth=1))


def test_a_table_too_deep_to_parse_is_not_built() -> None:
    deep: Any = SELF
    for _ in range(150):
        deep = Item(deep, 0)
    with pytest.raises(LimitError):
        build_effects(table(Effect(Op.CLEAR, deep)))
    for _ in range(100_000):
        deep = Attribute(deep, "a")
    with pytest.raises(ArchiveError):
        build_effects(table(Effect(Op.APPEND, X, None, At(deep))))


def attempt(data: bytes) -> None:
    """Parse a record: its table can be built again, or the error names the record."""
    try:
        found = read(data)
    except ArchiveError as error:
        record = error.record
    else:
        assert repr(read(build_effects(found))) == repr(found)
        return
    assert record == EFFECTS


@settings(patient, max_examples=examples(100))
@given(tables, st.data())
def test_changed_bytes_give_a_table_or_an_error(effects: EffectTable, data: st.DataObject) -> None:
    record = bytearray(build_effects(effects))
    for _ in range(data.draw(st.integers(1, 4))):
        record[data.draw(st.integers(0, len(record) - 1))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del record[data.draw(st.integers(0, len(record) - 1)) :]
    attempt(bytes(record))


numbers = st.integers(-2, 4)
words = st.sampled_from(
    ["local", "attribute", "item", "list", "tuple", "source", "str", "int", "append", "new", "x"]
)
junk = st.recursive(numbers | words, lambda inner: st.lists(inner, max_size=5).map(tuple), max_leaves=20)


@settings(patient, max_examples=examples(100))
@given(st.tuples(*[junk] * 7))
def test_arbitrary_rows_give_a_table_or_an_error(rows: Row) -> None:
    attempt(packed((VERSION, *rows)))


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("rows of one string", r"field strings, row \d+: memory is limited .* with texts of effects"),
        (
            "constants of one string",
            r"field constants, row \d+: memory is limited .* with constants of effects",
        ),
    ],
)
def test_a_text_that_many_rows_share_is_asked_for_each_time(case: str, said: str) -> None:
    data = pickled.EFFECTS[case].pickle(10_000)
    with peak_below(64 * MIB):
        assert re.search(said, refused(data))


def conditions(*, guard: tuple[object, ...] = (), default: tuple[int, int] | None = None) -> bytes:
    """A record with a guard or a default; value 0 is ``self``, value 1 the constant 3."""
    tables = (
        ("forward", "self", "0x3", "item"),
        (("int", 2, ()),),
        (("local", -1, 1), ("attribute", 0, 3)),
        (("source", 0, ()), ("constant", 0, ())),
        ((0, (), 0, ()),),
        (),
    )
    return packed((VERSION, *tables, (((guard,) if guard else (), (default,) if default else ()),)))


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (conditions(guard=("taste", 0, 1, -1, -1)), "field guards, row 0, field look: expected one of equal"),
        (conditions(guard=("dim", 0, 9, -1, -1)), "field guards, row 0, field value: expected a row below 2"),
        (conditions(guard=("dim", 0, 1, 9, -1)), "field guards, row 0, field key: expected a row below 2"),
        (conditions(guard=("dim", 1, 1, -1, -1)), "guard 0: dim of 3"),
        (conditions(guard=("dim", 0, 0, -1, -1)), "guard 0: dim as self"),
        (conditions(guard=("dim", 0, 1, 1, -1)), "guard 0: dim, key"),
        (conditions(default=(9, 1)), "field defaults, row 0, field source: expected a row below 2, found 9"),
        (conditions(default=(1, 1)), "field defaults, row 0: the default of what isn't an argument"),
        (conditions(default=(0, 0)), "the default of 'self': a default that isn't a constant"),
    ],
)
def test_a_broken_condition_is_an_error_with_its_place(data: bytes, problem: str) -> None:
    assert problem in refused(data)


@pytest.mark.parametrize("row", [("none", -1, (0,)), ("int", 0, (0,))])
def test_only_tuples_have_items(row: tuple[object, ...]) -> None:
    said = refused(put(CONSTANTS, 1, row)())
    assert "field constants, row 1, field items: more than a row of this kind has" in said


@pytest.mark.parametrize("number", [1 << 63, -(1 << 63) - 1])
def test_a_number_of_more_than_64_bits_is_not_written(number: int) -> None:
    with pytest.raises(ArchiveError, match="more than 64 bits"):
        build_effects(table(Effect(Op.CLEAR, SELF, handle=number)))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (table(Effect(Op.CLEAR, cast("Any", "self"))), "expected a source, found 'self'"),
        (table(Effect(Op.APPEND, SELF, None, cast("Any", SELF))), "expected a value, found"),
        (table(Effect(Op.APPEND, SELF, None, Made("bag", ()))), "expected one of list, tuple, dict, size"),
        (table(Effect(Op.APPEND, SELF, None, Made("dict", (Output(0),)))), "a key that has no value"),
    ],
)
def test_what_is_no_source_or_value_is_not_written(made: EffectTable, said: str) -> None:
    with pytest.raises(ArchiveError, match=said):
        build_effects(made)
