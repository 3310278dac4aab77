"""Growth at ten times the sizes of the other parts: what their notes and tables say was measured once.

    python -m tools.bench much

It takes about an hour, and no part of the page is made of it: its figures are copied by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tools.bench import many
from tools.bench.growth import ROWS
from tools.bench.inside import (
    ADDING,
    FILE,
    GROWING,
    IN_FILES,
    UNIQUE,
    Growing,
    companions,
    folder_of,
    rows_of,
    served,
    store_of,
)
from tools.bench.logs import FLEET
from tools.bench.measuring import Aim, Table
from tools.models import built

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NAMES = {count: name for name, count in ROWS.items()}
MODELS = (5, 1_250, 5_000)
SERVED = (5, 50, 200)


def rows(path: Path, size: int) -> Path:
    """An archive of so many rows of source ranges."""
    built(NAMES[size], path.parent)
    return path.with_name(f"{NAMES[size]}.pt")


CODE = next(kind.commands for kind in GROWING if kind.what == "records of code")
MUCH = (
    Growing("rows", (1_000, 100_000, 1_000_000), rows, (("verify", FILE), ("leaks", FILE))),
    Growing("tensors", (100, 25_000, 100_000), many.tensors, (*IN_FILES, ("verify", FILE))),
    Growing(
        "records of code",
        (10, 4_000, 16_000),
        many.code,
        (*CODE, ("redact", FILE, "--paths", "basename", "-o", "{out}.pt", "--force")),
    ),
    Growing(
        "failures in a log",
        (10, 25_000, 100_000),
        many.failures,
        (("symbolicate", str(FLEET), "--log", FILE),),
    ),
    Growing("companions", MODELS, companions, (ADDING,)),
    Growing("models of a store", MODELS, store_of, (("symbolicate", FILE, "--log", UNIQUE),)),
    Growing("archives of a folder", (80, 2_000, 10_000), folder_of, (("inspect", FILE), ("digest", FILE))),
)


def measure(folder: Path) -> Iterator[Table]:
    """All of them, and a server's store."""
    place, server = folder / "much", folder / "much" / "server"
    server.mkdir(parents=True)
    results = [result for kind in MUCH for result in rows_of(kind, place)]
    for _ in rows_of(Growing("companions", SERVED, companions, (ADDING,)), server):
        pass  # only the stores are wanted
    results += served(server, SERVED)
    headings = ("number of", "few / some / many", "command", "few", "some", "many", "growth", "")
    found = [result for result in results if not isinstance(result, Aim)]
    yield Table("Growth with much more inside", headings, found, "CPU of whole processes.")
