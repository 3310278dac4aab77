"""``torch.package``: its storages are tensors, its modules have source ranges; all commands work on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import archive
from archive.check.verify import verify
from archive.container.write import member_from, new_member
from archive.describe.inspect import inspect
from archive.describe.listing import listed
from archive.formats.record_kinds import RecordKind
from archive.io.mapped import Mapped
from archive.reader.recognition import FileKind, opened_zip, recognise
from archive.rewrite.compact.check import same_facts
from archive.rewrite.migrate.migrate import migrate
from tests.support.commands import called, well
from tests.support.corpus import KINDS
from tests.support.reports import explained
from tests.support.tampering import packed, tampered

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE, PYTHON = KINDS / "package.pt", KINDS / "package_python.pt"
CODE = ".data/ts_code/code/__torch__/net.py"
STORAGE = ".data/0.storage"
LARGE = 1 << 20
FAILURE = (
    b"Traceback of TorchScript (most recent call last):\n"
    b'  File ".data/ts_code/code/__torch__/net.py", line 11, in forward\n'
    b"    x: Tensor) -> Tensor:\n"
    b"    fc = self.fc\n"
    b"    _0 = (fc).forward(x, )\n"
    b"          ~~~~~~~~~~~ <--- HERE\n"
    b"    scale = self.scale\n"
    b"    return torch.mul(_0, scale)\n"
    b"RuntimeError: mat1 and mat2 shapes cannot be multiplied (5x5 and 3x2)\n"
)
with archive.open(PACKAGE) as _opened:
    AT = bytes(_opened.records[CODE].view()).index(b"torch.matmul")
TARGETS = ["1.9", "2.13", "pair-rows", "inline-rows", "string-table"]


def large() -> bytes:
    """The package with a large tensor, which nothing can make smaller."""
    with archive.open(PACKAGE) as opened:
        members = [
            new_member(name, bytes(LARGE) if name == STORAGE else record.view())
            for name, record in opened.records.items()
        ]
    return packed(members)


def test_its_records_are_told_apart() -> None:
    with archive.open(PACKAGE) as opened:
        facts = inspect(opened)
    kinds = {name: record.kind for name, record in facts.records.items()}
    assert kinds == {
        ".data/0.storage": RecordKind.TENSOR,
        ".data/1.storage": RecordKind.TENSOR,
        ".data/2.storage": RecordKind.TENSOR,
        ".data/ts_code/0/data.pkl": RecordKind.MODULES,
        ".data/ts_code/0/constants.pkl": RecordKind.CONSTANTS,
        "model/model.pkl": RecordKind.OTHER,
        "model/notes.txt": RecordKind.OTHER,
        "net.py": RecordKind.PYTHON,
        ".data/extern_modules": RecordKind.OTHER,
        ".data/python_version": RecordKind.OTHER,
        CODE: RecordKind.CODE,
        f"{CODE}.debug_pkl": RecordKind.RANGES,
        ".data/version": RecordKind.FORMAT,
        "byteorder": RecordKind.FORMAT,
        ".data/serialization_id": RecordKind.FORMAT,
    }
    assert (facts.kind, facts.rows) == (FileKind.PACKAGE, 9)


def test_sizes_count_its_storages_as_tensors_and_its_code_by_module() -> None:
    account = archive.sizes(PACKAGE)
    assert account.by("kind")["tensor"].inflated == 16 + 24 + 8
    assert account.by("module")["__torch__.net"].stored > 300
    assert account.by("source")["models/net.py"].stored > 100


def test_a_place_in_its_code_leads_to_the_source() -> None:
    shown = well("symbolicate", PACKAGE, "--at", f"{CODE}:{AT}")
    assert 'File "models/net.py", line 13\n' in shown
    assert "return x.matmul(self.weight) + self.bias" in shown


def test_it_is_well() -> None:
    assert verify(PACKAGE) == []


def test_what_is_split_off_is_joined_again(tmp_path: Path) -> None:
    out, companion, back = (tmp_path / name for name in ("out", "companion", "back"))
    archive.split(PACKAGE, out, companion)
    found = recognise(out)
    assert (found.kind, found.what) == (FileKind.PACKAGE, "a torch.package whose debug info was split off")
    assert well("symbolicate", out, "-c", companion, "--at", f"{CODE}:{AT}") == well(
        "symbolicate", PACKAGE, "--at", f"{CODE}:{AT}"
    )
    assert archive.join(out, companion, back).exact
    assert back.read_bytes() == PACKAGE.read_bytes()


def test_a_failure_of_what_was_split_leads_to_the_companion(tmp_path: Path) -> None:
    out, companion = tmp_path / "out", tmp_path / "companion"
    made = archive.split(PACKAGE, out, companion)
    text, *counts = explained(FAILURE, out)
    where = f"the companion with the archive id {made.archive_id} (-c COMPANION, or --store STORE)"
    note = f"line 2: debug info was split off this archive: it is in {where}"
    assert (text, counts) == (FAILURE, [0, 1, [note]])


def test_a_failure_of_another_package_is_not_explained() -> None:
    other = FAILURE.replace(b"self.fc", b"self.linear")
    text, *counts = explained(other, PACKAGE)
    why = f"{CODE} has another line 11 in this archive: the failure is another model's"
    assert (text, counts) == (other, [0, 1, [f"line 2: {why}"]])


def test_what_is_shrunk_says_the_same_and_is_restored(tmp_path: Path) -> None:
    small, embedded, back = (tmp_path / name for name in ("small", "embedded", "back"))
    archive.shrink(PACKAGE, small)
    with archive.open(PACKAGE) as before, archive.open(small) as after:
        same_facts(before, after)
    archive.shrink(PACKAGE, embedded, level="embed")
    assert archive.restore(embedded, back).exact
    assert back.read_bytes() == PACKAGE.read_bytes()


@pytest.mark.parametrize("target", TARGETS)
def test_it_is_migrated_there_and_back(target: str) -> None:
    there = migrate(PACKAGE, to=target)
    assert verify(there.data) == []
    if there.plan.is_needed:
        assert migrate(there.data, to="original").data == PACKAGE.read_bytes()


def test_its_source_ranges_are_deflated_as_pytorch_does() -> None:
    with archive.open(PACKAGE) as before, archive.open(migrate(PACKAGE, to="pair-rows").data) as after:
        records = [opened.records[f"{CODE}.debug_pkl"] for opened in (before, after)]
    assert [record.compression for record in records] == ["deflated", "deflated"]


@pytest.mark.parametrize("target", TARGETS)
def test_no_storage_is_kept_twice(target: str) -> None:
    data = large()
    there = migrate(data, to=target)
    assert there.out_size - len(data) < 4096
    assert there.aside_size < 4096
    with archive.open(there.data) as opened:
        storage = opened.container.records[STORAGE]
        assert (storage.compression, storage.place.data % 64) == ("stored", 0)


def test_no_storage_is_deflated(tmp_path: Path) -> None:
    data = large()
    archive.split(data, tmp_path / "split", tmp_path / "companion")
    archive.shrink(data, tmp_path / "shrunk")
    for name in ("split", "shrunk"):
        with archive.open(tmp_path / name) as opened:
            storage = opened.container.records[STORAGE]
            assert (storage.compression, storage.place.data % 64) == ("stored", 0)


def test_modules_of_its_own_named_code_are_no_generated_code() -> None:
    data = tampered(PACKAGE, {"code/train.py": b"import net\n"})
    assert verify(data) == []


def test_a_file_of_its_own_with_the_name_of_a_debug_record_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "package.pt"
    path.write_bytes(tampered(PACKAGE, {"debug/run.pkl": b"\x80\x02}."}))
    problem = (
        "a torch.package whose file debug/run.pkl has the name of a debug record: this tool cannot tell "
        "the two apart; `inspect`, `verify`, `leaks` and `sizes` work on it"
    )
    done = called("shrink", path, "-o", tmp_path / "out")
    assert str(done.exception) == f"{path}: {problem}"
    assert not verify(path)
    assert "debug/run.pkl" in well("inspect", path)


def test_in_one_without_torchscript_only_python_and_what_pytorch_names_have_kinds() -> None:
    with opened_zip(Mapped(PYTHON)) as container:
        members = [
            *map(member_from, container.records.values()),
            new_member("code/train.py", b"import net\n"),
        ]
        data = packed(members)
    kinds = {name: record.kind for name, record in listed(data).records.items()}
    assert {name for name, kind in kinds.items() if kind is RecordKind.PYTHON} == {"net.py", "code/train.py"}
    assert {name for name, kind in kinds.items() if kind not in {RecordKind.OTHER, RecordKind.PYTHON}} == {
        *(".data/0.storage", ".data/1.storage", ".data/2.storage"),
        *(".data/version", "byteorder", ".data/serialization_id"),
    }


SAME_FILES = "compared with the original: its model and files are the same to the byte"
UNCHECKED = "whether torch.package loads it was not checked"


def test_of_what_is_shrunk_nothing_is_told_that_was_not_compared(tmp_path: Path) -> None:
    told = well("shrink", PACKAGE, "-o", tmp_path / "small")
    assert told.endswith(f"\n\n{SAME_FILES}, and its source ranges say the same; {UNCHECKED}\n")
    told = well("shrink", PACKAGE, "-o", tmp_path / "embedded", "--level", "embed")
    assert told.endswith(
        f"\n\n{SAME_FILES}; {UNCHECKED}\n"
        "errors show no model source; debug-archive reads it as before\n"
        "`debug-archive restore` gives the original file, byte for byte\n"
    )


@pytest.mark.parametrize("to", ["1.8", "1.4"])
def test_releases_that_know_no_torchscript_in_packages_get_none(to: str) -> None:
    problem = "knows no TorchScript in a torch.package; 1.9 is the first that does"
    with pytest.raises(archive.ArchiveError, match=problem):
        archive.migrate(PACKAGE, to=to, lossy=True)
