"""What commands take from a folder is one table; what should be a model and isn't one is an error by name."""

from __future__ import annotations

import os
import shutil
import tarfile
from typing import TYPE_CHECKING

import pytest

import archive
from archive.app.verbs import VERB_KINDS, VERBS
from archive.batches.reading import listing
from archive.reader.recognition import FileKind, recognise
from archive.reader.recognition.kinds import (
    COMMAND_KINDS,
    FOLDER_KINDS,
    MODEL_ENDINGS,
    NO_MODEL_KINDS,
    STAND_IN_KINDS,
    claims,
    claims_falsely,
)
from tests.support.commands import run
from tests.support.corpus import KINDS, NAMED, ORACLES
from tests.support.exported import EXPORTED, RECORDS

if TYPE_CHECKING:
    from pathlib import Path

WELL = KINDS / "tensors.safetensors"
FALSE = {
    "empty.pt": b"",
    "page.pt2": b"<!doctype html><html>Not found</html>",
    "random.ptl": bytes(range(1, 200)),
    "answer.safetensors": b'{"error": "not found"}',
    "pytorch_model-00001-of-00002.bin": b"<!doctype html><html>Not found</html>",
    "pointer.gguf": b"version https://git-lfs.github.com/spec/v1\nsize 7\n",
    "header.safetensors": WELL.read_bytes()[:100],
    "data.safetensors": WELL.read_bytes()[:-3],
    "part.pth": (KINDS / "legacy_tar.pt").read_bytes(),
}
"""Files that should be models by their names, and are none."""
SAID = {
    "header.safetensors": "invalid header length",
    "data.safetensors": "incomplete metadata, file not fully covered",
}
"""What safetensors' own reader says of those that were cut."""
COMMANDS = {
    "verify": (),
    "inspect": (),
    "sizes": (),
    "leaks": (),
    "digest": (),
    "digest --of weights": (),
    "diff": ("FOLDER",),
    "store add": ("--store", "OUT"),
    "report": ("-o", "OUT"),
    "split": ("-o", "OUT", "-c", "OUT-companions"),
    "shrink": ("-o", "OUT"),
    "restore": ("-o", "OUT"),
    "redact": ("-o", "OUT", "-c", "OUT-companions", "--for", "publish"),
    "migrate": ("-o", "OUT", "--to", "latest"),
}
"""The commands that take folders, and what else each wants; but for `join` and `symbolicate`."""
MAKING = {"split", "shrink", "restore", "redact", "migrate"}


def asked(command: str, folder: Path) -> tuple[int, str]:
    """A command's exit status for a folder, and all that it prints."""
    out = folder.with_name("out")
    words = [{"FOLDER": str(folder)}.get(word, word.replace("OUT", str(out))) for word in COMMANDS[command]]
    words += ["--jobs", "1"] if command in MAKING else []
    done = run(*command.split(), folder, *words)
    return done.returncode, (done.stdout + done.stderr).decode()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "models"
    made.mkdir()
    for name, data in FALSE.items():
        (made / name).write_bytes(data)
    shutil.copy(ORACLES / "plain_stack.pt", made)
    (made / "notes.txt").write_bytes(b"")
    (made / "README").write_bytes(bytes(range(1, 200)))
    (made / "words.bin").write_bytes(bytes(range(1, 200)))
    os.mkfifo(made / "pipe.pt")
    return made


@pytest.mark.parametrize("command", COMMANDS)
def test_what_should_be_a_model_and_is_none_is_an_error_by_name(command: str, folder: Path) -> None:
    status, said = asked(command, folder)
    assert status == 2
    for name in FALSE:
        (line,) = (line for line in said.splitlines() if f"{folder / name}: " in line)
        assert SAID.get(name, "") in line
    for name in ("notes.txt", "README", "words.bin", "pipe.pt"):
        assert f"{folder / name}: " not in said


def test_join_does_not_copy_what_is_no_model(folder: Path, tmp_path: Path) -> None:
    whole, small, debug = folder, tmp_path / "small", tmp_path / "companions"
    small.mkdir()
    debug.mkdir()
    archive.split(ORACLES / "plain_stack.pt", small / "plain_stack.pt", debug / "plain_stack.pt.ptdbg")
    shutil.move(whole / "plain_stack.pt", tmp_path)
    (whole / "pipe.pt").unlink()
    shutil.copytree(whole, small, dirs_exist_ok=True)
    (small / "cut.ptl").write_bytes((ORACLES / "plain_stack.pt").read_bytes()[:900])
    done = run("join", small, "-c", debug, "-o", tmp_path / "out", "--jobs", "1")
    assert done.returncode == 2
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["plain_stack.pt"]
    for name in [*FALSE, "cut.ptl"]:
        (line,) = (line for line in done.stderr.decode().splitlines() if f"{small / name}: " in line)
        assert SAID.get(name, "") in line
    nothing = run("join", whole, "-o", tmp_path / "none")
    assert nothing.returncode == 2
    assert b"should be models, and aren't: " in nothing.stderr


def test_a_cut_file_says_what_safetensors_says(folder: Path) -> None:
    safetensors = pytest.importorskip("safetensors")
    for name in ("header.safetensors", "data.safetensors"):
        with pytest.raises(safetensors.SafetensorError) as caught:
            safetensors.safe_open(folder / name, "np")
        assert SAID[name] == str(caught.value).removeprefix("Error while deserializing header: ")


def test_each_cut_of_safetensors_is_recognised_as_one() -> None:
    data = WELL.read_bytes()
    kinds = [recognise(data[:size]).kind for size in range(10, len(data))]
    assert set(kinds) == {FileKind.CUT_SAFETENSORS}
    assert recognise(data).kind is FileKind.SAFETENSORS


@pytest.mark.parametrize("command", ["store add", "verify"])
def test_a_build_s_output_folder_is_taken(command: str, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    for path in (
        ORACLES / "plain_stack.ptl",
        EXPORTED / "shop.pt2",
        EXPORTED / "legacy" / "shop.pt2",
        RECORDS / "shop.etrecord",
        KINDS / "program.pte",
        WELL,
    ):
        shutil.copy(path, folder / f"{path.parent.name}-{path.name}")
    status, said = asked(command, folder)
    assert status == 0, said


def test_folders_give_no_kind_that_the_command_refuses() -> None:
    for command, kinds in FOLDER_KINDS.items():
        if command in {"digest --of debug", "digest --of file"}:  # of more than a model: the test below
            continue
        assert kinds <= COMMAND_KINDS[command.split()[0]] | {FileKind.SPLIT}, command  # restore copies it
    for verb in VERBS:  # canonicalise is a way of convert
        assert VERB_KINDS[verb] <= COMMAND_KINDS.get(verb.split("_")[0], COMMAND_KINDS["convert"]) | {
            FileKind.SPLIT
        }


@pytest.mark.parametrize("of", ["model", "debug", "file"])
def test_digest_takes_from_a_folder_what_it_takes_by_name(of: str, tmp_path: Path) -> None:
    """But for zips and others that may be anybody's."""
    folder = tmp_path / "models"
    shutil.copytree(KINDS, folder)
    for path in (ORACLES / "plain_stack.ptl", EXPORTED / "shop.pt2", RECORDS / "shop.etrecord"):
        shutil.copy(path, folder)
    archive.split(folder / "plain_stack.ptl", folder / "small.ptl", folder / "small.ptdbg")
    done = run("digest", "--of", of, folder)
    taken = {line.partition("  ")[2] for line in done.stdout.decode().splitlines()}
    models = [
        path for path in folder.iterdir() if path.is_file() and recognise(path).kind not in NO_MODEL_KINDS
    ]
    assert taken >= {str(path) for path in models if run("digest", "--of", of, path).returncode == 0}
    assert (str(folder / "small.ptdbg") in taken) == (of != "model")
    assert (str(WELL).replace(str(KINDS), str(folder)) in taken) == (of == "file")


@pytest.mark.parametrize("command", FOLDER_KINDS)
def test_a_note_names_skipped_files_that_claim_to_be_models(command: str, tmp_path: Path) -> None:
    shutil.copytree(KINDS, tmp_path / "models")
    (tmp_path / "models" / "plain_stack.ptdbg").symlink_to(ORACLES / "plain_stack.pt")
    found = listing([str(tmp_path / "models")], FOLDER_KINDS[command])
    taken = {file.name for file in found.files}
    skipped = {str(path) for path in (tmp_path / "models").rglob("*") if path.is_file()} - taken
    named = [name for name, _ in found.others.claiming]
    assert sorted(named) == sorted(filter(claims, skipped))
    counted, _, names = str(found.others).partition("; named like models: ")
    assert counted.startswith(f"{len(skipped)} (")
    more = f" and {len(named) - 3} more" if len(named) > 3 else ""
    assert names == ", ".join(named[:3]) + more
    assert not any(claims_falsely(name, kind) for name, kind in found.others.claiming)


@pytest.mark.parametrize("command", [*COMMANDS, "symbolicate", "symbolicate, handles"])
def test_each_command_notes_the_files_of_a_folder_that_it_does_not_take(command: str, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    shutil.copy(ORACLES / "plain_stack.pt", folder)
    (folder / "read.txt").write_text("hello")
    (folder / "manifest.jsonl").write_text("{}")
    if command.startswith("symbolicate"):
        words = ("1",) if command.endswith("handles") else ()
        said = run("symbolicate", folder, *words).stderr.decode()
    else:
        _, said = asked(command, folder)
    assert "skipped, files of other kinds: 1 (text: 1)\n" in said


@pytest.mark.parametrize("command", ["inspect", "verify"])
def test_a_whole_old_tar_is_named_and_a_part_of_one_has_failed(command: str, tmp_path: Path) -> None:
    shutil.copy(ORACLES / "plain_stack.pt", tmp_path)
    with tarfile.open(tmp_path / "whole.pt", "w") as tar:
        for name in ("sys_info", "pickle", "storages", "tensors"):
            tar.addfile(tarfile.TarInfo(name))
    whole = run(command, tmp_path)
    said = f"1 (legacy torch.save in a tar: 1); named like models: {tmp_path / 'whole.pt'}"
    assert (whole.returncode, whole.stderr.decode()) == (
        0,
        f"debug-archive: skipped, files of other kinds: {said}\n",
    )
    os.truncate(tmp_path / "whole.pt", 1024)
    part = run(command, tmp_path)
    assert part.returncode == (1 if command == "verify" else 2)
    assert "copy or download the whole file again" in (part.stdout + part.stderr).decode()
    (tmp_path / "whole.pt").rename(tmp_path / "anybodys.tar")
    other = run(command, tmp_path)
    assert (other.returncode, b"(part of a legacy torch.save in a tar: 1)\n" in other.stderr) == (0, True)


def test_no_kind_of_model_is_a_false_one() -> None:
    taken = set().union(*COMMAND_KINDS.values()) - {FileKind.ZIP}
    assert taken.isdisjoint(NO_MODEL_KINDS | STAND_IN_KINDS)
    for ending in MODEL_ENDINGS:
        assert claims_falsely(f"m{ending.upper()}", FileKind.HTML)
        assert not any(claims_falsely(f"m{ending}", kind) for kind in taken)
    for name, (kind, _) in NAMED.items():
        assert claims_falsely(f"{name}.txt", FileKind(kind)) == (kind in STAND_IN_KINDS)


def test_one_that_only_the_new_folder_has_is_an_error_too(folder: Path, tmp_path: Path) -> None:
    old = tmp_path / "old"
    old.mkdir()
    shutil.copy(ORACLES / "plain_stack.pt", old)
    done = run("diff", old, folder)
    assert done.returncode == 2
    for name in FALSE:
        assert f"{folder / name}: " in done.stderr.decode()


@pytest.mark.parametrize("command", [*COMMANDS, "join", "symbolicate", "inventory"])
def test_a_folder_with_only_a_manifest_has_no_files(command: str, tmp_path: Path) -> None:
    """As `split` of models without debug info leaves its folder of companions."""
    folder = tmp_path / "companions"
    folder.mkdir()
    (folder / "manifest.jsonl").write_text("{}\n")
    if command in COMMANDS:
        status, said = asked(command, folder)
    else:
        more = {"join": ("-o", tmp_path / "out"), "symbolicate": (1,), "inventory": ("--inventory",)}[command]
        done = run("inspect" if command == "inventory" else command, folder, *more)
        status, said = done.returncode, (done.stdout + done.stderr).decode()
    assert status == 2
    assert len(said.splitlines()) == 1, said
    assert f"{folder}: no " in said
    assert " in it" in said


@pytest.mark.parametrize("name", ["", "notes.txt"], ids=["empty", "a text"])
def test_redact_names_no_kind_where_a_folder_has_nothing_for_it(name: str, tmp_path: Path) -> None:
    """Without -c archives, companions, safetensors or checkpoints may be meant."""
    folder = tmp_path / "models"
    folder.mkdir()
    if name:
        (folder / name).write_text("words")
    done = run("redact", folder, "-o", tmp_path / "out", "--for", "publish")
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.decode() == f"debug-archive: {folder}: no file in it that is redacted\n"
