"""Archives that PyTorch wrote, read through the package's interface."""

from __future__ import annotations

import gc
import io
import itertools
import os
import shutil
import tracemalloc
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import archive
from archive import ArchiveError
from archive.base.strings import Text
from archive.container.write import new_member, write_archive
from archive.debuginfo.model import Generation, RangeLayout
from archive.formats.inert_values import objects
from archive.formats.source_ranges import build_source_ranges
from archive.reader.archive import shared_value
from tests.support.corpus import ARCHIVES, CALLSTACKS, DELEGATED, FIXTURES, HANDLES, ORACLES, PATHS, RELEASES
from tests.support.halves import embedded, halves
from tests.support.plain import RANGES
from tests.support.sampling import crossed
from tests.support.strategies import Range, table_of

if TYPE_CHECKING:
    from collections.abc import Callable


NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
CODE = "code/__torch__/models.py"
MIB = 1 << 20


# --- the archive


def test_an_archive_opens_from_paths_bytes_and_files() -> None:
    data = NESTED.read_bytes()
    with NESTED.open("rb") as file:
        for source in (NESTED, str(NESTED), data, bytearray(data), memoryview(data), io.BytesIO(data), file):
            with archive.open(source) as opened:
                assert (opened.root, opened.top, len(opened.handles)) == ("nested", "Stack", 189)
    with archive.open(data, name="phone.ptl") as opened:
        assert opened.file == "phone.ptl"
        with pytest.raises(ArchiveError, match=r"^phone\.ptl: nothing\.pkl: no such record$"):
            opened.value("nothing.pkl")


def test_records_are_named_without_root_in_the_files_order() -> None:
    with archive.open(NESTED) as opened, zipfile.ZipFile(NESTED) as zipped:
        assert [f"nested/{name}" for name in opened.records] == zipped.namelist()
        for name, record in opened.records.items():
            assert (record.name, bytes(record.view())) == (name, zipped.read(f"nested/{name}"))


def test_every_archive_is_read_to_the_end() -> None:
    for path in ARCHIVES:
        with archive.open(path) as opened:
            _ = opened.data, opened.bytecode, opened.lowered
            assert opened.top or path.parent.name in ("torch-1.0.1", "torch-1.2.0")
            for name in ("constants.pkl", "attributes.pkl", "traced_inputs.pkl"):
                assert name not in opened.records or opened.value(name) is not None


def test_a_value_is_the_callers_own_to_change() -> None:
    with archive.open(NESTED) as opened, archive.open(NESTED) as untouched:
        for name in ("data.pkl", "constants.pkl"):
            for module in objects(opened.value(name)):
                assert isinstance(module.state, dict)
                module.state.clear()
            assert opened.value(name) == shared_value(opened, name) == untouched.value(name)
        assert shared_value(opened, "data.pkl") is opened.data
        assert opened.data == untouched.data
        assert dict(opened.tensors) == dict(untouched.tensors)


def test_a_file_that_is_none_names_itself() -> None:
    with pytest.raises(ArchiveError, match=r"README\.md: "):
        archive.open(FIXTURES / "README.md")


# --- source ranges


@pytest.mark.parametrize("name", [CODE, f"{CODE}.debug_pkl"])
def test_ranges_go_by_the_code_records_name_or_their_own(name: str) -> None:
    with archive.open(NESTED) as opened:
        rows = opened.ranges(name)
        assert len(rows) == len(list(rows)) == 82
        assert rows[-1].offset == max(row.offset for row in rows)
        assert [row.offset for row in rows[2:4]] == [rows[2].offset, rows[3].offset]
        assert rows[0].range.source.is_null
        row = next(row for row in rows if row.range.text == b"torch.matmul")
        assert row.range.line == 16
        assert row.range.source.filename == "/src/models.py"
        assert opened.locate(name, row.offset) == row.range


def test_a_position_belongs_to_the_last_row_before_it() -> None:
    with archive.open(NESTED) as opened:
        rows = opened.ranges(CODE)
        for before, after in itertools.pairwise(rows):
            for at in (before.offset, after.offset - 1):
                assert opened.locate(CODE, at) == before.range
        assert opened.locate(CODE, 1 << 62) == rows[-1].range
        assert opened.locate(CODE, -1) is None


def test_the_ranges_of_pytorch_1_2_lie_elsewhere() -> None:
    with archive.open(RELEASES / "torch-1.2.0" / "nested.pt") as opened:
        assert opened.ranges("code/nested_gate.py")[1:] == opened.ranges("debug/nested_gate.pkl")[1:]
        assert opened.generations["debug/nested_gate.pkl"] == RangeLayout.PAIR


@pytest.mark.parametrize(
    "archive_name", ["torch-1.0.1/nested.pt", "torch-1.2.0/nested.pt", "torch-2.13.0/nested.ptl"]
)
def test_a_record_without_ranges_is_an_error_that_names_some(archive_name: str) -> None:
    with archive.open(RELEASES / archive_name) as opened:
        known = r"nested\.ptl?: no source ranges for 'code/x\.py'; available: (none|code/.*)$"
        with pytest.raises(ArchiveError, match=known) as raised:
            opened.ranges("code/x.py")
        names = str(raised.value).partition("available: ")[2].partition(" and ")[0].split(", ")
        assert [name for name in names if name not in opened.records] == ["none"] * (not opened.range_records)
        with pytest.raises(ArchiveError, match="no source ranges"):
            opened.locate("version", 0)


# --- handles, methods, module paths


def test_handles_lead_to_operators_and_calls() -> None:
    with archive.open(ORACLES / "plain_stack.ptl") as opened:
        entry = opened.handles[1445]
        assert (entry.handle, str(entry.op), entry.tag >= 0) == (1445, "aten::linear", True)
        calls = [(call.module and call.module.class_name, str(call.function)) for call in entry.stack]
        assert calls == [
            *(("Sequential", "forward"), ("Block", "forward"), ("Block", "_inner"), ("Linear", "forward"))
        ]
        assert 9001 not in opened.handles
        assert set(opened.handles) == {handle for handles in opened.methods.values() for handle in handles}
    with archive.open(ORACLES / "plain_stack.pt") as opened:
        assert [dict(opened.handles), dict(opened.methods), dict(opened.module_paths)] == [{}] * 3
        assert opened.bytecode is None


@pytest.mark.parametrize("release", ["1.7.0", "1.8.0", "1.9.0", "1.10.0", "2.13.0"])
def test_there_is_a_handle_or_a_path_for_every_instruction(release: str) -> None:
    with archive.open(RELEASES / f"torch-{release}" / "nested.ptl") as opened:
        assert opened.bytecode is not None
        counts = opened.bytecode.instructions
        if release in ("1.7.0", "1.8.0"):  # of OP and OPN only
            assert opened.generations[PATHS] == Generation.MODULE_PATHS
            assert opened.module_paths.keys() == counts.keys()
            paths = opened.module_paths["__torch__.models.Stack.forward"]
            assert paths[0].startswith("top(Stack).")
            assert paths[0].endswith("(Affine).forward")
            assert all(len(opened.module_paths[name]) < counts[name] for name in counts)
        else:
            assert opened.generations[HANDLES] == Generation.METHOD_HANDLES
            assert {name: len(handles) for name, handles in opened.methods.items()} == counts
        generation = {"1.9.0": Generation.CALLSTACK_3}.get(release, Generation.CALLSTACK_4)
        assert opened.generations.get(CALLSTACKS, generation) == generation


def test_a_delegated_record_is_named_among_the_generations() -> None:
    with archive.open(ORACLES / "lowered_shape.ptl") as opened:
        assert opened.generations[DELEGATED] == RangeLayout.STRING_TABLE
        assert {row.offset for row in opened.ranges(DELEGATED)} == {-1}
        assert opened.locate(DELEGATED, 0) is None
        assert "mobile_debug.pkl" not in opened.generations


# --- no text is copied


@pytest.mark.parametrize(
    ("layout", "compress"), crossed([RangeLayout.INLINE, RangeLayout.STRING_TABLE], [False, True], most=2)
)
def test_reading_ranges_copies_no_text(layout: RangeLayout, compress: bool) -> None:  # noqa: FBT001
    ranges = [Range(b"%d" % number + b"\nx = y\n" * (MIB // 7), 5, 9) for number in range(2)]
    record = build_source_ranges(table_of(range(8), ranges, layout), 0)
    out = io.BytesIO()
    write_archive(out, "large", [new_member(RANGES, record, compress=compress)])
    with archive.open(out.getvalue()) as opened:
        assert len(opened.records[RANGES].view()) > 2 * MIB
        gc.collect()
        tracemalloc.start()
        rows = list(opened.ranges(RANGES))
        gc.collect()
        held = tracemalloc.get_traced_memory()[0]
        tracemalloc.stop()
        assert held < 64 << 10
        texts = [row.range.source.text for row in rows if isinstance(row.range.source.text, Text)]
        assert [len(text) for text in texts] == [len(one.text) for one in ranges]
        assert {piece.borrowed for text in texts for piece in text.pieces} == {not compress}


# --- ``Archive.save``: the same bytes, and nothing of a file that was written to meanwhile


@pytest.mark.parametrize(
    "path", [NESTED, RELEASES / "torch-1.2.0" / "nested.pt", ORACLES / "lowered_two.ptl"]
)
def test_saving_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    with archive.open(path) as opened:
        _ = opened.generations
        opened.save(tmp_path / "copy.pt")
    assert (tmp_path / "copy.pt").read_bytes() == path.read_bytes()
    assert [file.name for file in tmp_path.iterdir()] == ["copy.pt"]


def test_saving_replaces_nothing_unasked(tmp_path: Path) -> None:
    target = tmp_path / "copy.pt"
    target.write_bytes(b"mine")
    with archive.open(NESTED) as opened:
        with pytest.raises(ArchiveError, match=r"copy\.pt: the file exists; pass --force"):
            opened.save(target)
        assert target.read_bytes() == b"mine"
        opened.save(target, force=True)
    assert target.read_bytes() == NESTED.read_bytes()
    with archive.open(target) as opened:
        opened.save(target, force=True)
    assert target.read_bytes() == NESTED.read_bytes()


def rewritten(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def grown(path: Path) -> None:
    status = path.stat()
    with path.open("ab") as file:
        file.write(b"more")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def replaced(path: Path) -> None:
    path.with_name("other").write_bytes(b"another file")
    path.with_name("other").replace(path)


WRITTEN_TO = [rewritten, grown]
AS_IT_WAS = [Path.unlink, replaced]


@pytest.mark.parametrize("change", WRITTEN_TO)
@pytest.mark.parametrize("kind", ["archive", "companion", "embedded companion", "opened file"])
def test_a_file_that_was_written_to_is_not_saved(
    kind: str, change: Callable[[Path], None], tmp_path: Path
) -> None:
    source, target = tmp_path / "source", tmp_path / "copy"
    _, companion, _ = halves(NESTED)
    contents = {"companion": companion, "embedded companion": embedded(NESTED)[0]}
    source.write_bytes(contents.get(kind, NESTED.read_bytes()))
    target.write_bytes(b"mine")
    with source.open("rb") as file, archive.open(file if kind == "opened file" else source) as opened:
        change(source)
        with pytest.raises(ArchiveError, match="source: the file changed while it was read; nothing is"):
            opened.save(target, force=True)
        held = io.BytesIO()
        with pytest.raises(ArchiveError, match="the file changed"):
            opened.save(held)
    assert (target.read_bytes(), held.getvalue()) == (b"mine", b"")


@pytest.mark.parametrize("change", AS_IT_WAS)
def test_a_file_that_has_lost_its_name_is_saved_as_it_was(
    change: Callable[[Path], None], tmp_path: Path
) -> None:
    source = tmp_path / "source"
    shutil.copy(NESTED, source)
    with archive.open(source) as opened:
        change(source)
        opened.save(tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == NESTED.read_bytes()


def test_what_is_not_mapped_does_not_change(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copy(NESTED, source)
    with source.open("rb") as file:
        closed = archive.open(file)
    rewritten(source)  # the file that was given is closed: nobody tells
    closed.save(tmp_path / "first")
    with archive.open(source, mapped=False) as opened:
        rewritten(source)
        source.write_bytes(b"")
        opened.save(tmp_path / "second")
    assert [(tmp_path / name).read_bytes() == NESTED.read_bytes() for name in ("first", "second")] == [
        True
    ] * 2
