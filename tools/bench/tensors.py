"""``diff`` and ``digest`` of large checkpoints, as ratios to ``cmp`` and ``sha256sum`` of the same files.

Each command is a process of its own. ``cmp`` reads two equal files to their ends; it would stop at the first
byte of two that differ, so it is the peer of both. ``split`` of a ResNet, whose tensors are nearly all of it,
stands beside ``sha256sum`` and ``cp``.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from tools.bench.measuring import COMMAND, Aim, Table, run
from tools.models import built

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 2
SPLIT_ROUNDS = 3
HASHES = (
    "BLAKE2b of all tensors, three times, is more than half of it: the ids of the archive and of what was "
    "written, and the digest by which `join` proves the file"
)
WIDTH = 2048
"""Rows and columns of a weight: 16 MiB of float32."""
WEIGHTS = 60

DIFFERENT = "diff, all elements differ"
GOALS = {"diff, identical": 2, DIFFERENT: 2, "digest": 1.2}
REASONS = {DIFFERENT: "each element is looked at, and start-up is a third"}


def checkpoints(folder: Path) -> None:
    """Write weights, the same again, and others whose elements all differ from them."""
    torch.manual_seed(0)
    made = {f"layers.{number}.weight": torch.randn(WIDTH, WIDTH) for number in range(WEIGHTS)}
    for name in ("one", "two", "three"):
        (folder / name).mkdir()
        if name == "three":
            for weight in made.values():
                weight.mul_(1.001)
        torch.save(made, folder / name / "m.pt")


def clock(words: tuple[str, ...], folder: Path) -> float:
    """Seconds that a process takes: reading counts, which isn't work of the processor."""
    start = time.perf_counter()
    run(*words, statuses=(0, 1), folder=folder)
    return time.perf_counter() - start


def fastest(commands: dict[str, tuple[str, ...]], folder: Path, rounds: int) -> dict[str, float]:
    """Seconds of each command at its best; they take turns."""
    times = [{name: clock(words, folder) for name, words in commands.items()} for _ in range(rounds)]
    return {name: min(turn[name] for turn in times) for name in commands}


def resnet(folder: Path) -> Iterator[Table | Aim]:
    """``split`` of 100 MB of tensors with little debug information."""
    size = len(built("resnet", folder))
    with tempfile.TemporaryDirectory() as name:
        source = str((folder / "resnet.pt").resolve())
        commands = {
            "sha256sum": ("sha256sum", source),
            "cp": ("cp", source, "copy.pt"),
            "split": (*COMMAND, "split", source, "-o", "out.pt", "-c", "out.ptdbg", "--force"),
        }
        times = fastest(commands, Path(name), SPLIT_ROUNDS)
    rows = [
        (f"`{name}`", f"{seconds:.2f} s", f"{seconds / times['sha256sum']:.2f}x")
        for name, seconds in times.items()
    ]
    note = f"By the clock, start-up included: {size / 1e6:.1f} MB."
    yield Table("A ResNet, split", ("command", "time", "of `sha256sum`"), rows, note)
    yield Aim("`split` of a ResNet of 102.6 MB", times["split"], 0.7, " s", reason=HASHES)


def measure(folder: Path) -> Iterator[Table | Aim]:
    """Large checkpoints, and a large model."""
    yield from large()
    yield from resnet(folder / "models")


def large() -> Iterator[Table | Aim]:
    """Commands take turns; the fastest of each counts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        checkpoints(folder)
        size = (folder / "one/m.pt").stat().st_size
        commands = {
            "cmp": ("cmp", "one/m.pt", "two/m.pt"),
            "sha256sum": ("sha256sum", "one/m.pt"),
            "diff, identical": (*COMMAND, "diff", "one/m.pt", "two/m.pt"),
            DIFFERENT: (*COMMAND, "diff", "one/m.pt", "three/m.pt"),
            "digest": (*COMMAND, "digest", "one/m.pt"),
        }
        times = fastest(commands, folder, ROUNDS)
    peers = {name: "sha256sum" if name in {"sha256sum", "digest"} else "cmp" for name in commands}
    rows = [
        (f"`{name}`", f"{seconds:.2f} s", peers[name], f"{seconds / times[peers[name]]:.2f}x")
        for name, seconds in times.items()
    ]
    note = (
        f"By the clock, start-up included: checkpoints of {size / 1e9:.2f} GB, {WEIGHTS} weights of float32."
    )
    yield Table("Large checkpoints", ("command", "time", "peer", "of the peer's"), rows, note)
    for name, goal in GOALS.items():
        seconds, peer = times[name], peers[name]
        yield Aim(
            f"`{name}` of 1 GB, of `{peer}`", seconds / times[peer], goal, "x", reason=REASONS.get(name, "")
        )
