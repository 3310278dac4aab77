"""``diff`` and ``digest`` of large checkpoints, as ratios to ``cmp`` and ``sha256sum`` of the same files.

Each command is a process of its own. ``cmp`` reads two equal files to their ends; it would stop at the first
byte of two that differ, so it is the peer of both.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from tools.bench.measuring import COMMAND, Aim, Table, run

if TYPE_CHECKING:
    from collections.abc import Iterator

ROUNDS = 5
WIDTH = 2048
"""Rows and columns of a weight: 16 MiB of float32."""
WEIGHTS = 60

DIFFERENT = "diff, all elements differ"
GOALS = {"diff, identical": 2, DIFFERENT: 2, "digest": 1.2}
REASONS = {DIFFERENT: "each element is looked at, and start-up is a third"}


def checkpoint(path: Path, weights: int, noise: float) -> None:
    """Write weights, each with some noise; the same ones for no noise."""
    torch.manual_seed(0)
    made = {f"layers.{number}.weight": torch.randn(WIDTH, WIDTH) for number in range(weights)}
    if noise:
        made = {name: weight + noise * torch.randn(WIDTH, WIDTH) for name, weight in made.items()}
    torch.save(made, path)


def clock(words: tuple[str, ...], folder: Path) -> float:
    """Seconds that a process takes: reading counts, which is no work of the processor."""
    start = time.perf_counter()
    run(*words, statuses=(0, 1), folder=folder)
    return time.perf_counter() - start


def measure(_: Path) -> Iterator[Table | Aim]:
    """Commands take turns; the fastest of each counts."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, noise in (("one/m.pt", 0.0), ("two/m.pt", 0.0), ("three/m.pt", 1e-3)):
            (folder / file).parent.mkdir()
            checkpoint(folder / file, WEIGHTS, noise)
        size = (folder / "one/m.pt").stat().st_size
        commands = {
            "cmp": ("cmp", "one/m.pt", "two/m.pt"),
            "sha256sum": ("sha256sum", "one/m.pt"),
            "diff, identical": (*COMMAND, "diff", "one/m.pt", "two/m.pt"),
            DIFFERENT: (*COMMAND, "diff", "one/m.pt", "three/m.pt"),
            "digest": (*COMMAND, "digest", "one/m.pt"),
        }
        rounds = [{name: clock(words, folder) for name, words in commands.items()} for _ in range(ROUNDS)]
    times = {name: min(times[name] for times in rounds) for name in commands}
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
