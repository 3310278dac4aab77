"""Made-up tables of every format: what is built reads the same, and what is read builds the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.base.limits import DEFAULT_LIMITS
from archive.debuginfo.model import Generation, RangeLayout
from archive.debuginfo.tables import RangeTable, SourceTable
from archive.formats import callstack_map
from archive.formats.callstack_map import build_callstack_map, parse_callstack_map
from archive.formats.method_handles import build_methods, parse_methods
from archive.formats.source_ranges import build_source_ranges, parse_source_ranges
from archive.pickles import write
from tests.support import slow_reader
from tests.support.plain import plain_handles, plain_methods, plain_ranges
from tests.support.programs import get, integer
from tests.support.readings import tree_of
from tests.support.sampling import examples
from tests.support.strategies import (
    EDGES,
    Strings,
    column,
    firsts,
    handle_tables,
    method_tables,
    patient,
    range_tables,
    whole,
)

LAYOUTS = [layout for layout in RangeLayout if layout is not RangeLayout.EMPTY]
quick = settings(patient, max_examples=examples(60))


@pytest.mark.parametrize("layout", LAYOUTS)
@quick
@given(st.data())
def test_source_ranges(layout: RangeLayout, data: st.DataObject) -> None:
    table = data.draw(range_tables(layout))
    record = build_source_ranges(table, 0)
    again = parse_source_ranges(tree_of(record), DEFAULT_LIMITS.allowance(0))
    assert build_source_ranges(again, 0) == record
    assert plain_ranges(again, 0) == plain_ranges(table, 0) == slow_reader.source_ranges(record)
    assert again.layouts == (
        (layout,) if len(table) or layout is RangeLayout.STRING_TABLE else (RangeLayout.EMPTY,)
    )


@quick
@given(st.lists(st.sampled_from(LAYOUTS).flatmap(range_tables), min_size=2, max_size=6))
def test_records_of_all_layouts_are_read_together(tables: list[RangeTable]) -> None:
    records = [build_source_ranges(table, 0) for table in tables]
    together = parse_source_ranges(tree_of(*records), DEFAULT_LIMITS.allowance(0))
    for number, (table, record) in enumerate(zip(tables, records, strict=True)):
        own = together.numbers[f"record {number}"]
        assert plain_ranges(together, own) == plain_ranges(table, 0)
        assert build_source_ranges(together, own) == record


@pytest.mark.parametrize("generation", [Generation.CALLSTACK_3, Generation.CALLSTACK_4])
@quick
@given(st.data())
def test_call_stack_maps(generation: Generation, data: st.DataObject) -> None:
    table = data.draw(handle_tables(functions=generation is Generation.CALLSTACK_4))
    record = build_callstack_map(table, generation)
    again = parse_callstack_map(tree_of(record), 0, DEFAULT_LIMITS.allowance(0))
    assert build_callstack_map(again, generation) == record
    assert plain_handles(again) == plain_handles(table) == slow_reader.callstack_map(record)
    assert callstack_map.generation(again) is (generation if len(table) else Generation.CALLSTACK_4)


@pytest.mark.parametrize("generation", [Generation.METHOD_HANDLES, Generation.MODULE_PATHS])
@quick
@given(st.data())
def test_methods(generation: Generation, data: st.DataObject) -> None:
    paths = generation is Generation.MODULE_PATHS
    table = data.draw(method_tables(paths=paths))
    record = build_methods(table)
    again = parse_methods(tree_of(record), 0, generation, DEFAULT_LIMITS.allowance(0))
    assert build_methods(again) == record
    assert plain_methods(again, texts=paths) == plain_methods(table, texts=paths)
    assert plain_methods(again, texts=paths) == slow_reader.methods(record)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_memo_entries_above_255_take_the_long_forms(layout: RangeLayout) -> None:
    sources, rows = 300, 700
    strings = Strings()
    table = [strings.add(b""), *(strings.add(b"line %d\n" % number) for number in range(sources))]
    made = RangeTable(
        ("many",),
        (layout,),
        firsts([rows]),
        column(range(rows)),
        column(row % sources for row in range(rows)),
        column(range(rows)),
        column(range(rows)),
        column([-1] * rows if layout is RangeLayout.PAIR else range(rows)),
        SourceTable(
            strings.table(),
            column(range(sources + 1)),
            column(table[1:]),
            column(
                table[0] if number % 2 or layout is RangeLayout.STRING_TABLE else -1
                for number in range(sources)
            ),
            column(range(sources)),
            np.zeros(sources, np.bool_),
        ),
        firsts([len(table) if layout is RangeLayout.STRING_TABLE else 0]),
        column(table if layout is RangeLayout.STRING_TABLE else []),
    )
    record = build_source_ranges(made, 0)
    used = {name for name, _, _ in slow_reader.instructions(record)}
    assert {"BINPUT", "LONG_BINPUT", "LONG_BINGET"} <= used
    again = parse_source_ranges(tree_of(record), DEFAULT_LIMITS.allowance(0))
    assert build_source_ranges(again, 0) == record
    assert plain_ranges(again, 0) == plain_ranges(made, 0) == slow_reader.source_ranges(record)


@given(st.one_of(st.sampled_from(EDGES), whole))
def test_integers_take_their_least_width(value: int) -> None:
    assert write.integer(value) == integer(value)


@pytest.mark.parametrize("index", [0, 255, 256, 0xFFFF, 0x1_0000, 0xFFFF_FFFF])
def test_memo_reads_take_their_least_width(index: int) -> None:
    assert write.memo_read(index) == get(index)
