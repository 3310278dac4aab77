"""What each section of a companion is made of, with its bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from archive.base.limits import DEFAULT_LIMITS
from archive.companion.layout import CompanionProfile, read_directory
from archive.companion.parse import section_parts
from archive.normalform.columns import BY_NAME, PAGES, RAW, SOLID, STRINGS
from tests.support.companion_questions import RAW as WITH_RAW
from tests.support.companion_questions import SMALL
from tests.support.halves import PROFILES, companion_of, facts_of
from tests.support.hostile_companions import solid
from tests.support.packed_companions import body, line
from tests.support.tampering import STACK

if TYPE_CHECKING:
    from pathlib import Path


def parts_of(data: bytes) -> dict[int, list[tuple[str, int, int]]]:
    """The parts of all sections, by the sections' numbers."""
    allowance = DEFAULT_LIMITS.allowance(len(data))
    directory = read_directory(memoryview(data), allowance)
    return {one: section_parts(memoryview(data), directory, one, allowance) for one in directory.sections}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("path", [WITH_RAW, STACK], ids=lambda path: path.stem)
def test_parts_of_a_section_are_together_as_long_as_the_section_inflated(
    path: Path, profile: CompanionProfile
) -> None:
    data = companion_of(path, profile)
    sections = read_directory(memoryview(data), DEFAULT_LIMITS.allowance(len(data))).sections
    for number, parts in parts_of(data).items():
        assert sum(size for _, _, size in parts) == sections[number].inflated


def test_a_section_of_a_mapped_companion_is_one_part_by_its_name() -> None:
    found = parts_of(companion_of(SMALL, CompanionProfile.MAPPED))
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
