"""Columns answer as the facts that they stand for."""

from __future__ import annotations

import pytest

import archive
from archive.debuginfo.model import NO_TAG
from tests.support.corpus import ORACLES

NAMES = ["plain_stack.ptl", "plain_stack.pt", "lowered_two.ptl"]


@pytest.mark.parametrize("name", NAMES)
def test_a_position_belongs_to_the_last_row_that_is_not_behind_it(name: str) -> None:
    with archive.open(ORACLES / name) as opened:
        table = opened.range_table
        for record, rows in ((record, opened.ranges(record)) for record in table.names):
            end = max((row.offset for row in rows), default=0) + 3
            for position in range(-1, end, 7):
                before = [row for row in rows if row.offset <= position]
                last = before[-1] if before else None
                expected = last.range if last and last.offset >= 0 else None
                assert table.locate(record, position) == expected


@pytest.mark.parametrize("name", NAMES)
def test_a_tag_is_that_of_its_first_row(name: str) -> None:
    with archive.open(ORACLES / name) as opened:
        table = opened.range_table
        tags = table.tag.tolist()
        assert all(table.with_tag(tag) == tags.index(tag) for tag in set(tags) - {NO_TAG})
        assert table.with_tag(NO_TAG) is None
        assert table.with_tag(max(tags) + 1) is None
