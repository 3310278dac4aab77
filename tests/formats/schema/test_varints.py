"""Layouts with integers of variable length agree with construct's own, and have bounds that it lacks."""

from __future__ import annotations

import construct
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.base.errors import ArchiveError
from archive.formats.schema.varints import (
    VariableLayout,
    build_signed,
    build_varint,
    read_signed,
    read_varint,
)
from archive.formats.schema.words import (
    BIG,
    Bytes,
    Const,
    Field,
    FormatField,
    Int8ul,
    Int32ul,
    Int64sl,
    Struct,
    VarInt,
    ZigZag,
)

NUMBERS = st.integers(0, (1 << 70) - 1)
SIGNED = st.integers(-1 << 69, (1 << 69) - 1)
VALUES: dict[Field, st.SearchStrategy[object]] = {
    VarInt: NUMBERS,
    ZigZag: SIGNED,
    Int8ul: st.integers(0, 255),
    FormatField(BIG, "H"): st.integers(0, (1 << 16) - 1),
    Int32ul: st.integers(0, (1 << 32) - 1),
    Int64sl: st.integers(-1 << 63, (1 << 63) - 1),
    Bytes(3): st.binary(min_size=3, max_size=3),
}


@given(NUMBERS, SIGNED, st.binary(max_size=3))
def test_integers_of_variable_length_are_those_of_construct(value: int, signed: int, rest: bytes) -> None:
    built, built_signed = build_varint(value), build_signed(signed)
    assert (built, built_signed) == (construct.VarInt.build(value), construct.ZigZag.build(signed))
    assert read_varint(b"\x80" + built + rest, 1) == (value, 1 + len(built))
    assert read_signed(memoryview(built_signed + rest)) == (signed, len(built_signed))


def test_an_integer_has_at_most_ten_bytes() -> None:
    most = (1 << 70) - 1
    assert read_varint(build_varint(most)) == (most, 10)
    for value in (most + 1, -1):
        with pytest.raises(ValueError, match=str(value)):
            build_varint(value)
    with pytest.raises(ArchiveError, match="byte 2: expected at most 10 bytes, found more"):
        read_varint(b"\1\1" + b"\x80" * (1 << 20), 2)


@given(st.lists(st.sampled_from([*VALUES]), min_size=1, max_size=5), st.data())
def test_rows_are_those_of_construct(kinds: list[Field], data: st.DataObject) -> None:
    names = [f"field_{number}" for number in range(len(kinds))]
    declared = Struct(*(name / kind for name, kind in zip(names, kinds, strict=True)))
    layout = VariableLayout("line" / declared)
    rows = data.draw(st.lists(st.tuples(*(VALUES[kind] for kind in kinds)), max_size=3))
    built = b"".join(map(layout.pack, rows))
    assert built == b"".join(declared.construct().build(dict(zip(names, row, strict=True))) for row in rows)
    assert layout.read_all(b"?" + built + b"?", 1, len(rows)) == (rows, 1 + len(built))

    for number, name in enumerate(names):
        values = [row[number] for row in rows]
        together = layout.build_field(name, values)
        assert layout.read_field(name, memoryview(together), 0, len(rows)) == (values, len(together))


def test_rows_that_are_cut_are_refused_at_the_field_that_is_not_whole() -> None:
    layout = VariableLayout("line" / Struct("rows" / VarInt, "start" / ZigZag * "signed", "check" / Int32ul))
    row = layout.build(rows=300, start=-200, check=7)
    ends = ["rows"] * 2 + ["start"] * 2 + ["check"] * 4
    for size, name in [(size, ends[size % len(row)]) for size in range(2 * len(row))]:
        with pytest.raises(ArchiveError, match=rf"^byte \d+, field {name}: expected .*, found the end$"):
            layout.read_all((row + row)[:size], 0, 2)
    with pytest.raises(ArchiveError, match=r"^byte 2, field start: expected at most 10 bytes, found more$"):
        layout.read_all(row[:2] + b"\xff" * 100, 0, 1)


def test_a_layout_of_variable_length_has_no_constants() -> None:
    with pytest.raises(TypeError, match="field other: a constant"):
        VariableLayout("line" / Struct("rows" / VarInt, "other" / Const(b"AB"))).build(rows=1, other=b"")
