"""Rows of no fixed size: the compiled reader and construct's own read the same, and end at the same field."""

from __future__ import annotations

import pytest
from construct import Array, FormatField, StreamError, Struct, Switch, this
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.base.errors import ArchiveError
from archive.formats.schema.binary import build, field_path, parse
from archive.formats.schema.bounded import AtMost, CompiledRow, HeadReader, Text
from tests.support.sampling import examples


def row_of(order: str) -> CompiledRow:
    """A row with a field of each kind."""
    u8, u16, u32 = (FormatField(order, form) for form in "BHL")
    return CompiledRow(
        "row"
        / Struct(
            "name" / Text(u16) * "first",
            "count" / AtMost(5, u8, "at most 5 numbers"),
            "kind" / u16,
            "numbers" / Array(this.count, u16) * "some",
            "offset" / u32 * "after them",
            "value" / Switch(this.kind, {1: u8, 2: Text(u8)}) * "of the kind",
            "last" / u16,
        )
    )


ROWS = {order: row_of(order) for order in "<>"}
VALUES = st.fixed_dictionaries(
    {
        "name": st.text(max_size=9),
        "numbers": st.lists(st.integers(0, 0xFFFF), max_size=5),
        "offset": st.integers(0, 0xFFFF_FFFF),
        "value": st.one_of(st.integers(0, 255), st.text(max_size=9), st.none()),
        "last": st.integers(0, 0xFFFF),
    }
)


@settings(max_examples=examples(100), deadline=None)
@given(st.sampled_from("<>"), VALUES)
def test_a_built_row_is_read_as_construct_reads_it_and_cut_short_names_the_field(
    order: str, values: dict[str, object]
) -> None:
    row, value = ROWS[order], values["value"]
    kind = 0 if value is None else 2 if isinstance(value, str) else 1
    values |= {"count": len(values["numbers"]), "kind": kind}  # type: ignore[arg-type]
    data = build(row.declared, values)
    reader = HeadReader(memoryview(data), len(data))
    ours, theirs = row.read(reader), parse(row.declared, data)
    assert reader.left() == 0
    assert ours._asdict() | {"numbers": list(ours.numbers)} == theirs == values
    for size in range(len(data)):
        head = HeadReader(memoryview(data)[:size], len(data))
        with pytest.raises(StreamError) as short:
            row.read(head)
        assert head.tell() <= size < head.tell() + head.wanted <= len(data)
        with pytest.raises(ArchiveError) as caught:
            parse(row.declared, data[:size])
        place = str(caught.value.place).partition(", ")[2]
        assert place == f"field row, {field_path(short.value.path)}"


def test_a_number_above_its_bound_is_refused_before_what_it_counts_is_made() -> None:
    data = b"\1\0a\6\0\0"
    with pytest.raises(ArchiveError, match="expected at most 5 numbers, found 6"):
        ROWS["<"].read(HeadReader(memoryview(data), len(data)))
    with pytest.raises(ArchiveError, match="expected at most 5 numbers, found 6"):
        parse(ROWS["<"].declared, data)


def test_numbers_of_both_byte_orders_are_not_one_row() -> None:
    mixed = CompiledRow("mixed" / Struct("a" / FormatField("<", "H"), "b" / FormatField(">", "H")))
    with pytest.raises(TypeError, match="field b: numbers of both byte orders"):
        mixed.read(HeadReader(memoryview(bytes(4)), 4))
