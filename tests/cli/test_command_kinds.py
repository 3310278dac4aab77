"""Each command, run on a file of each kind, works on those that it is said to work on."""

from __future__ import annotations

import io
import json
import re
import shutil
from typing import TYPE_CHECKING

import numpy as np
import pytest

import archive
from archive.cli.commands import COMMANDS
from archive.formats.record_kinds import CALLSTACK_MAP, METHOD_HANDLES, RANGES_SUFFIX
from archive.reader.recognition import FileKind, recognise
from archive.reader.recognition.kinds import ADVICE, COMMAND_KINDS, OF_DEBUG_INFO, Recognised
from tests.support import onnx_bytes
from tests.support.commands import run
from tests.support.corpus import KINDS, NAMED, ORACLES
from tests.support.etdumps import dump, values_of
from tests.support.exported import EXPORTED, RECORDS, record, written
from tests.support.sampling import sampled
from tests.support.tampering import without

if TYPE_CHECKING:
    from pathlib import Path

FAILED = 2
"""The exit status of a command that does not work on a file."""
OF_NO_FILE = {"serve", "demo", "help"}
NEED_PYTORCH = {"lite", "profile", "run"}
ENDINGS = (".pt", ".zip", ".safetensors", ".gguf", ".onnx")
FILES = {
    FileKind.TORCHSCRIPT: ORACLES / "plain_stack.pt",
    FileKind.LITE: ORACLES / "plain_stack.ptl",
    FileKind.SPLIT: ORACLES / "plain_stack.pt",
    FileKind.COMPANION: ORACLES / "plain_stack.pt",
    FileKind.EXPORTED: EXPORTED / "shop.pt2",
    FileKind.LEGACY_EXPORTED: EXPORTED / "legacy" / "shop.pt2",
    FileKind.ETRECORD: RECORDS / "shop.etrecord",
    **{kind: KINDS / name for name, (kind, _) in reversed(NAMED.items()) if name.endswith(ENDINGS)},
    FileKind.ETDUMP: dump("device"),
    FileKind.EXECUTORCH: RECORDS / "shop.pte",
}
"""A file of each kind that some command works on, or what is split into one."""
RUN_WITH: dict[FileKind, tuple[object, ...]] = {
    FileKind.EXPORTED: ("--input", "random:0"),
    FileKind.AOTI: ("--input", "3x4", "--input", "3x4", "--input", "3:int64"),
    FileKind.ETRECORD: ("--input", "random:0"),
    FileKind.ETDUMP: ("-c", record("device"), "--buffer", values_of("device")),
}
"""What `run` is given beside the file."""
SAID = [kind for kind in FileKind if any(kind in kinds for kinds in COMMAND_KINDS.values())]


def file_of(kind: FileKind, folder: Path) -> tuple[Path, Path]:
    """A file of a kind, and the companion of a split archive."""
    if kind is FileKind.AOTI:
        return written("compiled", folder), folder
    if kind is FileKind.ONNX:  # the one of KINDS has no weights
        model = folder / "model.onnx"
        model.write_bytes(onnx_bytes.model({"weight": np.ones(2, np.float32)}))
        return model, folder
    if kind is FileKind.SHARDED:
        shard = shutil.copy(KINDS / "tensors.safetensors", folder)
        with archive.open(shard) as opened:
            names = dict.fromkeys(opened.tensors, "tensors.safetensors")
        index = folder / "model.safetensors.index.json"
        index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": names}))
        return index, folder
    small, companion = folder / "small.pt", folder / "small.ptdbg"
    archive.split(ORACLES / "plain_stack.pt", small, companion)
    if kind is FileKind.SPLIT:
        return small, companion
    return (companion if kind is FileKind.COMPANION else FILES[kind]), companion


def status(command: str, kind: FileKind, folder: Path) -> int:
    """The exit status of a command on a file of a kind."""
    file, companion = file_of(kind, folder)
    out, aside, debug = folder / "out", folder / "aside", folder / "out.ptdbg"
    if command == "join" and kind is not FileKind.SPLIT:
        # What one command has taken out is put back; a file of which none takes something is refused.
        made = run("split", file, "-o", out, "-c", debug)
        if made.returncode:
            made = run("redact", file, "-o", out, "-c", debug, "--paths", "basename")
        file, companion = (out, debug) if made.returncode == 0 else (file, companion)
    if command == "restore" and run("shrink", file, "-o", out, "--level", "embed").returncode == 0:
        file = out
    in_layout = ("--layout", "mapped") if kind is FileKind.COMPANION else ("--canonical",)
    arguments: dict[str, tuple[object, ...]] = {
        "report": ("report", file, "-o", aside),
        "diff": ("diff", file, file),
        "digest": ("digest", file, "--of", "weights"),
        "split": ("split", file, "-o", aside, "-c", debug),
        "join": ("join", file, "-c", companion, "-o", aside),
        "redact": (
            *("redact", file, "-o", aside, "--paths", "basename"),
            *(() if kind in {FileKind.COMPANION, FileKind.SAFETENSORS} else ("-c", debug)),
        ),
        "migrate": ("migrate", file, "-o", aside, "--to", "latest"),
        "profile": (
            *("profile", file),
            *(() if kind in {FileKind.ETDUMP, FileKind.EXPORTED} else ("--input", "3x4", "--runs", "1")),
            *(("-c", companion) if kind is FileKind.SPLIT else ()),
        ),
        "run": (
            *("run", file),
            *RUN_WITH.get(kind, ("--input", "3x4")),
            *(("-c", companion) if kind is FileKind.SPLIT else ()),
        ),
        "store": ("store", "add", file, "--store", folder / "store"),
        "convert": ("convert", file, "-o", aside, *in_layout),
        **{name: (name, file, "-o", aside) for name in ("shrink", "restore", "lite")},
    }
    return run(*arguments.get(command, (command, file))).returncode


def test_every_command_but_those_of_no_file_is_said_to_work_on_some() -> None:
    assert list(COMMAND_KINDS) == [name for name in COMMANDS if name not in OF_NO_FILE]


@pytest.mark.parametrize("kind", sampled(SAID, most=6), ids=lambda kind: kind.name)
def test_a_command_works_on_the_kinds_that_it_is_said_to_work_on(kind: FileKind, tmp_path: Path) -> None:
    works = {}
    for command in [name for name in COMMAND_KINDS if name not in NEED_PYTORCH]:
        folder = tmp_path / command
        folder.mkdir()
        works[command] = status(command, kind, folder) != FAILED
    assert works == {name: kind in COMMAND_KINDS[name] for name in works}


@pytest.mark.torch
@pytest.mark.parametrize("kind", sampled(SAID, most=6), ids=lambda kind: kind.name)
@pytest.mark.parametrize("command", sorted(NEED_PYTORCH))
def test_what_needs_pytorch_works_on_what_pytorch_loads(command: str, kind: FileKind, tmp_path: Path) -> None:
    assert (status(command, kind, tmp_path) != FAILED) == (kind in COMMAND_KINDS[command])


@pytest.mark.torch
@pytest.mark.parametrize(
    "kind", [FileKind.LEGACY_EXPORTED, FileKind.STATE_DICT, FileKind.COMPANION, FileKind.PACKAGE]
)
@pytest.mark.parametrize("command", ["lite", "profile"])
def test_what_needs_pytorch_says_what_a_file_is_that_it_does_not_work_on(
    command: str, kind: FileKind, tmp_path: Path
) -> None:
    file, _ = file_of(kind, tmp_path)
    done = run(command, file, *(("-o", tmp_path / "out") if command == "lite" else ()))
    assert ADVICE[kind].encode() in done.stderr


def test_the_sentence_names_all_commands_that_work() -> None:
    assert str(Recognised(FileKind.AOTI, "x")) == (
        "x: all commands but `migrate`, `lite`, `profile` and `convert` work on it"
    )
    assert str(Recognised(FileKind.LEGACY_EXPORTED, "x")) == (
        "x: `inspect`, `symbolicate`, `report`, `verify`, `leaks`, `sizes`, `diff`, `digest`, `join` and "
        "`redact` work on it; `split`, `shrink`, `restore`, `profile`, `run`, `store` and `convert` do once "
        "PyTorch 2.8 or later exports the model again"
    )


NAME = r"`\w+(?: --of weights)?`"
WORKS = re.compile(rf"(?P<but>all commands but )?(?P<names>{NAME}(?:(?:, | and ){NAME})*) work on")


def said_to_work(sentence: str) -> set[str]:
    """The commands that a sentence says work on a file."""
    found = WORKS.search(sentence)
    assert found, sentence
    names = set(re.findall(r"`(\w+)[^`]*`", found["names"]))
    return COMMAND_KINDS.keys() - names if found["but"] else names


@pytest.mark.parametrize("kind", SAID, ids=lambda kind: kind.name)
def test_a_sentence_that_lists_what_works_lists_all_of_it(kind: FileKind, tmp_path: Path) -> None:
    of_kind = {command for command, kinds in COMMAND_KINDS.items() if kind in kinds}
    assert said_to_work(ADVICE[kind]) == of_kind
    data = file_of(kind, tmp_path)[0].read_bytes()
    assert said_to_work(str(recognise(io.BytesIO(data)))) == of_kind


@pytest.mark.parametrize("gone", ["was taken out, or never saved", "was taken out"])
def test_of_a_file_without_debug_info_it_lists_all_that_need_none(gone: str) -> None:
    of_debug_info = {CALLSTACK_MAP} if gone == "was taken out" else {CALLSTACK_MAP, METHOD_HANDLES}
    bare = without(
        ORACLES / "plain_stack.ptl", lambda name: name in of_debug_info or name.endswith(RANGES_SUFFIX)
    )
    recognised = recognise(io.BytesIO(bare))
    of_lite = {command for command, kinds in COMMAND_KINDS.items() if FileKind.LITE in kinds}
    assert said_to_work(str(recognised)) == of_lite - OF_DEBUG_INFO
    assert str(recognised).startswith(f"a lite archive whose debug info {gone}: ")
    assert recognised.reason == "there is none to work on"


def test_a_file_is_of_the_kind_that_it_stands_for(tmp_path: Path) -> None:
    for kind in SAID:
        folder = tmp_path / kind.name
        folder.mkdir()
        assert recognise(io.BytesIO(file_of(kind, folder)[0].read_bytes())).kind is kind
