"""Single facts looked up in companions: as reading everything gives them, from columns whole or in blocks."""

from __future__ import annotations

import zlib
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive import ArchiveError, LimitError
from archive.companion import blocks, packed
from archive.companion.blocks import BlockColumn, build_blocks
from archive.companion.build import build_companion
from archive.companion.encodings import EncodedColumn, Transform, encodings, parse_coding
from archive.companion.layout import CompanionLayout, read_directory
from archive.companion.lookup import CompanionLookup, WholeColumn
from archive.companion.modelling import MODELLED
from archive.container.write import new_member
from archive.debuginfo.model import RangeLayout
from archive.debuginfo.unique_handles import PLAIN
from archive.formats.record_kinds import DELEGATED
from archive.formats.source_ranges import build_source_ranges
from archive.normalform.columns import BY_NAME, BY_NUMBER
from tests.support.corpus import RELEASES
from tests.support.halves import LAYOUTS, companion_of, facts_of, parsed, plain_facts
from tests.support.hostile_companions import hostile, rewritten, sections, set_to
from tests.support.sampling import Suite, examples, sampled
from tests.support.strategies import Made, Range, Strings, archives, column, patient, table_of, whole
from tests.support.tampering import LOWERED, NESTED_1_9, STACK
from tests.support.zips import written

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from archive import Archive


TRACED = RELEASES / "torch-2.13.0" / "traced.ptl"
quick = settings(patient, max_examples=examples(40))


@contextmanager
def small_blocks(rows: int = 4) -> Iterator[None]:
    """Let every column of more than a few rows be in blocks, as those of huge archives are."""
    with (
        mock.patch.object(packed, "MUCH", 0),
        mock.patch.object(packed, "BLOCK_ROWS", rows),
        mock.patch.object(blocks, "BLOCK_ROWS", rows),
    ):
        yield


def lookup_of(opened: Archive) -> CompanionLookup:
    """What a companion answers of single handles and tags."""
    assert opened.companion is not None
    known = opened.companion.known
    assert isinstance(known, CompanionLookup)
    return known


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
@given(made=archives(), layout=st.sampled_from(LAYOUTS), in_blocks=st.booleans())
def test_what_is_looked_up_is_what_the_archive_answers(
    *, made: Made, layout: CompanionLayout, in_blocks: bool
) -> None:
    facts = facts_of(made.data)
    with archive.open(made.data) as before:
        if not in_blocks:
            assert_same_answers(before, build_companion(facts, layout))
            return
        with small_blocks():
            assert_same_answers(before, build_companion(facts, layout))


@pytest.mark.parametrize("path", sampled([STACK, LOWERED, NESTED_1_9, TRACED], most=2))
def test_real_archives_may_be_in_blocks(path: Path) -> None:
    facts, usual = facts_of(path), companion_of(path)
    with small_blocks(), archive.open(path) as before:
        companion = build_companion(facts)
        assert len(companion) > len(usual)
        assert plain_facts(parsed(companion)) == plain_facts(facts)
        assert_same_answers(before, companion)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(
    "tags",
    [[5, 3, 5], [1, 1, 0], [9, 9, 9], [2, 1, 0], [0, 2, 1], [1, 0, -1], [1, 1, 2], [0, 1, 5], [0, 2, 4]],
)
def test_ranges_are_found_by_tags_in_any_order(tags: list[int], layout: CompanionLayout) -> None:
    table = table_of([0, 1, 2], [Range(b"abc", at, 3) for at in range(3)], RangeLayout.INLINE)
    table.tag[:] = tags
    record = new_member("code/m.py.debug_pkl", build_source_ranges(table, 0))
    data = written(record, new_member("version", b"3\n"))
    with archive.open(data) as before:
        assert_same_answers(before, build_companion(facts_of(data), layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_longest_ranges_are_looked_up_as_they_are(layout: CompanionLayout) -> None:
    longest = (1 << 63) - 1
    spans = [(0, longest), (0, longest - 1), (longest, longest), (longest, 0), (1, 0), (0, 1), (0, 0)]
    table = table_of(range(len(spans)), [Range(b"x", *span) for span in spans], RangeLayout.INLINE)
    record = new_member("code/m.py.debug_pkl", build_source_ranges(table, 0))
    data = written(record, new_member("version", b"3\n"))
    with archive.open(data) as before:
        assert_same_answers(before, build_companion(facts_of(data), layout))


# --- blocks

numbers = st.one_of(
    st.lists(whole, min_size=9, max_size=40),
    st.lists(st.integers(0, 9), min_size=9, max_size=40).map(lambda steps: np.cumsum(steps).tolist()),
    st.lists(st.integers(0, 5), min_size=9, max_size=40),
)


@settings(patient, max_examples=examples(50))
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


@settings(patient, max_examples=examples(50))
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
        for at in range(len(companion) // 3, len(companion), 61 if not Suite.whole else 31):
            companion[at] ^= 1
            with suppress(ArchiveError):
                assert plain_facts(parsed(bytes(companion))) == expected, f"byte {at}"
            companion[at] ^= 1


@pytest.mark.parametrize(
    ("path", "back"), [(STACK, {"row.range"}), (TRACED, {"row.range", "string.template"})]
)
def test_long_columns_are_in_blocks_but_for_references_back_of_which_nobody_asks_single_rows(
    path: Path, back: set[str]
) -> None:
    facts = facts_of(path)
    long = {
        name for name, values in facts.columns.items() if len(values) > 4 and len(set(values.tolist())) > 1
    }
    with small_blocks():
        data = memoryview(build_companion(facts))
    directory = read_directory(data)
    apart = {
        BY_NUMBER[number].name: Transform(parse_coding(section.coding)[0])
        for number, section in directory.sections.items()
        if number in BY_NUMBER
    }
    assert long - apart.keys() - MODELLED == back - {"string.template"}
    assert ("string.template" in apart) == ("string.template" not in back)
    assert Transform.BACK not in apart.values()


# --- pages


def test_little_is_read_to_look_one_handle_up() -> None:
    facts = facts_of(LOWERED)
    companion = build_companion(facts, CompanionLayout.MAPPED)
    with archive.open(companion) as opened:
        assert opened.companion is not None
        handle = next(iter(facts.columns["handle.handle"].tolist()))
        with mock.patch("archive.companion.parse.parse_mapped") as whole_reading:
            assert opened.companion.known.entry_of(handle) is not None
            assert opened.symbolicate(handle).frames
        assert not whole_reading.called


def test_a_single_string_is_borrowed_from_a_mapped_file_and_no_copy() -> None:
    with archive.open(companion_of(LOWERED, CompanionLayout.MAPPED)) as opened:
        assert all(lookup_of(opened).string(index).borrowed for index in range(5))


# --- tags of many handles

WITHOUT_HANDLES = RELEASES / "torch-1.8.0" / "nested.pt"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("path", [STACK, LOWERED, NESTED_1_9, WITHOUT_HANDLES])
@pytest.mark.parametrize("step", [1, 2])
def test_tags_of_handles_are_those_of_the_archive(path: Path, step: int, layout: CompanionLayout) -> None:
    with archive.open(path) as before, archive.open(companion_of(path, layout)) as after:
        known = lookup_of(after)
        handles = [*list(before.handles)[::-step], -1, 0, 123_456_789, 1 << 62]
        expected = [before.handles[handle].tag if handle in before.handles else -1 for handle in handles]
        assert [known.tag_of(handle) for handle in handles] == expected
        assert (max(expected) > -1) == (path != WITHOUT_HANDLES)


def test_tags_of_handles_with_gaps() -> None:
    values = {"handle.handle": [3, 5, 90], "handle.tag": [7, 0, 2]}
    columns: Any = {name: WholeColumn(column(numbers)) for name, numbers in values.items()}
    known = CompanionLookup(columns, Strings().table())
    asked = [2, 3, 4, 5, 6, 89, 90, 91, -3]
    assert [known.tag_of(handle) for handle in asked] == [-1, 7, -1, 0, -1, -1, 2, -1, -1]


# --- what does not fit together


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_call_stack_that_comes_back_to_itself_is_refused(layout: CompanionLayout) -> None:
    columns = facts_of(STACK).columns
    row = int(np.flatnonzero(columns["handle.stack"] >= 0)[0])
    handle, frame = int(columns["handle.handle"][row]), int(columns["handle.stack"][row])
    data = hostile(STACK, layout, lambda columns: set_to(columns, "frame.next", frame, frame))
    with archive.open(data) as opened, pytest.raises(LimitError, match=f"debug handle {handle}: "):
        opened.symbolicate(handle)


def test_a_string_that_ends_behind_all_strings_is_refused() -> None:
    data = companion_of(STACK, CompanionLayout.MAPPED)
    ends = BY_NAME["string.end"].number
    changed = [
        (line, b"\xff\xff" + bytes(part)[2:] if line.number == ends else part)
        for line, part in sections(data)
    ]
    said = r"string\.end, row 0: expected up to \d+, found 65535"
    with archive.open(rewritten(data, changed)) as opened, pytest.raises(ArchiveError, match=said):
        bytes(lookup_of(opened).string(0))


def test_a_text_has_no_other_attributes_than_its_own() -> None:
    with archive.open(companion_of(STACK)) as opened:
        found = lookup_of(opened).range_of(0)
        assert found is not None
        assert not hasattr(found.source.text, "nothing")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"coding": 0}, "expected a column in blocks, found coding 0"),
        ({"coding": 9}, "expected a column in blocks, found coding 9"),
        ({"coding": 32 * 5 + 1}, "expected a column in blocks, found coding 161"),
        ({"inflated": 39}, "expected 40 bytes, found 39"),
        ({"rows": 39, "inflated": 39}, None),
        ({"rows": 36, "inflated": 36}, "index of blocks: |expected an index of 9 blocks, found another"),
    ],
)
def test_a_section_that_is_no_column_in_blocks_is_refused(fields: dict[str, int], said: str | None) -> None:
    with small_blocks():
        encoded = EncodedColumn(Transform.FLAT, False, 1, 0, bytes(range(40)))  # noqa: FBT003
        section, data = build_blocks(40, column(range(40)), encoded, 1)
        if said is None:
            assert BlockColumn(section._replace(**fields), memoryview(data)).at(0) == 0
            return
        with pytest.raises(ArchiveError, match=said):
            BlockColumn(section._replace(**fields), memoryview(data)).at(0)


def test_an_index_has_a_line_for_each_block_and_the_blocks_fill_the_section() -> None:
    with small_blocks():
        encoded = EncodedColumn(Transform.FLAT, False, 1, 0, bytes(range(40)))  # noqa: FBT003
        section, data = build_blocks(40, column(range(40)), encoded, 1)
        shorter = section._replace(rows=36, inflated=36, checksum=zlib.crc32(data[: 9 * 16]))
        for changed, stored in ((shorter, data), (section, data + b"x"), (section, data[:-1])):
            with pytest.raises(ArchiveError, match=r"expected an index of \d+ blocks, found another"):
                BlockColumn(changed, memoryview(stored)).at(0)


def test_a_companion_without_handles_has_them_in_no_other_form() -> None:
    with archive.open(companion_of(WITHOUT_HANDLES)) as opened:
        known = lookup_of(opened)
        assert known.handle_form == PLAIN
        assert known.entry_of(5) is None
        assert known.tag_of(5) == -1


@pytest.mark.parametrize("level", [0, 23, -1])
def test_there_are_22_levels(level: int) -> None:
    with pytest.raises(ArchiveError, match=f"expected a level from 1 to 22, found {level}"):
        build_companion(facts_of(NESTED_1_9), level=level)


# --- Places in generated code, looked up in companions one by one: as the archive itself answers


INLINE = RELEASES / "torch-1.8.0" / "nested.ptl"


def bytes_of_code(opened: Archive, name: str) -> list[int]:
    """The first byte of each row, those beside it, and some that belong to no row."""
    offsets = [row.offset for row in opened.ranges(name)]
    return sorted({*offsets, *(at - 1 for at in offsets), *(at + 1 for at in offsets), -1, 0, 1 << 62})


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("path", [STACK, LOWERED, TRACED, INLINE], ids=lambda path: path.name)
def test_a_byte_of_code_leads_where_the_archive_s_own_records_lead(
    path: Path, layout: CompanionLayout
) -> None:
    with archive.open(path) as before, archive.open(companion_of(path, layout)) as after:
        assert list(after.range_summary.names) == list(before.range_summary.names)
        for name in before.range_records:
            for at in bytes_of_code(before, name):
                assert str(after.locate(name, at)) == str(before.locate(name, at))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_line_of_code_leads_where_its_byte_leads(layout: CompanionLayout) -> None:
    with archive.open(STACK) as before, archive.open(companion_of(STACK, layout)) as after:
        assert after.companion is not None
        for name in [name for name in before.records if f"{name}.debug_pkl" in before.range_records]:
            start = 0
            for number, line in enumerate(bytes(before.records[name].view()).split(b"\n"), 1):
                for column in range(0, len(line) + 1, 3):
                    found = after.companion.locate_line(name, number, column)
                    assert str(found) == str(before.locate(name, start + column))
                start += len(line) + 1
        assert after.companion.locate_line("code/nowhere.py", 1, 0) is None


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lowered_modules_have_no_place_in_code(layout: CompanionLayout) -> None:
    with archive.open(companion_of(LOWERED, layout)) as opened:
        assert opened.companion is not None
        assert len(opened.ranges(DELEGATED))
        assert opened.locate(DELEGATED, 0) is None
        assert opened.companion.locate_line(DELEGATED.removesuffix(".debug_pkl"), 1, 0) is None


def test_a_mapped_companion_is_not_read_whole_for_a_place() -> None:
    data = companion_of(TRACED, CompanionLayout.MAPPED)
    with archive.open(TRACED) as opened:
        name = opened.range_records[0]
    with archive.open(data) as opened:
        assert opened.companion is not None
        assert opened.locate(name, 1 << 40) is not None
        assert "contents" not in vars(opened.companion)
