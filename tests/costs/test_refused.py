"""A command that does nothing with a kind of files says so from the file's head, however much follows.

A step is a line of Python that runs, or a call, as in ``test_doubling.py``: the same number on any machine.
"""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING

import pytest

from archive.formats.tensor_files import LEGACY_MAGIC
from archive.reader.recognition import recognise
from archive.reader.recognition.kinds import COMMAND_KINDS, FileKind
from tests.attacks.many import code_records, tensors
from tests.attacks.pieces import pickled
from tests.attacks.zips import entry, zipped
from tests.costs.test_doubling import steps
from tests.support.commands import run
from tests.support.corpus import KINDS, NAMED

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FEW, MANY = 2_000, 8_000
"""Tensors, records, or names."""
STEPS = 30
"""For each name that is more in a zip's directory, or in a header: what it says is read, and no more."""
SLACK = 500
NEED_TORCH = {"lite", "profile", "run"}
"""Commands that import PyTorch: they are refused by the same words, once it is there."""
WORDS = {
    "symbolicate": "m.pt 1",
    "report": "m.pt -o page.html",
    "diff": "m.pt m.pt",
    "split": "m.pt -o out -c out.ptdbg",
    "join": "m.pt -c none.ptdbg -o out",
    "shrink": "m.pt -o out",
    "restore": "m.pt -o out",
    "redact": "m.pt -o out -c out.ptdbg",
    "migrate": "m.pt -o out --to latest",
    "store": "add m.pt --store symbols",
    "convert": "m.pt -o out",
}
"""What follows a command; of all others, a file."""


def records(count: int) -> bytes:
    """An object that torch.save wrote, with storages of its own."""
    stored = (entry(f"m/data/{at}", bytes(4)) for at in range(count))
    return zipped(entry("m/data.pkl", pickled(b"}")), *stored, entry("m/version", b"3\n"))


def legacy(count: int) -> bytes:
    """The same in the format before PyTorch 1.6."""
    names = {f"layer{at}.w": (at, at) for at in range(count)}
    return b"".join(pickle.dumps(one, 2) for one in (LEGACY_MAGIC, 1001, {}, names))


def safetensors(count: int) -> bytes:
    """A header of tensors."""
    header = json.dumps(
        {f"layer{at}": {"dtype": "U8", "shape": [1], "data_offsets": [at, at + 1]} for at in range(count)}
    ).encode()
    return len(header).to_bytes(8, "little") + header + bytes(count)


def longer(name: str) -> Callable[[int], bytes]:
    """A fixture, with bytes after it."""
    data = (KINDS / name).read_bytes()
    return lambda count: data + bytes(100 * count)


HEADS = {
    name: longer(name)
    for name, (kind, _) in NAMED.items()
    if kind
    in {
        *(
            FileKind.FLATBUFFER,
            FileKind.EXECUTORCH,
            FileKind.ONNX,
            FileKind.GGUF,
            FileKind.HTML,
            FileKind.JSON,
        ),
        *(FileKind.GZIP, FileKind.XZ, FileKind.BZIP2, FileKind.ZSTD, FileKind.TAR, FileKind.LEGACY_TAR),
        *(FileKind.LFS, FileKind.ETDUMP),
    }
}
MADE: dict[str, Callable[[int], bytes]] = {
    made.__name__: made for made in (tensors, records, legacy, safetensors, code_records)
} | HEADS
REFUSED = [
    (name, command)
    for name, made in MADE.items()
    for command, kinds in COMMAND_KINDS.items()
    if command not in NEED_TORCH and recognise(made(10)).kind not in kinds
]


@pytest.mark.parametrize("name", MADE)
def test_what_is_refused_is_refused_by_its_head(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    exceeding = {}
    for command in (command for refused, command in REFUSED if refused == name):
        words = [command, *WORDS.get(command, "m.pt").split()]
        taken = []
        for count in (FEW, FEW, MANY):  # what is done once a process is no step of the file's
            (tmp_path / "m.pt").write_bytes(MADE[name](count))
            taken.append(steps(*words))
        done = run(*words)
        if done.returncode != 2 or taken[2] - taken[1] > STEPS * (MANY - FEW) + SLACK:
            exceeding[command] = (done.returncode, taken, done.stderr[-200:])
    assert exceeding == {}
