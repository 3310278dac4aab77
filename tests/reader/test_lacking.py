"""An archive without debug info says why it has none, and only what its records prove."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Literal

import pytest

import archive
from archive.container.container import member_from, write_archive
from archive.formats.archive_id import archive_id
from archive.formats.record_kinds import kind_of
from archive.reader.lacking import why_no_handles, why_no_ranges
from tests.support.corpus import ARCHIVES, ORACLES, RELEASES
from tests.support.halves import halves
from tests.support.reports import case, explained

if TYPE_CHECKING:
    from pathlib import Path

SAVING = "_save_mobile_debug_info=True"
SPLIT = "debug info was split off this archive"


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("torch-2.13.0/nested-nodebug.ptl", SAVING),
        ("torch-1.8.0/nested.ptl", "of PyTorch 1.7 or 1.8: it has module paths"),
        ("torch-2.13.0/nested.pt", "not for the lite interpreter"),
        ("torch-1.2.0/nested.pt", "not for the lite interpreter"),
    ],
)
def test_each_kind_of_archive_has_its_own_reason(file: str, words: str) -> None:
    with archive.open(RELEASES / file) as opened:
        assert not opened.handles
        assert words in why_no_handles(opened)


def test_no_archive_as_pytorch_wrote_it_counts_as_split() -> None:
    assert len(ARCHIVES) > 200
    for path in ARCHIVES:
        with archive.open(path) as opened:
            assert not why_no_ranges(opened), path
            assert opened.handles or "-c COMPANION" not in why_no_handles(opened), path


@pytest.mark.parametrize(
    ("name", "handles"),
    [("plain_stack.ptl", "keep"), ("plain_stack.ptl", "drop"), ("plain_stack.pt", None)],
)
def test_a_split_archive_names_the_companion_that_it_needs(
    tmp_path: Path, name: str, handles: Literal["keep", "drop"] | None
) -> None:
    device = tmp_path / name
    archive.split(ORACLES / name, device, tmp_path / "c.ptdbg", handles=handles)
    report = case("plain_stack" + (".jit" if name.endswith(".pt") else ""))
    with archive.open(device) as opened, archive.open(tmp_path / "c.ptdbg") as companion:
        known = archive_id(opened.container.records).hex()
        assert known == companion.archive_id.hex()
        (note,) = explained(report.stripped, opened).notes
    assert SPLIT in note
    assert known in note
    assert "(-c COMPANION)" in note
    assert SAVING not in note
    with archive.open(device, companion=tmp_path / "c.ptdbg") as both:
        assert explained(report.stripped, both).text == report.full


def test_debug_info_that_another_tool_took_out_is_not_said_to_be_split_off() -> None:
    with archive.open(ORACLES / "plain_stack.ptl") as opened:
        kept = [one for name, one in opened.container.records.items() if not kind_of(name).is_debug]
        out = BytesIO()
        write_archive(out, opened.root, map(member_from, kept))
    with archive.open(out.getvalue()) as opened:
        known = archive_id(opened.container.records).hex()
        assert why_no_handles(opened) == (
            "debug info was taken out of this archive; if `split` did it, handles, if there were some, "
            f"are in the companion with the archive id {known} (-c COMPANION)"
        )


def test_of_handles_that_a_split_archive_may_never_have_had_it_is_not_said_where_they_are() -> None:
    with archive.open(halves(RELEASES / "torch-2.13.0" / "nested-nodebug.ptl").out) as opened:
        assert f"{SPLIT}: handles, if there were some, are in the companion" in why_no_handles(opened)
