"""Declarations of companions: sizes of structures, columns, and their list in the specification."""

from __future__ import annotations

from typing import get_args

import pytest

import archive.companion
from archive.companion.blocks import BLOCK_INDEX, BLOCK_ROWS
from archive.companion.layout import HEADER, MAPPED_LINE
from archive.companion.mapped import PAGE
from archive.companion.members import MemberKind
from archive.normalform.column_names import ColumnName
from archive.normalform.columns import COLUMNS, PAGES, RAW, SOLID, STRINGS, column_lines


def test_structures_have_the_sizes_that_the_specification_states() -> None:
    assert (HEADER.size, MAPPED_LINE.size) == (34, 40)
    assert (BLOCK_INDEX.itemsize, PAGE, BLOCK_ROWS) == (16, 4096, 65_536)


def test_each_column_is_declared_once_and_its_name_is_of_the_type() -> None:
    names = [name for table in get_args(ColumnName) for name in (get_args(table) or (table,))]
    assert sorted(names) == sorted(column.name for column in COLUMNS)
    numbers = [column.number for column in COLUMNS] + [STRINGS, RAW, SOLID, PAGES]
    assert len(set(numbers)) == len(numbers)
    tables = {column.table for column in COLUMNS}
    assert {column.refers for column in COLUMNS} <= tables | {None}


def test_the_specification_lists_every_column() -> None:
    assert archive.companion.__doc__ is not None
    assert all(f"    {line}\n" in archive.companion.__doc__ for line in column_lines())


@pytest.mark.parametrize("value", range(32))
def test_a_member_s_kind_is_its_origin_and_how_it_was_stored(value: int) -> None:
    kind = MemberKind.of(value)
    assert (kind.origin, kind.deflated, kind.no_crc) == (value & 7, value & 8 > 0, value & 16 > 0)
    assert kind.value == value
