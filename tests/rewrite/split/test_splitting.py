"""Split and joined: the archive is the same to the byte, and what is left between is a model of its own."""

from __future__ import annotations

import io
import re
import zipfile
from collections import defaultdict
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

import pytest

import archive
from archive import ArchiveError, Style
from archive.companion.build import build_companion
from archive.companion.layout import CompanionLayout
from archive.container.container import Container
from archive.container.serialization_id import RECORD_NAME, serialization_id
from archive.debuginfo.model import RangeLayout
from archive.failures.traceback_failures import UNCHECKED
from archive.formats.archive_id import archive_id
from archive.formats.record_kinds import RecordKind, kind_of
from archive.formats.source_ranges import build_source_ranges
from archive.reader.split_handles import prefix_of
from archive.rewrite.split import split
from tests.support import slow_reader
from tests.support.commands import run
from tests.support.corpus import CALLSTACKS, HANDLES, ORACLES, PATHS, RELEASES, raw_records
from tests.support.halves import (
    BARE,
    DEBUG_GROUPS,
    LAYOUTS,
    SOME_GROUPS,
    group,
    halves,
    joined,
    parsed,
    rezipped,
)
from tests.support.plain import plain_handles, plain_methods, plain_ranges
from tests.support.reports import explained, printed, printed_by_213, without_original
from tests.support.sampling import sampled
from tests.support.strategies import Range, table_of
from tests.support.tampering import NESTED_1_8, NESTED_1_9, PLAIN, STACK, tampered

if TYPE_CHECKING:
    from pathlib import Path

    from archive import Archive
    from archive.rewrite.split import Split
    from tests.support.tampering import Change

NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"

NO_HANDLES = ORACLES / "plain_stack.pt"


def contents(data: bytes) -> dict[str, bytes]:
    """Records with their root, in their order, as an ordinary zip reader has them."""
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        assert opened.testzip() is None
        return {name: opened.read(name) for name in opened.namelist()}


# --- what is left


@pytest.mark.parametrize("path", [STACK, NESTED_1_9], ids=lambda path: path.name)
def test_what_is_left_has_no_descriptors_and_padding_before_tensors_alone(path: Path) -> None:
    out = halves(path).out
    with zipfile.ZipFile(io.BytesIO(out)) as opened:
        infos = opened.infolist()
    padded = [
        info.filename for info in infos if out[info.header_offset + 28 : info.header_offset + 30] != b"\0\0"
    ]
    tensors = [
        info.filename for info in infos if kind_of(info.filename.partition("/")[2]) is RecordKind.TENSOR
    ]
    assert [info.filename for info in infos if info.flag_bits & 8] == []
    assert tensors
    assert set(padded) <= set(tensors)


# --- every archive


@pytest.mark.parametrize("name", SOME_GROUPS)
def test_every_archive_comes_back_to_the_byte_and_its_companion_answers_like_it(
    name: str,
) -> None:
    for number, path in enumerate(sampled(group(name), most=3)):
        out, companion, said = halves(path)
        whole = path.read_bytes()
        assert joined(out, companion) == (whole, True), path
        assert said.exact
        assert (said.size, said.out_size, said.companion_size) == (len(whole), len(out), len(companion))
        assert said.out_size + said.companion_size < said.size
        assert_is_the_same_model(out, path, said)
        if number % 2:  # either layout in turn
            companion = build_companion(parsed(companion), CompanionLayout.MAPPED)
        with archive.open(path) as before, archive.open(companion) as alone:
            assert alone.companion is not None
            assert not alone.has_code
            assert_answers(before, alone)
            assert_explains(path, alone)
            assert set(alone.records) == {name for name in before.records if kind_of(name).is_debug}
        if number == 0:
            assert_is_whole_again(out, companion, path)


def assert_is_whole_again(out: bytes, companion: bytes, path: Path) -> None:
    """What was left is the archive again with its companion; PyTorch computes the serialization id anew."""
    with archive.open(path) as before, archive.open(out, companion=companion) as both:
        assert both.companion is not None
        assert both.has_code
        assert_answers(before, both)
        expected = {name: bytes(r.view()) for name, r in before.records.items() if name != RECORD_NAME}
        assert {name: bytes(record.view()) for name, record in both.records.items()} == expected


def assert_is_the_same_model(out: bytes, path: Path, said: Split) -> None:
    with Container.open(out) as left, Container.open(path) as original:
        debug = {name for name in original.records if kind_of(name).is_debug}
        assert said.debug_size == sum(original.records[name].stored_size for name in debug)
        assert said.kept == ((HANDLES,) if HANDLES in debug else ())
        assert [name for name in left.records if name != RECORD_NAME] == [
            name for name in original.records if name not in debug - set(said.kept) | {RECORD_NAME}
        ]
        assert (RECORD_NAME in left.records) == (RECORD_NAME in original.records)
        assert left.root == original.root
        assert archive_id(left.records) == archive_id(original.records) == bytes.fromhex(said.archive_id)
        for record in left.records.values():
            if kind_of(record.name) is RecordKind.TENSOR and record.size:
                assert record.place.data % 64 == 0, f"{path}: {record.name}"
        expected = {name: bytes(original.records[name].view()) for name in left.records}
        if HANDLES in expected:
            with archive.open(path) as before:
                assert said.prefix == prefix_of(before)
            assert_are_unique(expected[HANDLES], bytes(left.records[HANDLES].view()), said.prefix)
            expected[HANDLES] = bytes(left.records[HANDLES].view())
        if RECORD_NAME in expected:  # which PyTorch computes from all other records
            expected[RECORD_NAME] = serialization_id(left.records.values()).encode()
        assert contents(out) == {f"{left.root}/{name}": data for name, data in expected.items()}


def assert_are_unique(before: bytes, after: bytes, prefix: int) -> None:
    """The handles of a record have got a prefix, by the slow reader; all else is as before."""
    version, rows = slow_reader.methods(before)
    unique = [(name, [int(f"{prefix}{handle:08}") for handle in handles]) for name, handles in rows]
    assert slow_reader.methods(after) == (version, unique)


def assert_answers(before: Archive, after: Archive) -> None:
    """A companion, alone or with what was left, says what the archive said."""
    assert (after.top, after.qualified_top) == (before.top, before.qualified_top)
    assert after.range_records == before.range_records
    ours, theirs = after.range_table, before.range_table
    assert (ours.names, ours.layouts) == (theirs.names, theirs.layouts)
    for number in range(len(theirs.names)):
        assert plain_ranges(ours, number) == plain_ranges(theirs, number)
    assert_same_handles(before, after)
    expected = {name: bytes(r.view()) for name, r in before.records.items() if kind_of(name).is_debug}
    assert {name: bytes(after.records[name].view()) for name in expected} == expected
    for name, data in expected.items():
        made = after.records[name]
        assert (made.name, made.size, made.crc32) == (name, len(data), before.records[name].crc32)
    layouts = {name: layout for name, layout in before.generations.items() if name in expected}
    assert {name: layout for name, layout in after.generations.items() if name in expected} == layouts


def assert_same_handles(before: Archive, after: Archive) -> None:
    for ours, theirs, texts in (
        (after.method_table, before.method_table, False),
        (after.path_table, before.path_table, True),
    ):
        assert (ours is None) == (theirs is None)
        if ours is not None and theirs is not None:
            assert plain_methods(ours, texts=texts) == plain_methods(theirs, texts=texts)
    assert (after.handle_table is None) == (before.handle_table is None)
    if after.handle_table is not None and before.handle_table is not None:
        assert plain_handles(after.handle_table) == plain_handles(before.handle_table)
    style = Style.V1_9 if "torch-1.9.0" in before.file else Style.CURRENT
    for handle in [*list(before.handles)[::17], 123_456_789]:
        ours_said, said = after.symbolicate(handle, style), before.symbolicate(handle, style)
        assert bytes(ours_said) == bytes(said)
        assert (ours_said.missing, str(ours_said.entries)) == (said.missing, str(said.entries))


@cache
def tracebacks() -> dict[Path, list[str]]:
    """What TorchScript of each release, and that of 2.13, printed of each archive."""
    found: dict[Path, list[str]] = defaultdict(list)
    for path, text in chain(printed(), printed_by_213()):
        if "original code" in text:
            found[path].append(text)
    return found


def assert_explains(path: Path, alone: Archive) -> None:
    for text in tracebacks().get(path, []):
        said, _, unknown, notes = explained(without_original(text), alone)
        assert (said.decode(), unknown) == (text, 0)
        assert {note.partition(": ")[2].partition(" (")[0] for note in notes} == {UNCHECKED}


def test_there_is_an_archive_of_each_kind() -> None:
    assert len(DEBUG_GROUPS) == 16
    assert sum(len(group(name)) for name in DEBUG_GROUPS) == 258
    assert sum(map(len, tracebacks().values())) == 899


def test_an_archive_without_debug_information_is_refused(tmp_path: Path) -> None:
    (path,) = group(BARE)
    with pytest.raises(ArchiveError, match=r"nested\.pt: no debug info in it"):
        split(path, tmp_path / "out.pt", tmp_path / "m.ptdbg")
    assert list(tmp_path.iterdir()) == []


# --- handles


def test_handles_are_dropped_when_asked(tmp_path: Path) -> None:
    out, companion = tmp_path / "out.ptl", tmp_path / "m.ptdbg"
    assert split(NESTED, out, companion, handles="drop").kept == ()
    with archive.open(out) as left:
        assert not any(kind_of(name).is_debug for name in left.records)
    assert joined(out.read_bytes(), companion.read_bytes()) == (NESTED.read_bytes(), True)


def test_handles_are_kept_when_asked(tmp_path: Path) -> None:
    said = split(NESTED, tmp_path / "out.ptl", tmp_path / "m.ptdbg", handles="keep")
    assert (said.kept, said.prefix) == ((HANDLES,), 0)
    with archive.open(tmp_path / "out.ptl") as left, archive.open(NESTED) as before:
        assert left.records[HANDLES].view() == before.records[HANDLES].view()


@pytest.mark.parametrize("path", [NO_HANDLES, NESTED_1_8])
@pytest.mark.parametrize("handles", ["unique", "keep", "drop"])
def test_no_choice_of_handles_is_possible_where_there_are_none(
    path: Path, handles: str, tmp_path: Path
) -> None:
    what = handles.replace("unique", "make unique")
    with pytest.raises(ArchiveError, match=f"has no debug handles to {what}, as {HANDLES} is missing"):
        split(path, tmp_path / "out.pt", tmp_path / "m.ptdbg", handles=handles)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


# --- other archives


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("path", [NESTED, NO_HANDLES, NESTED_1_8, RELEASES / "torch-1.2.0" / "nested.pt"])
def test_of_an_archive_by_another_zip_tool_the_records_come_back(path: Path, compression: int) -> None:
    source = rezipped(path, compression)
    out, companion, said = halves(source)
    data, exact = joined(out, companion)
    assert (said.exact, exact) == (False, False)
    assert list(contents(data).items()) == list(contents(source).items())
    with Container.open(source) as before, Container.open(data) as after:
        for name, record in before.records.items():
            assert after.records[name].compression == (record.compression if record.size else "stored")
            assert after.records[name].entry.modified == record.entry.modified


def wider(data: bytes) -> bytes:
    """The same pickle with an integer in more bytes than PyTorch gives it."""
    changed, count = re.subn(rb"K([\0\4\x08])", rb"J\1\0\0\0", data, count=1)
    assert count
    return changed


def in_other_pieces(_: bytes) -> bytes:
    """Source ranges whose texts are cut elsewhere than behind a line, which PyTorch loads as well."""
    ranges = [Range(b"def f():\n    ret", 0, 5), Range(b"urn 1\n    return 2", 1, 3)]
    return build_source_ranges(table_of([0, 7], ranges, RangeLayout.STRING_TABLE), 0)


ODD: dict[str, dict[str, Change]] = {
    "a wider integer in source ranges": {f"{PLAIN}.debug_pkl": wider},
    "a wider integer in the call-stack map": {CALLSTACKS: wider},
    "a wider integer among handles": {HANDLES: wider},
    "texts in other pieces": {f"{PLAIN}.debug_pkl": in_other_pieces},
    "all of them": {CALLSTACKS: wider, HANDLES: wider, f"{PLAIN}.debug_pkl": in_other_pieces},
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("change", ODD.values(), ids=list(ODD))
def test_records_that_pytorchs_rules_do_not_give_are_kept_raw(
    change: dict[str, Change], layout: CompanionLayout
) -> None:
    source = tampered(STACK, change)
    out, companion, said = halves(source, layout)
    assert joined(out, companion) == (source, said.exact)
    assert said.exact
    with archive.open(companion) as opened:
        assert opened.companion is not None
        assert set(opened.companion.contents.records.raw) == set(change)


def test_module_paths_that_pytorchs_rules_do_not_give_are_kept_raw() -> None:
    source = tampered(NESTED_1_8, {PATHS: wider})
    out, companion, _ = halves(source)
    assert joined(out, companion) == (source, True)


def test_a_call_stack_map_keeps_the_order_of_its_rows() -> None:
    for path in (STACK, NESTED_1_9):
        with archive.open(path) as opened:
            table = opened.handle_table
            assert table is not None
            assert table.handle.tolist() != sorted(table.handle.tolist())  # hash order
        assert joined(*halves(path)[:2]) == (path.read_bytes(), True)


def test_a_lite_archive_whose_failures_will_name_no_handles_is_told_of() -> None:
    def has_handles(path: Path) -> bool:
        return HANDLES in {record.name for record in raw_records(path)}

    every = sorted(path for path in RELEASES.rglob("*.ptl") if path.parent.name > BARE)
    lite = sampled(every, most=12, by=[lambda path: path.parent.name, has_handles])
    silent = {path for path in lite if halves(path).said.no_handles}
    assert silent == {path for path in lite if not has_handles(path)}
    assert 2 < len(silent) < len(lite)
    assert not any(
        halves(path.with_suffix(".pt")).said.no_handles for path in silent if path.stem == "nested"
    )


def test_the_way_to_handles_is_printed(tmp_path: Path) -> None:
    path = RELEASES / "torch-2.13.0" / "nested-nodebug.ptl"
    done = run("split", path, "-o", tmp_path / "small.ptl", "-c", tmp_path / "m.ptdbg")
    assert b"failures on a device name no handles: " in done.stdout
    assert b"_save_mobile_debug_info=True" in done.stdout
    assert b"`debug-archive lite`" in done.stdout
