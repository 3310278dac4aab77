"""The record of effects: built and parsed back, rows shared, rules kept; in archives and commands."""

from __future__ import annotations

import io
import math
import pickletools
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings

import archive
from archive.base.errors import ArchiveError
from archive.formats.archive_id import archive_id
from archive.formats.effects import EFFECTS
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
    Length,
    Look,
    Made,
    New,
    Op,
    Output,
    Stored,
    Temporary,
)
from archive.formats.effects.record import build_effects
from archive.formats.effects.schema import EFFECTS_SCHEMA, ROW_KINDS
from archive.formats.effects.source_text import guard_text
from archive.formats.record_kinds import RecordKind, kind_of
from archive.formats.schema.pickled.described import tree
from archive.rewrite.migrate.migrate import migrate
from archive.rewrite.shrink import shrink
from archive.rewrite.split import split
from tests.support.effect_tables import (
    COUNTING,
    SELF,
    X,
    attribute,
    method,
    packed,
    read,
    table,
    tables,
    unpacked,
    with_effects,
)
from tests.support.sampling import examples
from tests.support.strategies import patient
from tests.support.tampering import STACK, said, tampered

if TYPE_CHECKING:
    from pathlib import Path


@settings(patient, max_examples=examples(100))
@given(tables)
def test_a_table_parses_back_from_its_record_a_pickle_of_pytorch_s_opcodes(effects: EffectTable) -> None:
    data = build_effects(effects)
    again = read(data)
    assert build_effects(again) == data
    assert repr(again) == repr(effects)  # which tells 1 from True and -0.0 from 0.0, and takes nan for nan
    pickletools.dis(data, out=io.StringIO())
    assert packed(unpacked(data)) == packed(unpacked(build_effects(again)))


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


def test_an_integer_too_long_for_decimal_is_kept() -> None:
    effects = table(Effect(Op.APPEND, attribute("h"), None, Constant(1 << 20_000)))
    assert read(build_effects(effects)) == effects
    with pytest.raises(ArchiveError, match="setattr, key: expected a text, found 0x1000"):
        build_effects(table(Effect(Op.SET_ATTRIBUTE, SELF, Constant(1 << 20_000), Output(0))))


def test_equal_constants_of_different_types_have_different_rows() -> None:
    made = Made("list", tuple(Constant(one) for one in (1, True, 1.0, 0.0, -0.0, 1)))
    _, _, constants, _, values, *_ = unpacked(build_effects(table(state=((SELF, made),))))
    assert len(constants) == 5
    assert values[-1] == ("list", -1, (1, 2, 3, 4, 5, 1))


def test_each_string_and_row_is_written_once() -> None:
    effects = [Effect(Op.APPEND, attribute("history"), None, Made("list", (Output(1),))) for _ in range(500)]
    data = build_effects(table(*effects))
    _, strings, _, sources, values, *_ = unpacked(data)
    assert strings == ("forward", "x", "self", "history")
    assert [len(sources), len(values)] == [3, 3]
    again = read(data).methods[0].effects
    assert again[0].source is again[499].source
    assert again[0].value is again[499].value


@pytest.mark.parametrize("literal", [1j, [1], {1}, object, type("Sub", (int,), {})(3)])
def test_a_constant_of_another_type_is_refused(literal: Any) -> None:  # noqa: ANN401
    with pytest.raises(ArchiveError, match="expected a constant: None, bool, int"):
        build_effects(table(Effect(Op.APPEND, attribute("h"), None, Constant(literal))))


NONSENSE = [
    (Effect(Op.NEW, SELF, Constant("m:C")), "new of what isn't a temporary"),
    (Effect(Op.NEW, Temporary(0), Constant("C")), "expected module:qualname"),
    (Effect(Op.SET_ATTRIBUTE, SELF, Constant(1), Output(0)), "setattr, key: expected a text"),
    (Effect(Op.SET_ATTRIBUTE, SELF, None, Output(0)), "setattr, key: expected a text, found nothing"),
    (Effect(Op.SET_ATTRIBUTE, SELF, Constant("a")), "setattr, value: expected a value, found nothing"),
    (Effect(Op.CLEAR, SELF, None, Output(0)), "clear, value: expected nothing"),
    (Effect(Op.SET_GLOBAL, SELF, None, Output(0)), "setglobal of what isn't a global"),
    (Effect(Op.SET_CELL, GlobalName("m", "n"), None, Output(0)), "setcell of what isn't a cell"),
    (Effect(Op.APPEND, X, None, New(1)), "object 1, which nothing makes"),
    (Effect(Op.APPEND, Attribute(Temporary(2), "a"), None, Output(0)), "temporary 2, which nothing makes"),
    (Effect(Op.APPEND, X, None, Stored(0)), "stored tensor 0, which only the state may have"),
    (Effect(Op.APPEND, X, None, Output(-1)), "output -1"),
    (
        Effect(Op.APPEND, X, None, Made("bag", ())),
        "expected one of list, tuple, dict, size, dtype, device, ",
    ),
    (Effect(Op.APPEND, X, None, Made("dict", (Output(0),))), "a key that has no value"),
    (Effect(Op.APPEND, X, None, Made("dtype", (Constant("os.system"),))), "no dtype: 'os.system'"),
    (Effect(Op.APPEND, X, None, Made("device", (Constant(1),))), "no device: 1"),
    (Effect(Op.APPEND, X, None, Made("device", ())), "no device"),
    (Effect(Op.REGISTER_BUFFER, SELF, Constant(1), Output(0)), "register_buffer, key: expected a text"),
]


@pytest.mark.parametrize(("effect", "problem"), NONSENSE)
def test_an_effect_that_breaks_a_rule_is_refused(effect: Effect, problem: str) -> None:
    with pytest.raises(ArchiveError) as caught:
        build_effects(table(effect))
    assert "method 'forward', effect 0" in str(caught.value)
    assert problem in str(caught.value)


SETTING = Constant("torch.is_grad_enabled")
INVALID_GUARDS = [
    (Guard(Look.DIM, Constant(None), Constant(2)), "dim of None"),
    (Guard(Look.SETTING, At(X), Constant(value=True), SETTING), "setting of x"),
    (Guard(Look.DIM, At(X), Constant("2")), "dim as '2'"),
    (Guard(Look.DIM, At(X), Constant(value=True)), "dim as True"),
    (Guard(Look.SAME, At(X), Constant(2)), "same as 2"),
    (Guard(Look.EQUAL, At(X), At(SELF)), "equal as self"),
    (Guard(Look.DIM, At(X), Constant(2), Constant(0)), "dim, key"),
    (Guard(Look.SIZE, At(X), Constant(2)), "size, key"),
    (Guard(Look.SIZE, At(X), Constant(2), Constant("0")), "size, key"),
    (Guard(Look.HAS, At(X), Constant(value=True)), "has, key"),
    (Guard(Look.HAS, At(X), Constant(value=True), At(SELF)), "has, key"),
    (Guard(Look.SAME, At(X), At(Temporary(0))), "temporary 0, which nothing makes"),
]


@pytest.mark.parametrize(("guard", "problem"), INVALID_GUARDS)
def test_a_guard_that_breaks_a_rule_is_refused(guard: Guard, problem: str) -> None:
    with pytest.raises(ArchiveError) as caught:
        build_effects(EffectTable((replace(method(), guards=(guard,)),), ()))
    assert "method 'forward', guard 0" in str(caught.value)
    assert problem in str(caught.value)


def test_methods_and_temporaries_are_unique() -> None:
    (one,) = COUNTING.methods
    with pytest.raises(ArchiveError, match="entries of method 'forward' are not beside one another"):
        build_effects(replace(COUNTING, methods=(one, replace(one, method="other"), one)))
    new = Effect(Op.NEW, Temporary(0), Constant("m:C"))
    with pytest.raises(ArchiveError, match="temporary 0 is made 2 times"):
        build_effects(table(new, new))


@pytest.mark.parametrize("value", [Output(0), New(0)])
def test_state_has_neither_outputs_nor_new_objects(value: Output | New) -> None:
    with pytest.raises(ArchiveError, match="state, row 0"):
        build_effects(table(state=((SELF, value),)))


def test_entries_of_a_method_share_their_rows() -> None:
    (one,) = COUNTING.methods
    several = replace(COUNTING, methods=(one, one))
    data = build_effects(several)
    assert read(data) == several
    assert len(data) < 1.6 * len(build_effects(COUNTING))


@pytest.mark.parametrize(
    ("guard", "problem"),
    [
        (Guard(Look.EQUAL, Computed("pow", (Constant(2), Constant(3))), Constant(8)), "found 'pow'"),
        (Guard(Look.EQUAL, Computed("add", (Constant(2),)), Constant(8)), "add of 1 operands"),
        (Guard(Look.EQUAL, Computed("neg", (Output(0),)), Constant(8)), r"neg of out\[0\]"),
        (Guard(Look.TYPE, Computed("neg", (Constant(1),)), Constant("int")), "type of -1"),
        (Guard(Look.IS_NONE, Output(0), Constant(value=True)), r"is_none of out\[0\]"),
    ],
)
def test_computed_numbers_have_known_operations_and_are_for_guards_alone(guard: Guard, problem: str) -> None:
    (one,) = COUNTING.methods
    with pytest.raises(ArchiveError, match=problem):
        build_effects(replace(COUNTING, methods=(replace(one, guards=(guard,)),)))


def test_no_effect_has_a_computed_number() -> None:
    doubled = Computed("add", (At(attribute("count")), At(attribute("count"))))
    for value in (doubled, Made("list", (doubled,))):
        with pytest.raises(ArchiveError, match="expected a value"):
            build_effects(table(Effect(Op.APPEND, attribute("history"), None, value)))


def test_a_length_is_read_and_never_set() -> None:
    length = Length(attribute("history"))
    effects = table(Effect(Op.SET_ATTRIBUTE, SELF, Constant("count"), At(length)))
    assert read(build_effects(effects)) == effects
    with pytest.raises(ArchiveError, match="setattr of a length"):
        build_effects(table(Effect(Op.SET_ATTRIBUTE, length, Constant("count"), Constant(1))))


def test_a_guard_may_be_for_each_item_of_a_list() -> None:
    (one,) = COUNTING.methods
    each = At(Each(attribute("history")))
    guard = Guard(Look.TYPE, each, Constant("tensor"))
    effects = replace(COUNTING, methods=(replace(one, guards=(guard,)),))
    assert read(build_effects(effects)) == effects
    assert guard_text(guard) == "all(isinstance(item, torch.Tensor) for item in self.history)"
    for refused in (
        Guard(Look.SAME, each, At(SELF)),
        Guard(Look.EQUAL, Computed("neg", (each,)), Constant(1)),
    ):
        with pytest.raises(ArchiveError):
            build_effects(replace(COUNTING, methods=(replace(one, guards=(refused,)),)))
    with pytest.raises(ArchiveError, match="expected a source"):
        build_effects(table(Effect(Op.APPEND, attribute("history"), None, each)))


def test_an_archive_gives_out_its_effects() -> None:
    with archive.open(with_effects(STACK, COUNTING)) as opened:
        assert opened.effects == COUNTING
        assert kind_of(EFFECTS) is RecordKind.EFFECTS
        assert not kind_of(EFFECTS).is_debug
    with archive.open(STACK) as opened:
        assert opened.effects is None


def test_an_error_names_archive_and_record() -> None:
    with (
        archive.open(tampered(STACK, {EFFECTS: b"\x80\x02K\x01."})) as opened,
        pytest.raises(ArchiveError) as caught,
    ):
        _ = opened.effects
    assert (caught.value.record, bool(caught.value.file)) == (EFFECTS, True)


def test_the_record_is_part_of_the_archive_id() -> None:
    with archive.open(STACK) as without, archive.open(with_effects(STACK, COUNTING)) as opened:
        assert archive_id(without.container.records) != archive_id(opened.container.records)


def test_split_shrink_and_migrate_keep_the_record(tmp_path: Path) -> None:
    original = tmp_path / "model.ptl"
    original.write_bytes(with_effects(STACK, COUNTING))
    split(original, tmp_path / "device.ptl", tmp_path / "model.ptdbg")
    shrink(original, tmp_path / "compact.ptl", level="compact")
    shrink(original, tmp_path / "embedded.ptl", level="embed")
    migrate(original, tmp_path / "migrated.ptl", to="1.9", lossy=True)
    for name in ("device", "compact", "embedded", "migrated"):
        with archive.open(tmp_path / f"{name}.ptl") as opened:
            assert opened.effects == COUNTING
            assert EFFECTS in opened.records


def test_verification_accepts_the_record() -> None:
    assert said(with_effects(STACK, COUNTING)) == said(STACK)


def test_a_cell_and_a_global_of_one_name_stay_apart() -> None:
    effects = table(
        Effect(Op.SET_CELL, ClosureCell("m", "n"), None, At(GlobalName("m", "n"))),
        Effect(Op.SET_GLOBAL, GlobalName("m", "n"), None, At(ClosureCell("m", "n"))),
    )
    assert read(build_effects(effects)) == effects
    assert method() == method()


def test_each_kind_of_row_is_declared_with_what_its_fact_is_made_of() -> None:
    for kinds in ROW_KINDS.values():
        for kind, row in kinds.items():
            made = signature(row.make).parameters
            assert len(made) == sum(one is not None for one in row.refers), kind


def test_the_record_is_described_by_its_declaration() -> None:
    lines = tree(EFFECTS_SCHEMA)
    assert [line.split(":")[0] for line in lines[1:] if line[2] != " "] == [
        *("  version", "  strings", "  constants", "  sources", "  values", "  methods"),
        *("  state", "  conditions"),
    ]
    assert (
        "    base: int from -1    attribute, item, length, each: row of sources;"
        " global, cell: row of strings; temporary: int"
    ) in lines
