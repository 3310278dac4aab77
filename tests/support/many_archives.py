"""Folders of archives that differ from one another by a record, and what a batch made of them."""

from __future__ import annotations

import io
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save

import archive
from archive.container.write import member_from, new_member, write_archive
from tests.support.corpus import ORACLES, RELEASES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from archive import Limits
    from archive.batches.working import Made
    from archive.io.output import Sink

STACK = ORACLES / "plain_stack.ptl"
NESTED = RELEASES / "torch-2.13.0" / "nested.ptl"
MANIFEST = "manifest.jsonl"


def numbered(number: int, source: Path = STACK) -> bytes:
    """An archive with a record that only the archive of this number has."""
    out = io.BytesIO()
    with archive.open(source) as opened:
        members = [member_from(record) for record in opened.container.records.values()]
        write_archive(out, opened.root, [*members, new_member("extra/number", str(number).encode())])
    return out.getvalue()


def saved_tensors(number: int) -> bytes:
    """A file of safetensors, whose metadata has a path."""
    return save({"w": np.full(3, number, np.float32)}, metadata={"path": f"/home/ann/run/{number}"})


def make_archives(folder: Path, count: int) -> dict[str, bytes]:
    """Fill a folder with archives, a hundred in each of its folders; their names and contents."""
    made = {f"{number // 100:03}/{number:06}.ptl": numbered(number) for number in range(count)}
    for name, data in made.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return made


def beside(out: Path) -> Path:
    """The manifest of a folder of results."""
    return out.with_name(f"{out.name}.{MANIFEST}")


def manifest(path: Path) -> list[dict[str, Any]]:
    """The lines of a manifest, each of which is whole."""
    text = path.read_text("utf-8")
    assert text.endswith("\n") or not text
    return [json.loads(line) for line in text.splitlines()]


def kinds(outcomes: Iterable[Made]) -> list[str]:
    return [str(outcome.kind) for outcome in outcomes]


def split_and_killed(
    source: str, out: Sink, companion: Sink, *, force: bool, limits: Limits
) -> archive.Split:
    """``split``, which of two archives kills its process: once before it writes, and once before it tells."""
    number = Path(source).stem
    killer = Path(source).parents[2] / f"{number}.killed"
    doomed = number in {"000003", "000006"} and not killer.exists()
    if doomed:
        killer.touch()
    if doomed and number == "000003":
        os.kill(os.getpid(), signal.SIGKILL)
    result = archive.split(source, out, companion, force=force, limits=limits)
    if doomed:
        os.kill(os.getpid(), signal.SIGKILL)
    return result
