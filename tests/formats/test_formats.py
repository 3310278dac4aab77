"""Every debug record of every fixture: read as the slow reader reads it, and built again to the byte."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

import archive
from archive.debuginfo.model import Generation, RangeLayout
from archive.formats.callstack_map import build_callstack_map
from archive.formats.method_handles import build_methods
from archive.formats.source_ranges import build_source_ranges
from tests.support import slow_reader
from tests.support.corpus import ARCHIVES, CALLSTACKS, DELEGATED, HANDLES, PATHS, RELEASES, raw_records
from tests.support.plain import plain_handles, plain_methods, plain_ranges

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
