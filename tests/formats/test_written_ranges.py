"""Source ranges are the same, read by their shape or by their values; if they are broken, too."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive import ArchiveError
from archive.base import memory
from archive.debuginfo.model import RangeLayout
from archive.formats.source_ranges import build_source_ranges, parse_source_ranges, read_source_ranges
from archive.formats.written_ranges import BEGINNING, written_records
from archive.pickles.scan import Pickle
from archive.pickles.tree import read_trees
from tests.costs import pickled
from tests.costs.pickled import Repeated
from tests.formats.test_allowance import TIMES, check_asked, tree_of
from tests.support.corpus import ARCHIVES, raw_records
from tests.support.sampling import examples
from tests.support.strategies import patient, range_tables

if TYPE_CHECKING:
    from collections.abc import Callable

quick = settings(patient, max_examples=examples(60))
tables = st.lists(range_tables(RangeLayout.STRING_TABLE), min_size=1, max_size=4)


def pickles_of(records: list[bytes]) -> list[Pickle]:
    return [Pickle(f"record {number}", memoryview(record)) for number, record in enumerate(records)]


def columns(table: Any) -> Any:  # noqa: ANN401 (columns of any kind)
    """What is in columns, with their types."""
    if isinstance(table, np.ndarray):
        return table.dtype, table.tolist()
    if is_dataclass(table):
        return [columns(getattr(table, field.name)) for field in fields(table)]
    return list(table) if isinstance(table, list | tuple) else table


def read(by: Callable[[list[Pickle]], object], pickles: list[Pickle]) -> Any:  # noqa: ANN401 (as above)
    """The columns, or the error."""
    try:
        return columns(by(pickles))
    except ArchiveError as problem:
        return str(problem)


def by_shape(pickles: list[Pickle]) -> object:
    return read_source_ranges(pickles, [False] * len(pickles))


def by_values(pickles: list[Pickle]) -> object:
    return parse_source_ranges(read_trees(pickles, [False] * len(pickles)))


def test_every_record_with_a_string_table_is_read_by_its_shape() -> None:
    counts: Counter[bool] = Counter()
    for path in ARCHIVES:
        for record in raw_records(path):
            if record.holds_ranges and record.data.startswith(BEGINNING):
                pickles = pickles_of([record.data])
                assert read(by_shape, pickles) == read(by_values, pickles), f"{path}: {record.name}"
                counts[written_records(pickles, [False]) is not None] += 1
    assert counts.keys() == {True}


@quick
@given(tables.map(lambda some: [build_source_ranges(table, 0) for table in some]))
def test_records_are_read_together(records: list[bytes]) -> None:
    pickles = pickles_of(records)
    assert read(by_shape, pickles) == read(by_values, pickles)


@quick
@given(tables.map(lambda some: build_source_ranges(some[0], 0)), st.data())
def test_a_record_that_is_broken_anywhere_is_read_by_its_values(record: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(record) - 1))
    some = st.binary(max_size=3) | st.sampled_from(
        [b"(", b")", b"t", b"K\0", b"h\0", b"q\1", b"\x87", b"J\0\0\0\xff"]
    )
    broken = record[:at] + data.draw(some) + record[at + data.draw(st.integers(0, 3)) :]
    pickles = pickles_of([broken])
    assert read(by_shape, pickles) == read(by_values, pickles)


SOURCE = b"%b(](K\0etRK\0K\0\x87%b"
BUILDER = b"ctorch.jit._pickle\nbuild_intlist\nq\3"


def record_of(*rows: bytes) -> bytes:
    """A record with a string and some rows."""
    return BEGINNING + b"X\0\0\0\0q\1\x85q\2(" + b"".join(rows) + b"tq\x09\x87."


@pytest.mark.parametrize(
    ("rows", "is_written"),
    [
        (
            [
                b"K\0" + SOURCE % (BUILDER, b"q\4") + b"K\0K\1\x87K\2\x87",
                b"M\1\1h\4K\0J\0\0\1\0\x87J\xff\xff\xff\xff\x87",
            ],
            True,
        ),
        ([b"K\0h\4K\0K\0\x87K\0\x87", b"K\0" + SOURCE % (BUILDER, b"q\4") + b"K\0K\1\x87K\2\x87"], False),
        ([b"K\0" + SOURCE % (BUILDER, b"q\4") + b"K\0K\1\x87K\2\x87", b"K\0h\3K\0K\0\x87K\0\x87"], False),
        ([b"K\0" + SOURCE % (BUILDER, b"q\4") + b"K\0K\1\x87K\2\x87", b"K\0h\5K\0K\0\x87K\0\x87"], False),
        ([b"K\0" + SOURCE % (BUILDER, b"q\5") + b"K\0K\1\x87K\2\x87", b"K\0h\4K\0K\0\x87K\0\x87"], False),
        ([b"K\0" + SOURCE % (b"h\1", b"q\2") + b"K\0K\1\x87K\2\x87"], False),
        (
            [
                b"K\0" + SOURCE % (BUILDER, b"q\4") + b"K\0K\1\x87K\2\x87",
                b"K\0" + SOURCE % (b"h\1", b"q\5") + b"K\0K\1\x87K\2\x87",
            ],
            False,
        ),
        ([b"K\0" + SOURCE % (BUILDER, b"q\4") + b"J\xff\xff\xff\xffK\1\x87K\2\x87"], False),
        ([b"K\0" + SOURCE % (BUILDER, b"q\4") + b"K\0J\xff\xff\xff\xff\x87K\2\x87"], False),
        ([b"K\0" + SOURCE % (BUILDER, b"q\4") + b"K\0K\1\x87K\2\x87"] * 2, False),
        (
            [
                b"K\0" + SOURCE % (BUILDER, b"q\4") + b"K\0K\1\x87K\2\x87",
                b"K\0" + SOURCE % (b"h\3", b"q\4") + b"K\0K\0\x87K\0\x87",
            ],
            False,
        ),
    ],
    ids=[
        *(
            "as written",
            "a source before its memo entry",
            "the function as a source",
            "an entry that is not there",
        ),
        *(
            "entries not in a row",
            "no function",
            "another function",
            "a start below 0",
            "an end below 0",
            "the function and an entry twice",
        ),
        "an entry twice",
    ],
)
def test_a_row_is_read_by_its_shape_only_if_its_values_are_as_written(
    rows: list[bytes],
    is_written: bool,  # noqa: FBT001 (a parameter of pytest)
) -> None:
    pickles = pickles_of([record_of(*rows)])
    assert (written_records(pickles, [False]) is not None) is is_written
    assert read(by_shape, pickles) == read(by_values, pickles)


ROW = b"K\0h\4K\0K\0\x87K\0\x87"
FIRST_ROW = b"K\0" + SOURCE % (BUILDER, b"q\4") + b"K\0K\1\x87K\2\x87"
STRINGS = BEGINNING + b"X\0\0\0\0q\1\x85q\2("
LARGE = {
    "rows": Repeated(STRINGS[2:] + FIRST_ROW, ROW, after=b"tq\5\x87"),
    "pieces": Repeated(
        STRINGS[2:] + b"K\0" + BUILDER + b"(](", b"K\0", after=b"etRK\0K\0\x87q\4K\0K\0\x87K\0\x87tq\5\x87"
    ),
    "strings": Repeated(
        BEGINNING[2:] + b"(" + b"X\0\0\0\0q\0" * 255, b"X\0\0\0\0r\0\1\0\0", after=b"tq\0)q\1\x87"
    ),
}


@pytest.mark.parametrize(
    "repeated", [*LARGE.values(), *pickled.RANGES.values()], ids=[*LARGE, *pickled.RANGES]
)
def test_what_is_read_is_asked_for(repeated: Repeated) -> None:
    data = repeated.pickle(20 * TIMES)
    _, allowance = tree_of(data)
    with memory.charged(allowance):
        pickles = pickles_of([data])
    check_asked(allowance, lambda: by_shape(pickles))


@pytest.mark.parametrize("repeated", LARGE.values(), ids=LARGE)
def test_large_records_are_read_by_their_shape(repeated: Repeated) -> None:
    pickles = pickles_of([repeated.pickle(20 * TIMES)])
    assert written_records(pickles, [False]) is not None
    assert read(by_shape, pickles) == read(by_values, pickles)
