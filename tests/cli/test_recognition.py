"""Each command with files of all kinds: it works on those it knows, and names those it refuses."""

from __future__ import annotations

import os
import shutil
import zipfile
from typing import TYPE_CHECKING

import pytest

import archive
from archive import ArchiveError
from archive.check.verify import verify
from archive.container.write import new_member
from archive.reader.recognition import READ_KINDS, FileKind, recognise
from archive.reader.recognition.kinds import ADVICE
from tests.support.commands import WELL, called, files, run, told, well
from tests.support.corpus import KINDS, NAMED, OTHERS, RELEASES, ZIPS
from tests.support.documents import file_of
from tests.support.halves import halves, rezipped
from tests.support.tampering import STACK, packed

if TYPE_CHECKING:
    from pathlib import Path

READ = {
    "exported.pt2": {"symbolicate", "effects", "split", "join", "shrink", "restore", "migrate"},
    "compiled.pt2": {"symbolicate", "effects", "split", "join", "shrink", "restore", "migrate"},
    "etrecord.bin": {"symbolicate", "effects", "split"},
}
"""Commands that read some of these kinds."""
TENSOR_FILES = {"legacy.pt", "model.onnx", "model.gguf", "tensors.safetensors", "program.pte"}
"""Files that are no zips, and opened for their tensors."""
WITH_TENSORS = {"state_dict.pt", "checkpoint.pt", "module.pt", "tensor.pt", "object.pt", "package_python.pt"}
"""Zips that ``archive.open`` opens for their tensors, and for nothing else."""
WITHOUT = {"object.pt", "model.onnx"}
"""Those that have none."""
CHECKED = {"exported.pt2", "compiled.pt2", "etrecord.bin", "repository.zip", *TENSOR_FILES, *WITH_TENSORS}
"""Kinds that ``verify`` checks, too."""
TORCHSCRIPT = RELEASES / "torch-2.13.0" / "nested.pt"
NO_DEBUG = RELEASES / "torch-2.13.0" / "nested-nodebug.ptl"


def unnamed(name: str, folder: Path) -> Path:
    """A copy of a file, under a name that does not tell its kind."""
    path = folder / "file"
    shutil.copy(KINDS / name, path)
    return path


def commands(file: Path, out: Path) -> dict[str, list[object]]:
    """All commands that need an archive or a companion."""
    return {
        "symbolicate": ["symbolicate", file, 42],
        "split": ["split", file, "-o", out],
        "join": ["join", file, "-c", halve(STACK, out), "-o", out],
        "shrink": ["shrink", file, "-o", out],
        "restore": ["restore", file, "-o", out],
        "migrate": ["migrate", file, "-o", out, "--to", "1.9"],
        "effects": ["inspect", file, "--effects"],
    }


def halve(source: Path, out: Path) -> Path:
    """A companion in a file."""
    path = out.with_name("half")
    path.write_bytes(halves(source).companion)
    return path


@pytest.mark.parametrize("name", OTHERS)
def test_every_command_refuses_what_it_does_not_know_and_says_what_it_is(name: str, tmp_path: Path) -> None:
    file, out = unnamed(name, tmp_path), tmp_path / "out"
    asked = commands(file, out)
    if name in {*WITH_TENSORS, "etrecord.bin"}:
        del asked["join"]  # to what `redact` took out, and this is another model's companion
    asked = {command: asked[command] for command in asked.keys() - READ.get(name, set())}
    for arguments in asked.values():
        done = called(*arguments)
        assert isinstance(done.exception, ArchiveError)
        assert str(done.exception) == f"{file}: {NAMED[name][1]}"
    assert not out.exists()
    if name in READ:
        archive.open(file).close()
        return
    if name in WITH_TENSORS | TENSOR_FILES:
        assert bool(archive.open(file).tensors) == (name not in WITHOUT)
    with pytest.raises(ArchiveError) as caught:
        archive.open(file, kinds=READ_KINDS if name in WITH_TENSORS | TENSOR_FILES else None)
    assert str(caught.value) == f"{file}: {NAMED[name][1]}"


@pytest.mark.parametrize("name", ["split", "join", "shrink", "restore", "migrate", "symbolicate"])
def test_a_companion_that_is_taken_for_an_archive_is_named_too(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    half = halve(STACK, out)
    arguments = {**commands(half, out), "symbolicate": ["symbolicate", half, 42, "-c", half]}[name]
    problem = f"a companion, the debug info of an archive: {ADVICE[FileKind.COMPANION]}"
    assert str(called(*arguments).exception) == f"{half}: {problem}"
    assert not out.exists()


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_no_companion_is_named_too(name: str, tmp_path: Path) -> None:
    file, out = unnamed(name, tmp_path), tmp_path / "out"
    what = recognise(file).what
    for arguments in (
        ["convert", file, "-o", out, "--layout", "mapped"],
        ["join", STACK, "-c", file, "-o", out],
        ["symbolicate", STACK, "42", "-c", file],
    ):
        assert str(called(*arguments).exception) == f"{file}: expected a companion, found {what}"
    assert not out.exists()


def test_a_broken_zip_is_no_companion(tmp_path: Path) -> None:
    data = bytearray(STACK.read_bytes())
    data[0] ^= 1
    path = tmp_path / "broken"
    path.write_bytes(data)
    done = called("symbolicate", STACK, "42", "-c", path)
    assert str(done.exception) == f"{path}: expected a companion, found a broken zip"


@pytest.mark.parametrize(
    "name", [name for name in OTHERS if name not in {*ZIPS, *TENSOR_FILES, "etdump.bin"}]
)
def test_inspect_and_sizes_refuse_what_is_no_zip(name: str) -> None:
    for command in ("inspect", "sizes"):
        done = called(command, KINDS / name)
        assert str(done.exception) == f"{KINDS / name}: {NAMED[name][1]}"


@pytest.mark.parametrize("name", [name for name in OTHERS if name not in CHECKED])
def test_verify_calls_nothing_well_or_broken_that_it_did_not_check(name: str) -> None:
    (finding,) = verify(KINDS / name)
    damaged = name in ("cut.pt", "empty.pt", "legacy_tar.pt")
    assert finding.severity == ("error" if damaged else "not checked")
    assert finding.message == NAMED[name][1]
    for options in ([], ["--quiet"]):
        done = called("verify", KINDS / name, STACK, *options)
        assert done.exit_code == (1 if damaged else 2)
        *lines, total = done.stdout.splitlines()
        assert lines == [f"{KINDS / name}: {finding.severity}: {finding}", f"{STACK}: {WELL}"]
        counts = "1 with findings, 0 not checked" if damaged else "0 with findings, 1 not checked"
        assert total == f"2 files: 1 well, {counts}"
    facts = file_of(called("verify", KINDS / name, "--json").stdout)
    assert facts == {
        "file": str(KINDS / name),
        "diagnostics": [
            {"severity": finding.severity, "record": "", "place": "", "message": finding.message}
        ],
        "checked": [],
        "unchecked": [],
    }


def test_what_is_no_file_hides_no_other() -> None:
    for way in ([], ["--no-map"]):
        done = called("verify", *way, "/dev/null", STACK)
        assert done.stdout.startswith("/dev/null: error: expected a file, found c")
        assert done.stdout.splitlines()[-2] == f"{STACK}: {WELL}"


# --- inspect and sizes of any zip


def test_inspect_shows_the_tensors_of_a_state_dict() -> None:
    facts = told("inspect", KINDS / "state_dict.pt")
    assert facts["kind"] == "state dict"
    assert facts["tensors"] == {
        "scale": {"dtype": "float64", "shape": [2], "bytes": 16, "storage": "0"},
        "fc.weight": {"dtype": "float32", "shape": [3, 2], "bytes": 24, "storage": "1"},
        "fc.bias": {"dtype": "float32", "shape": [2], "bytes": 8, "storage": "2"},
    }
    shown = well("inspect", KINDS / "state_dict.pt").splitlines()
    what, _, advice = NAMED["state_dict.pt"][1].partition(": ")
    assert shown[0] == f"{KINDS / 'state_dict.pt'}: 2,236 bytes, {what}"
    assert shown[1] == advice.partition("; ")[0]
    assert "fc.weight   float32   3 x 2      24   1" in [line.strip() for line in shown]


def test_tensors_are_named_by_the_way_to_them() -> None:
    names = {name: list(_tensors(name)) for name in ("checkpoint.pt", "module.pt", "tensor.pt", "object.pt")}
    assert names == {
        "checkpoint.pt": [
            *("model.scale", "model.fc.weight", "model.fc.bias"),
            *("optimizer.state.0.momentum_buffer", "optimizer.state.1.momentum_buffer"),
        ],
        "module.pt": ["scale", "fc.weight", "fc.bias"],
        "tensor.pt": [""],
        "object.pt": [],
    }
    assert _tensors("tensor.pt")[""] == {"dtype": "uint16", "shape": [4], "bytes": 8, "storage": "0"}


def _tensors(name: str) -> dict[str, object]:
    tensors = told("inspect", KINDS / name)["tensors"]
    assert isinstance(tensors, dict)
    return tensors


@pytest.mark.parametrize("name", ZIPS)
def test_inspect_and_sizes_show_what_is_in_any_zip(name: str) -> None:
    facts = told("inspect", KINDS / name)
    with zipfile.ZipFile(KINDS / name) as expected:
        root = f"{facts['root']}/" if facts["root"] else ""
        sizes = {info.filename.removeprefix(root): info.file_size for info in expected.infolist()}
    records = facts["records"]
    assert isinstance(records, dict)
    assert {record: one["size"] for record, one in records.items()} == sizes
    account = archive.sizes(KINDS / name)
    assert sum(size.stored for size in account.by("record").values()) == (KINDS / name).stat().st_size
    assert set(sizes) <= set(account.by("record"))
    assert well("sizes", KINDS / name).splitlines()[-1].startswith("total")


# --- a folder


def test_a_folder_takes_what_is_an_archive_whatever_its_ending(tmp_path: Path) -> None:
    folder, out = tmp_path / "models", tmp_path / "out"
    shutil.copytree(KINDS, folder)
    for number, ending in enumerate(("jit", "jpt", "pth", "torchscript", "model", "")):
        shutil.copy(TORCHSCRIPT, folder / f"{number}.{ending}")
    (folder / "model.ptdbg").write_bytes(halves(STACK).companion)
    by_name = ("cut.pt", "answer.pt", "note.pt", "empty.pt", "page.pt", "pointer.pt", "legacy_tar.pt")
    for name in by_name:  # models by their names alone
        (folder / name).unlink()
    done = called("split", folder, "-o", out, "-c", tmp_path / "companions", "-j", 1)
    taken = ["0.jit", "1.jpt", "2.pth", "3.torchscript", "4.model", "5.", "compiled.pt2", "etrecord.bin"]
    taken += ["exported.pt2", "package.pt"]
    assert (files(out), done.exit_code) == (sorted(taken), 1)
    assert files(tmp_path / "companions") == sorted([*(f"{name}.ptdbg" for name in taken), "manifest.jsonl"])
    assert (
        f"{folder / 'flatbuffer.ptl'}: impossible: a lite model in a flatbuffer: this tool reads zips"
        in done.stdout
    )
    named = ("checkpoint.pt", "legacy.pt", "model.gguf")
    assert done.stderr == LEFT_OUT.format(", ".join(str(folder / name) for name in named))


LEFT_OUT = (
    "debug-archive: skipped, files of other kinds: 20 "
    "(ETDump: 1, ExecuTorch program: 1, GGUF: 1, "
    "ONNX model: 1, bzip2: 1, checkpoint: 1, gzip: 1, "
    "legacy torch.save: 1, safetensors: 1, saved object: 2, state dict: 1, "
    "tar: 1, text: 1, torch.package without TorchScript: 1, whole module: 1, xz: 1, zip: 2, zstd: 1); "
    "named like models: {} and 8 more\n"
)


def test_a_pipe_in_a_folder_is_never_opened(tmp_path: Path) -> None:
    models = tmp_path / "models"
    models.mkdir()
    shutil.copy(STACK, models)
    os.mkfifo(models / "pipe.ptl")
    done = called("shrink", models, "-o", tmp_path / "out")
    assert (done.exit_code, files(tmp_path / "out")) == (0, ["plain_stack.ptl"])
    named = f"1 (unknown: 1); named like models: {models / 'pipe.ptl'}\n"
    assert done.stderr == f"debug-archive: skipped, files of other kinds: {named}"


def test_a_folder_without_archives_says_what_it_has(tmp_path: Path) -> None:
    shutil.copy(KINDS / "page.pt", tmp_path / "page.html")
    done = called("shrink", tmp_path, "-o", tmp_path / "out")
    problem = f"{tmp_path}: no archive in it, but other files: 1 (HTML page: 1)"
    assert str(done.exception) == problem


def test_a_folder_of_archives_alone_says_so_where_companions_are_wanted(tmp_path: Path) -> None:
    shutil.copy(STACK, tmp_path)
    done = called("redact", tmp_path, "--for", "publish", "-o", tmp_path / "out")
    problem = f"{tmp_path}: no companion in it, but other files: 1 (lite archive: 1)"
    assert str(done.exception) == problem


def test_a_listing_names_the_limit_that_tensors_need(tmp_path: Path) -> None:
    file = tmp_path / "deep"
    nested = packed([new_member("data.pkl", b"\x80\x02" + b"]" * 5000 + b".")])
    file.write_bytes(rezipped(nested, zipfile.ZIP_DEFLATED))
    done = run("inspect", file, "--limit", "memory=1000000")
    assert (done.returncode, done.stdout) == (2, b"")
    assert b"data.pkl, byte 3" in done.stderr
    assert b"--limit memory=2M" in done.stderr
    assert "not known" not in well("inspect", file)
