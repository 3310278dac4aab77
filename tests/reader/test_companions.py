"""A companion, alone, with its archive or inside of it, gives what the archive gave before the split."""

from __future__ import annotations

from dataclasses import replace
from io import BytesIO
from typing import TYPE_CHECKING, Literal

import pytest

import archive
from archive import Archive, ArchiveError
from archive.base.limits import DEFAULT_LIMITS
from archive.container.container import Container
from archive.container.write import member_from, new_member, write_archive
from archive.formats.archive_id import archive_id
from archive.formats.record_kinds import EMBEDDED, code_of, kind_of
from archive.io.mapped import Mapped
from archive.reader.lacking import is_split, why_no_handles, why_no_ranges
from archive.reader.recognition import FileKind, check_companion, opened_archive
from tests.support.corpus import ARCHIVES, KINDS, ORACLES, RELEASES
from tests.support.halves import LAYOUTS, companion_of, embedded, halves
from tests.support.reports import case, explained
from tests.support.tampering import STACK, tampered, without
from tests.support.zips import PLAIN, SMALL

if TYPE_CHECKING:
    from pathlib import Path

    from archive.companion.layout import CompanionLayout


NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
MODELS = [NESTED, STACK, RELEASES / "torch-1.9.0" / "nested.ptl", RELEASES / "torch-1.8.0" / "nested.ptl"]
models = pytest.mark.parametrize("model", MODELS, ids=lambda path: f"{path.parent.name}-{path.stem}")
layouts = pytest.mark.parametrize("layout", LAYOUTS)


# --- records


@models
@layouts
def test_debug_records_are_made_as_they_were(model: Path, layout: CompanionLayout) -> None:
    with archive.open(model) as whole, archive.open(companion_of(model, layout)) as alone:
        debug = {name: record for name, record in whole.records.items() if kind_of(name).is_debug}
        assert alone.records.keys() == debug.keys() != set()
        for name, record in alone.records.items():
            assert (record.name, record.size, record.crc32) == (name, debug[name].size, debug[name].crc32)
            assert record.view() == debug[name].view()
            assert record.view() is record.view()
            assert (record.compression, record.borrowed, record.stored_size) == ("companion", False, 0)


@models
def test_both_together_have_the_records_of_the_whole(model: Path) -> None:
    left, companion, _ = halves(model)
    inside = embedded(model)[0]
    with archive.open(model) as whole:
        for opened in (archive.open(left, companion=companion), archive.open(inside)):
            with opened as both:
                expected = whole.records.keys() - {".data/serialization_id"}
                assert both.records.keys() == expected
                assert all(both.records[name].view() == whole.records[name].view() for name in expected)
                assert both.archive_id == whole.archive_id
                assert both.file == "archive in memory"


# --- facts


@models
@layouts
def test_facts_are_those_of_the_whole(model: Path, layout: CompanionLayout) -> None:
    with archive.open(model) as whole, archive.open(companion_of(model, layout)) as alone:
        assert (alone.top, alone.qualified_top) == (whole.top, whole.qualified_top)
        assert set(alone.classes) <= set(whole.classes)
        assert alone.methods == whole.methods
        assert alone.module_paths == whole.module_paths
        assert list(map(str, alone.handles.values())) == list(map(str, whole.handles.values()))
        assert alone.archive_id == whole.archive_id
        assert repr(alone.companion) == (
            f"<Companion 'archive in memory', {layout.name.lower()}, of archive {whole.archive_id.hex()}>"
        )


@layouts
def test_a_place_is_found_by_line_and_column_without_the_code(layout: CompanionLayout) -> None:
    found = 0
    with archive.open(NESTED) as whole, archive.open(companion_of(NESTED, layout)) as alone:
        assert alone.companion
        for name in whole.records.keys() & set(map(code_of, whole.range_records)):
            text = bytes(whole.records[name].view())
            for at in range(0, len(text), 97):
                line, column = text.count(b"\n", 0, at) + 1, at - (text.rfind(b"\n", 0, at) + 1)
                place = alone.companion.locate_line(name, line, column)
                assert str(place) == str(whole.locate(name, at))
                found += place is not None
        assert found > 20
        assert alone.companion.locate_line(name, 0, 0) is None
        assert alone.companion.locate_line("code/nowhere.py", 1, 0) is None


def test_what_an_archive_shows_of_itself_costs_nothing() -> None:
    left, companion, _ = halves(NESTED)
    with archive.open(left, companion=companion, name="m.ptl") as both:
        assert repr(both) == "<Archive 'm.ptl', with companion 'archive in memory'>"
        both.handles  # noqa: B018 (reads the call-stack map)
        assert repr(both).endswith(", 189 handles>")
    with archive.open(companion, name="m.ptdbg") as alone:
        assert repr(alone) == "<Archive 'm.ptdbg', a companion alone>"
        count = len(alone.records)
        assert repr(alone) == f"<Archive 'm.ptdbg', a companion alone, {count} records>"
    with archive.open(NESTED) as whole:
        assert repr(whole) == f"<Archive {str(NESTED)!r}, {len(whole.records)} records>"


# --- what is refused


def test_a_companion_alone_is_no_zip() -> None:
    with archive.open(companion_of(NESTED), name="m.ptdbg") as alone:
        assert not alone.has_code
        with pytest.raises(ArchiveError, match=r"m\.ptdbg: a companion, the debug info of an archive: "):
            alone.container  # noqa: B018 (raises)
    with pytest.raises(TypeError, match="a container, a companion, or both"):
        Archive(None)


def test_a_companion_of_another_model_is_refused() -> None:
    left = halves(NESTED).out
    with pytest.raises(ArchiveError) as raised:
        archive.open(left, companion=companion_of(STACK), name="m.ptl")
    assert str(raised.value).startswith(
        "m.ptl: archive in memory is the companion of another model: expected archive id "
    )


def test_a_companion_in_the_archive_s_place_is_refused() -> None:
    companion = companion_of(NESTED)
    with pytest.raises(ArchiveError, match=r"m\.ptdbg: a companion, the debug info of an archive"):
        archive.open(companion, companion=companion, name="m.ptdbg")


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (PLAIN, "found a zip of 2 files"),
        (SMALL[:-1] + b"\1", "found a zip without its end"),
        (SMALL.replace(b"m/version", b"n/version", 1), "found a broken zip"),
        (b"text", "found a text file"),
        (b"", "found an empty file"),
    ],
    ids=["zip", "cut", "broken", "text", "empty"],
)
def test_what_is_no_companion_is_named(data: bytes, found: str) -> None:
    mapped = Mapped(data, "m.ptdbg")
    with pytest.raises(ArchiveError, match=rf"m\.ptdbg: expected a companion, {found}"):
        check_companion(mapped, DEFAULT_LIMITS)
    with pytest.raises(ValueError, match="released"):
        len(mapped.data)
    with pytest.raises(ArchiveError, match="expected a companion"):
        archive.open(halves(NESTED).out, companion=data)


def test_what_is_no_archive_is_named_and_closed() -> None:
    mapped = Mapped((KINDS / "state_dict.pt").read_bytes(), "m.pt")
    with pytest.raises(ArchiveError, match=r"m\.pt: a state dict"):
        opened_archive(mapped)
    with pytest.raises(ValueError, match="released"):
        len(mapped.data)


def test_an_embedded_record_that_is_no_companion_is_refused() -> None:
    data = tampered(halves(NESTED).out, {EMBEDDED: b"something"})
    with pytest.raises(ArchiveError, match=f"m.ptl: {EMBEDDED}: expected a companion, found something else"):
        archive.open(data, name="m.ptl")


def test_no_handles_are_nothing_to_symbolicate() -> None:
    with (
        archive.open(NESTED, name="m.ptl") as whole,
        pytest.raises(ArchiveError, match=r"m\.ptl: no handles to"),
    ):
        whole.symbolicate([])


# --- why there are no handles


def test_a_companion_of_an_archive_without_handles_says_so() -> None:
    with archive.open(companion_of(RELEASES / "torch-2.13.0" / "nested.pt")) as alone:
        assert not alone.handles
        assert why_no_handles(alone).startswith("this companion has no call-stack map")


def test_an_archive_whose_call_stack_map_was_taken_out_says_so() -> None:
    data = without(NESTED, lambda name: name == "callstack_debug_map.pkl")
    with archive.open(data) as opened:
        assert not opened.handles
        assert why_no_handles(opened).startswith("debug info was taken out of this archive")


def test_an_archive_whose_method_handles_were_taken_out_says_so_and_not_that_its_map_is_empty() -> None:
    data = without(NESTED, lambda name: name == "mobile_debug_handles.pkl")
    with archive.open(data) as opened:
        assert opened.handles
        assert why_no_handles(opened).startswith("mobile_debug_handles.pkl was taken out of this archive")


def test_without_both_records_nobody_knows_whether_they_were_ever_saved() -> None:
    data = without(NESTED, lambda name: name in {"mobile_debug_handles.pkl", "callstack_debug_map.pkl"})
    with archive.open(data) as opened:
        assert "taken out, or never saved" in why_no_handles(opened)


def test_the_records_of_a_container_are_counted_against_one_allowance() -> None:
    left, companion, _ = halves(NESTED)
    with archive.open(left, companion=companion) as both, Container.open(left) as alone:
        assert both.allowance.memory == alone.allowance.memory + 256 * len(companion)


# --- An archive without debug info says why it has none, and only what its records prove


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


@pytest.mark.parametrize("code", ["code/note.txt", "code/__torch__.py"])
@pytest.mark.parametrize("tree", ["data.pkl", "model.json"])
def test_an_archive_is_of_the_kind_split_where_it_lacks_source_ranges(code: str, tree: str) -> None:
    names = (tree, "constants.pkl", "version", code)
    members = [replace(new_member(name, b"?"), aligned=False) for name in names]
    out = BytesIO()
    write_archive(out, "m", members, slim=True)
    with archive.open(out.getvalue()) as opened:
        split = code.endswith(".py")
        assert (opened.recognised.kind is FileKind.SPLIT, is_split(opened)) == (split, split)


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
    assert "(-c COMPANION, or --store STORE)" in note
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
