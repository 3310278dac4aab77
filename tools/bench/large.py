"""Every verb on one large model, in times of ``torch.jit.load`` of it, in one process."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch

import archive
from tools.bench.measuring import Aim, Table, spent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROUNDS = 2
WIDTH, LAYERS = 3072, 10
GOAL = 5
HASHES = (
    "BLAKE2b of the file and of its records, which the companion has, takes three times as long as "
    "`torch.jit.load`, and is done in threads"
)
NOTE = (
    "PyTorch has been imported, and each way has run once before. `torch.jit.load` does not map the file: it "
    "reads all tensors into memory of its own, so nothing is left to be read when they are used. It checks "
    "no crc, digests nothing and writes nothing. Threads add up in times of the processor; aims are of the "
    "clock."
)


def share(took: float, load: float) -> str:
    """A time, of that of `torch.jit.load`."""
    return f"{took / load:.1f}x"


class Layers(torch.nn.Module):
    """Weights of 380 MB."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(width, width) for _ in range(count))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """All layers, one after the other."""
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x


def verbs(folder: Path) -> dict[str, Callable[[], object]]:
    """What is done with the model, ``load`` first."""
    model, other, thin, companion = (str(folder / name) for name in ("m.pt", "n.pt", "t.pt", "t.ptdbg"))
    out, aside = str(folder / "out.pt"), str(folder / "out.ptdbg")
    archive.split(model, thin, companion)
    return {
        "torch.jit.load": partial(torch.jit.load, model),
        "redact": partial(archive.redact, model, out, aside, preset="publish", force=True),
        "split": partial(archive.split, model, out, aside, force=True),
        "join": partial(archive.join, thin, companion, out, force=True),
        "verify": partial(archive.verify, model),
        "leaks": partial(archive.leaks, model),
        "digest": partial(archive.digest, model),
        "diff": partial(archive.diff, model, other),
        "shrink": partial(archive.shrink, model, out, force=True),
        "shrink, embedded": partial(archive.shrink, model, out, level="embed", force=True),
        "migrate": partial(archive.migrate, model, out, to="1.13", force=True),
        "sizes": partial(archive.sizes, model),
        "report": partial(archive.report, model, str(folder / "out.html"), force=True),
    }


def measure(_: Path) -> Iterator[Table | Aim]:
    """All verbs in turns; the least of each counts."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        torch.manual_seed(0)
        scripted = torch.jit.script(Layers(WIDTH, LAYERS))
        for file in ("m.pt", "n.pt"):
            scripted.save(str(folder / file))
        size = (folder / "m.pt").stat().st_size / 1e6
        ways = verbs(folder)
        least = dict.fromkeys(ways, (float("inf"), float("inf")))
        for number in range(ROUNDS + 1):
            for verb, way in ways.items():
                begun, clock = spent(), time.perf_counter()
                way()
                took = spent() - begun, time.perf_counter() - clock
                if number:
                    least[verb] = min(least[verb][0], took[0]), min(least[verb][1], took[1])
    load_cpu, load_clock = least["torch.jit.load"]
    rows = [
        (f"`{verb}`", *(f"{took:.2f} s" for took in times), *map(share, times, (load_cpu, load_clock)))
        for verb, times in least.items()
    ]
    headings = ("in one process", "processor", "clock", "processor, of load", "clock, of load")
    yield Table(f"All verbs on a model of {size:,.0f} MB", headings, rows, NOTE)
    for verb, (_cpu, lasted) in least.items():
        if verb != "torch.jit.load":
            yield Aim(f"`{verb}` of {size:,.0f} MB, of load", lasted / load_clock, GOAL, "x", reason=HASHES)
