"""Companions that were cut, changed or made up: one error that names the place, or the very same facts."""

from __future__ import annotations

import re
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
from archive import ArchiveError
from archive.companion.layout import MAPPED_LINE, VERSION, CompanionLayout, read_directory, written
from archive.companion.magic import MAGIC, is_companion
from archive.companion.packed import PackedColumns
from archive.normalform.columns import BY_NAME, PAGES, RAW, SOLID, STRINGS
from tests.support import hostile_companions as packed_companions
from tests.support.companion_questions import FILE, QUESTIONS, SMALL, asked, refused, refused_or_the_same
from tests.support.halves import LAYOUTS, companion_of, facts_of, parsed
from tests.support.hostile_companions import (
    HEADER_BYTES,
    directory_end,
    kept,
    packed_of,
    replaced,
    rewritten,
    sections,
    solid,
)
from tests.support.sampling import examples, sampled
from tests.support.strategies import patient
from tests.support.zips import put

LEAST, MOST = -(1 << 63), (1 << 63) - 1
EVERYTHING = set(QUESTIONS)


def header(data: bytes, at: int, form: str, value: int) -> bytes:
    """The companion with another number in its header, and the checksum put right."""
    changed = put(put(data, at, form, value), HEADER_BYTES - 4, "I", 0)
    return put(changed, HEADER_BYTES - 4, "I", zlib.crc32(changed[: directory_end(data)]))


# --- cut and changed


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_cut_is_refused(layout: CompanionLayout) -> None:
    data = companion_of(SMALL, layout)
    for size in range(len(data)):
        with pytest.raises(ArchiveError) as caught:
            archive.open(data[:size], name="m.ptdbg").close()
        assert caught.value.file == "m.ptdbg"
    for more in (b"\0", bytes(64), data):
        assert set(asked(data + more).errors) == EVERYTHING


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_cut_within_header_or_directory_is_told_with_the_field(layout: CompanionLayout) -> None:
    data = companion_of(SMALL, layout)
    for size in range(len(MAGIC), directory_end(data)):
        place = refused(data[:size]).place or ""
        found = re.fullmatch(r"byte (\d+), field \w+", place)
        assert found, place
        assert (int(found[1]) == 0) == (size < HEADER_BYTES)
        assert int(found[1]) <= size


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def test_every_flipped_bit_of_a_packed_companion_is_refused() -> None:
    data = companion_of(SMALL)
    for bit in sampled(range(8 * len(data)), most=2 * len(data)):
        with pytest.raises(ArchiveError):
            parsed(flipped(data, bit))
    for bit in range(0, 8 * len(data), 61):
        assert refused_or_the_same(flipped(data, bit), SMALL) == EVERYTHING


def test_flipped_bits_of_a_mapped_companion_are_refused_or_change_nothing() -> None:
    data = companion_of(SMALL, CompanionLayout.MAPPED)
    begin = directory_end(data)
    for bit in range(0, 8 * begin, 5):
        with pytest.raises(ArchiveError):
            parsed(flipped(data, bit))
    for bit in sampled(range(8 * begin, 8 * len(data), 127), most=60):
        refused_or_the_same(flipped(data, bit), SMALL)
    for number, (line, part) in enumerate(sections(data)):
        at = data.index(part, begin) if part else 0
        if part and line.number not in (PAGES, RAW):
            assert "facts" in refused_or_the_same(flipped(data, 8 * at + number % 8), SMALL)


@settings(patient, max_examples=examples(150))
@given(
    st.sampled_from(LAYOUTS),
    st.lists(st.tuples(st.integers(0), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_any_changed_bytes_end_in_one_error_or_the_same_facts(
    layout: CompanionLayout, changes: list[tuple[int, int]]
) -> None:
    changed = bytearray(companion_of(SMALL, layout))
    for at, byte in changes:
        changed[at % len(changed)] = byte
    refused_or_the_same(bytes(changed), SMALL)


# --- other bytes


@pytest.mark.parametrize("data", [b"", b"\x89", MAGIC[:-1], MAGIC, MAGIC + bytes(20), MAGIC + bytes(1000)])
def test_what_is_no_companion_is_refused(data: bytes) -> None:
    with pytest.raises(ArchiveError):
        parsed(data)
    with pytest.raises(ArchiveError):
        archive.open(data)
    assert is_companion(memoryview(data)) == (len(data) >= len(MAGIC))


@settings(patient, max_examples=examples(150))
@given(st.binary(max_size=200), st.sampled_from([1, 2, 3, 0]), st.integers(0, 255))
def test_any_bytes_behind_the_magic_end_in_one_error(data: bytes, layout: int, count: int) -> None:
    head = MAGIC + VERSION.to_bytes(2, "little") + bytes([layout, count]) + bytes(16)
    checksum = zlib.crc32(head + bytes(4) + data).to_bytes(4, "little")
    with pytest.raises(ArchiveError):
        parsed(head + checksum + data)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_versions_and_layouts_are_refused_by_name(layout: CompanionLayout) -> None:
    data = companion_of(SMALL, layout)
    assert header(data, 12, "B", layout) == data
    for version in (0, VERSION + 1, 0xFFFF):
        error = refused(header(data, 10, "H", version))
        assert f"expected a companion of version 2 to {VERSION}, found version {version}" in str(error)
    for other in (0, 3, 255):
        assert f"expected a known layout, found {other}" in str(refused(header(data, 12, "B", other)))
    refused(header(data, 12, "B", 3 - layout))


# --- sections


@pytest.mark.parametrize("layout", LAYOUTS)
def test_other_checksums_are_refused(layout: CompanionLayout) -> None:
    data = companion_of(SMALL, layout)
    changed = put(data, HEADER_BYTES - 4, "I", 0)
    assert "header: damaged bytes: copy or download the file again: expected checksum 0x00000000" in str(
        refused(changed)
    )
    for at, (line, _) in enumerate(sections(data)):
        listed = replaced(sections(data), at, checksum=line.checksum ^ 1)
        lying = written(layout, facts_of(SMALL).archive_id, listed)
        assert f"section {line.number}" in str(refused(lying))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sections_that_are_missing_are_missed(layout: CompanionLayout) -> None:
    data = companion_of(SMALL, layout)
    found = {}
    for number in [line.number for line, _ in sections(data)]:
        answers = asked(rewritten(data, [one for one in sections(data) if one[0].number != number]))
        found[number] = sorted(set(answers.broken.values())) or "facts" in answers.errors
    optional = {PAGES, *(BY_NAME[name].number for name in ("member.kind", "file.ordered"))}
    assert {
        number: said for number, said in found.items() if said is not True and number not in optional
    } == {}
    assert all(found[number] in (True, False) for number in optional & found.keys())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_sections_that_are_there_twice_are_refused(layout: CompanionLayout) -> None:
    data = companion_of(SMALL, layout)
    listed = sections(data)
    for one in listed:
        assert "expected each section once" in str(refused(rewritten(data, [*listed, one])))


@pytest.mark.parametrize("number", [0, 5, 31, 200, 255])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_unknown_section_is_refused_or_passed_over(layout: CompanionLayout, number: int) -> None:
    data = companion_of(SMALL, layout)
    listed = sections(data)
    more = (MAPPED_LINE.row(number, 1, 0, 3, 0, 3, 3, 0), b"abc")
    for place in {0, 1, len(listed)}:
        refused_or_the_same(rewritten(data, [*listed[:place], more, *listed[place:]]), SMALL)


def test_sections_in_another_order_are_refused_or_make_no_difference() -> None:
    data = companion_of(SMALL, CompanionLayout.MAPPED)
    listed = sections(data)
    for turn in range(1, len(listed)):
        answers = refused_or_the_same(rewritten(data, listed[turn:] + listed[:turn]), SMALL)
        assert {"entry 5", "range 1"} <= answers  # PAGES is not last: what is behind it has no checksum
        assert "facts" not in answers


def test_checksums_of_pages_are_of_all_pages() -> None:
    data = companion_of(SMALL, CompanionLayout.MAPPED)
    *others, (line, sums) = sections(data)
    for other in (b"", sums[:-4], sums[:-1], sums + b"\0", sums + sums[:4]):
        last = line._replace(stored=len(other), checksum=zlib.crc32(other)), other
        changed = written(CompanionLayout.MAPPED, facts_of(SMALL).archive_id, [*others, last])
        assert {"entry 5", "range 1"} <= refused_or_the_same(changed, SMALL)


def test_strings_fill_their_section() -> None:
    data = companion_of(SMALL, CompanionLayout.MAPPED)
    listed = sections(data)
    at, (line, text) = next((at, one) for at, one in enumerate(listed) if one[0].number == STRINGS)
    for other in (text + b"more", text[:-1], b""):
        changed = rewritten(data, [*listed[:at], (line, other), *listed[at + 1 :]])
        assert refused(changed).place == "string.end"


def test_a_solid_section_without_all_of_its_columns_is_refused() -> None:
    data = memoryview(companion_of(SMALL))
    kept = PackedColumns(data, read_directory(data))
    for size in range(kept.end):
        place = refused(solid(bytes(kept._body[:size]))).place
        assert re.fullmatch(rf"section {SOLID}(, byte \d+, field (step|coding|count|start))?", place or "")


LIES = {
    "number": (0, 1, 2, 3, 4, 9, 40, 255),
    "coding": (0, 1, 3, 8, 16, 24, 31, 32, 48, 64, 255),
    "codec": (1, 2, 3, 255),
    "rows": (0, 1, 1 << 31, 1 << 62),
    "start": (LEAST, -1, MOST),
    "inflated": (0, 1, 1 << 20, 1 << 40, 1 << 62),
    "stored": (0, 1, 1 << 20, 1 << 62),
}


@pytest.mark.parametrize("field", LIES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_lines_that_lie_end_in_errors_of_one_kind_or_the_same_facts(
    layout: CompanionLayout, field: str
) -> None:
    data = companion_of(SMALL, layout)
    listed = sections(data)
    for at in sampled(range(0, len(listed), 5), most=3):
        for value in LIES[field]:
            lying = rewritten(data, replaced(listed, at, **{field: value}), honest_sizes=field != "stored")
            if field == "number":  # which makes other facts of it, or none
                assert asked(lying).broken == {}
            else:
                refused_or_the_same(lying, SMALL)


# --- errors


@pytest.mark.parametrize("layout", LAYOUTS)
def test_errors_name_the_file_and_a_place(layout: CompanionLayout) -> None:
    data = companion_of(SMALL, layout)
    changed = flipped(data, 8 * (directory_end(data) + len(data)) // 2)
    broken = rewritten(data, sections(data)[1:]) if layout is CompanionLayout.MAPPED else solid(b"\1\2\3")
    for one in (changed, broken, data[:-1], header(data, 10, "H", 9)):
        errors = asked(one).errors
        assert errors
        assert {name: str(error) for name, error in errors.items() if error.file != FILE} == {}
        assert all(error.place for error in errors.values())


def test_what_first_asks_whether_there_is_a_column_names_the_file() -> None:
    with archive.open(solid(b"\1\2\3"), name=FILE) as opened:
        for name in ("salt", "redacted_id", "replaced", "line_digests", "metadata"):
            with pytest.raises(ArchiveError) as caught:
                getattr(opened.companion, name)
            assert caught.value.file == FILE


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            [packed_companions.line("row.offset", 3, width=9)],
            "expected known columns, each once, found number 40, coding 5, 9",
        ),
        (
            [packed_companions.line("row.offset", 3)._replace(number=111)],
            "expected known columns, each once, found number 111, ",
        ),
        (
            [packed_companions.line("row.offset", 3, start=1 << 63)],
            "row.offset: expected a start of 64 bits",
        ),
    ],
)
def test_columns_of_a_solid_section_are_known_and_each_is_there_once(
    lines: list[packed_companions.Head], said: str
) -> None:
    with pytest.raises(ArchiveError, match=said):
        parsed(solid(packed_companions.body(*lines)))


def test_strings_of_templates_that_are_not_there_are_refused() -> None:
    facts = facts_of(SMALL)
    for number in (-1, 1 << 20):
        templates = kept(facts)[1]
        which = templates.which.copy()
        which[0] = number
        changed = packed_of(facts, None, replace(templates, which=which))
        with (
            archive.open(changed) as opened,
            pytest.raises(ArchiveError, match=r"string\.template: expected"),
        ):
            opened.symbolicate(next(iter(opened.handles)))
