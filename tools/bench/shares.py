"""The share of its allowance of memory that each command asks for, on the models of the benchmarks.

A share above 100 % would be refused without ``--limit``. Of a verb, the table has the largest share of all
its options, and of all that was made of the model: what is left of it, companions, an embedded and a migrated
one. Shares are the same in every run.

    python -m tools.bench.shares MODEL ...      of files: a line for each command
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING

from tests.costs.shares import COMMANDS, shares
from tools.bench.measuring import Aim, Table
from tools.models import built

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.costs.shares import Share

NAMES = ("fx-1k", "fx-8k", "resnet-traced", "encoder48")
NOTE = "The most that a verb asks for, of 64 MiB and 256 times the file's size; above 100 % it is refused."
NEIGHBOUR = "fx-1k"
"""What ``diff`` compares each model with."""


def measured(model: bytes, neighbour: bytes) -> Iterator[Share]:
    """The share of each command."""
    with tempfile.TemporaryDirectory() as name:
        yield from shares(Path(name), model, neighbour)


def by_verb(found: Iterator[Share]) -> dict[str, float]:
    """The largest share of each verb."""
    largest: dict[str, float] = {}
    for one in found:
        verb = COMMANDS[one.command].split()[0]
        largest[verb] = max(largest.get(verb, 0.0), one.share)
    return largest


def _largest(model: bytes, neighbour: bytes) -> dict[str, float]:
    return by_verb(measured(model, neighbour))


def print_shares(path: Path) -> None:
    """Print a line for each command."""
    data = path.read_bytes()
    for one in measured(data, data):
        refused = one.said.strip() if one.share > 1 else ""
        print(f"{path.name}\t{one.command}\t{one.status:d}\t{one.share:.3f}\t{refused}", flush=True)


def measure(folder: Path) -> Iterator[Table | Aim]:
    """The largest shares of each verb."""
    warnings.simplefilter("ignore")
    neighbour = built(NEIGHBOUR, folder / "models")
    models = [built(name, folder / "models") for name in NAMES]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:  # a share takes no time, so two may run
        found = pool.map(_largest, models, [neighbour] * len(models))
        columns = dict(zip(NAMES, found, strict=True))
    verbs = list(columns[NEIGHBOUR])
    rows = [(f"`{verb}`", *(f"{columns[name][verb]:.1%}" for name in NAMES)) for verb in verbs]
    yield Table("Shares of the memory that is allowed", ("verb", *NAMES), rows, NOTE)
    for verb in verbs:
        yield Aim(
            f"`{verb}`, share of its memory", 100 * max(columns[name][verb] for name in NAMES), 100, " %"
        )


if __name__ == "__main__":
    for file in sys.argv[1:]:
        print_shares(Path(file))
