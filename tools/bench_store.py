"""What a store takes, on the disk and in time: the table in docs/store.md.

    python -m tools.bench_store FOLDER    releases and companions are made in the folder, or taken from there

- Sizes: releases of one team's model (:mod:`tools.team_releases`), and one model saved by the releases of
  PyTorch under ``fixtures/releases``, against separate companions of both profiles, and against zstd with a
  dictionary that it trained on these companions, in their packed and in their plain form.
- Times, all of the processor: to open a companion of a store, to give it out, and to explain a log of 200
  failures of three models, with 1,000 companions in a store and in a folder.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import zstandard
from rich.console import Console
from rich.table import Table

from archive.base.limits import DEFAULT_LIMITS, unbounded
from archive.companion.build import build_companion
from archive.companion.layout import CompanionProfile
from archive.companion.parse import parse_companion
from archive.store.adding import NoDebugInfoError, TakenError, made_of
from archive.store.plain import plain_of, recipe_of
from archive.store.store import Store
from tools import team_releases

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from archive.companion.contents import Contents

ROOT = Path(__file__).parent.parent
COUNTS = (10, 20, 50)
MANY = 1000
DICTIONARY = 1 << 17
ROUNDS = 5


class Sizes(NamedTuple):
    """Bytes of n companions.

    Attributes:
        number: n.
        packed: of separate packed companions.
        mapped: of separate mapped ones.
        trained: by zstd with a trained dictionary, which counts too: of plain forms, or of packed companions,
            whichever is smaller.
        kept: of the store's files, without its index.
        blocks: of the same on a disk of 4 KB blocks.
        packed_blocks: of the packed ones there.
    """

    number: int
    packed: int
    mapped: int
    trained: int
    kept: int
    blocks: int
    packed_blocks: int


def measured(files: Sequence[Path], folder: Path) -> Sizes:
    """Sizes of the companions of some archives; archives of one id count once."""
    made, store = [], Store.open(folder, create=True)
    for file in files:
        with suppress(NoDebugInfoError, TakenError):
            store.add(file)
            made.append(made_of(file, "", DEFAULT_LIMITS).companion)
    mapped = [build_companion(parsed(one), CompanionProfile.MAPPED) for one in made]
    plain = [plain_of(memoryview(one), recipe_of(memoryview(one), unbounded()), unbounded()) for one in made]
    kept = [entry.kept_size for entry in store.entries()]
    return Sizes(
        len(made),
        sum(map(len, made)),
        sum(map(len, mapped)),
        min(trained(made), trained(plain)),
        sum(kept),
        sum(map(in_blocks, kept)),
        sum(in_blocks(len(one)) for one in made),
    )


def parsed(companion: bytes) -> Contents:
    """The contents of a companion."""
    return parse_companion(memoryview(companion), unbounded())


def in_blocks(size: int) -> int:
    """Bytes of a file on a disk of 4 KB blocks."""
    return -(-size // 4096) * 4096


def trained(samples: Sequence[bytes]) -> int:
    """Bytes of samples by zstd with a dictionary that was trained on them, and of the dictionary."""
    try:
        words = zstandard.train_dictionary(DICTIONARY, list(samples), level=19)
    except zstandard.ZstdError:  # too few samples
        return 1 << 60
    engine = zstandard.ZstdCompressor(level=19, dict_data=words)
    whole = len(zstandard.ZstdCompressor(level=19).compress(words.as_bytes()))
    return whole + sum(len(engine.compress(one)) for one in samples)


def sizes(folder: Path) -> None:
    """Print the table of sizes."""
    releases = folder / "releases"
    if not releases.exists():
        releases.mkdir()
        team_releases.make(releases, max(COUNTS))
    rows = {
        f"{count} releases of one model, .{form}": sorted(releases.glob(f"*.{form}"))[:count]
        for form in ("pt", "ptl")
        for count in COUNTS
    }
    for name in ("nested.ptl", "nested.pt"):
        rows[f"{name}, saved by releases of PyTorch"] = sorted((ROOT / "fixtures/releases").glob(f"*/{name}"))
    table = Table("companions", "n", "packed", "mapped", "zstd, trained", "store", "of packed", "in blocks")
    for name, files in rows.items():
        found = measured(files, folder / f"store-{len(list(folder.iterdir()))}")
        numbers = [f"{number:,}" for number in found[:5]]
        ratios = [f"{found.kept / found.packed:.3f}", f"{found.blocks / found.packed_blocks:.3f}"]
        table.add_row(name, *numbers, *ratios)
    Console(width=140).print(table)


def fill(folder: Path) -> list[Path]:
    """A thousand companions, made of three by other ids and prefixes."""
    folder.mkdir(exist_ok=True)
    contents = [parsed(path.read_bytes()) for path in sorted((ROOT / "fixtures/fleet").glob("*.ptdbg"))]
    paths = [folder / f"model-{number:04}.ptdbg" for number in range(MANY)]
    for number, path in enumerate(paths):
        if not path.exists():
            one = contents[number % len(contents)]
            if number >= len(contents):  # the first ones are those that the log is of
                columns = {**one.columns, "file.prefix": np.array([2_000_000_000 + number])}
                one = replace(one.with_columns(columns), archive_id=number.to_bytes(16, "big"))
            path.write_bytes(build_companion(one))
    return paths


def seconds(work: Callable[[], object]) -> float:
    """The least time of the processor that some runs take, with the processes that they start."""
    found = []
    for _ in range(ROUNDS):
        before = os.times()
        work()
        found.append(sum(os.times()[:4]) - sum(before[:4]))
    return min(found)


def times(folder: Path) -> None:
    """Print times: to open one companion, and to begin with a log."""
    paths, path = fill(folder / "thousand"), folder / "thousand.store"
    began = time.process_time()
    with Store.open(path, create=True) as store:
        for one in paths:
            store.add(one)
    print(f"adding {MANY:,} companions: {time.process_time() - began:.1f} s")
    size = store.folder.index.stat().st_size
    store.folder.index.unlink()
    began = time.process_time()
    with Store.open(path) as store:
        store.entries()
    print(f"making the index anew: {time.process_time() - began:.1f} s, {size:,} bytes")
    print(f"opening the store with its index: {1e3 * many(lambda: Store.open(path).entries()):.1f} ms")
    entries = sorted(store.entries(), key=lambda entry: entry.depth)
    for archive_id, depth in ((entry.archive_id, entry.depth) for entry in (entries[0], entries[-1])):
        opened = 1e3 * many(lambda: Store.open(path).opened(archive_id).top)  # noqa: B023
        given = 1e3 * many(lambda: Store.open(path).companion(archive_id))  # noqa: B023
        print(f"with {depth} bases below: {opened:.1f} ms to open, {given:.1f} ms to give out")
    for where in (path, folder / "thousand"):
        print(f"{where.name}: {seconds(lambda: explain(where)):.2f} s for a log of 200 failures")  # noqa: B023


def many(work: Callable[[], object], times: int = 20) -> float:
    """The time that one of many runs takes."""
    return seconds(lambda: [work() for _ in range(times)]) / times


def explain(models: Path) -> None:
    """Explain a log in a process of its own."""
    log = ROOT / "fixtures/fleet/unique.log"
    command = [sys.executable, "-m", "archive", "symbolicate", str(models), "--log", str(log)]
    subprocess.run(command, check=False, capture_output=True)  # noqa: S603 (our own)


def main(folder: Path) -> None:
    """Measure all."""
    folder.mkdir(parents=True, exist_ok=True)
    sizes(folder)
    times(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
