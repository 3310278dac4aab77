"""Companions hold facts: whatever is put in comes out again, from either layout, at every level."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archive
import archive.companion
from archive.base import memory
from archive.base.limits import DEFAULT_LIMITS
from archive.companion.blocks import BLOCK, BLOCK_ROWS
from archive.companion.build import build_companion
from archive.companion.layout import HEADER, MAPPED_LINE, CompanionLayout, read_directory
from archive.companion.magic import MAGIC, is_companion
from archive.companion.mapped import PAGE
from archive.companion.members import MemberKind
from archive.companion.parse import section_parts
from archive.container.write import new_member
from archive.formats.source_ranges import build_source_ranges
from archive.normalform.columns import BY_NAME, COLUMNS, PAGES, RAW, SOLID, STRINGS, column_lines
from archive.reader.collect import collect
from tests.support import exported as exported_models
from tests.support.companion_questions import RAW as WITH_RAW
from tests.support.companion_questions import SMALL
from tests.support.corpus import ORACLES, RELEASES
from tests.support.exported import EXPORTED
from tests.support.halves import (
    LAYOUTS,
    companion_of,
    facts_of,
    halves,
    joined,
    parsed,
    plain_facts,
    split_companion,
)
from tests.support.hostile_companions import body, line, solid
from tests.support.plain import CONSTANTS
from tests.support.sampling import examples
from tests.support.strategies import UNPIECED, Made, Range, archives, patient, table_of
from tests.support.tampering import LOWERED, NESTED_1_2, NESTED_1_8, NESTED_1_9, STACK
from tests.support.zips import written

if TYPE_CHECKING:
    from pathlib import Path

    from archive.debuginfo.model import RangeLayout
    from archive.privacy.redact.rules import NameChoice


TRACED = ORACLES / "traced_stack.ptl"
SAMPLES = [
    STACK,
    LOWERED,
    TRACED,
    NESTED_1_2,
    NESTED_1_8,
    NESTED_1_9,
    RELEASES / "torch-1.13.0" / "lowered-host-nostringtable.ptl",
]
LARGEST = (1 << 63) - 1
quick = settings(patient, max_examples=examples(25))


# --- any content


@quick
@given(archives())
def test_facts_come_back_from_either_layout(made: Made) -> None:
    facts = facts_of(made.data)
    for layout in LAYOUTS:
        again = parsed(build_companion(facts, layout))
        assert plain_facts(again) == plain_facts(facts)
        assert dict(again.records) == made.debug


@quick
@given(archives(UNPIECED))
def test_nothing_that_pytorchs_rules_give_is_kept_raw(made: Made) -> None:
    facts = facts_of(made.data)
    assert (bytes(facts.raw), "raw.name" in facts.columns) == (b"", False)
    assert list(facts.records) == sorted(made.debug, key=list(facts.records).index)


@quick
@given(archives(), st.sampled_from(LAYOUTS))
def test_archives_of_any_content_are_split_and_joined(made: Made, layout: CompanionLayout) -> None:
    out, companion, said = halves(made.data, layout)
    assert joined(out, companion) == (made.data, True)
    assert said.exact


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("span", [(0, LARGEST), (LARGEST, 0), (LARGEST, LARGEST), (0, LARGEST - 1), (1, 0)])
@pytest.mark.parametrize("rows", UNPIECED)
def test_ranges_may_be_as_long_as_numbers_can_be(
    rows: RangeLayout, span: tuple[int, int], layout: CompanionLayout
) -> None:
    record = build_source_ranges(table_of([0], [Range(b"x", *span)], rows), 0)
    out, companion, _ = halves(written(new_member("code/m.py.debug_pkl", record), CONSTANTS), layout)
    assert joined(out, companion)[1]


# --- real archives


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_layouts_hold_the_same(path: Path) -> None:
    facts = facts_of(path)
    mapped, packed = (
        companion_of(path, layout) for layout in (CompanionLayout.MAPPED, CompanionLayout.PACKED)
    )
    assert plain_facts(parsed(mapped)) == plain_facts(parsed(packed)) == plain_facts(facts)
    assert build_companion(parsed(mapped), CompanionLayout.PACKED) == packed
    assert build_companion(parsed(packed), CompanionLayout.MAPPED) == mapped
    assert len(packed) < len(mapped)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_each_level_holds_the_same(path: Path) -> None:
    facts = facts_of(path)
    for level in (1, 9, 19, 22):
        again = parsed(build_companion(facts, CompanionLayout.PACKED, level))
        assert plain_facts(again) == plain_facts(facts)
    assert build_companion(facts, CompanionLayout.MAPPED, 1) == build_companion(
        facts, CompanionLayout.MAPPED, 19
    )


def redacted_companion(path: Path, names: NameChoice = "keep") -> bytes:
    companion = io.BytesIO()
    archive.redact(path, io.BytesIO(), companion, preset="publish", names=names, partial=True)
    return companion.getvalue()


def test_every_column_is_in_some_archive(tmp_path: Path) -> None:
    seen = {name for path in SAMPLES for name in facts_of(path).columns}
    with archive.open(halves(STACK).companion) as opened:
        assert opened.companion is not None
        seen |= opened.companion.contents.columns.keys()
    with archive.open(split_companion(STACK, None, fingerprints=True, label="1.4.2")) as opened:
        assert opened.companion is not None
        seen |= opened.companion.contents.columns.keys()
    inner = {"string", "template", "number"}  # how strings are kept
    seen |= facts_of(EXPORTED / "several.pt2").columns.keys()
    seen |= facts_of(exported_models.written("profiled", tmp_path)).columns.keys()
    with archive.open(redacted_companion(EXPORTED / "shop.pt2")) as opened:
        assert opened.companion is not None
        seen |= opened.companion.contents.columns.keys()
    with archive.open(redacted_companion(STACK, names="hash")) as opened:
        assert opened.companion is not None
        seen |= opened.companion.contents.columns.keys()
    unseen = {column.name for column in COLUMNS if column.table not in inner} - seen
    assert unseen == set()
    assert seen <= BY_NAME.keys()


def test_the_same_bytes_come_out_whenever_and_wherever() -> None:
    code = (
        "import hashlib\n"
        "from tests.support.halves import LAYOUTS, companion_of\n"
        "from tests.support.tampering import STACK\n"
        "print(*(hashlib.sha256(companion_of(STACK, layout)).hexdigest() for layout in LAYOUTS))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONHASHSEED": "7", "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [
        hashlib.sha256(build_companion(collect(archive.open(STACK)), layout)).hexdigest()
        for layout in LAYOUTS
    ]


def test_a_companion_begins_with_its_magic_and_names_its_archive() -> None:
    assert MAGIC == b"\x89PTDBG\r\n\x1a\n"
    for layout in LAYOUTS:
        data = companion_of(STACK, layout)
        assert is_companion(memoryview(data))
        assert data.startswith(MAGIC)
        assert facts_of(STACK).archive_id in data[: len(MAGIC) + 32]
    assert len(facts_of(STACK).archive_id) == 16
    assert not is_companion(memoryview(STACK.read_bytes()))
    assert not is_companion(memoryview(b""))


def test_a_packed_companion_is_small() -> None:
    for path in (TRACED, STACK):
        with archive.open(path) as opened:
            stored = sum(opened.records[name].stored_size for name in facts_of(path).records)
        assert len(companion_of(path)) < 0.5 * stored


def test_mapped_columns_are_aligned_to_64_bytes() -> None:
    data = companion_of(STACK, CompanionLayout.MAPPED)
    facts = parsed(data)
    raw = b"".join(bytes(facts.strings.data(string)) for string in range(len(facts.strings)))
    assert data.index(raw) % 64 == 0
    assert facts.strings[1].borrowed


# --- Declarations of companions: sizes of structures, columns, and their list in the specification


def test_structures_have_the_sizes_that_the_specification_states() -> None:
    assert (HEADER.size, MAPPED_LINE.size) == (34, 40)
    assert (BLOCK.size, PAGE, BLOCK_ROWS) == (16, 4096, 65_536)


def test_each_column_is_declared_once() -> None:
    assert len({column.name for column in COLUMNS}) == len(COLUMNS)
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


# --- What each section of a companion is made of, with its bytes


def parts_of(data: bytes) -> dict[int, list[tuple[str, int, int]]]:
    """The parts of all sections, by the sections' numbers."""
    with memory.charged(DEFAULT_LIMITS.allowance(len(data))):
        directory = read_directory(memoryview(data))
        return {one: section_parts(memoryview(data), directory, one) for one in directory.sections}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("path", [WITH_RAW, STACK], ids=lambda path: path.stem)
def test_parts_of_a_section_are_together_as_long_as_the_section_inflated(
    path: Path, layout: CompanionLayout
) -> None:
    data = companion_of(path, layout)
    sections = read_directory(memoryview(data)).sections
    for number, parts in parts_of(data).items():
        assert sum(size for _, _, size in parts) == sections[number].inflated


def test_a_section_of_a_mapped_companion_is_one_part_by_its_name() -> None:
    found = parts_of(companion_of(SMALL, CompanionLayout.MAPPED))
    assert all(len(parts) == 1 for parts in found.values())
    names = {number: name for number, [(name, _, _)] in found.items()}
    assert names.items() >= {STRINGS: "string.text", RAW: "raw.bytes", PAGES: "page checksums"}.items()
    assert names[BY_NAME["handle.tag"].number] == "handle.tag"
    assert all(stored == inflated for [(_, stored, inflated)] in found.values())


def test_the_solid_section_is_its_lines_its_columns_and_raw_records() -> None:
    facts = facts_of(WITH_RAW)
    first, *others = parts_of(companion_of(WITH_RAW))[SOLID]
    assert (first[0], others[-1][0]) == ("column lines", "raw.bytes")
    having_rows = {name for name, values in facts.columns.items() if len(values)}
    assert {name for name, _, _ in others[:-1]} >= having_rows
    assert others[-1][2] == len(facts.raw)
    assert 0 < others[-1][1] < len(facts.raw)


def test_templates_are_a_section_of_their_own() -> None:
    found = parts_of(companion_of(STACK))
    assert [name for name, _, _ in found[STRINGS]] == ["string.text"]
    assert "string.text" not in {name for name, _, _ in found[SOLID]}


def test_a_part_of_no_bytes_takes_none() -> None:
    found = parts_of(solid(body(line("row.offset", 3))))[SOLID]
    assert [(name, stored > 0, inflated) for name, stored, inflated in found] == [
        ("column lines", True, found[0][2]),
        ("row.offset", False, 0),
        ("raw.bytes", False, 0),
    ]
