"""``diff`` and ``digest`` of large checkpoints, as ratios to ``cmp`` and ``sha256sum`` of the same files.

    python -m tools.bench_tensors           three checkpoints of 1 GB, in a temporary folder
    python -m tools.bench_tensors 0.25      of 0.25 GB

Each command is a process of its own. Commands take turns, and the fastest of ``ROUNDS`` counts. ``cmp`` reads
two equal files to their ends; it would stop at the first byte of two that differ, so it is the peer of both.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

ROUNDS = 5
WIDTH = 2048
"""Rows and columns of a weight: 16 MiB of float32."""
COMMAND = (sys.executable, "-m", "archive")

DIFFERENT = "diff, all elements differ"


def checkpoint(path: Path, weights: int, noise: float) -> None:
    """Write weights, each with some noise; the same ones for no noise."""
    torch.manual_seed(0)
    made = {f"layers.{number}.weight": torch.randn(WIDTH, WIDTH) for number in range(weights)}
    if noise:
        made = {name: weight + noise * torch.randn(WIDTH, WIDTH) for name, weight in made.items()}
    torch.save(made, path)


def fastest(commands: dict[str, tuple[str, ...]], folder: Path) -> dict[str, float]:
    """Seconds of each command: the fastest of several rounds."""
    found: dict[str, float] = {}
    for _ in range(ROUNDS):
        for name, words in commands.items():
            start = time.perf_counter()
            done = subprocess.run(words, cwd=folder, stdout=subprocess.DEVNULL, check=False)  # noqa: S603
            assert done.returncode == (name == DIFFERENT), name
            found[name] = min(found.get(name, float("inf")), time.perf_counter() - start)
    return found


def main(gigabytes: float) -> None:
    """Print a table."""
    weights = round(gigabytes * 1e9 / (4 * WIDTH * WIDTH))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, noise in (("one/m.pt", 0.0), ("two/m.pt", 0.0), ("three/m.pt", 1e-3)):
            (folder / file).parent.mkdir()
            checkpoint(folder / file, weights, noise)
        size = (folder / "one/m.pt").stat().st_size
        commands = {
            "cmp": ("cmp", "one/m.pt", "two/m.pt"),
            "sha256sum": ("sha256sum", "one/m.pt"),
            "diff, identical": (*COMMAND, "diff", "one/m.pt", "two/m.pt"),
            DIFFERENT: (*COMMAND, "diff", "one/m.pt", "three/m.pt"),
            "digest": (*COMMAND, "digest", "one/m.pt"),
        }
        found = fastest(commands, folder)
    print(f"\n## Checkpoints of {size / 1e9:.2f} GB, {weights} weights of float32\n")
    print("| command | seconds | peer | ratio |\n| --- | --- | --- | --- |")
    for command, seconds in found.items():
        peer = "sha256sum" if command in ("sha256sum", "digest") else "cmp"
        print(f"| {command} | {seconds:.2f} | {peer} | {seconds / found[peer]:.2f} |")


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 1.0)
