"""Places in generated code, looked up in companions one by one: as the archive itself answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import archive
from archive.companion.layout import CompanionProfile
from archive.formats.record_kinds import DELEGATED
from tests.support.corpus import RELEASES
from tests.support.halves import PROFILES, companion_of
from tests.support.tampering import LOWERED, STACK

if TYPE_CHECKING:
    from pathlib import Path

    from archive import Archive

TRACED = RELEASES / "torch-2.13.0" / "traced.ptl"
INLINE = RELEASES / "torch-1.8.0" / "nested.ptl"


def bytes_of_code(opened: Archive, name: str) -> list[int]:
    """The first byte of each row, those beside it, and some that belong to no row."""
    offsets = [row.offset for row in opened.ranges(name)]
    return sorted({*offsets, *(at - 1 for at in offsets), *(at + 1 for at in offsets), -1, 0, 1 << 62})


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("path", [STACK, LOWERED, TRACED, INLINE], ids=lambda path: path.name)
def test_a_byte_of_code_leads_where_the_archive_s_own_records_lead(
    path: Path, profile: CompanionProfile
) -> None:
    with archive.open(path) as before, archive.open(companion_of(path, profile)) as after:
        assert list(after.range_summary.names) == list(before.range_summary.names)
        for name in before.range_records:
            for at in bytes_of_code(before, name):
                assert str(after.locate(name, at)) == str(before.locate(name, at))


@pytest.mark.parametrize("profile", PROFILES)
def test_a_line_of_code_leads_where_its_byte_leads(profile: CompanionProfile) -> None:
    with archive.open(STACK) as before, archive.open(companion_of(STACK, profile)) as after:
        assert after.companion is not None
        for name in [name for name in before.records if f"{name}.debug_pkl" in before.range_records]:
            start = 0
            for number, line in enumerate(bytes(before.records[name].view()).split(b"\n"), 1):
                for column in range(0, len(line) + 1, 3):
                    found = after.companion.locate_line(name, number, column)
                    assert str(found) == str(before.locate(name, start + column))
                start += len(line) + 1
        assert after.companion.locate_line("code/nowhere.py", 1, 0) is None


@pytest.mark.parametrize("profile", PROFILES)
def test_lowered_modules_have_no_place_in_code(profile: CompanionProfile) -> None:
    with archive.open(companion_of(LOWERED, profile)) as opened:
        assert opened.companion is not None
        assert len(opened.ranges(DELEGATED))
        assert opened.locate(DELEGATED, 0) is None
        assert opened.companion.locate_line(DELEGATED.removesuffix(".debug_pkl"), 1, 0) is None


def test_a_mapped_companion_is_not_read_whole_for_a_place() -> None:
    data = companion_of(TRACED, CompanionProfile.MAPPED)
    with archive.open(TRACED) as opened:
        name = opened.range_records[0]
    with archive.open(data) as opened:
        assert opened.companion is not None
        assert opened.locate(name, 1 << 40) is not None
        assert "contents" not in vars(opened.companion)
