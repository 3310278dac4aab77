"""The share of its allowance of memory that each command asks for, on the models of the benchmarks.

    python -m tools.bench_shares FOLDER [NAME ...]    models are built into the folder, or taken from there
    python -m tools.bench_shares --all MODEL ...      files, and a line for each command

A share above 100 % would be refused without ``--limit``. Of a verb, the table has the largest share of all
its options, and of all that was made of the model: what is left of it, companions, an embedded and a migrated
one. Shares are the same in every run.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from tests.costs.shares import COMMANDS, shares
from tools.models import built

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.costs.shares import Share

NAMES = (
    *("bert", "gpt", "resnet-traced", "encoder48", "encoder48.ptl"),
    *("fx-1k", "fx-2k", "fx-8k", "fx-100k"),
)
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


def tell(path: Path) -> None:
    """Print a line for each command."""
    data = path.read_bytes()
    for one in measured(data, data):
        refused = one.said.strip() if one.share > 1 else ""
        print(f"{path.name}\t{one.command}\t{one.status:d}\t{one.share:.3f}\t{refused}", flush=True)


def main() -> None:
    """Measure and print, as Markdown."""
    warnings.simplefilter("ignore")
    if sys.argv[1] == "--all":
        for file in sys.argv[2:]:
            tell(Path(file))
        return
    folder = Path(sys.argv[1])
    neighbour, columns = built(NEIGHBOUR, folder), {}
    names = sys.argv[2:] or NAMES
    for name in names:
        columns[name] = by_verb(measured(built(name, folder), neighbour))
    print(f"\n## Shares of the memory that is allowed\n\n| verb | {' | '.join(names)} |")
    print("|---" * (len(names) + 1) + "|")
    for verb in next(iter(columns.values())):
        print(f"| `{verb}` | {' | '.join(f'{columns[name][verb]:.1%}' for name in names)} |")


if __name__ == "__main__":
    main()
