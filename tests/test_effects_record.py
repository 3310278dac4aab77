"""The effects' record: to bytes and back, what is shared, and what is refused."""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archive
from archive.errors import ArchiveError, LimitError
from archive.formats.archive_id import archive_id
from archive.formats.effects.model import (
    At,
    Attribute,
    Cell,
    Constant,
    Effect,
    Global,
    Item,
    Made,
    New,
    Op,
    Output,
    Stored,
    Temporary,
)
from archive.formats.effects.record import NAME, build_effects
from archive.formats.kinds import RecordKind, kind_of
from archive.limits import DEFAULT_LIMITS
from archive.migrating import migrate
from archive.shrinking import shrink
from archive.splitting import split
from tests.effect_tables import COUNTING, SELF, X, attribute, method, read, table, tables, with_effects
from tests.strategies import patient
from tests.tampering import STACK, said, tampered

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from archive.formats.effects.model import EffectTable

Row = tuple[Any, ...]


def packed(value: object) -> bytes:
    """A pickle with PyTorch's opcodes alone; strings are not shared."""
    out = io.BytesIO()
    plain = pickle._Pickler(out, 2)
    plain.fast = True
    plain.dump(value)
    return out.getvalue()


def unpacked(data: bytes) -> list[Row]:
    return list(pickle.loads(data))  # noqa: S301 (our own)


def refused(data: bytes, limits: archive.Limits = DEFAULT_LIMITS) -> str:
    with pytest.raises(ArchiveError) as caught:
        read(data, limits)
    assert caught.value.record == NAME
    return str(caught.value).removeprefix(NAME)


@patient
@given(tables)
def test_round_trip(effects: EffectTable) -> None:
    data = build_effects(effects)
    again = read(data)
    assert build_effects(again) == data
    assert repr(again) == repr(effects)  # which tells 1 from True and -0.0 from 0.0, and takes nan for nan


@patient
@given(tables)
def test_a_record_is_a_pickle_of_pytorchs_opcodes(effects: EffectTable) -> None:
    data = build_effects(effects)
    pickletools.dis(data, out=io.StringIO())
    assert packed(unpacked(data)) == packed(unpacked(build_effects(read(data))))


@pytest.mark.parametrize(
    "literal",
    [
        True,
        1,
        1.0,
        -0.0,
        0.0,
        math.inf,
        -math.inf,
        10**400,
        b"\0\xff",
        "\ud800",
        "",
        (),
        ((1, True), (1.0,)),
        None,
    ],
)
def test_constants_keep_their_type(literal: Any) -> None:  # noqa: ANN401
    kept = read(build_effects(table(Effect(Op.APPEND, attribute("h"), None, Constant(literal)))))
    value = kept.methods[0].effects[0].value
    assert isinstance(value, Constant)
    assert repr(value.value) == repr(literal)


def test_a_number_too_long_to_print() -> None:
    effects = table(Effect(Op.APPEND, attribute("h"), None, Constant(1 << 20_000)))
    assert read(build_effects(effects)) == effects
    with pytest.raises(ArchiveError, match="setattr, key: expected a text, found 0x1000"):
        build_effects(table(Effect(Op.SET_ATTRIBUTE, SELF, Constant(1 << 20_000), Output(0))))


def test_equal_constants_of_other_types_are_other_rows() -> None:
    made = Made("list", tuple(Constant(one) for one in (1, True, 1.0, 0.0, -0.0, 1)))
    _, _, constants, _, values, _, _ = unpacked(build_effects(table(state=((SELF, made),))))
    assert len(constants) == 5
    assert values[-1] == ("list", -1, (1, 2, 3, 4, 5, 1))


def test_everything_is_there_once() -> None:
    effects = [Effect(Op.APPEND, attribute("history"), None, Made("list", (Output(1),))) for _ in range(500)]
    data = build_effects(table(*effects))
    _, strings, _, sources, values, _, _ = unpacked(data)
    assert strings == ("forward", "x", "self", "history")
    assert [len(sources), len(values)] == [3, 3]
    again = read(data).methods[0].effects
    assert again[0].source is again[499].source
    assert again[0].value is again[499].value


@pytest.mark.parametrize("literal", [1j, [1], {1}, object, type("Sub", (int,), {})(3)])
def test_what_is_no_constant_is_not_built(literal: Any) -> None:  # noqa: ANN401
    with pytest.raises(ArchiveError, match="expected a constant: None, bool, int"):
        build_effects(table(Effect(Op.APPEND, attribute("h"), None, Constant(literal))))


NONSENSE = [
    (Effect(Op.NEW, SELF, Constant("m:C")), "new of what is no temporary"),
    (Effect(Op.NEW, Temporary(0), Constant("C")), "expected module:qualname"),
    (Effect(Op.SET_ATTRIBUTE, SELF, Constant(1), Output(0)), "setattr, key: expected a text"),
    (Effect(Op.SET_ATTRIBUTE, SELF, None, Output(0)), "setattr, key: expected a text, found nothing"),
    (Effect(Op.SET_ATTRIBUTE, SELF, Constant("a")), "setattr, value: expected a value, found nothing"),
    (Effect(Op.CLEAR, SELF, None, Output(0)), "clear, value: expected nothing"),
    (Effect(Op.SET_GLOBAL, SELF, None, Output(0)), "setglobal of what is no global"),
    (Effect(Op.SET_CELL, Global("m", "n"), None, Output(0)), "setcell of what is no cell"),
    (Effect(Op.REMOVE_HOOK, X, None, Constant(-1)), "expected a number from 0"),
    (Effect(Op.REMOVE_HOOK, X, None, Constant(value=True)), "expected a number from 0"),
    (Effect(Op.APPEND, X, None, New(1)), "object 1, which nothing makes"),
    (Effect(Op.APPEND, Attribute(Temporary(2), "a"), None, Output(0)), "temporary 2, which nothing makes"),
    (Effect(Op.APPEND, X, None, Stored(0)), "stored tensor 0, which is for the state alone"),
    (Effect(Op.APPEND, X, None, Output(-1)), "output -1"),
    (Effect(Op.APPEND, X, None, Made("set", ())), "expected one of list, tuple, dict, found 'set'"),
    (Effect(Op.APPEND, X, None, Made("dict", (Output(0),))), "a key that has no value"),
]


@pytest.mark.parametrize(("effect", "problem"), NONSENSE)
def test_effects_that_make_no_sense_are_not_built(effect: Effect, problem: str) -> None:
    with pytest.raises(ArchiveError) as caught:
        build_effects(table(effect))
    assert "method 'forward', effect 0" in str(caught.value)
    assert problem in str(caught.value)


def test_methods_and_temporaries_are_there_once() -> None:
    with pytest.raises(ArchiveError, match="method 'forward' are there 2 times"):
        build_effects(replace(COUNTING, methods=COUNTING.methods * 2))
    new = Effect(Op.NEW, Temporary(0), Constant("m:C"))
    with pytest.raises(ArchiveError, match="temporary 0 is made 2 times"):
        build_effects(table(new, new))


@pytest.mark.parametrize("value", [Output(0), New(0)])
def test_state_has_no_outputs_and_no_new_objects(value: Output | New) -> None:
    with pytest.raises(ArchiveError, match="state, row 0"):
        build_effects(table(state=((SELF, value),)))


ROWS = unpacked(build_effects(COUNTING))
VERSION, STRINGS, CONSTANTS, SOURCES, VALUES, METHODS, STATE = range(7)


def put(field: int, row: int, new: object) -> Callable[[], bytes]:
    """The record with another row."""

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
    (lambda: packed((2, *ROWS[1:])), "field version: expected 1, found 2"),
    (lambda: packed((2,)), "field version: expected 1, found 2"),
    (lambda: packed(ROWS[:-1]), "expected a tuple of 7"),
    (lambda: packed([]), "expected a tuple of 7"),
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
        "expected one of none, true, false, int, float, str, bytes, tuple",
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
def test_hostile_records(made: Callable[[], bytes], problem: str) -> None:
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


def test_a_text_that_is_no_utf8() -> None:
    assert "field strings, row 0: expected UTF-8" in refused(
        build_effects(COUNTING).replace(b"forward", b"f\xff\xfeward"[:7])
    )


def bomb(rows: int) -> bytes:
    """Lists of two of the list before, on and on."""
    made: Any = Output(1)
    for _ in range(rows):
        made = Made("list", (made, made))
    values: list[Row] = [("output", 0, ()), ("output", 1, ())]
    values += [("list", -1, (row + 1, row + 1)) for row in range(rows)]
    effect = ("append", 0, -1, len(values) - 1, -1)
    return packed((1, ("forward", "x"), (), (("local", -1, 1),), tuple(values), ((0, (), 0, (effect,)),), ()))


def test_size_bombs() -> None:
    assert read(bomb(10)).methods[0].effects[0].op is Op.APPEND
    start = time.perf_counter()
    assert "effect_bytes is limited to 16,777,216" in refused(bomb(60))
    assert time.perf_counter() - start < 5


def test_depth_bombs() -> None:
    rows = 100_000
    sources = [("local", -1, 1), *(("attribute", row, 1) for row in range(rows))]
    data = packed((1, ("f", "x"), (), tuple(sources), (("output", 0, ()),), ((0, (rows,), 0, ()),), ()))
    assert "field sources, row 100: effect_depth is limited to 100" in refused(data)
    constants = [("none", -1, ()), *(("tuple", -1, (row,)) for row in range(rows))]
    data = packed((1, ("f",), tuple(constants), (), (("constant", rows, ()),), ((0, (), 0, ()),), ()))
    assert "field constants, row 100: effect_depth is limited to 100" in refused(data)


def test_many_uses_of_one_long_text() -> None:
    many = [("append", 0, -1, 0, -1)] * 30_000
    data = packed(
        (1, ("f", "x" * 1000), (), (("local", -1, 1),), (("output", 0, ()),), ((0, (), 0, tuple(many)),), ())
    )
    assert "effect_bytes is limited to" in refused(data)


def test_limits_are_the_callers() -> None:
    data = build_effects(COUNTING)
    with pytest.raises(LimitError):
        read(data, replace(DEFAULT_LIMITS, effect_bytes=100))
    with pytest.raises(LimitError):
        read(data, replace(DEFAULT_LIMITS, effect_depth=1))


def test_what_is_too_deep_to_read_is_not_built() -> None:
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
    """Read a record: it has a table, which can be written, or ends in one error."""
    try:
        found = read(data)
    except ArchiveError as error:
        record = error.record
    else:
        assert repr(read(build_effects(found))) == repr(found)
        return
    assert record == NAME


@patient
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


@patient
@given(st.tuples(*[junk] * 6))
def test_arbitrary_rows_give_a_table_or_an_error(rows: Row) -> None:
    attempt(packed((1, *rows)))


def test_an_archive_with_effects() -> None:
    with archive.open(with_effects(STACK, COUNTING)) as opened:
        assert opened.effects == COUNTING
        assert kind_of(NAME) is RecordKind.EFFECTS
        assert not kind_of(NAME).is_debug
    with archive.open(STACK) as opened:
        assert opened.effects is None


def test_a_broken_record_in_an_archive() -> None:
    with (
        archive.open(tampered(STACK, {NAME: b"\x80\x02K\x01."})) as opened,
        pytest.raises(ArchiveError) as caught,
    ):
        _ = opened.effects
    assert (caught.value.record, bool(caught.value.file)) == (NAME, True)


def test_it_is_part_of_the_archive_id() -> None:
    with archive.open(STACK) as without, archive.open(with_effects(STACK, COUNTING)) as opened:
        assert archive_id(without.records) != archive_id(opened.records)


def test_split_shrink_and_migrate_leave_it_alone(tmp_path: Path) -> None:
    original = tmp_path / "model.ptl"
    original.write_bytes(with_effects(STACK, COUNTING))
    split(original, tmp_path / "device.ptl", tmp_path / "model.ptdbg")
    shrink(original, tmp_path / "compact.ptl", level="compact")
    shrink(original, tmp_path / "embedded.ptl", level="embed")
    migrate(original, tmp_path / "migrated.ptl", to="1.9", lossy=True)
    for name in ("device", "compact", "embedded", "migrated"):
        with archive.open(tmp_path / f"{name}.ptl") as opened:
            assert opened.effects == COUNTING
            assert NAME in opened.records


def test_verification_has_nothing_against_it() -> None:
    assert said(with_effects(STACK, COUNTING)) == said(STACK)


def test_a_cell_and_a_global_are_not_one_another() -> None:
    effects = table(
        Effect(Op.SET_CELL, Cell("m", "n"), None, At(Global("m", "n"))),
        Effect(Op.SET_GLOBAL, Global("m", "n"), None, At(Cell("m", "n"))),
    )
    assert read(build_effects(effects)) == effects
    assert method() == method()
