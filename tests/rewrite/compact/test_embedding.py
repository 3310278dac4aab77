"""Archives with an embedded companion: one file, the same answers, and the way back to the byte."""

from __future__ import annotations

import zipfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import archive
from archive import ArchiveError
from archive.companion.layout import CompanionLayout
from archive.companion.parse import parse_companion
from archive.formats.archive_id import archive_id
from archive.formats.record_kinds import EMBEDDED, RecordKind, kind_of
from archive.rewrite.join import restore
from archive.rewrite.shrink import ShrinkLevel, shrink
from tests.support.corpus import HANDLES, RELEASES
from tests.support.halves import (
    BARE,
    SOME_GROUPS,
    companion_of,
    embedded,
    facts_of,
    group,
    halves,
    plain_facts,
    split_companion,
)
from tests.support.plain import plain_handles, plain_ranges
from tests.support.reports import case, explained
from tests.support.tampering import NESTED_1_2, STACK, tampered

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"


def restored(data: bytes) -> tuple[bytes, bool]:
    with TemporaryDirectory() as folder:
        target = Path(folder) / "m.pt"
        said = restore(data, target)
        assert said.size == target.stat().st_size
        return target.read_bytes(), said.exact


@pytest.mark.parametrize("name", SOME_GROUPS)
def test_archives_are_restored_to_the_byte(name: str) -> None:
    for path in group(name)[::8]:
        data, said = embedded(path)
        whole = path.read_bytes()
        assert restored(data) == (whole, True), path
        assert (said.level, said.exact) == (ShrinkLevel.EMBED, True)
        assert (said.size, said.out_size) == (len(whole), len(data))
        assert len(data) < len(whole)
        assert sum(old for old, _ in said.kinds.values()) == len(whole)
        assert sum(new for _, new in said.kinds.values()) == len(data)


@pytest.mark.parametrize("name", SOME_GROUPS)
def test_an_embedded_companion_is_read_as_if_nothing_had_happened(name: str) -> None:
    path = next((one for one in group(name) if one.name == "nested.ptl"), group(name)[0])
    data, said = embedded(path)
    with archive.open(path) as before, archive.open(data) as after:
        assert after.has_code
        assert after.companion is not None
        assert EMBEDDED not in after.records
        assert (after.root, after.top, after.qualified_top) == (before.root, before.top, before.qualified_top)
        assert archive_id(after.container.records) == archive_id(before.container.records)
        assert archive_id(before.container.records).hex() == said.archive_id
        for record in before.range_records:
            assert bytes(after.records[record].view()) == bytes(before.records[record].view())
            number = before.range_table.numbers[record]
            assert plain_ranges(after.range_table, number) == plain_ranges(before.range_table, number)
        if before.handle_table is not None:
            assert after.handle_table is not None
            assert plain_handles(after.handle_table) == plain_handles(before.handle_table)
        for handle in list(before.handles)[::7]:
            assert bytes(after.symbolicate(handle)) == bytes(before.symbolicate(handle))


def test_what_is_embedded_is_the_companion_that_a_split_makes() -> None:
    data, _ = embedded(STACK)
    with zipfile.ZipFile(BytesIO(data)) as opened:
        assert opened.testzip() is None
        inner = opened.read(f"archive/{EMBEDDED}")
        assert opened.getinfo(f"archive/{EMBEDDED}").compress_type == zipfile.ZIP_STORED
    assert inner == split_companion(STACK, "drop")
    with archive.open(inner) as alone, archive.open(STACK) as before:
        assert bytes(alone.symbolicate(1445)) == bytes(before.symbolicate(1445))


def test_no_other_debug_record_is_left_but_handles_when_asked(tmp_path: Path) -> None:
    for handles, left in ((None, set()), ("drop", set()), ("keep", {HANDLES})):
        target = tmp_path / f"{handles}.ptl"
        shrink(STACK, target, level="embed", handles=handles)  # type: ignore[arg-type]
        with archive.open(target) as opened:
            assert opened.companion is not None
            debug = {name for name in opened.container.records if kind_of(name).is_debug}
            assert debug == {EMBEDDED} | left
        assert restored(target.read_bytes()) == (STACK.read_bytes(), True)


def test_tensors_stay_aligned() -> None:
    for path in (STACK, NESTED, NESTED_1_2):
        with archive.open(embedded(path)[0]) as opened:
            assert opened.companion is not None
            tensors = [r for r in opened.container.records.values() if kind_of(r.name) is RecordKind.TENSOR]
            assert tensors
            assert {record.place.data % 64 for record in tensors} == {0}


def test_reports_are_explained() -> None:
    for name in ("plain_stack", "lowered_shape", "plain_unicode.jit"):
        report = case(name)
        with archive.open(embedded(report.path)[0]) as opened:
            assert explained(report.stripped, opened) == (report.full, 1, 0, [])


# --- what is refused


def refused(call: object, *arguments: object, **options: object) -> ArchiveError:
    with pytest.raises(ArchiveError) as caught:
        call(*arguments, **options)  # type: ignore[operator]
    return caught.value


def test_what_is_embedded_already_is_not_embedded_or_compacted_again(tmp_path: Path) -> None:
    data, _ = embedded(STACK)
    for level in ShrinkLevel:
        assert "embedded companion" in str(refused(shrink, data, tmp_path / "m.ptl", level=level))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("level", ShrinkLevel)
def test_a_companion_is_not_shrunk(level: ShrinkLevel, tmp_path: Path) -> None:
    for layout in CompanionLayout:
        refused(shrink, companion_of(STACK, layout), tmp_path / "m.ptl", level=level)
    assert list(tmp_path.iterdir()) == []


def test_an_archive_without_debug_information_has_nothing_to_embed(tmp_path: Path) -> None:
    (path,) = group(BARE)
    assert "no debug info in it" in str(refused(shrink, path, tmp_path / "m.pt", level="embed"))
    assert list(tmp_path.iterdir()) == []


def test_only_what_is_embedded_is_restored(tmp_path: Path) -> None:
    for source in (STACK, halves(STACK).out):
        assert "no embedded companion" in str(refused(restore, source, tmp_path / "m.ptl"))
    assert list(tmp_path.iterdir()) == []


def test_an_embedded_companion_of_another_model_or_none_at_all_is_refused(tmp_path: Path) -> None:
    data, _ = embedded(STACK)
    for other in (companion_of(NESTED), b"no companion", b"", halves(STACK).companion[:-1]):
        changed = tampered(halves(STACK).out, {EMBEDDED: other})
        refused(restore, changed, tmp_path / "m.ptl")
        with archive.open(data) as whole:
            assert whole.handles
    assert list(tmp_path.iterdir()) == []


def test_levels_have_names(tmp_path: Path) -> None:
    assert "expected a level: compact or embed, found tiny" in str(
        refused(shrink, STACK, tmp_path / "m.ptl", level="tiny")
    )
    assert "use `split`" in str(refused(shrink, STACK, tmp_path / "m.ptl", handles="drop"))


def test_the_strength_of_compression_makes_no_other_difference(tmp_path: Path) -> None:
    for strength in (1, 22):
        shrink(NESTED, tmp_path / "m.ptl", level="embed", strength=strength, force=True)
        with archive.open(tmp_path / "m.ptl") as opened:
            assert opened.companion is not None
            inner = opened.container.records[EMBEDDED].view()
            facts = plain_facts(parse_companion(inner))
            assert facts.columns.items() >= plain_facts(facts_of(NESTED)).columns.items()


def test_an_extra_file_of_that_name_that_is_no_companion_is_told_with_its_place() -> None:
    with pytest.raises(ArchiveError) as caught:
        archive.open(tampered(STACK, {EMBEDDED: b"notes"}), name="m.ptl")
    assert str(caught.value) == "m.ptl: extra/debug.ptdbg: expected a companion, found something else"
