"""Compiled models are split, joined to the byte, shrunk and restored; what is left runs in PyTorch."""

from __future__ import annotations

import platform
import struct
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import archive
from archive.base.errors import ArchiveError, NothingToDoError
from archive.companion.layout import CompanionLayout
from archive.formats.elf.parse import parse_object
from tests.support.commands import run, well
from tests.support.documents import file_of
from tests.support.elf_files import AARCH64, elf_file
from tests.support.exported import PACKAGES, changed_package, member, package, package_halves, written
from tests.support.hostile_companions import hostile
from tests.support.sampling import crossed

if TYPE_CHECKING:
    from pathlib import Path

    from archive.normalform.columns import Columns

MODEL = "data/aotinductor/model/"
OBJECTS = ("compiled", "plain", "profiled")
"""Packages with a shared object."""
QUICK = "profiled"
"""A small one with all kinds of debug info."""


def halves(path: Path, **options: Any) -> tuple[Path, Path]:  # noqa: ANN401 (those of split)
    small, aside = path.with_name(f"small_{path.name}"), path.with_suffix(".ptdbg")
    if path.stem in PACKAGES:
        for half, data in zip((small, aside), package_halves(path.stem, **options), strict=True):
            half.write_bytes(data)
    else:
        archive.split(path, small, aside, force=True, **options)
    return small, aside


def left(path: Path) -> dict[str, bytes]:
    """The records of a package by file name."""
    with archive.open(path) as opened:
        return {name.rpartition("/")[2]: bytes(record.view()) for name, record in opened.records.items()}


def shared_object(name: str) -> str:
    """The name of the record of a package's shared object."""
    with archive.open(package(name)) as opened:
        return next(record for record in opened.records if record.endswith(".so"))


@pytest.mark.parametrize(("name", "layout"), crossed(PACKAGES, CompanionLayout))
def test_a_join_gives_the_file_to_the_byte(name: str, layout: CompanionLayout, tmp_path: Path) -> None:
    path = written(name, tmp_path)
    small, aside = halves(path, layout=layout)
    assert small.stat().st_size < path.stat().st_size
    joined = archive.join(small, aside, tmp_path / "back", force=True)
    assert joined.exact
    assert joined.objects == (name in OBJECTS)
    assert (tmp_path / "back").read_bytes() == path.read_bytes()


def test_what_is_left_is_what_a_loader_reads(tmp_path: Path) -> None:
    small, aside = halves(written("compiled", tmp_path))
    before, after = left(tmp_path / "compiled.pt2"), left(small)
    gone = before.keys() - after.keys()
    assert {name.rpartition(".")[2] for name in gone} == {"cpp", "json"}
    assert [name for name in gone if name.endswith("json")] == ["kernel_information.json"]
    (name,) = [name for name in after if name.endswith(".so")]
    made = parse_object(memoryview(before[name]))
    assert len(after[name]) == made.needed
    assert not parse_object(memoryview(after[name])).sections
    assert after[name][64:] == before[name][64 : made.needed]
    assert small.stat().st_size < 0.07 * len(package("compiled"))
    assert aside.stat().st_size < 0.14 * len(package("compiled"))


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="code for x86-64")
def test_what_is_left_runs_and_fails_alike_in_pytorch(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", exc_type=ImportError)
    from tests.support.running_exported import failure, outcome  # noqa: PLC0415 (they need PyTorch)

    path = written("compiled", tmp_path)
    small, _ = halves(path)
    assert outcome(small) == outcome(path)
    assert failure(small) == failure(path)
    told = [line for line in capfd.readouterr().err.splitlines() if line.startswith("Error: ")]
    assert len(told) == 2
    assert told[0] == told[1]
    assert "wrapper.cpp, line 978" in told[0]


def test_sources_that_are_to_be_compiled_stay(tmp_path: Path) -> None:
    small, _ = halves(written("sources", tmp_path))
    assert left(tmp_path / "sources.pt2").keys() - left(small).keys() == {"kernel_information.json"}


@pytest.mark.parametrize(
    ("kind", "endings"),
    [("object", {".so"}), ("kernels", {"kernel_information.json"}), ("sources", {".cpp"})],
)
def test_kinds_that_are_kept_stay_and_are_in_the_companion_too(
    kind: str, endings: set[str], tmp_path: Path
) -> None:
    path = written(QUICK, tmp_path)
    small, aside = halves(path, keep=(kind,))
    before, after = left(path), left(small)
    same = {name for name in after if before[name] == after[name]}
    assert {
        ending for ending in (".so", "kernel_information.json", ".cpp") for name in same if ending in name
    } == endings
    assert archive.join(small, aside, tmp_path / "back").exact
    assert (tmp_path / "back").read_bytes() == package(QUICK)
    with archive.open(path) as whole, archive.open(small) as part, archive.open(aside) as alone:
        assert whole.archive_id == part.archive_id == alone.archive_id


def test_the_command_tells_what_stayed_and_what_came_back(tmp_path: Path) -> None:
    path = written(QUICK, tmp_path)
    small, aside, back = tmp_path / "small.pt2", tmp_path / "model.ptdbg", tmp_path / "back.pt2"
    told = well("split", path, "-o", small, "-c", aside, "--keep", "kernels", "--keep", "sources")
    assert "kernels stayed" in told
    assert "sources stayed" in told
    assert "byte for byte" in told
    told = well("join", small, "-c", aside, "-o", back)
    assert "with its 3 debug records and all of 1 shared object again" in told
    facts = file_of(well("join", small, "-c", aside, "-o", back, "--force", "--json"))
    assert (facts["objects"], facts["records"]) == (1, 3)


def test_a_companion_answers_like_the_package(tmp_path: Path) -> None:
    small, aside = halves(written(QUICK, tmp_path))
    with (
        archive.open(package(QUICK)) as before,
        archive.open(small, companion=aside) as both,
        archive.open(aside) as alone,
    ):
        assert before.kernels == both.kernels == alone.kernels
        assert len(alone.kernels) == 6
        assert alone.compiled["model"].sources == before.compiled["model"].sources
    text = well("symbolicate", tmp_path / f"{QUICK}.pt2", "aoti_torch_cpu_addmm_out:2")
    assert well("symbolicate", aside, "aoti_torch_cpu_addmm_out:2") == text
    assert well("symbolicate", small, "-c", aside, "aoti_torch_cpu_addmm_out:2") == text


STRANGE = {
    "ELF for AArch64, 64 bits, little-endian; only ELF for x86-64 is cut": elf_file(machine=AARCH64).data,
    "7 bytes after its end, where a model may look for weights": elf_file(appended=b"weights").data,
    "Mach-O, 64 bits; only ELF for x86-64 is cut": struct.pack("<I", 0xFEEDFACF) + bytes(100),
    "byte 40: expected bytes within the file's 1,292, found": elf_file().data[:-1],
    "no ELF file": b"text",
}
"""By what is said of them."""


@pytest.mark.parametrize("why", STRANGE)
def test_shared_objects_stay_whole_and_that_is_told(why: str, tmp_path: Path) -> None:
    name = shared_object(QUICK)
    path = changed_package(QUICK, {name: STRANGE[why]}, tmp_path)
    small, aside = path.with_name("small"), path.with_suffix(".ptdbg")
    assert f"{name} stayed whole: {why}" in " ".join(well("split", path, "-o", small, "-c", aside).split())
    assert left(small)[name.rpartition("/")[2]] == STRANGE[why]
    assert archive.join(small, aside, tmp_path / "back").objects == 0
    assert left(tmp_path / "back") == left(path)


def test_sources_stay_where_a_loader_would_find_no_metadata_without_them(tmp_path: Path) -> None:
    name = shared_object(QUICK)
    path = changed_package(QUICK, {f"{MODEL}second.so": member(QUICK, name)}, tmp_path)
    small, _ = halves(path)
    assert left(path).keys() - left(small).keys() == {"kernel_information.json"}


def test_a_second_split_finds_nothing_to_take(tmp_path: Path) -> None:
    small, _ = halves(written(QUICK, tmp_path))
    with pytest.raises(NothingToDoError, match="no debug info in it"):
        archive.split(small, tmp_path / "out", tmp_path / "aside")
    kept, _ = halves(written(QUICK, tmp_path), keep=("kernels",))
    with pytest.raises(NothingToDoError, match="no debug info in it but kernels, to be kept"):
        archive.split(kept, tmp_path / "out", tmp_path / "aside", keep=["kernels"])


def test_a_companion_of_another_build_of_the_model_is_refused(tmp_path: Path) -> None:
    _, aside = halves(written(QUICK, tmp_path))
    other, _ = halves(written("plain", tmp_path))
    done = run("join", other, "-c", aside, "-o", tmp_path / "back")
    assert done.returncode == 2
    assert b"companion of another model" in done.stderr


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("object.length", 7, "object.length: expected 2232 bytes, found 7"),
        ("object.sections", 1 << 16, "object.sections, row 0: expected a number from 0 on to 65535"),
        ("member.kind", 63, "expected"),
    ],
)
def test_columns_that_lie_about_shared_objects_are_refused(
    column: str, value: int, message: str, tmp_path: Path
) -> None:
    path = written(QUICK, tmp_path)
    small, aside = halves(path)

    def change(columns: Columns) -> None:
        columns[column] = np.full_like(columns[column], value)

    aside.write_bytes(hostile(path, CompanionLayout.MAPPED, change))
    with pytest.raises(ArchiveError, match=message):
        archive.join(small, aside, tmp_path / "back")
    if column.startswith("object."):
        assert message in run("verify", aside).stdout.decode()


def test_migrate_tells_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="only TorchScript is migrated: export the model with the release"):
        archive.migrate(package("sources"), tmp_path / "out", to="latest")
    assert not (tmp_path / "out").exists()


# --- Compiled models are made smaller in one file, which PyTorch runs, and restored


LABEL = "cpp_fused__softmax_sum_2:6"
"""A small package, and a kernel of it."""


def records(source: Path | bytes) -> dict[str, bytes]:
    with archive.open(source) as opened:
        return {name: bytes(record.view()) for name, record in opened.container.records.items()}


@pytest.mark.parametrize("name", PACKAGES)
def test_a_compact_package_has_all_but_what_is_never_mapped(name: str, tmp_path: Path) -> None:
    path, out = written(name, tmp_path), tmp_path / "out"
    facts = archive.shrink(path, out)
    before, after = records(path), records(out)
    assert list(before) == list(after)
    changes = {one for one in before if before[one] != after[one]}
    objects = {one for one in before if one.endswith(".so")}
    assert changes - {".data/serialization_id"} == objects
    for one in objects:
        made = parse_object(memoryview(before[one]))
        assert after[one][64:] == before[one][64 : made.needed]
    assert facts.cut == sum(len(before[one]) - len(after[one]) for one in objects)
    with archive.open(path) as whole, archive.open(out) as small:
        assert small.archive_id == whole.archive_id
        assert small.kernels == whole.kernels


def test_small_packages_take_a_small_part(tmp_path: Path) -> None:
    path = written("compiled", tmp_path)
    size = path.stat().st_size
    assert archive.shrink(path, tmp_path / "compact").out_size < 0.074 * size
    assert archive.shrink(path, tmp_path / "embed", level="embed").out_size < 0.202 * size


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="code for x86-64")
def test_shrunk_packages_run_in_pytorch(tmp_path: Path) -> None:
    pytest.importorskip("torch", exc_type=ImportError)
    from tests.support.running_exported import outcome  # noqa: PLC0415 (it needs PyTorch)

    path = written(QUICK, tmp_path)
    expected = outcome(path)
    for level in ("compact", "embed"):
        archive.shrink(path, tmp_path / level, level=level)
        assert outcome((tmp_path / level).rename(tmp_path / f"{level}.pt2")) == expected


@pytest.mark.parametrize("name", [name for name in PACKAGES if name != "compiled"])
def test_an_embedded_package_is_restored_to_the_byte(name: str, tmp_path: Path) -> None:
    path, out = written(name, tmp_path), tmp_path / "out"
    assert archive.shrink(path, out, level="embed").exact
    left = [one.rpartition("/")[2] for one in records(out) if "aotinductor" in one]
    assert "kernel_information.json" not in left
    assert "debug/model.ptdbg" in records(out)
    assert archive.restore(out, tmp_path / "back").exact
    assert (tmp_path / "back").read_bytes() == package(name)
    with archive.open(path) as before, archive.open(out) as after:
        assert after.kernels == before.kernels
        assert after.archive_id == before.archive_id


def test_the_command_tells_what_was_cut_and_what_was_not_checked(tmp_path: Path) -> None:
    path = written(QUICK, tmp_path)
    told = well("shrink", path, "-o", tmp_path / "out")
    assert "the same to the byte but for 2,232 bytes of shared objects that are never mapped" in told
    assert "whether PyTorch loads it was not checked" in told
    told = well("shrink", path, "-o", tmp_path / "embed", "--level", "embed", "--keep", "sources")
    assert "sources stayed" in told
    assert "`debug-archive restore` gives the original file, byte for byte" in told
    assert well("symbolicate", tmp_path / "embed", LABEL) == well("symbolicate", path, LABEL)
    facts = file_of(well("shrink", path, "-o", tmp_path / "json", "--json"))
    assert (facts["is_compiled"], facts["is_exported"], facts["cut"]) == (True, False, 2232)


def test_an_object_that_stays_whole_is_not_called_cut(tmp_path: Path) -> None:
    (name,) = [one for one in records(package(QUICK)) if one.endswith(".so")]
    path = changed_package(QUICK, {name: elf_file(appended=member(QUICK, name)).data}, tmp_path)
    assert archive.shrink(path, tmp_path / "out").cut == 0
    assert records(tmp_path / "out")[name] == records(path)[name]
    assert "cut" not in well("shrink", path, "-o", tmp_path / "again")


def test_kinds_are_kept_and_dropped_by_embed_alone(tmp_path: Path) -> None:
    path = written(QUICK, tmp_path)
    with pytest.raises(ArchiveError, match="a compact archive has all its debug info; use `split`"):
        archive.shrink(path, tmp_path / "out", keep=["object"])
    archive.shrink(path, tmp_path / "out", level="embed", keep=["object"])
    (name,) = [one for one in records(path) if one.endswith(".so")]
    assert records(tmp_path / "out")[name] == records(path)[name]
    assert archive.restore(tmp_path / "out", tmp_path / "back").exact
    archive.split(path, tmp_path / "small", tmp_path / "aside")
    with pytest.raises(NothingToDoError, match="no debug info in it"):
        archive.shrink(tmp_path / "small", tmp_path / "embed", level="embed")


def test_a_store_takes_packages_and_companions_of_them(tmp_path: Path) -> None:
    path, log = written(QUICK, tmp_path), tmp_path / "log"
    log.write_text(f"{LABEL}\n", "utf-8")
    assert "added" in well("store", "add", path, "--store", tmp_path / "store")
    archive.split(path, tmp_path / "small", tmp_path / "small.ptdbg")
    assert "added" not in well("store", "add", tmp_path / "small.ptdbg", "--store", tmp_path / "store")


def test_inspect_shows_the_kernels_in_a_companion(tmp_path: Path) -> None:
    archive.split(written(QUICK, tmp_path), tmp_path / "small", tmp_path / "small.ptdbg")
    told = well("inspect", tmp_path / "small.ptdbg")
    assert "3 records, 3 of debug info" in told
    assert "kernel information" in told
    facts = file_of(well("inspect", tmp_path / "small.ptdbg", "--json"))
    assert facts["compiled"]["model"]["kernels"] == 6
