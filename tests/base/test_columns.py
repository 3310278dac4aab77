"""Columns of integers: rows as keys, numbered, counted, and runs one behind the other."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archive.base.columns import column_bytes, distinct_values, firsts, keyed, numbered, ordinals, spread
from tests.support.strategies import column, patient

WIDE = (1 << 61) - 1
"""Two columns with such numbers have more rows than a 64-bit key tells apart."""
numbers = st.sampled_from([0, 1, 2, -1, 7, WIDE, -WIDE]) | st.integers(-WIDE, WIDE)
tables = st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[numbers] * width), min_size=1))


@patient
@given(tables)
def test_two_keys_are_equal_if_and_only_if_the_rows_are(rows: list[tuple[int, ...]]) -> None:
    keys = keyed(*map(column, zip(*rows, strict=True))).tolist()
    assert len(set(zip(keys, rows, strict=True))) == len(set(keys)) == len(set(rows))


@patient
@given(tables)
def test_rows_are_numbered_by_first_appearance(rows: list[tuple[int, ...]]) -> None:
    number, first = numbered(*map(column, zip(*rows, strict=True)))
    distinct = list(dict.fromkeys(rows))
    assert number.tolist() == [distinct.index(row) for row in rows]
    assert first.tolist() == [rows.index(row) for row in distinct]


@patient
@given(tables)
def test_an_ordinal_counts_the_equal_rows_before(rows: list[tuple[int, ...]]) -> None:
    seen: Counter[tuple[int, ...]] = Counter()
    expected = []
    for row in rows:
        expected.append(seen[row])
        seen[row] += 1
    assert ordinals(*map(column, zip(*rows, strict=True))).tolist() == expected


@pytest.mark.parametrize("table", [[[WIDE, -WIDE, WIDE]] * 4, [[WIDE, 0, WIDE], [0, -WIDE, 0], [5, 6, 5]]])
def test_columns_too_wide_for_one_key_are_numbered_first(table: list[list[int]]) -> None:
    one, other, again = keyed(*map(column, table)).tolist()
    assert one == again != other


def test_a_key_that_has_no_room_for_a_narrow_column_is_numbered_first() -> None:
    wide, narrow = column([0, 1 << 61] * 8), np.arange(16) // 2
    assert len(set(keyed(wide, narrow).tolist())) == 16


@dataclass
class Table:
    """Columns, another table, and what is neither."""

    rows: np.ndarray
    inner: object
    name: str = "table"


def test_the_bytes_of_a_table_are_those_of_its_columns_and_of_the_tables_in_it() -> None:
    inner = Table(np.zeros(3, np.int32), None)
    assert column_bytes(Table(np.zeros(5, np.int64), inner)) == 40 + 12
    assert column_bytes(np.zeros(2, np.uint8)) == 2
    assert column_bytes("table") == 0


@given(st.lists(st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-3, 3)))
def test_distinct_values_are_those_of_numpy(values: list[int]) -> None:
    numbers = np.array(values, np.int64)
    assert distinct_values(numbers).tolist() == np.unique(numbers).tolist()


def test_sequences_one_behind_the_other() -> None:
    assert firsts(column([2, 0, 3])).tolist() == [0, 2, 2, 5]
    assert spread(column([10, 7, 20]), column([2, 0, 3])).tolist() == [10, 11, 20, 21, 22]
    assert spread(np.zeros(0, np.int64), np.zeros(0, np.int64)).tolist() == []
