"""Single facts looked up in companions: as reading everything gives them, from columns whole or in blocks."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive import ArchiveError
from archive.companion import blocks, packed
from archive.companion.blocks import BlockColumn, build_blocks
from archive.companion.build import build_companion
from archive.companion.encodings import Transform, encodings
from archive.companion.layout import CompanionProfile
from archive.container.container import new_member
from archive.debuginfo.model import Layout
from archive.formats.source_ranges import build_source_ranges
from tests.support.corpus import RELEASES
from tests.support.halves import PROFILES, companion_of, facts_of, parsed, plain_facts
from tests.support.made_archives import Made, archives
from tests.support.strategies import Range, column, patient, table_of, whole
from tests.support.tampering import LOWERED, NESTED_1_9, STACK
from tests.support.zips import written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from archive import Archive

TRACED = RELEASES / "torch-2.13.0" / "traced.ptl"
quick = settings(patient, max_examples=40)


@contextmanager
def small_blocks(rows: int = 4) -> Iterator[None]:
    """Let every column of more than a few rows be in blocks, as those of huge archives are."""
    with (
        mock.patch.object(packed, "MUCH", 0),
        mock.patch.object(packed, "BLOCK_ROWS", rows),
        mock.patch.object(blocks, "BLOCK_ROWS", rows),
    ):
        yield


def assert_same_answers(before: Archive, companion: bytes) -> None:
    """All handles and tags, and some that there are not."""
    tags = sorted({*before.range_table.tag.tolist(), *range(8), 77, 1 << 40, -1})
    with archive.open(companion) as after:
        assert after.companion is not None
        for handle in [*before.handles, 123_456_789, -7]:
            ours, theirs = after.symbolicate(handle), before.symbolicate(handle)
            assert (bytes(ours), ours.missing, str(ours.entries)) == (
                bytes(theirs),
                theirs.missing,
                str(theirs.entries),
            )
        for tag in tags:
            row = before.range_table.with_tag(tag)
            expected = None if row is None else before.range_table.source_range(row)
            assert str(after.companion.known.range_of(tag) if tag >= 0 else None) == str(expected)


@quick
@given(made=archives(), profile=st.sampled_from(PROFILES), in_blocks=st.booleans())
def test_what_is_looked_up_is_what_the_archive_answers(
    *, made: Made, profile: CompanionProfile, in_blocks: bool
) -> None:
    facts = facts_of(made.data)
    with archive.open(made.data) as before:
        if not in_blocks:
            assert_same_answers(before, build_companion(facts, profile))
            return
        with small_blocks():
            assert_same_answers(before, build_companion(facts, profile))


@pytest.mark.parametrize("path", [STACK, LOWERED, NESTED_1_9, TRACED])
def test_real_archives_may_be_in_blocks(path: Path) -> None:
    facts, usual = facts_of(path), companion_of(path)
    with small_blocks(), archive.open(path) as before:
        companion = build_companion(facts)
        assert len(companion) > len(usual)
        assert plain_facts(parsed(companion)) == plain_facts(facts)
        assert_same_answers(before, companion)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize(
    "tags",
    [[5, 3, 5], [1, 1, 0], [9, 9, 9], [2, 1, 0], [0, 2, 1], [1, 0, -1], [1, 1, 2], [0, 1, 5], [0, 2, 4]],
    [[5, 3, 5], [1, 1, 0], [9, 9, 9], [2, 1, 0], [0, 2, 1], [1, 0, -1], [1, 1, 2], [0, 1, 5], [0, 2, 4]],
)
def test_ranges_are_found_by_tags_in_any_order(tags: list[int], profile: CompanionProfile) -> None:
    table = table_of([0, 1, 2], [Range(b"abc", at, 3) for at in range(3)], Layout.INLINE)
    table.tag[:] = tags
    record = new_member("code/m.py.debug_pkl", build_source_ranges(table, 0))
    data = written(record, new_member("version", b"3\n"))
    with archive.open(data) as before:
        assert_same_answers(before, build_companion(facts_of(data), profile))


@pytest.mark.parametrize("profile", PROFILES)
def test_the_longest_ranges_are_looked_up_as_they_are(profile: CompanionProfile) -> None:
    longest = (1 << 63) - 1
    spans = [(0, longest), (0, longest - 1), (longest, longest), (longest, 0), (1, 0), (0, 1), (0, 0)]
    table = table_of(range(len(spans)), [Range(b"x", *span) for span in spans], Layout.INLINE)
    record = new_member("code/m.py.debug_pkl", build_source_ranges(table, 0))
    data = written(record, new_member("version", b"3\n"))
    with archive.open(data) as before:
        assert_same_answers(before, build_companion(facts_of(data), profile))


# --- blocks

numbers = st.one_of(
    st.lists(whole, min_size=9, max_size=40),
    st.lists(st.integers(0, 9), min_size=9, max_size=40).map(lambda steps: np.cumsum(steps).tolist()),
    st.lists(st.integers(0, 5), min_size=9, max_size=40),
)


@settings(patient, max_examples=50)
@given(numbers)
def test_blocks_hold_a_column_whatever_its_transform(values: list[int]) -> None:
    with small_blocks():
        for encoded in encodings(column(values), whole=False):
            if encoded.transform is Transform.SAME:
                continue
            section, data = build_blocks(40, column(values), encoded, 1)
            made = BlockColumn(section, memoryview(data))
            assert len(made) == len(values)
            assert made.all().tolist() == values
            assert [made.at(row) for row in range(len(values))] == values
            for row in (-1, len(values)):
                with pytest.raises(ArchiveError):
                    made.at(row)


in_order = st.one_of(
    st.lists(whole, min_size=9, max_size=40, unique=True),
    st.lists(st.integers(0, 9), min_size=9, max_size=40).filter(lambda values: len(set(values)) > 1),
).map(sorted)


@settings(patient, max_examples=50)
@given(in_order, whole)
def test_values_in_order_are_found_in_blocks(values: list[int], other: int) -> None:
    with small_blocks():
        for encoded in encodings(column(values), whole=False):
            section, data = build_blocks(40, column(values), encoded, 1)
            made = BlockColumn(section, memoryview(data))
            assert [made.find(value) for value in values] == [values.index(value) for value in values]
            assert made.find(other) == (values.index(other) if other in values else -1)


def test_changed_bytes_of_blocks_are_refused() -> None:
    facts = facts_of(STACK)
    expected = plain_facts(facts)
    with small_blocks():
        companion = bytearray(build_companion(facts))
        for at in range(len(companion) // 3, len(companion), 31):
            companion[at] ^= 1
            with suppress(ArchiveError):
                assert plain_facts(parsed(bytes(companion))) == expected, f"byte {at}"
            companion[at] ^= 1


# --- pages


def test_little_is_read_to_look_one_handle_up() -> None:
    facts = facts_of(LOWERED)
    companion = build_companion(facts, CompanionProfile.MAPPED)
    with archive.open(companion) as opened:
        assert opened.companion is not None
        handle = next(iter(facts.columns["handle.handle"].tolist()))
        with mock.patch("archive.companion.parse.parse_mapped") as whole_reading:
            assert opened.companion.known.entry_of(handle) is not None
            assert opened.symbolicate(handle).frames
        assert not whole_reading.called
