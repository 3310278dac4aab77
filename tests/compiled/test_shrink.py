"""Compiled models are made smaller in one file, which PyTorch runs, and restored."""

from __future__ import annotations

import json
import platform
import sys
from typing import TYPE_CHECKING

import pytest

import archive
from archive.base.errors import ArchiveError, NothingToDoError
from archive.formats.elf.parse import parse_object
from tests.support.commands import well
from tests.support.compiled import NAMES, changed, member, package, written
from tests.support.elf_files import elf_file

if TYPE_CHECKING:
    from pathlib import Path

QUICK, LABEL = "profiled", "cpp_fused__softmax_sum_2:6"
"""A small package, and a kernel of it."""


def records(source: Path | bytes) -> dict[str, bytes]:
    with archive.open(source) as opened:
        return {name: bytes(record.view()) for name, record in opened.container.records.items()}


@pytest.mark.parametrize("name", NAMES)
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
    from tests.support.running_compiled import outcome  # noqa: PLC0415 (it needs PyTorch)

    path = written(QUICK, tmp_path)
    expected = outcome(path)
    for level in ("compact", "embed"):
        archive.shrink(path, tmp_path / level, level=level)
        assert outcome((tmp_path / level).rename(tmp_path / f"{level}.pt2")) == expected


@pytest.mark.parametrize("name", [name for name in NAMES if name != "compiled"])
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
    facts = json.loads(well("shrink", path, "-o", tmp_path / "json", "--json"))
    assert (facts["is_compiled"], facts["is_exported"], facts["cut"]) == (True, False, 2232)


def test_an_object_that_stays_whole_is_not_called_cut(tmp_path: Path) -> None:
    (name,) = [one for one in records(package(QUICK)) if one.endswith(".so")]
    path = changed(QUICK, {name: elf_file(appended=member(QUICK, name)).data}, tmp_path)
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
    facts = json.loads(well("inspect", tmp_path / "small.ptdbg", "--json"))
    assert facts["compiled"]["model"]["kernels"] == 6
