"""Debug records of every fixture, and made-up tables: read as the slow reader does, built to the byte."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive.debuginfo.model import Generation, RangeLayout
from archive.debuginfo.tables import RangeTable, SourceTable
from archive.formats import callstack_map
from archive.formats.callstack_map import CALLSTACK_SCHEMAS, build_callstack_map, parse_callstack_map
from archive.formats.method_handles import METHOD_SCHEMAS, build_methods, parse_methods
from archive.formats.schema.pickled import Memo, String, Tuple
from archive.formats.schema.pickled.described import tree
from archive.formats.source_ranges import OFFSET, RANGE_SCHEMAS, build_source_ranges, parse_source_ranges
from archive.pickles import write
from tests.support import slow_reader
from tests.support.corpus import ARCHIVES, CALLSTACKS, DELEGATED, HANDLES, PATHS, RELEASES, raw_records
from tests.support.plain import plain_handles, plain_methods, plain_ranges, tree_of
from tests.support.sampling import examples
from tests.support.strategies import (
    EDGES,
    Strings,
    column,
    firsts,
    get,
    handle_tables,
    integer,
    method_tables,
    patient,
    range_tables,
    whole,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from archive import Archive

    Opened = list[tuple[Path, Archive]]


@pytest.fixture(scope="module")
def archives() -> Iterator[Opened]:
    opened = [(path, archive.open(path)) for path in ARCHIVES]
    yield opened
    for _, one in opened:
        one.close()


def test_source_ranges_are_read_as_by_the_slow_reader(archives: Opened) -> None:
    records: Counter[str] = Counter()
    rows: Counter[str] = Counter()
    for path, opened in archives:
        table = opened.range_table
        for record in filter(lambda record: record.holds_ranges, raw_records(path)):
            number = table.numbers[record.name]
            layout = table.layouts[number]
            expected = slow_reader.source_ranges(record.data)
            assert plain_ranges(table, number) == expected, f"{path}: {record.name}"
            key = f"1.2 {layout}" if record.is_legacy else str(layout)
            records[key] += 1
            rows[key] += len(expected)
    assert records == {
        "1.2 pair rows": 16,
        RangeLayout.PAIR: 69,
        RangeLayout.INLINE: 218,
        RangeLayout.STRING_TABLE: 409,
        RangeLayout.EMPTY: 76,
    }
    assert rows == {
        "1.2 pair rows": 841,
        RangeLayout.PAIR: 4233,
        RangeLayout.INLINE: 6672,
        RangeLayout.STRING_TABLE: 8017,
        RangeLayout.EMPTY: 0,
    }


def test_source_ranges_are_built_again_to_the_byte(archives: Opened) -> None:
    built: Counter[str] = Counter()
    for path, opened in archives:
        table = opened.range_table
        for record in filter(lambda record: record.holds_ranges, raw_records(path)):
            if record.is_legacy:  # another pickler wrote 1.2's, which nobody needs to write
                continue
            number = table.numbers[record.name]
            where = DELEGATED if record.name == DELEGATED else "code"
            built[f"{where}: {table.layouts[number]}"] += 1
            assert build_source_ranges(table, number) == record.data, f"{path}: {record.name}"
    assert built == {
        "code: pair rows": 69,
        "code: inline rows": 207,
        "code: string table": 358,
        "code: no rows": 54,
        "delegated_backends.debug_pkl: inline rows": 11,
        "delegated_backends.debug_pkl: string table": 51,
        "delegated_backends.debug_pkl: no rows": 22,
    }


def test_call_stack_maps_are_read_and_built_again_to_the_byte(archives: Opened) -> None:
    seen: Counter[str] = Counter()
    rows = calls = 0
    for path, opened in archives:
        for record in filter(lambda record: record.name == CALLSTACKS, raw_records(path)):
            table = opened.handle_table
            assert table is not None
            expected = slow_reader.callstack_map(record.data)
            assert plain_handles(table) == expected, str(path)
            generation = Generation(opened.generations[CALLSTACKS])
            assert build_callstack_map(table, generation) == record.data, str(path)
            seen[generation] += 1
            rows += len(expected)
            calls += sum(len(row.stack) for row in expected)
    assert seen == {Generation.CALLSTACK_3: 6, Generation.CALLSTACK_4: 84}
    assert (rows, calls) == (10_465, 7_048)


def test_methods_are_read_and_built_again_to_the_byte(archives: Opened) -> None:
    seen: Counter[str] = Counter()
    values: Counter[str] = Counter()
    for path, opened in archives:
        for record in filter(lambda record: record.name in (HANDLES, PATHS), raw_records(path)):
            texts = record.name == PATHS
            table = opened.path_table if texts else opened.method_table
            assert table is not None
            expected = slow_reader.methods(record.data)
            assert plain_methods(table, texts=texts) == expected, str(path)
            assert build_methods(table) == record.data, str(path)
            seen[record.name] += 1
            values[record.name] += sum(len(value) for _, value in expected[1])
    assert seen == {HANDLES: 90, PATHS: 7}
    assert values == {HANDLES: 10_269, PATHS: 194}


def test_no_debug_record_is_left_out(archives: Opened) -> None:
    for path, opened in archives:
        expected = {
            record.name
            for record in raw_records(path)
            if record.holds_ranges or record.name in (CALLSTACKS, HANDLES, PATHS)
        }
        assert set(opened.generations) - {"data.pkl"} == expected, str(path)


@pytest.mark.parametrize(
    ("release", "layout"),
    [
        ("1.2.0", RangeLayout.PAIR),
        ("1.8.0", RangeLayout.PAIR),
        ("1.9.0", RangeLayout.INLINE),
        ("1.11.0", RangeLayout.INLINE),
        ("1.12.0", RangeLayout.STRING_TABLE),
        ("2.13.0", RangeLayout.STRING_TABLE),
    ],
)
def test_each_release_has_its_layout(release: str, layout: RangeLayout) -> None:
    with archive.open(RELEASES / f"torch-{release}" / "nested.pt") as opened:
        assert set(opened.range_table.layouts) - {RangeLayout.EMPTY} == {layout}


def test_the_null_source_is_recognised_in_every_layout(archives: Opened) -> None:
    null: Counter[str] = Counter()
    for _, opened in archives:
        table = opened.range_table
        for number, layout in enumerate(table.layouts):
            for row in table.rows(number):
                source = table.source_range(row).source
                assert source.is_null == (not source.text), "no fixture has a source that is merely empty"
                null[layout] += source.is_null
    assert null == {RangeLayout.PAIR: 1317, RangeLayout.INLINE: 1741, RangeLayout.STRING_TABLE: 2234}


# --- Made-up tables of every format: what is built reads the same, and what is read builds the same


LAYOUTS = [layout for layout in RangeLayout if layout is not RangeLayout.EMPTY]
quick = settings(patient, max_examples=examples(60))


@pytest.mark.parametrize("layout", LAYOUTS)
@quick
@given(st.data())
def test_source_ranges(layout: RangeLayout, data: st.DataObject) -> None:
    table = data.draw(range_tables(layout))
    record = build_source_ranges(table, 0)
    again = parse_source_ranges(tree_of(record))
    assert build_source_ranges(again, 0) == record
    assert plain_ranges(again, 0) == plain_ranges(table, 0) == slow_reader.source_ranges(record)
    assert again.layouts == (
        (layout,) if len(table) or layout is RangeLayout.STRING_TABLE else (RangeLayout.EMPTY,)
    )


@quick
@given(st.lists(st.sampled_from(LAYOUTS).flatmap(range_tables), min_size=2, max_size=6))
def test_records_of_all_layouts_are_read_together(tables: list[RangeTable]) -> None:
    records = [build_source_ranges(table, 0) for table in tables]
    together = parse_source_ranges(tree_of(*records))
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
    again = parse_callstack_map(tree_of(record), 0)
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
    again = parse_methods(tree_of(record), 0, generation)
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
    again = parse_source_ranges(tree_of(record))
    assert build_source_ranges(again, 0) == record
    assert plain_ranges(again, 0) == plain_ranges(made, 0) == slow_reader.source_ranges(record)


@given(st.one_of(st.sampled_from(EDGES), whole))
def test_integers_take_their_least_width(value: int) -> None:
    assert write.integer(value) == integer(value)


@pytest.mark.parametrize("index", [0, 255, 256, 0xFFFF, 0x1_0000, 0xFFFF_FFFF])
def test_memo_reads_take_their_least_width(index: int) -> None:
    assert write.memo_read(index) == get(index)


# --- A record's declaration describes itself: its text is the layout that a reader of the specification sees


SOURCE = "shared (text: str, filename: str or None, starting_line: int)"
RANGE = f"(source: {SOURCE}, start: int, end: int)"
PIECED = RANGE.replace("text: str, filename: str or None", "text: [int, ...], filename: int")
MODULE = "shared (type: str, instance: str) or None"
DECLARATIONS = {
    RangeLayout.PAIR: f"((offset: int, range: {RANGE}), ...)",
    RangeLayout.TAG_FIRST: f"((offset: int, tag: int, range: {RANGE}), ...)",
    RangeLayout.INLINE: f"((offset: int, range: {RANGE}, tag: int), ...)",
    RangeLayout.STRING_TABLE: '(marker: "FORMAT_WITH_STRING_TABLE", table: (str, ...), rows: '
    f"((offset: int, range: {PIECED}, tag: int), ...))",
    RangeLayout.EMPTY: f"((offset: int, range: {RANGE}, tag: int), ...)",
}
LINK = f"(module: {MODULE}, tag: int, inner: the next or None"
GENERATIONS = {
    Generation.CALLSTACK_3: f"((handle: int, tag: int, stack: chain by inner of {LINK}) or None), ...)",
    Generation.CALLSTACK_4: "((handle: int, tag: int, op: str, stack: chain by inner of "
    f"{LINK}, function: str) or None), ...)",
    Generation.METHOD_HANDLES: '(int, (method: str, table: (entry: (key: "function_debug_handles", '
    "value: (handles: [int, ...],)),)), ...)",
    Generation.MODULE_PATHS: '(int, (method: str, table: (entry: (key: "module_debug_info", '
    "value: (str, ...)),)), ...)",
}


def test_layouts_of_source_ranges_describe_themselves() -> None:
    assert {layout: str(schema) for layout, schema in RANGE_SCHEMAS.items()} == DECLARATIONS


def test_call_stack_maps_and_methods_describe_themselves() -> None:
    schemas = CALLSTACK_SCHEMAS | METHOD_SCHEMAS
    assert {generation: str(schema) for generation, schema in schemas.items()} == GENERATIONS


def test_a_memo_entry_of_its_own_is_not_told() -> None:
    assert str(Memo(String())) == "str"


def test_declarations_of_pickles_are_trees_with_docs() -> None:
    lines = tree(RANGE_SCHEMAS[RangeLayout.INLINE])
    assert lines[:2] == ["(tuple, ...)", f"  offset: int    {OFFSET.docs}"]
    assert "    source: shared tuple    shared by all ranges in it" in lines
    assert "      filename: str or None    of the model's file" in lines
    for schema in [*RANGE_SCHEMAS.values(), *CALLSTACK_SCHEMAS.values(), *METHOD_SCHEMAS.values()]:
        fields = [line.split(":")[0].strip() for line in tree(schema)[1:]]
        assert fields == re.findall(r"(\w+): ", str(schema))


def test_a_doc_changes_nothing_of_a_declaration() -> None:
    plain, documented = Tuple(tag=String()), Tuple(tag=String() * "a doc")
    assert str(plain) == str(documented)
    assert plain.fields == documented.fields
    assert (plain.docs, documented.docs) == ({}, {"tag": "a doc"})
