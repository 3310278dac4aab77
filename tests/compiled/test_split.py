"""Compiled models are split and joined: to the byte, and what is left runs in PyTorch."""

from __future__ import annotations

import json
import platform
import struct
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from archive.base.errors import ArchiveError, NothingToDoError
from archive.companion.layout import CompanionProfile
from archive.formats.elf.parse import parse_object
from tests.support.commands import run, well
from tests.support.compiled import NAMES, changed, member, package, written
from tests.support.elf_files import AARCH64, elf_file
from tests.support.hostile_companions import hostile

if TYPE_CHECKING:
    from pathlib import Path

    from archive.normalform.columns import Columns

MODEL = "data/aotinductor/model/"
OBJECTS = ("compiled", "plain", "profiled")
"""Packages with a shared object."""
QUICK = "profiled"
"""A small one with all kinds of debug info."""


def halves(path: Path, **options: object) -> tuple[Path, Path]:
    small, aside = path.with_name(f"small_{path.name}"), path.with_suffix(".ptdbg")
    archive.split(path, small, aside, force=True, **options)  # type: ignore[arg-type]
    return small, aside


def left(path: Path) -> dict[str, bytes]:
    """The records of a package by file name."""
    with archive.open(path) as opened:
        return {name.rpartition("/")[2]: bytes(record.view()) for name, record in opened.records.items()}


def shared_object(name: str) -> str:
    """The name of the record of a package's shared object."""
    with archive.open(package(name)) as opened:
        return next(record for record in opened.records if record.endswith(".so"))


@pytest.mark.parametrize("name", NAMES)
def test_a_join_gives_the_file_to_the_byte(name: str, tmp_path: Path) -> None:
    path = written(name, tmp_path)
    for profile in CompanionProfile:
        small, aside = halves(path, profile=profile)
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
    from tests.support.running_compiled import failure, outcome  # noqa: PLC0415 (they need PyTorch)

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
    small, aside = halves(path, keep=[kind])
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
    facts = json.loads(well("join", small, "-c", aside, "-o", back, "--force", "--json"))
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
    "7 bytes behind its end, where a model may look for weights": elf_file(appended=b"weights").data,
    "Mach-O, 64 bits; only ELF for x86-64 is cut": struct.pack("<I", 0xFEEDFACF) + bytes(100),
    "byte 40: expected bytes within the file's 1,292, found": elf_file().data[:-1],
    "no ELF file": b"text",
}
"""By what is said of them."""


@pytest.mark.parametrize("why", STRANGE)
def test_shared_objects_stay_whole_and_that_is_told(why: str, tmp_path: Path) -> None:
    name = shared_object(QUICK)
    path = changed(QUICK, {name: STRANGE[why]}, tmp_path)
    small, aside = path.with_name("small"), path.with_suffix(".ptdbg")
    assert f"{name} stayed whole: {why}" in " ".join(well("split", path, "-o", small, "-c", aside).split())
    assert left(small)[name.rpartition("/")[2]] == STRANGE[why]
    assert archive.join(small, aside, tmp_path / "back").objects == 0
    assert left(tmp_path / "back") == left(path)


def test_sources_stay_where_a_loader_would_find_no_metadata_without_them(tmp_path: Path) -> None:
    name = shared_object(QUICK)
    path = changed(QUICK, {f"{MODEL}second.so": member(QUICK, name)}, tmp_path)
    small, _ = halves(path)
    assert left(path).keys() - left(small).keys() == {"kernel_information.json"}


def test_a_second_split_finds_nothing_to_take(tmp_path: Path) -> None:
    small, _ = halves(written(QUICK, tmp_path))
    with pytest.raises(NothingToDoError, match="no debug info in it"):
        archive.split(small, tmp_path / "out", tmp_path / "aside")
    kept, _ = halves(written(QUICK, tmp_path), keep=["kernels"])
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
        columns[column] = np.full_like(columns[column], value)  # type: ignore[index]

    aside.write_bytes(hostile(path, CompanionProfile.MAPPED, change))
    with pytest.raises(ArchiveError, match=message):
        archive.join(small, aside, tmp_path / "back")
    if column.startswith("object."):
        assert message in run("verify", aside).stdout.decode()


def test_migrate_tells_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="only TorchScript is migrated: export the model with the release"):
        archive.migrate(package("sources"), tmp_path / "out", to="latest")
    assert not (tmp_path / "out").exists()
